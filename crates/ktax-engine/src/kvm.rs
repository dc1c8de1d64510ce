//! Times Workloads in guests under QEMU/KVM: each Boot is fresh, and runs its Workloads one after
//! the other.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

use super::argv::{self, Files};
use super::host::TimedHost;
use super::limits::{Cancel, Limits};
use super::payload::Payload;
use super::qemu::{Halt, Qemu, Vm, VmStart, VmWatch, read_hello, read_tail};
use super::wire::{Hello, is_finished, split_answers};
use super::{
    BootOutput, EngineEntry, Measures, Stop, Timed, TimedSetup, create_run_directory, host_failure,
};
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
const MAX_ORDERS_BYTES: usize = (64 << 10) - 1;

/// The setup of guests that are timed.
#[derive(Debug)]
pub struct GuestSetup {
    pub qemu: Qemu,
    /// ktax's own directory.
    pub cache: PathBuf,
    /// The image of each Kernel, by its name in the Subjects.
    pub images: BTreeMap<String, PathBuf>,
    /// The user's programs.
    pub programs: Option<PackedPrograms>,
    pub shape: TimedMachine,
    /// The host's CPUs that the vCPUs are pinned to, in turn. If there are none, vCPUs are not
    /// pinned.
    pub cpus: Vec<usize>,
    /// Reads the facts of the host.
    pub host_facts: fn() -> Facts,
    /// The limits; `time` holds for the boot, and again for each loop.
    pub limits: Limits,
    pub cancel: Cancel,
}

#[derive(Debug)]
pub struct Kvm {
    setup: GuestSetup,
    initrd: PathBuf,
    _payload: Payload,
}

/// A guest that has printed its hello and is paused.
struct Guest {
    vm: Vm,
    hello: Hello,
    files: Files,
    // The last field, so that the directory is removed after the VM has ended.
    _scratch: Scratch,
}

impl Kvm {
    pub fn new(mut setup: GuestSetup) -> Result<Kvm, Failure> {
        let failed = host_failure("cannot write to the cache");
        let payload = payload::install(&setup.cache).map_err(failed.clone())?;
        let programs: Vec<&PackedPrograms> = setup.programs.iter().collect();
        let initrd = payload.write_initrd(&programs).map_err(failed)?;
        remove_stale(&setup.cache.join("runs"));
        setup.limits = setup.limits.without_virtual_time();
        Ok(Kvm { setup, initrd, _payload: payload })
    }

    /// Boots a kernel until its hello.
    pub fn try_boot(&self, image: &Path) -> Result<Hello, Stop> {
        Ok(self.start(image, &argv::timed_boot_line(self.setup.shape.accelerator, ""), "")?.hello)
    }

    /// Calls `work` on the CPUs that the vCPUs are pinned to.
    pub fn run_on_vcpu_cpus<T>(&self, work: impl FnOnce() -> T) -> Result<T, Failure> {
        run_on_cpus(&self.setup.cpus, work)
    }

    /// Boots until the freeze.
    fn start(&self, image: &Path, boot_line: &str, orders: &str) -> Result<Guest, Stop> {
        let setup = &self.setup;
        let scratch = create_run_directory(&setup.cache)?;
        let (files, order_file) = (Files::in_directory(&scratch), scratch.file("orders"));
        fs::write(&order_file, orders).map_err(host_failure("cannot write the orders"))?;
        let programs = (image, self.initrd.as_path());
        let args = |control| {
            argv::timed_boot(&setup.shape, programs, boot_line, &order_file, &files, control)
        };
        let (program, start) = (&setup.qemu.program, VmStart::PowerOn);
        let mut vm = Vm::start(program, args, start, &files.stderr, &setup.limits)?;
        let halt = vm.wait(&self.watch(&files, 0));
        let hello = halt.and_then(|halt| Ok(read_hello(&halt, &files.wire, &files.console)?));
        let hello = hello.map_err(|stop| stop.with_console(&files.console))?;
        Ok(Guest { vm, hello, files, _scratch: scratch })
    }

    /// Returns the limits and files to watch while a guest runs. `answer_start` is the offset of
    /// the present answer on the wire; the limit of the wire holds from there on.
    fn watch<'a>(&'a self, files: &'a Files, answer_start: u64) -> VmWatch<'a> {
        let GuestSetup { limits, cancel, .. } = &self.setup;
        let wire = (files.wire.as_path(), limits.wire_bytes.saturating_add(answer_start));
        VmWatch { limits, cancel, wire, expects_hello: true, console: &files.console }
    }

    /// Lets the guest run its orders, each within the limits.
    fn run_orders(&self, guest: &mut Guest, loops: usize) -> Result<(), Stop> {
        let (files, vm) = (&guest.files, &mut guest.vm);
        let read_wire = || fs::read(&files.wire).unwrap_or_default();
        let (mut finished, mut answer_start) = (0, 0);
        vm.restart_deadline();
        vm.resume();
        loop {
            match vm.wait(&self.watch(files, answer_start)) {
                Ok(Halt::Paused) => {
                    wire::check_panic_message(&read_tail(&files.console))?;
                    return Ok(vm.quit(&self.setup.limits)?);
                }
                Ok(Halt::Exited) => return Ok(()),
                Ok(Halt::ShutDown) => {
                    let console = wire::tail(&read_tail(&files.console));
                    return Err(Failure::NoAnswer { console }.into());
                }
                Err(Stop::Failed(late @ Failure::RealTime { .. }, _)) => {
                    // The limit is per loop: restart it when another loop has finished.
                    let finished_now = count_finished(&read_wire());
                    if finished_now == finished {
                        return Err(late.into());
                    }
                    finished = finished_now;
                    vm.restart_deadline();
                }
                Err(Stop::Failed(flood @ Failure::Flood { .. }, _)) => {
                    let limit_bytes = self.setup.limits.wire_bytes;
                    match last_answer_start(&read_wire(), loops, limit_bytes) {
                        None => return Err(Failure::Flood { limit_bytes }.into()),
                        // The wire has no new answer, so the console is too long.
                        Some(start) if start == answer_start => return Err(flood.into()),
                        Some(start) => answer_start = start,
                    }
                }
                Err(stop) => return Err(stop),
            }
        }
    }

    fn image(&self, subject: &TimedSubject) -> Result<&Path, Failure> {
        let image = subject.kernel.as_ref().and_then(|kernel| self.setup.images.get(kernel));
        let refused = |message: &str| Failure::Refused { message: message.into() };
        let supported = TimedSubject {
            kernel: subject.kernel.clone(),
            boot_line: subject.boot_line.clone(),
            ..TimedSubject::default()
        };
        if supported != *subject {
            let message = "a guest has only a kernel and a boot line; use the engine `host` for \
                           other settings";
            return Err(refused(message));
        }
        image.map(PathBuf::as_path).ok_or_else(|| refused("the guest has no kernel to boot"))
    }

    fn facts(&self, hello: &Hello, boot_line: String) -> Facts {
        let GuestSetup { qemu, shape, cpus, .. } = &self.setup;
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
            facts.insert(fact::BUSY.into(), join_thread_names(&hello.busy));
        }
        if hello.is_unseeded {
            facts.insert(fact::RANDOM_SEED.into(), "none".into());
        }
        if !cpus.is_empty() {
            let names: Vec<String> = cpus.iter().map(usize::to_string).collect();
            facts.insert(fact::VCPU_CPUS.into(), names.join(","));
        }
        let host_facts = (self.setup.host_facts)().into_iter();
        facts.extend(host_facts.map(|(name, value)| (fact::machine_fact(&name), value)));
        facts
    }
}

impl Timed for Kvm {
    fn boot(&self, subject: &TimedSubject, loops: &[&Workload]) -> Result<BootOutput, Stop> {
        let (image, orders) = (self.image(subject)?, orders(loops)?);
        let boot_line = argv::timed_boot_line(self.setup.shape.accelerator, &subject.boot_line);
        let mut guest = self.start(image, &boot_line, &orders)?;
        pin_vcpus(&mut guest.vm, &self.setup.cpus)?;
        let ended = match self.run_orders(&mut guest, loops.len()) {
            Ok(()) => Ok(()),
            Err(Stop::Failed(failure, _)) => Err(failure),
            Err(Stop::Cancelled) => return Err(Stop::Cancelled),
        };
        // End the VM, so that the wire is complete.
        drop(guest.vm);
        let wire = fs::read(&guest.files.wire).map_err(host_failure("cannot read the wire"))?;
        let wires = assign_answers(&wire, loops.len(), &ended, self.setup.limits.wire_bytes);
        let console = ended.err().map(|_| read_tail(&guest.files.console)).unwrap_or_default();
        Ok(BootOutput { facts: self.facts(&guest.hello, boot_line), wires, console })
    }

    fn end(&self) -> Result<(), Stop> {
        Ok(())
    }
}

/// Joins the names of kernel threads with spaces. A space in a name becomes `\x20`, so that a name
/// such as `NFSv4 callback` stays one word.
fn join_thread_names(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| name.replace(' ', "\\x20")).collect();
    names.join(" ")
}

/// Returns the orders of all loops as one text.
fn orders(loops: &[&Workload]) -> Result<String, Failure> {
    let plain = Layout { seed: 0, padding: 0, phase: 0 };
    let orders: String = loops.iter().map(|workload| wire::order(workload, &plain)).collect();
    if orders.len() <= MAX_ORDERS_BYTES {
        return Ok(orders);
    }
    let message = format!(
        "the orders of all loops take {} bytes, but a guest reads at most {MAX_ORDERS_BYTES}; name \
         fewer rows or loops",
        orders.len()
    );
    Err(Failure::Refused { message })
}

/// Opens the engine of a Plan: guests, and the host itself if it is the base.
pub(super) fn open(mut setup: TimedSetup<'_>) -> Result<Box<dyn Timed + '_>> {
    let guests = setup.guests.take().expect("guests are set up for an engine that runs on them");
    let kvm = Kvm::new(guests)?;
    Ok(match setup.plan.asked.subjects.base.bare_metal {
        true => Box::new(BareMetal { host: TimedHost::open(setup)?, kvm }),
        false => Box::new(kvm),
    })
}

/// Engines for a comparison of guests with the host that they run on.
struct BareMetal<'a> {
    host: TimedHost<'a>,
    kvm: Kvm,
}

impl Timed for BareMetal<'_> {
    fn boot(&self, subject: &TimedSubject, loops: &[&Workload]) -> Result<BootOutput, Stop> {
        match subject.bare_metal {
            true => self.kvm.run_on_vcpu_cpus(|| self.host.boot(subject, loops))?,
            false => self.kvm.boot(subject, loops),
        }
    }

    fn end(&self) -> Result<(), Stop> {
        self.host.end()
    }
}

/// Checks that /dev/kvm can be opened. The file does not exist if KVM's module is not loaded, or if
/// the machine has no virtualization.
pub fn open_device() -> io::Result<()> {
    File::options().read(true).write(true).open("/dev/kvm").map(drop)
}

/// Returns the next step for a user who cannot open /dev/kvm.
pub fn device_fix(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "load the module kvm-amd or kvm-intel",
        io::ErrorKind::PermissionDenied => "become a member of the group `kvm`",
        _ => "look for messages about kvm in the kernel log (`sudo dmesg`)",
    }
}

/// Checks that /dev/kvm can be opened, if the accelerator needs it.
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

/// Returns the answer of each loop, or the reason why the loop has none. `ended` is the failure
/// that ended the guest, if there was one: loops with a complete answer keep their answer, and all
/// others get that failure.
fn assign_answers(
    wire: &[u8],
    loops: usize,
    ended: &Result<(), Failure>,
    wire_bytes: u64,
) -> Vec<Result<Vec<u8>, Failure>> {
    // The first part is the hello.
    let answers: Vec<&[u8]> = split_answers(wire).into_iter().skip(1).collect();
    let found = answers.len();
    if found > loops || (found < loops && ended.is_ok()) {
        // The numbers differ, so it is unknown which answer belongs to which loop.
        let reason =
            format!("the guest sent {} to {}", counted(found, "answer"), counted(loops, "order"));
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

/// Counts the complete answers on the wire.
fn count_finished(wire: &[u8]) -> usize {
    split_answers(wire).iter().skip(1).filter(|answer| is_finished(answer)).count()
}

/// Returns the offset of the last answer on the wire. `None` if an answer is too long, or if there
/// are more answers than loops.
fn last_answer_start(wire: &[u8], loops: usize, wire_bytes: u64) -> Option<u64> {
    let parts = split_answers(wire);
    let is_short = |part: &&[u8]| part.len() as u64 <= wire_bytes;
    // The first part is the hello.
    let is_allowed = parts.len() <= loops.saturating_add(1) && parts.iter().all(is_short);
    is_allowed.then(|| (wire.len() - parts.last().map_or(0, |last| last.len())) as u64)
}

/// Returns the online CPUs that the cpuset and the affinity of this thread permit.
pub fn allowed_cpus() -> io::Result<Vec<u32>> {
    let cpu_set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| cpu_set.is_set(*cpu)).map(|cpu| cpu as u32).collect())
}

/// Pins each vCPU to one of the CPUs, in turn. Does nothing without CPUs.
fn pin_vcpus(vm: &mut Vm, cpus: &[usize]) -> Result<(), Failure> {
    if cpus.is_empty() {
        return Ok(());
    }
    let threads = vm.monitor(|monitor| monitor.vcpu_threads())?;
    for (thread, cpu) in threads.into_iter().zip(cpus.iter().cycle()) {
        let failed = host_failure(&format!("cannot pin a vCPU to CPU {cpu}"));
        pin_thread(thread, *cpu).map_err(failed)?;
    }
    Ok(())
}

/// Calls `work` with the affinity to these CPUs, which processes that it starts inherit, and
/// restores the affinity. Without CPUs, the affinity stays as it is.
fn run_on_cpus<T>(cpus: &[usize], work: impl FnOnce() -> T) -> Result<T, Failure> {
    if cpus.is_empty() {
        return Ok(work());
    }
    let failed = host_failure(&format!("cannot run on CPUs {cpus:?}"));
    let set_affinity = |cpus: &CpuSet| sched_setaffinity(None, cpus).map_err(io::Error::from);
    let before = sched_getaffinity(None).map_err(io::Error::from).map_err(&failed)?;
    cpu_set(cpus).and_then(|cpus| set_affinity(&cpus)).map_err(&failed)?;
    let done = work();
    set_affinity(&before).map_err(&failed)?;
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
    const COMPLETE: &str = "ktax 1\nstart pipe\nsig calls 7\nend\n";
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
    fn each_loop_has_its_own_answer_or_failure() {
        let found = assigned(&[COMPLETE, FAILED, COMPLETE], Ok(()));
        assert_eq!(found, [Ok(COMPLETE.into()), Ok(FAILED.into()), Ok(COMPLETE.into())]);
        assert_eq!(
            count_finished((HELLO.to_owned() + COMPLETE + FAILED + "ktax 1\n").as_bytes()),
            2
        );
    }

    #[test]
    fn complete_answers_are_kept_after_a_panic() {
        let torn = &COMPLETE[..20];
        for last in [torn, "ktax 1\n", "kta", ""] {
            let found = assigned(&[COMPLETE, last], Err(panic()));
            assert_eq!(found, [Ok(COMPLETE.into()), Err(panic()), Err(panic())], "{last:?}");
        }
        assert_eq!(assigned(&[], Err(panic())), vec![Err(panic()); 3]);
        assert_eq!(assign_answers(b"", 1, &Err(panic()), LIMIT), [Err(panic())]);
    }

    #[test]
    fn a_torn_answer_goes_to_its_loop() {
        let found = assigned(&[COMPLETE, &COMPLETE[..18], COMPLETE], Ok(()));
        assert_eq!(found, [Ok(COMPLETE.into()), Ok(COMPLETE[..18].into()), Ok(COMPLETE.into())]);
    }

    #[test]
    fn a_wrong_number_of_answers_fails_every_loop() {
        // The third answer begins within a line that was cut off.
        for answers in [&[COMPLETE; 4][..], &[COMPLETE; 2], &[COMPLETE, &COMPLETE[..20], COMPLETE]]
        {
            let found = assigned(answers, Ok(()));
            assert!(found.iter().all(|answer| matches!(answer, Err(Failure::Garbled { .. }))));
        }
        let found = assigned(&[COMPLETE; 4], Err(panic()));
        assert!(found.iter().all(|answer| matches!(answer, Err(Failure::Garbled { .. }))));
    }

    #[test]
    fn a_flood_fails_one_loop_only() {
        let flood = format!("ktax 1\n{}\nend\n", "x".repeat(100));
        let found = assigned(&[COMPLETE, &flood, COMPLETE], Ok(()));
        assert_eq!(found[1], Err(Failure::Flood { limit_bytes: LIMIT }));
        assert_eq!((&found[0], &found[2]), (&Ok(COMPLETE.into()), &Ok(COMPLETE.into())));
    }

    #[test]
    fn each_answer_has_the_limit_and_extra_answers_are_refused() {
        let start = |wire: &str| last_answer_start(wire.as_bytes(), 2, 40);
        let first = HELLO.to_owned() + COMPLETE;
        assert_eq!((start(""), start(HELLO)), (Some(0), Some(0)));
        assert_eq!(start(&first), Some(HELLO.len() as u64));
        assert_eq!(start(&(first.clone() + COMPLETE)), Some(first.len() as u64));
        let (endless, complete) =
            ("ktax 1\n".to_owned() + &"x".repeat(40), first.clone() + COMPLETE);
        assert_eq!(start(&(first.clone() + &endless)), None);
        assert_eq!(start(&(HELLO.to_owned() + &endless + "\nend\n" + COMPLETE)), None);
        assert_eq!(start(&(complete + "ktax 1\n")), None);
    }

    #[test]
    fn processes_inherit_the_affinity_only_during_the_work() {
        let child_cpus = || {
            let output = Command::new("grep")
                .args(["Cpus_allowed_list", "/proc/self/status"])
                .output()
                .unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            text.split_whitespace().next_back().unwrap().to_owned()
        };
        let before = child_cpus();
        let last = *allowed_cpus().unwrap().last().unwrap();
        let both = || (child_cpus(), allowed_cpus().unwrap());
        assert_eq!(run_on_cpus(&[last as usize], both).unwrap(), (last.to_string(), vec![last]));
        assert_eq!(child_cpus(), before);
        assert_eq!(run_on_cpus(&[], child_cpus).unwrap(), before);
        assert!(matches!(run_on_cpus(&[CpuSet::MAX_CPU], child_cpus), Err(Failure::Host { .. })));
        assert_eq!(child_cpus(), before);
    }

    #[test]
    fn a_thread_name_with_a_space_is_one_word() {
        let names = ["ksmd", "NFSv4 callback"].map(str::to_owned);
        assert_eq!(join_thread_names(&names), "ksmd NFSv4\\x20callback");
    }

    #[test]
    fn only_a_refused_permission_asks_for_the_group() {
        let fix = |kind: io::ErrorKind| device_fix(&kind.into());
        assert!(fix(io::ErrorKind::NotFound).contains("load the module"));
        assert!(fix(io::ErrorKind::PermissionDenied).contains("group `kvm`"));
        assert!(fix(io::ErrorKind::ResourceBusy).contains("dmesg"));
    }
}
