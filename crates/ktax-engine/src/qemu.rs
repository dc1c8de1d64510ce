//! QEMU: the program with its version, and one process of it. Nothing of a process has a guessable
//! name, ktax watches its limits, and it is killed when dropped or when ktax dies.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use qapi::qmp::{
    self, CpuInfoFast, MigrateSetParameters, MigrationCapability, MigrationCapabilityStatus,
    MigrationStatus, RunState,
};
use qapi::{Qmp, Stream};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Serialize;

use super::Stop;
use super::command::die_with_parent;
use super::limits::{Cancel, Clock, Deadline, Limits, timespec};
use super::wire::{self, Hello};
use ktax_host::text::{did_you_mean_quoted, escape_bytes, nearest, shell_path};
use ktax_model::{Error, Failure, Result};

/// The oldest QEMU with the plugins and the icount that ktax needs.
const OLDEST: (u32, u32) = (7, 2);

/// The oldest QEMU with a plugin that may end a CPU's slice.
const OLDEST_WITH_SEVERAL_CPUS: (u32, u32) = (10, 0);

/// A QEMU of known version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Qemu {
    pub program: PathBuf,
    /// The version with the distribution's suffix: `7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)`.
    pub version: String,
}

impl Qemu {
    /// Finds the program that `--qemu` or KTAX_QEMU names, or the distribution's.
    pub fn find(named: Option<&Path>) -> Result<Qemu> {
        const ANOTHER: &str = "name another QEMU with --qemu";
        let program = named.unwrap_or(Path::new("qemu-system-x86_64"));
        let name = program.display();
        let missing = |reason: String| {
            Error::guest(format!("cannot start {name}: {reason}"))
                .next("install QEMU with `sudo apt-get install qemu-system-x86`")
        };
        let output = Command::new(program).arg("--version").stdin(Stdio::null()).output();
        let output = output.map_err(|error| missing(error.to_string()))?;
        if !output.status.success() {
            return Err(missing(escape_bytes(&output.stderr)));
        }
        let version = parse_version(&output.stdout).ok_or_else(|| {
            let output = escape_bytes(&output.stdout);
            Error::guest(format!("cannot read the version of {name} from {output:?}")).next(ANOTHER)
        })?;
        if number(&version) < Some(OLDEST) {
            let message = format!("QEMU {version} is too old: ktax needs 7.2 or later");
            return Err(Error::guest(message).next(ANOTHER));
        }
        Ok(Qemu { program: absolute(program), version })
    }

    pub fn has_several_cpus(&self) -> bool {
        number(&self.version) >= Some(OLDEST_WITH_SEVERAL_CPUS)
    }

    /// Refuses more CPUs than this QEMU can count with.
    pub fn check_cpus(&self, cpus: u32) -> Result<()> {
        if cpus == 1 || self.has_several_cpus() {
            return Ok(());
        }
        let found = &self.version;
        Err(Error::guest(format!(
            "--cpus {cpus} (machine.cpus) needs QEMU 10.0 or later, and this is {found}: Debian 13 \
             has it, and on Debian 12 `ktax doctor --newer-qemu DIR` unpacks that of backports \
             beside the installed one"
        ))
        .next("name it with --qemu"))
    }

    /// Refuses a CPU model that this QEMU does not list; features behind the name are its own
    /// business. A QEMU that lists nothing is asked when it boots.
    pub fn check_cpu(&self, cpu: &str) -> Result<()> {
        let mut help = Command::new(&self.program);
        let Ok(output) = help.args(["-cpu", "help"]).stdin(Stdio::null()).output() else {
            return Ok(());
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let models = parse_cpus(&text);
        let name = cpu.split(',').next().unwrap_or_default();
        let model = name.strip_suffix("-x86_64-cpu").unwrap_or(name);
        if models.is_empty() || models.contains(&model) {
            return Ok(());
        }
        let near = did_you_mean_quoted(nearest(model, models));
        let program = shell_path(self.program.display().to_string());
        Err(Error::user(format!(
            "--cpu (machine.cpu) is {name:?}, and QEMU has no such CPU model{near}"
        ))
        .next(format!("`{program} -cpu help` lists its models")))
    }
}

/// Parses the models of `-cpu help`: the first paragraph, whose lines begin with `x86` before QEMU
/// 9.
fn parse_cpus(help: &str) -> Vec<&str> {
    let lines = help.lines().skip_while(|line| !line.starts_with("Available CPUs"));
    let lines = lines.skip(1).take_while(|line| !line.is_empty());
    let names = lines.map(|line| line.strip_prefix("x86 ").unwrap_or(line));
    names.filter_map(|line| line.split_whitespace().next()).collect()
}

fn parse_version(output: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(output).ok()?;
    let version = text.lines().next()?.strip_prefix("QEMU emulator version ")?;
    number(version).map(|_| escape_bytes(version.as_bytes()))
}

fn number(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Returns the program's absolute path: it stays the same program when the directory or PATH
/// changes.
fn absolute(program: &Path) -> PathBuf {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let candidates: Vec<PathBuf> = if program.components().count() > 1 {
        vec![program.to_owned()]
    } else {
        std::env::split_paths(&search).map(|dir| dir.join(program)).collect()
    };
    let found = candidates.into_iter().find(|path| path.is_file());
    found.and_then(|path| std::path::absolute(path).ok()).unwrap_or_else(|| program.to_owned())
}

/// QEMU's exit status when the guest writes 21 to `isa-debug-exit`: (21 << 1) | 1.
const FINISHED: i32 = 43;

/// QEMU's exit status when the plugin ends it, because the time that it counts is over.
const OVER: i32 = 64;

pub struct Vm {
    child: Child,
    pidfd: OwnedFd,
    monitor: Monitor,
    deadline: Deadline,
    stderr: PathBuf,
    /// True if the VM starts at power-on, and not from a Snapshot.
    is_boot: bool,
    /// The length of the console when it was last read.
    console_bytes: u64,
}

/// Limits and files that are watched while a VM runs.
pub struct Watched<'a> {
    pub limits: &'a Limits,
    pub cancel: &'a Cancel,
    /// The file of the wire, and its limit in bytes.
    pub wire: (&'a Path, u64),
    /// True if the first process writes to the wire as soon as it runs.
    pub speaks_first: bool,
    pub console: &'a Path,
}

/// Reason why a VM came to rest.
#[derive(Debug, PartialEq, Eq)]
pub enum Rest {
    /// Stopped by pvpanic: a freeze, a guest that is done, or a panic of a kernel with a pvpanic
    /// driver.
    Paused,
    /// QEMU exited by itself, as in a run by hand.
    Finished,
    /// The guest shut down or reset.
    ShutDown,
}

impl Vm {
    /// Starts QEMU. `args` gets the number of the monitor's descriptor; QEMU inherits `inherit`.
    pub fn start(
        program: &Path,
        args: impl FnOnce(RawFd) -> Vec<String>,
        inherit: Option<BorrowedFd<'_>>,
        stderr: &Path,
        limits: &Limits,
    ) -> Result<Vm, Failure> {
        let no_qemu = |error: io::Error| Failure::NoQemu { reason: error.to_string() };
        let (ours, theirs) = UnixStream::pair().map_err(no_qemu)?;
        let mut command = Command::new(program);
        command.args(args(theirs.as_raw_fd())).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(stderr).map_err(no_qemu)?);
        let inherited = [Some(theirs.as_raw_fd()), inherit.map(|fd| fd.as_raw_fd())];
        // Ctrl-C at a terminal goes to ktax alone, which then stops its VMs.
        command.process_group(0);
        die_with_parent(&mut command, inherited);
        let mut child = command.spawn().map_err(no_qemu)?;
        drop(theirs);
        let pid = Pid::from_child(&child);
        let opened = pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from);
        let clock = || Clock::new(child.id());
        let connected =
            opened.and_then(|pidfd| Ok((pidfd, Monitor::connect(ours, clock(), limits.monitor)?)));
        let (pidfd, monitor) = match connected {
            Ok(connected) => connected,
            Err(error) => {
                drop(child.kill());
                let status = child.wait().map_err(no_qemu)?;
                return Err(died(status, stderr, &monitor_error(&error)));
            }
        };
        let (deadline, stderr) = (Deadline::new(clock), stderr.to_owned());
        let is_boot = inherit.is_none();
        Ok(Vm { child, pidfd, monitor, deadline, stderr, is_boot, console_bytes: 0 })
    }

    pub fn monitor<T>(
        &mut self,
        command: impl FnOnce(&mut Monitor) -> io::Result<T>,
    ) -> Result<T, Failure> {
        command(&mut self.monitor).map_err(|error| self.lost(&monitor_error(&error)))
    }

    /// Restarts the time limit.
    pub fn extend(&mut self) {
        self.deadline.restart();
    }

    /// Continues the VM. A short Run can end before QEMU answers, so [`Vm::wait`] judges a lost
    /// connection.
    pub fn resume(&mut self) {
        drop(self.monitor.execute(qmp::cont {}));
    }

    /// Waits until the VM comes to rest, reaches a limit, or the user cancels.
    pub fn wait(&mut self, watch: &Watched) -> Result<Rest, Stop> {
        loop {
            if let Some(status) = self.wait_for_exit(watch.limits)? {
                return Ok(self.at_exit(status, watch.console)?);
            }
            if watch.cancel.is_cancelled() {
                return Err(Stop::Cancelled);
            }
            self.check_limits(watch)?;
            match self.monitor.status() {
                Ok(RunState::guest_panicked) => return Ok(Rest::Paused),
                Ok(RunState::shutdown) => return Ok(shut_down(watch.console)?),
                Ok(_) => {}
                // A QEMU that runs and does not answer hangs. One that has just ended is noticed in
                // the next turn of this loop.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wire::check_panic(&read_tail(watch.console))?;
                    return Err(self.lost("its monitor does not answer").into());
                }
                Err(_) => {}
            }
        }
    }

    fn check_limits(&mut self, watch: &Watched) -> Result<(), Failure> {
        let limits = watch.limits;
        let (wire_path, _) = watch.wire;
        for (path, limit_bytes) in [watch.wire, (watch.console, limits.console_bytes)] {
            if fs::metadata(path).is_ok_and(|file| file.len() > limit_bytes) {
                return Err(Failure::Flood { limit_bytes });
            }
        }
        self.check_panic(watch.console)?;
        let monitor = &mut self.monitor;
        let checked = self.deadline.check(limits, || monitor.guest_clock_s().unwrap_or(0));
        let Err(late) = checked else { return Ok(()) };
        let console = read_tail(watch.console);
        wire::check_panic(&console)?;
        let is_silent =
            || console.is_empty() && fs::metadata(wire_path).is_ok_and(|wire| wire.len() == 0);
        Err(if self.is_boot && watch.speaks_first && is_silent() {
            late.without_output()
        } else {
            late
        })
    }

    /// Fails after a panic: a kernel with `panic=0` on its boot line then waits for ever.
    fn check_panic(&mut self, console: &Path) -> Result<(), Failure> {
        let bytes = fs::metadata(console).map_or(0, |file| file.len());
        if std::mem::replace(&mut self.console_bytes, bytes) == bytes {
            return Ok(());
        }
        let panicked = wire::panic_that_stays(&read_tail(console));
        panicked.map_or(Ok(()), |message| Err(Failure::Panic { message }))
    }

    /// Ends a VM that has come to rest, so that the plugin writes its profile.
    ///
    /// QEMU 10 can hang forever if it exits by itself while a command is on the monitor, so it is
    /// told to quit.
    pub fn quit(&mut self, limits: &Limits) -> Result<(), Failure> {
        drop(self.monitor.execute(qmp::quit {}));
        let clock = Clock::new(self.child.id());
        loop {
            let timeout = timespec(limits.monitor);
            let _ = poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&timeout));
            return match self.child.try_wait() {
                Ok(Some(status)) if status.success() => Ok(()),
                Ok(Some(status)) => Err(died(status, &self.stderr, "")),
                Ok(None) if !clock.has_passed(limits.monitor) => continue,
                Ok(None) => Err(self.lost("it does not quit")),
                Err(error) => Err(self.lost(&error.to_string())),
            };
        }
    }

    /// Returns at the exit, at an event, or after the time between two checks.
    fn wait_for_exit(&mut self, limits: &Limits) -> Result<Option<ExitStatus>, Failure> {
        let mut fds = [
            PollFd::new(&self.pidfd, PollFlags::IN),
            PollFd::new(&self.monitor.socket, PollFlags::IN),
        ];
        // An interrupted poll only returns early.
        let _ = poll(&mut fds, Some(&timespec(limits.poll)));
        self.child.try_wait().map_err(|error| self.lost(&error.to_string()))
    }

    fn at_exit(&mut self, status: ExitStatus, console: &Path) -> Result<Rest, Failure> {
        match status.code() {
            Some(FINISHED | OVER) => Ok(Rest::Finished),
            Some(0) => match shut_down(console) {
                Ok(_) if self.monitor.was_ended_by_host() => {
                    Err(Failure::QemuLost { reason: "something on this host ended it".into() })
                }
                other => other,
            },
            _ => Err(died(status, &self.stderr, "")),
        }
    }

    fn lost(&mut self, reason: &str) -> Failure {
        drop(self.child.kill());
        match self.child.wait() {
            Ok(status) => died(status, &self.stderr, reason),
            Err(error) => Failure::NoQemu { reason: error.to_string() },
        }
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Judges a guest that shut down or reset, which it also does after a panic.
fn shut_down(console: &Path) -> Result<Rest, Failure> {
    wire::check_panic(&read_tail(console)).map(|()| Rest::ShutDown)
}

/// Returns the text of an error of the monitor; empty if QEMU has ended, as its exit status tells.
fn monitor_error(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => String::new(),
        _ => error.to_string(),
    }
}

fn died(status: ExitStatus, stderr: &Path, otherwise: &str) -> Failure {
    let printed = escape_bytes(&read_tail(stderr));
    let status = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        // SIGBUS: the file behind the guest's memory could not grow.
        (_, Some(7)) => "signal 7: the cache's filesystem is full".into(),
        (_, Some(signal)) => {
            let killed = format!("signal {signal}");
            let parts = [if otherwise.is_empty() { killed.as_str() } else { otherwise }, &printed];
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            return Failure::QemuLost { reason: parts.join(": ") };
        }
        _ => "unknown status".into(),
    };
    let stderr = if printed.is_empty() { otherwise.to_owned() } else { printed };
    Failure::QemuDied { status, stderr }
}

/// A connection to the monitor. Every error means that QEMU has ended or does not answer.
pub struct Monitor {
    /// Readable when QEMU reports an event, such as a stopped VM.
    socket: UnixStream,
    ended_by_host: bool,
    qmp: Qmp<Stream<BufReader<Patient>, UnixStream>>,
}

/// A stream of what QEMU says. QEMU has `limit` for each answer, without the time that it waits for
/// a CPU.
struct Patient<R = UnixStream> {
    stream: R,
    clock: Clock,
    limit: Duration,
}

impl<R: Read> Read for Patient<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.clock.restart();
        loop {
            match self.stream.read(buffer) {
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock
                        && !self.clock.has_passed(self.limit) => {}
                other => return other,
            }
        }
    }
}

impl Monitor {
    /// Connects to a QEMU at the other end of `stream`. It must answer within `limit` by its
    /// `clock`.
    pub(super) fn connect(
        stream: UnixStream,
        clock: Clock,
        limit: Duration,
    ) -> io::Result<Monitor> {
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        let socket = stream.try_clone()?;
        let mut reader = BufReader::new(Patient { stream: stream.try_clone()?, clock, limit });
        // qapi expects a greeting, and a QEMU that dies at once sends none.
        if reader.fill_buf()?.is_empty() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        let mut qmp = Qmp::new(Stream::new(reader, stream));
        qmp.handshake()?;
        let capability = MigrationCapability::x_ignore_shared;
        let capabilities = vec![MigrationCapabilityStatus { capability, state: true }];
        let mut monitor = Monitor { socket, ended_by_host: false, qmp };
        monitor.execute(qmp::migrate_set_capabilities { capabilities })?;
        Ok(monitor)
    }

    pub fn status(&mut self) -> io::Result<RunState> {
        Ok(self.execute(qmp::query_status {})?.status)
    }

    /// Returns the thread IDs of the vCPUs, by the vCPUs' numbers.
    pub fn vcpu_threads(&mut self) -> io::Result<Vec<i32>> {
        let indexed_thread = |vcpu: CpuInfoFast| match vcpu {
            CpuInfoFast::x86_64(vcpu) => Some((vcpu.cpu_index, vcpu.thread_id)),
            _ => None,
        };
        let mut vcpus: Vec<_> =
            self.execute(qmp::query_cpus_fast {})?.into_iter().filter_map(indexed_thread).collect();
        vcpus.sort_unstable();
        let threads = vcpus.into_iter().map(|(_, thread)| i32::try_from(thread));
        threads.collect::<Result<_, _>>().map_err(io::Error::other)
    }

    /// Sends the device state without the memory to a listening socket; returns when it is sent.
    pub fn send_state(&mut self, uri: String, poll: Duration) -> io::Result<()> {
        let uri = Some(uri);
        self.execute(qmp::migrate { channels: None, detach: None, resume: None, uri })?;
        loop {
            let info = self.execute(qmp::query_migrate {})?;
            match info.status {
                Some(MigrationStatus::completed) => return Ok(()),
                Some(MigrationStatus::failed | MigrationStatus::cancelled) => {
                    let why = info.error_desc.unwrap_or_else(|| "no reason given".into());
                    return Err(io::Error::other(format!("saving the state failed: {why}")));
                }
                _ => std::thread::sleep(poll),
            }
        }
    }

    /// Reads the device state from a file descriptor that QEMU inherited; returns when it is read.
    pub fn receive_state(&mut self, uri: String, poll: Duration) -> io::Result<()> {
        // QEMU would tell a network five times where the machine is now, by a timer in real time.
        // A CPU's slice ends when any timer is due: with several CPUs that changes what follows.
        let quiet = MigrateSetParameters { announce_rounds: Some(0), ..Default::default() };
        self.execute(qmp::migrate_set_parameters(quiet))?;
        let uri = Some(uri);
        self.execute(qmp::migrate_incoming { channels: None, exit_on_error: None, uri })?;
        while self.status()? == RunState::inmigrate {
            std::thread::sleep(poll);
        }
        Ok(())
    }

    /// Returns the virtual seconds since power-on. Under icount the real-time clock is virtual, and
    /// `argv.rs` starts it on 2020-01-01. Each month counts as 31 days, which is close enough for a
    /// limit.
    pub fn guest_clock_s(&mut self) -> io::Result<u64> {
        let (path, property) = ("/machine".into(), "rtc-time".into());
        let time = self.execute(qmp::qom_get { path, property })?;
        let field = |name: &str| time.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0);
        let months = field("tm_year").saturating_sub(120) * 12 + field("tm_mon");
        let days = months * 31 + field("tm_mday").saturating_sub(1);
        Ok(((days * 24 + field("tm_hour")) * 60 + field("tm_min")) * 60 + field("tm_sec"))
    }

    /// Returns whether QEMU exited because of the host (a signal) and not because of the guest. To
    /// be called only after the exit.
    pub fn was_ended_by_host(&mut self) -> bool {
        // The last events are still in the socket; no answer will come.
        drop(self.qmp.read_response::<qmp::query_status>());
        self.note_events();
        self.ended_by_host
    }

    fn note_events(&mut self) {
        for event in self.qmp.events() {
            if let qmp::Event::SHUTDOWN { data, .. } = event {
                self.ended_by_host |= !data.guest;
            }
        }
    }

    fn execute<C: qapi::Command>(&mut self, command: C) -> io::Result<C::Ok> {
        let answer = self.qmp.execute(&command);
        self.note_events();
        Ok(answer?)
    }
}

/// Reads the last 64 KiB of a console, which are enough for a panic with its trace. Empty if the
/// file cannot be read.
pub fn read_tail(path: &Path) -> Vec<u8> {
    const TAIL_BYTES: usize = 64 << 10;
    let bytes = fs::read(path).unwrap_or_default();
    bytes[bytes.len().saturating_sub(TAIL_BYTES)..].to_vec()
}

/// Reads the hello of a guest that came to rest and has had no order yet.
pub(super) fn read_hello(rest: &Rest, wire: &Path, console: &Path) -> Result<Hello, Failure> {
    let console = read_tail(console);
    let printed = fs::read(wire).unwrap_or_default();
    wire::check_panic(&console)?;
    match wire::parse_hello(&printed) {
        Ok(hello) if *rest == Rest::Paused => Ok(hello),
        Err(error) if !printed.is_empty() => Err(Failure::Garbled { reason: error.to_string() }),
        _ => {
            let silent = Failure::NoAnswer { console: wire::tail(&console) };
            Err(if console.is_empty() && printed.is_empty() {
                silent.without_output()
            } else {
                silent
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says nothing in time at first. Meanwhile QEMU has waited so long for a CPU.
    struct Late {
        schedstat: std::path::PathBuf,
        waited: &'static str,
        is_first: bool,
    }

    impl Read for Late {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match std::mem::take(&mut self.is_first) {
                true => {
                    std::fs::write(&self.schedstat, self.waited)?;
                    Err(io::ErrorKind::WouldBlock.into())
                }
                false => (&b"{}"[..]).read(buffer),
            }
        }
    }

    #[test]
    fn an_answer_is_late_only_if_qemu_had_a_cpu() {
        for (waited, is_answer) in [("0 0 0", false), ("0 60000000000 1", true)] {
            let process = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(process.path().join("task/7")).unwrap();
            let schedstat = process.path().join("task/7/schedstat");
            std::fs::write(&schedstat, "0 0 0").unwrap();
            let clock = Clock::below(process.path().to_owned());
            let stream = Late { schedstat, waited, is_first: true };
            let mut late = Patient { stream, clock, limit: Duration::ZERO };
            assert_eq!(late.read(&mut [0; 9]).is_ok(), is_answer, "{waited}");
        }
    }

    #[test]
    fn cpu_models_are_read_as_old_and_new_qemus_list_them() {
        let old = "Available CPUs:\nx86 486    (alias)\nx86 max    Enables\n\nRecognized flags:\n";
        let new = "Available CPUs:\n  486    (alias)\n  max    Enables\n\nRecognized:\n  3dnow\n";
        assert_eq!(parse_cpus(old), ["486", "max"]);
        assert_eq!(parse_cpus(new), ["486", "max"]);
        assert!(parse_cpus("no help\n").is_empty());
    }

    #[test]
    fn versions_are_read_with_their_suffix() {
        let debian = b"QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright\n";
        let version = parse_version(debian).unwrap();
        assert_eq!(version, "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)");
        assert_eq!(number(&version), Some((7, 2)));
        assert_eq!(number("10.0.2"), Some((10, 0)));
        assert_eq!(parse_version(b"hello\n"), None);
    }
}
