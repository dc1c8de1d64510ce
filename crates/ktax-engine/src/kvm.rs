//! A guest under QEMU/KVM whose Workloads are timed, one after the other, in one fresh Boot.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

use super::argv::{self, Files};
use super::host::TimedHost;
use super::limits::{Cancel, Limits};
use super::payload::Payload;
use super::qemu::{Qemu, Rest, Vm, Watched, read_hello, read_tail};
use super::wire::{Hello, is_finished, split_answers};
use super::{Booted, EngineEntry, Measures, Stop, Timed, TimedSetup, host_failure};
use crate::{payload, wire};
use ktax_host::cache::{Scratch, remove_stale};
use ktax_host::text::counted;
use ktax_model::{
    Accelerator, Error, Facts, Failure, Layout, Result, RunsOn, TimedMachine, TimedSubject,
    Workload, fact,
};
use ktax_program::PackedPrograms;

pub const ENGINE: EngineEntry = EngineEntry {
    name: "kvm",
    about: "Time guests under QEMU/KVM",
    runs_on: RunsOn::Guests,
    measures: Measures::Times { open },
};

/// The longest text of orders that a guest reads, in bytes: `docs/wire.md`.
const ORDERS_BYTES: usize = (64 << 10) - 1;

/// The setup of guests that are timed.
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
    pub machine: fn() -> Facts,
    /// The limit in real time holds for the boot, and again for each loop.
    pub limits: Limits,
    pub cancel: Cancel,
}

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
    files: Files,
    // Removed after the VM has ended.
    _scratch: Scratch,
}

impl Kvm {
    pub fn new(mut setup: Setup) -> Result<Kvm, Failure> {
        let written = host_failure("cannot write to the cache");
        let payload = payload::install(&setup.cache).map_err(written.clone())?;
        let programs: Vec<&PackedPrograms> = setup.programs.iter().collect();
        let initrd = payload.write_initrd(&programs).map_err(written)?;
        remove_stale(&setup.cache.join("runs"));
        setup.limits = setup.limits.without_virtual_time();
        Ok(Kvm { setup, initrd, _payload: payload })
    }

    /// Boots a kernel until its hello.
    pub fn try_boot(&self, image: &Path) -> Result<Hello, Stop> {
        Ok(self.start(image, &argv::timed_boot_line(self.setup.shape.accelerator, ""), "")?.hello)
    }

    /// Does work on the CPUs that the vCPUs are pinned to.
    pub fn on_its_cpus<T>(&self, work: impl FnOnce() -> T) -> Result<T, Failure> {
        run_on(&self.setup.cpus, work)
    }

    /// Boots until the freeze.
    fn start(&self, image: &Path, boot_line: &str, orders: &str) -> Result<Guest, Stop> {
        let setup = &self.setup;
        let scratch =
            Scratch::create(&setup.cache.join("runs")).map_err(host_failure("cannot start"))?;
        let (files, order_file) = (Files::in_scratch(&scratch), scratch.file("orders"));
        fs::write(&order_file, orders).map_err(host_failure("cannot write the orders"))?;
        let programs = (image, self.initrd.as_path());
        let args = |control| {
            argv::timed_boot(&setup.shape, programs, boot_line, &order_file, &files, control)
        };
        let mut vm = Vm::start(&setup.qemu.program, args, None, &files.stderr, &setup.limits)?;
        let rest = vm.wait(&self.watch(&files, 0));
        let hello = rest.and_then(|rest| Ok(read_hello(&rest, &files.wire, &files.console)?));
        let hello = hello.map_err(|stop| stop.with_console(&files.console))?;
        Ok(Guest { vm, hello, files, _scratch: scratch })
    }

    /// Returns the limits and files to watch while a guest runs; its answer begins at the offset
    /// `begins` of the wire.
    fn watch<'a>(&'a self, files: &'a Files, begins: u64) -> Watched<'a> {
        let Setup { limits, cancel, .. } = &self.setup;
        let wire = (files.wire.as_path(), limits.wire_bytes.saturating_add(begins));
        Watched { limits, cancel, wire, speaks_first: true, console: &files.console }
    }

    /// Lets the guest run its orders, each within the limit.
    fn carry_out(&self, guest: &mut Guest, loops: usize) -> Result<(), Stop> {
        let (files, vm) = (&guest.files, &mut guest.vm);
        let wire_bytes = || fs::read(&files.wire).unwrap_or_default();
        let (mut finished, mut begins) = (0, 0);
        vm.extend();
        vm.resume();
        loop {
            match vm.wait(&self.watch(files, begins)) {
                Ok(Rest::Paused) => {
                    wire::check_panic(&read_tail(&files.console))?;
                    return Ok(vm.quit(&self.setup.limits)?);
                }
                Ok(Rest::Finished) => return Ok(()),
                Ok(Rest::ShutDown) => {
                    let console = wire::tail(&read_tail(&files.console));
                    return Err(Failure::NoAnswer { console }.into());
                }
                Err(Stop::Failed(late @ Failure::RealTime { .. }, _)) => {
                    let now = count_finished(&wire_bytes());
                    if now == finished {
                        return Err(late.into());
                    }
                    finished = now;
                    vm.extend();
                }
                Err(Stop::Failed(flood @ Failure::Flood { .. }, _)) => {
                    let limit_bytes = self.setup.limits.wire_bytes;
                    match last_answer_start(&wire_bytes(), loops, limit_bytes) {
                        None => return Err(Failure::Flood { limit_bytes }.into()),
                        // The wire is short enough, so the console is too long.
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
        let understood = TimedSubject {
            kernel: subject.kernel.clone(),
            boot_line: subject.boot_line.clone(),
            ..TimedSubject::default()
        };
        if understood != *subject {
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
        let machine = (self.setup.machine)().into_iter();
        facts.extend(machine.map(|(name, value)| (fact::machine_fact(&name), value)));
        facts
    }
}

impl Timed for Kvm {
    fn boot(&self, subject: &TimedSubject, loops: &[&Workload]) -> Result<Booted, Stop> {
        let (image, orders) = (self.image(subject)?, orders(loops)?);
        let boot_line = argv::timed_boot_line(self.setup.shape.accelerator, &subject.boot_line);
        let mut guest = self.start(image, &boot_line, &orders)?;
        pin_vcpus(&mut guest.vm, &self.setup.cpus)?;
        let ended = match self.carry_out(&mut guest, loops.len()) {
            Ok(()) => Ok(()),
            Err(Stop::Failed(failure, _)) => Err(failure),
            Err(Stop::Cancelled) => return Err(Stop::Cancelled),
        };
        // The guest writes nothing more.
        drop(guest.vm);
        let wire = fs::read(&guest.files.wire).map_err(host_failure("cannot read the wire"))?;
        let wires = assign_answers(&wire, loops.len(), &ended, self.setup.limits.wire_bytes);
        let console = ended.err().map(|_| read_tail(&guest.files.console)).unwrap_or_default();
        Ok(Booted { facts: self.facts(&guest.hello, boot_line), wires, console })
    }

    fn end(&self) -> Result<(), Stop> {
        Ok(())
    }
}

/// Returns the orders of all loops as one text.
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

/// Opens the engine of a Plan: guests, and this machine beside them where it is a Side.
pub(super) fn open(mut setup: TimedSetup<'_>) -> Result<Box<dyn Timed + '_>> {
    let guests = setup.guests.take().expect("guests are set up for an engine that runs on them");
    let kvm = Kvm::new(guests)?;
    Ok(match setup.plan.asked.subjects.base.bare_metal {
        true => Box::new(BareMetal { host: TimedHost::open(setup)?, kvm }),
        false => Box::new(kvm),
    })
}

/// A guest beside the machine that it runs on.
struct BareMetal<'a> {
    host: TimedHost<'a>,
    kvm: Kvm,
}

impl Timed for BareMetal<'_> {
    fn boot(&self, subject: &TimedSubject, loops: &[&Workload]) -> Result<Booted, Stop> {
        match subject.bare_metal {
            true => self.kvm.on_its_cpus(|| self.host.boot(subject, loops))?,
            false => self.kvm.boot(subject, loops),
        }
    }

    fn end(&self) -> Result<(), Stop> {
        self.host.end()
    }
}

/// Opens the device and closes it. It is not found where the module is not loaded, or the machine
/// has no virtualization.
pub fn open_device() -> io::Result<()> {
    File::options().read(true).write(true).open("/dev/kvm").map(drop)
}

/// Next step for the user if the device cannot be opened.
pub fn device_fix(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "load the module kvm-amd or kvm-intel",
        _ => "become a member of the group `kvm`",
    }
}

/// Checks the device if guests need it.
pub fn check_device(accelerator: Accelerator) -> Result<()> {
    if accelerator == Accelerator::Tcg {
        return Ok(());
    }
    open_device().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::guest("there is no /dev/kvm").next(format!(
            "{}, or count with the exact engine, which needs no KVM",
            device_fix(&error)
        )),
        _ => Error::guest(format!("cannot open /dev/kvm: {error}")).next(device_fix(&error)),
    })
}

/// Returns for each loop its answer, or why it has none. `ended` is how the guest ended. After a
/// failure, loops with a complete answer keep it, and all others get that failure.
fn assign_answers(
    wire: &[u8],
    loops: usize,
    ended: &Result<(), Failure>,
    wire_bytes: u64,
) -> Vec<Result<Vec<u8>, Failure>> {
    // The first part is the hello.
    let answers = split_answers(wire).split_off(1.min(wire.len()));
    let found = answers.len();
    if found > loops || (found < loops && ended.is_ok()) {
        // More parts than loops: nobody knows which answer belongs to which loop.
        let reason = format!("{} to {}", counted(found, "answer"), counted(loops, "order"));
        return vec![Err(Failure::Garbled { reason }); loops];
    }
    let mut answers = answers.into_iter();
    let assign = |_| match (answers.next(), ended) {
        (Some(answer), _) if answer.len() as u64 > wire_bytes => {
            Err(Failure::Flood { limit_bytes: wire_bytes })
        }
        (Some(answer), Ok(())) => Ok(answer.to_vec()),
        (Some(answer), Err(_)) if is_finished(answer) => Ok(answer.to_vec()),
        (_, Err(failure)) => Err(failure.clone()),
        (None, Ok(())) => unreachable!("there are as many answers as loops"),
    };
    (0..loops).map(assign).collect()
}

/// Counts the orders that have an answer.
fn count_finished(wire: &[u8]) -> usize {
    split_answers(wire).iter().skip(1).filter(|answer| is_finished(answer)).count()
}

/// Returns the offset of the last part; `None` if a part is too long, or there are more parts than
/// orders.
fn last_answer_start(wire: &[u8], loops: usize, wire_bytes: u64) -> Option<u64> {
    let parts = split_answers(wire);
    let is_short = |part: &&[u8]| part.len() as u64 <= wire_bytes;
    let keeps = parts.len() <= loops.saturating_add(1) && parts.iter().all(is_short);
    keeps.then(|| (wire.len() - parts.last().map_or(0, |last| last.len())) as u64)
}

/// Returns the CPUs that this thread may run on: the online ones that its cpuset and its affinity
/// permit.
pub fn allowed_cpus() -> io::Result<Vec<u32>> {
    let cpu_set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| cpu_set.is_set(*cpu)).map(|cpu| cpu as u32).collect())
}

/// Pins each vCPU to one of the CPUs, in turn; without CPUs it does nothing.
fn pin_vcpus(vm: &mut Vm, cpus: &[usize]) -> Result<(), Failure> {
    if cpus.is_empty() {
        return Ok(());
    }
    let threads = vm.monitor(|monitor| monitor.vcpu_threads())?;
    for (thread, cpu) in threads.into_iter().zip(cpus.iter().cycle()) {
        let failed = host_failure(&format!("cannot keep a vCPU on CPU {cpu}"));
        pin_thread(thread, *cpu).map_err(failed)?;
    }
    Ok(())
}

/// Does work on these CPUs, without CPUs on any, and restores the affinity. Processes that the work
/// starts inherit the affinity.
fn run_on<T>(cpus: &[usize], work: impl FnOnce() -> T) -> Result<T, Failure> {
    if cpus.is_empty() {
        return Ok(work());
    }
    let failed = host_failure(&format!("cannot run on CPUs {cpus:?}"));
    let keep_on = |cpus: &CpuSet| sched_setaffinity(None, cpus).map_err(io::Error::from);
    let before = sched_getaffinity(None).map_err(io::Error::from).map_err(&failed)?;
    cpu_set(cpus).and_then(|cpus| keep_on(&cpus)).map_err(&failed)?;
    let done = work();
    keep_on(&before).map_err(&failed)?;
    Ok(done)
}

fn pin_thread(thread: i32, cpu: usize) -> io::Result<()> {
    let thread = Pid::from_raw(thread).ok_or(io::ErrorKind::NotFound)?;
    Ok(sched_setaffinity(Some(thread), &cpu_set(&[cpu])?)?)
}

fn cpu_set(cpus: &[usize]) -> io::Result<CpuSet> {
    let mut cpu_set = CpuSet::new();
    for cpu in cpus {
        if *cpu >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        cpu_set.set(*cpu);
    }
    Ok(cpu_set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const HELLO: &str = "ktax 1\nrelease 6.12.0\nready\n";
    const WELL: &str = "ktax 1\nstart pipe\nsig calls 7\nend\n";
    const FAILED: &str = "ktax 1\nstart pipe\nfail ended by signal 11\n";
    const LIMIT: u64 = 100;

    fn panic() -> Failure {
        Failure::Panic { message: "no".into() }
    }

    fn assigned(answers: &[&str], ended: Result<(), Failure>) -> Vec<Result<String, Failure>> {
        let wire = HELLO.to_owned() + &answers.concat();
        let assigned = assign_answers(wire.as_bytes(), 3, &ended, LIMIT);
        assigned
            .into_iter()
            .map(|answer| answer.map(|wire| String::from_utf8(wire).unwrap()))
            .collect()
    }

    #[test]
    fn each_has_its_own_and_a_failure_takes_no_other_away() {
        let found = assigned(&[WELL, FAILED, WELL], Ok(()));
        assert_eq!(found, [Ok(WELL.into()), Ok(FAILED.into()), Ok(WELL.into())]);
        assert_eq!(count_finished((HELLO.to_owned() + WELL + FAILED + "ktax 1\n").as_bytes()), 2);
    }

    #[test]
    fn what_was_whole_before_a_bad_end_stands() {
        let torn = &WELL[..20];
        for last in [torn, "ktax 1\n", "kta", ""] {
            let found = assigned(&[WELL, last], Err(panic()));
            assert_eq!(found, [Ok(WELL.into()), Err(panic()), Err(panic())], "{last:?}");
        }
        assert_eq!(assigned(&[], Err(panic())), vec![Err(panic()); 3]);
        assert_eq!(assign_answers(b"", 1, &Err(panic()), LIMIT), [Err(panic())]);
    }

    #[test]
    fn an_answer_that_is_torn_is_left_to_its_reader() {
        let found = assigned(&[WELL, &WELL[..18], WELL], Ok(()));
        assert_eq!(found, [Ok(WELL.into()), Ok(WELL[..18].into()), Ok(WELL.into())]);
    }

    #[test]
    fn where_it_is_not_known_whose_is_whose_nobody_has_one() {
        // The third answer begins within a line that was cut off.
        for answers in [&[WELL; 4][..], &[WELL; 2], &[WELL, &WELL[..20], WELL]] {
            let found = assigned(answers, Ok(()));
            assert!(found.iter().all(|answer| matches!(answer, Err(Failure::Garbled { .. }))));
        }
        let found = assigned(&[WELL; 4], Err(panic()));
        assert!(found.iter().all(|answer| matches!(answer, Err(Failure::Garbled { .. }))));
    }

    #[test]
    fn a_flood_is_of_one_loop() {
        let flood = format!("ktax 1\n{}\nend\n", "x".repeat(100));
        let found = assigned(&[WELL, &flood, WELL], Ok(()));
        assert_eq!(found[1], Err(Failure::Flood { limit_bytes: LIMIT }));
        assert_eq!((&found[0], &found[2]), (&Ok(WELL.into()), &Ok(WELL.into())));
    }

    #[test]
    fn an_answer_has_its_own_limit_and_there_is_one_to_an_order() {
        let begins = |wire: &str| last_answer_start(wire.as_bytes(), 2, 40);
        let first = HELLO.to_owned() + WELL;
        assert_eq!((begins(""), begins(HELLO)), (Some(0), Some(0)));
        assert_eq!(begins(&first), Some(HELLO.len() as u64));
        assert_eq!(begins(&(first.clone() + WELL)), Some(first.len() as u64));
        let (endless, complete) = ("ktax 1\n".to_owned() + &"x".repeat(40), first.clone() + WELL);
        assert_eq!(begins(&(first.clone() + &endless)), None);
        assert_eq!(begins(&(HELLO.to_owned() + &endless + "\nend\n" + WELL)), None);
        assert_eq!(begins(&(complete + "ktax 1\n")), None);
    }

    #[test]
    fn what_is_started_meanwhile_runs_there_and_nothing_afterwards() {
        let listed = || {
            let output = Command::new("grep")
                .args(["Cpus_allowed_list", "/proc/self/status"])
                .output()
                .unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            text.split_whitespace().next_back().unwrap().to_owned()
        };
        let before = listed();
        let last = *allowed_cpus().unwrap().last().unwrap();
        let there = || (listed(), allowed_cpus().unwrap());
        assert_eq!(run_on(&[last as usize], there).unwrap(), (last.to_string(), vec![last]));
        assert_eq!(listed(), before);
        assert_eq!(run_on(&[], listed).unwrap(), before);
        assert!(matches!(run_on(&[CpuSet::MAX_CPU], listed), Err(Failure::Host { .. })));
        assert_eq!(listed(), before);
    }
}
