use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::argv::VmFiles;
use super::{answers, argv, pin};
use crate::console::read_tail;
use crate::hello::read_hello;
use crate::limits::{Cancel, Limits};
use crate::payload::{self, Payload};
use crate::qemu::Qemu;
use crate::stop::{Stop, host};
use crate::timed::{Booted, Timed};
use crate::vm::{Rest, Vm, Watched};
use crate::wire::{self, Hello};
use ktax_host::cache::{Scratch, remove_stale};
use ktax_model::{Facts, Failure, Layout, TimedMachine, TimedSubject, Workload, fact};
use ktax_program::PackedPrograms;

/// The longest text of orders that a guest reads, in bytes: `docs/wire.md`.
const ORDERS_BYTES: usize = (64 << 10) - 1;

/// What the engine needs.
#[derive(Debug)]
pub struct Setup {
    pub qemu: Qemu,
    /// ktax's own directory.
    pub cache: PathBuf,
    /// The image of each Kernel, by its name in the Subjects.
    pub images: BTreeMap<String, PathBuf>,
    /// The user's programs.
    pub programs: Option<PackedPrograms>,
    pub shape: TimedMachine,
    /// The CPUs of this machine that the vCPUs are pinned to, in turn; empty: not pinned.
    pub cpus: Vec<usize>,
    /// Reads the facts of this machine.
    pub machine: fn() -> Facts,
    /// The limit in real time holds for the boot, and again for each loop.
    pub limits: Limits,
    pub cancel: Cancel,
}

/// The timed engine of guests.
#[derive(Debug)]
pub struct Kvm {
    setup: Setup,
    initrd: PathBuf,
    _payload: Payload,
}

/// A guest that has said hello and waits.
struct Guest {
    vm: Vm,
    hello: Hello,
    files: VmFiles,
    // Removed after the VM has ended.
    _scratch: Scratch,
}

impl Kvm {
    /// Prepares the engine.
    ///
    /// # Errors
    ///
    /// The cache cannot be written.
    pub fn new(mut setup: Setup) -> Result<Kvm, Failure> {
        let written = host("cannot write to the cache");
        let payload = payload::install(&setup.cache).map_err(written.clone())?;
        let programs: Vec<&PackedPrograms> = setup.programs.iter().collect();
        let initrd = payload.with(&programs).map_err(written)?;
        remove_stale(&setup.cache.join("runs"));
        setup.limits = setup.limits.without_virtual_time();
        Ok(Kvm { setup, initrd, _payload: payload })
    }

    /// Boots a kernel until its hello.
    ///
    /// # Errors
    ///
    /// The guest or the host failed, or the user cancelled.
    pub fn try_boot(&self, image: &Path) -> Result<Hello, Stop> {
        Ok(self.start(image, &argv::boot_line(self.setup.shape.accelerator, ""), "")?.hello)
    }

    /// Does work on the CPUs that the vCPUs are pinned to.
    ///
    /// # Errors
    ///
    /// This process may not run on these CPUs.
    pub fn on_its_cpus<T>(&self, work: impl FnOnce() -> T) -> Result<T, Failure> {
        pin::while_on(&self.setup.cpus, work)
    }

    /// Boots until the freeze.
    fn start(&self, image: &Path, boot_line: &str, orders: &str) -> Result<Guest, Stop> {
        let setup = &self.setup;
        let scratch = Scratch::create(&setup.cache.join("runs")).map_err(host("cannot start"))?;
        let [orders_file, wire, console, stderr] =
            ["orders", "wire", "serial.log", "stderr"].map(|name| scratch.file(name));
        let files = VmFiles { orders: orders_file, wire, console, stderr };
        fs::write(&files.orders, orders).map_err(host("cannot write the orders"))?;
        let programs = (image, self.initrd.as_path());
        let args = |control| argv::boot(&setup.shape, programs, boot_line, &files, control);
        let mut vm = Vm::start(&setup.qemu.program, args, None, &files.stderr, &setup.limits)?;
        let rest = vm.wait(&self.watch(&files, 0));
        let hello = rest.and_then(|rest| Ok(read_hello(&rest, &files.wire, &files.console)?));
        let hello = hello.map_err(|stop| stop.with_console(&files.console))?;
        Ok(Guest { vm, hello, files, _scratch: scratch })
    }

    /// What is watched while a guest runs; its answer begins at the offset `begins` of the wire.
    fn watch<'a>(&'a self, files: &'a VmFiles, begins: u64) -> Watched<'a> {
        let Setup { limits, cancel, .. } = &self.setup;
        let wire = (files.wire.as_path(), limits.wire_bytes.saturating_add(begins));
        Watched { limits, cancel, wire, speaks_first: true, console: &files.console }
    }

    /// Lets the guest run its orders, each within the limit.
    fn carry_out(&self, guest: &mut Guest, loops: usize) -> Result<(), Stop> {
        let (files, vm) = (&guest.files, &mut guest.vm);
        let said = || fs::read(&files.wire).unwrap_or_default();
        let (mut finished, mut begins) = (0, 0);
        vm.extend();
        vm.go();
        loop {
            match vm.wait(&self.watch(files, begins)) {
                Ok(Rest::Paused) => {
                    let panicked = wire::panic_message(&read_tail(&files.console));
                    return match panicked {
                        Some(message) => Err(Failure::Panic { message }.into()),
                        None => Ok(vm.quit(&self.setup.limits)?),
                    };
                }
                Ok(Rest::Finished) => return Ok(()),
                Ok(Rest::ShutDown) => {
                    let console = wire::tail(&read_tail(&files.console));
                    return Err(Failure::Silent { console }.into());
                }
                Err(Stop::Failed(late @ Failure::RealTime { .. }, _)) => {
                    let now = answers::finished(&said());
                    if now == finished {
                        return Err(late.into());
                    }
                    finished = now;
                    vm.extend();
                }
                Err(Stop::Failed(flood @ Failure::Flood { .. }, _)) => {
                    let limit_bytes = self.setup.limits.wire_bytes;
                    match answers::last_begins(&said(), loops, limit_bytes) {
                        None => return Err(Failure::Flood { limit_bytes }.into()),
                        // It is the console that is too long.
                        Some(now) if now == begins => return Err(flood.into()),
                        Some(now) => begins = now,
                    }
                }
                Err(stop) => return Err(stop),
            }
        }
    }

    fn image(&self, subject: &TimedSubject) -> Result<&Path, Failure> {
        let image = subject.kernel.as_ref().and_then(|kernel| self.setup.images.get(kernel));
        let refused = |message: &str| Failure::Refused { message: message.into() };
        let own = TimedSubject {
            kernel: subject.kernel.clone(),
            boot_line: subject.boot_line.clone(),
            ..TimedSubject::default()
        };
        if own != *subject {
            return Err(refused("a guest has a kernel and a boot line; the rest is of `host`"));
        }
        image.map(PathBuf::as_path).ok_or_else(|| refused("the guest has no kernel to boot"))
    }

    fn facts(&self, hello: &Hello, boot_line: String) -> Facts {
        let Setup { qemu, shape, cpus, .. } = &self.setup;
        let mut facts = Facts::from([
            (fact::KERNEL.into(), hello.release.clone()),
            (fact::BOOT_LINE.into(), boot_line),
            (fact::QEMU.into(), qemu.version.clone()),
            (fact::ACCELERATOR.into(), shape.accelerator.name().into()),
            (fact::CPU.into(), shape.cpu.clone()),
            (fact::GUEST_MEMORY.into(), format!("{} MiB", shape.memory_mib)),
            (fact::VCPUS.into(), shape.cpus.to_string()),
        ]);
        if let Some(id) = &hello.build_id {
            facts.insert(fact::BUILD_ID.into(), id.clone());
        }
        if !hello.ignored.is_empty() {
            facts.insert(fact::IGNORED.into(), hello.ignored.join(" "));
        }
        if !hello.busy.is_empty() {
            facts.insert(fact::BUSY.into(), hello.busy.join(" "));
        }
        if hello.is_unseeded {
            facts.insert(fact::RANDOM_SEED.into(), "none".into());
        }
        if !cpus.is_empty() {
            let names: Vec<String> = cpus.iter().map(usize::to_string).collect();
            facts.insert(fact::VCPU_CPUS.into(), names.join(","));
        }
        let of_machine = (self.setup.machine)().into_iter();
        facts.extend(of_machine.map(|(name, value)| (fact::of_machine(&name), value)));
        facts
    }
}

impl Timed for Kvm {
    fn boot(&self, subject: &TimedSubject, loops: &[&Workload]) -> Result<Booted, Stop> {
        let (image, orders) = (self.image(subject)?, orders(loops)?);
        let boot_line = argv::boot_line(self.setup.shape.accelerator, &subject.boot_line);
        let mut guest = self.start(image, &boot_line, &orders)?;
        pin::vcpus(&mut guest.vm, &self.setup.cpus)?;
        let ended = match self.carry_out(&mut guest, loops.len()) {
            Ok(()) => Ok(()),
            Err(Stop::Failed(failure, _)) => Err(failure),
            Err(Stop::Cancelled) => return Err(Stop::Cancelled),
        };
        // The guest writes nothing more.
        drop(guest.vm);
        let said = fs::read(&guest.files.wire).map_err(host("cannot read the wire"))?;
        let wires = answers::assign(&said, loops.len(), &ended, self.setup.limits.wire_bytes);
        let console = ended.err().map(|_| read_tail(&guest.files.console)).unwrap_or_default();
        Ok(Booted { facts: self.facts(&guest.hello, boot_line), wires, console })
    }

    fn end(&self) -> Result<(), Stop> {
        Ok(())
    }
}

/// The orders of all loops.
fn orders(loops: &[&Workload]) -> Result<String, Failure> {
    let plain = Layout { seed: 0, padding: 0, phase: 0 };
    let orders: String = loops.iter().map(|workload| wire::order(workload, &plain)).collect();
    if orders.len() <= ORDERS_BYTES {
        return Ok(orders);
    }
    let (found, limit) = (orders.len(), ORDERS_BYTES);
    let message =
        format!("{found} bytes of orders, and a guest takes {limit}: name fewer rows or loops");
    Err(Failure::Refused { message })
}
