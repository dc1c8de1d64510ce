//! The QEMU program with its version, and QEMU processes. No file or socket of a process has a
//! guessable name. ktax watches the limits of a process, which is killed when its [`Vm`] is dropped
//! or when ktax dies.

use std::fmt;
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
use super::argv::RTC_START_YEAR;
use super::command::die_with_parent;
use super::limits::{Cancel, Clock, Deadline, Limits, timespec};
use super::wire::{self, Hello};
use ktax_host::text::{did_you_mean_quoted, escape_bytes, nearest, shell_path};
use ktax_model::{Error, Failure, Result};

/// Major and minor number of a QEMU version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct VersionNumber(u32, u32);

impl fmt::Display for VersionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// The oldest QEMU with the plugin interface and the icount mode that ktax needs.
const MIN_VERSION: VersionNumber = VersionNumber(7, 2);

/// The oldest QEMU whose plugins can end the slice of a CPU, which counts of several CPUs need.
const MIN_VERSION_FOR_SEVERAL_CPUS: VersionNumber = VersionNumber(10, 0);

/// A QEMU of known version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Qemu {
    pub program: PathBuf,
    /// The version with the distribution's suffix: `7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)`.
    pub version: String,
}

impl Qemu {
    /// Finds the program that `--qemu` or KTAX_QEMU names; `None` for that of the distribution.
    pub fn find(named: Option<&Path>) -> Result<Qemu> {
        const NAME_ANOTHER: &str = "name another QEMU with --qemu";
        let program = named.unwrap_or(Path::new("qemu-system-x86_64"));
        let name = program.display();
        let not_started = |reason: String| {
            let next = match named {
                Some(_) => "name a working QEMU with --qemu or KTAX_QEMU",
                None => "install QEMU with `sudo apt-get install qemu-system-x86`",
            };
            Error::guest(format!("cannot start {name}: {reason}")).next(next)
        };
        let output = Command::new(program).arg("--version").stdin(Stdio::null()).output();
        let output = output.map_err(|error| not_started(error.to_string()))?;
        if !output.status.success() {
            let reason = match escape_bytes(&output.stderr) {
                printed if printed.is_empty() => output.status.to_string(),
                printed => printed,
            };
            return Err(not_started(reason));
        }
        let version = parse_version(&output.stdout).ok_or_else(|| {
            let output = escape_bytes(&output.stdout);
            Error::guest(format!("cannot read the version of {name} from {output:?}"))
                .next(NAME_ANOTHER)
        })?;
        if version_number(&version) < Some(MIN_VERSION) {
            let message = format!("QEMU {version} is too old: ktax needs {MIN_VERSION} or later");
            return Err(Error::guest(message).next(NAME_ANOTHER));
        }
        Ok(Qemu { program: absolute_program(program), version })
    }

    /// Returns whether ktax can count guests with several CPUs under this QEMU.
    pub fn supports_several_cpus(&self) -> bool {
        version_number(&self.version) >= Some(MIN_VERSION_FOR_SEVERAL_CPUS)
    }

    /// Refuses several CPUs if this QEMU is too old for them.
    pub fn check_cpus(&self, cpus: u32) -> Result<()> {
        if cpus == 1 || self.supports_several_cpus() {
            return Ok(());
        }
        let found = &self.version;
        Err(Error::guest(format!(
            "--cpus {cpus} (machine.cpus) needs QEMU {MIN_VERSION_FOR_SEVERAL_CPUS} or later, and \
             this is {found}"
        ))
        .next(
            "name a newer QEMU with --qemu: Debian 13 has one, and on Debian 12 `ktax doctor \
             --newer-qemu DIR` unpacks that of backports beside the installed one",
        ))
    }

    /// Refuses a CPU model that this QEMU does not list. If QEMU lists no models, the check is left
    /// to QEMU at boot, as is that of the features after the name.
    pub fn check_cpu(&self, cpu: &str) -> Result<()> {
        let mut help = Command::new(&self.program);
        let Ok(output) = help.args(["-cpu", "help"]).stdin(Stdio::null()).output() else {
            return Ok(());
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let models = parse_cpu_models(&text);
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

/// Parses the CPU models in the output of `-cpu help`: its first paragraph. Before QEMU 9 the lines
/// begin with `x86`.
fn parse_cpu_models(help: &str) -> Vec<&str> {
    let lines = help.lines().skip_while(|line| !line.starts_with("Available CPUs"));
    let lines = lines.skip(1).take_while(|line| !line.is_empty());
    let names = lines.map(|line| line.strip_prefix("x86 ").unwrap_or(line));
    names.filter_map(|line| line.split_whitespace().next()).collect()
}

fn parse_version(output: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(output).ok()?;
    let version = text.lines().next()?.strip_prefix("QEMU emulator version ")?;
    version_number(version).map(|_| escape_bytes(version.as_bytes()))
}

/// Parses the first two numbers of a version.
fn version_number(version: &str) -> Option<VersionNumber> {
    let mut parts = version.split(|c: char| !c.is_ascii_digit());
    Some(VersionNumber(parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Returns the absolute path of a program, which names the same program after a change of the
/// working directory or of PATH.
fn absolute_program(program: &Path) -> PathBuf {
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
const GUEST_DONE: i32 = 43;

/// QEMU's exit status when the plugin ends it at the limit of counted instructions:
/// `KTAX_OVER_STATUS` of `plugin/`.
const LIMIT_REACHED: i32 = 64;

/// One QEMU process.
pub struct Vm {
    child: Child,
    pidfd: OwnedFd,
    monitor: Monitor,
    deadline: Deadline,
    stderr: PathBuf,
    /// True if the VM has started at power-on, and not from a Snapshot.
    is_boot: bool,
    /// The length of the console when it was last read.
    console_bytes: u64,
}

/// State in which a VM starts.
#[derive(Debug, Clone, Copy)]
pub enum VmStart<'a> {
    /// The VM boots.
    PowerOn,
    /// The VM resumes from a Snapshot. QEMU inherits this descriptor of the device state.
    Snapshot(BorrowedFd<'a>),
}

/// The limits and files that ktax watches while a VM runs.
pub struct VmWatch<'a> {
    pub limits: &'a Limits,
    pub cancel: &'a Cancel,
    /// The file of the wire, and its limit in bytes.
    pub wire: (&'a Path, u64),
    /// True if the first process prints a hello on the wire as soon as it runs.
    pub expects_hello: bool,
    pub console: &'a Path,
}

/// The way in which a VM halted.
#[derive(Debug, PartialEq, Eq)]
pub enum Halt {
    /// Stopped by pvpanic: a freeze, a guest that is done, or a panic of a kernel with a pvpanic
    /// driver.
    Paused,
    /// QEMU exited because the guest or the plugin ended it.
    Exited,
    /// The guest shut down or reset.
    ShutDown,
}

impl Vm {
    /// Starts QEMU. `args` gets the number of the monitor's descriptor.
    pub fn start(
        program: &Path,
        args: impl FnOnce(RawFd) -> Vec<String>,
        start: VmStart<'_>,
        stderr: &Path,
        limits: &Limits,
    ) -> Result<Vm, Failure> {
        let no_qemu = |error: io::Error| Failure::NoQemu { reason: error.to_string() };
        let (ours, theirs) = UnixStream::pair().map_err(no_qemu)?;
        let mut command = Command::new(program);
        command.args(args(theirs.as_raw_fd())).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(stderr).map_err(no_qemu)?);
        let state = match start {
            VmStart::PowerOn => None,
            VmStart::Snapshot(state) => Some(state.as_raw_fd()),
        };
        let inherited = [Some(theirs.as_raw_fd()), state];
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
                return Err(exit_failure(status, stderr, &monitor_error(&error)));
            }
        };
        let (deadline, stderr) = (Deadline::new(clock), stderr.to_owned());
        let is_boot = matches!(start, VmStart::PowerOn);
        Ok(Vm { child, pidfd, monitor, deadline, stderr, is_boot, console_bytes: 0 })
    }

    /// Calls `command` with the monitor. An error kills QEMU.
    pub fn monitor<T>(
        &mut self,
        command: impl FnOnce(&mut Monitor) -> io::Result<T>,
    ) -> Result<T, Failure> {
        command(&mut self.monitor).map_err(|error| self.kill(&monitor_error(&error)))
    }

    /// Starts the time limit again from now.
    pub fn restart_deadline(&mut self) {
        self.deadline.restart();
    }

    /// Continues the VM. A short Run can end before QEMU answers, so an error is ignored here, and
    /// [`Vm::wait`] finds the reason.
    pub fn resume(&mut self) {
        drop(self.monitor.execute(qmp::cont {}));
    }

    /// Waits until the VM halts or reaches a limit, or the user cancels.
    pub fn wait(&mut self, watch: &VmWatch) -> Result<Halt, Stop> {
        loop {
            if let Some(status) = self.wait_for_exit(watch.limits)? {
                return Ok(self.judge_exit(status, watch.console)?);
            }
            if watch.cancel.is_cancelled() {
                return Err(Stop::Cancelled);
            }
            self.check_limits(watch)?;
            match self.monitor.status() {
                Ok(RunState::guest_panicked) => return Ok(Halt::Paused),
                Ok(RunState::shutdown) => return Ok(judge_shutdown(watch.console)?),
                Ok(_) => {}
                // QEMU hangs: it runs, but does not answer in time.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wire::check_panic_message(&read_tail(watch.console))?;
                    return Err(self.kill("its monitor does not answer").into());
                }
                // QEMU has just ended: the next turn of the loop gets its exit status.
                Err(_) => {}
            }
        }
    }

    fn check_limits(&mut self, watch: &VmWatch) -> Result<(), Failure> {
        let limits = watch.limits;
        let (wire_path, _) = watch.wire;
        for (path, limit_bytes) in [watch.wire, (watch.console, limits.console_bytes)] {
            if fs::metadata(path).is_ok_and(|file| file.len() > limit_bytes) {
                return Err(Failure::Flood { limit_bytes });
            }
        }
        self.check_finished_panic(watch.console)?;
        let monitor = &mut self.monitor;
        let checked = self.deadline.check(limits, || monitor.guest_clock_s().unwrap_or(0));
        let Err(late) = checked else { return Ok(()) };
        let console = read_tail(watch.console);
        wire::check_panic_message(&console)?;
        let is_silent =
            || console.is_empty() && fs::metadata(wire_path).is_ok_and(|wire| wire.len() == 0);
        Err(if self.is_boot && watch.expects_hello && is_silent() {
            late.without_output()
        } else {
            late
        })
    }

    /// Fails once the kernel has printed all of a panic: with `panic=0` on its boot line it then
    /// waits for ever. Reads the console only if it has grown.
    fn check_finished_panic(&mut self, console: &Path) -> Result<(), Failure> {
        let bytes = fs::metadata(console).map_or(0, |file| file.len());
        if std::mem::replace(&mut self.console_bytes, bytes) == bytes {
            return Ok(());
        }
        let message = wire::finished_panic_message(&read_tail(console));
        message.map_or(Ok(()), |message| Err(Failure::Panic { message }))
    }

    /// Ends a VM that has halted, so that the plugin writes its profile.
    ///
    /// QEMU 10 can hang for ever if it exits by itself while it gets a command on the monitor, so
    /// the monitor tells it to quit.
    pub fn quit(&mut self, limits: &Limits) -> Result<(), Failure> {
        drop(self.monitor.execute(qmp::quit {}));
        let clock = Clock::new(self.child.id());
        loop {
            let timeout = timespec(limits.monitor);
            let _ = poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&timeout));
            return match self.child.try_wait() {
                Ok(Some(status)) if status.success() => Ok(()),
                Ok(Some(status)) => Err(exit_failure(status, &self.stderr, "")),
                Ok(None) if !clock.has_passed(limits.monitor) => continue,
                Ok(None) => Err(self.kill("it does not quit")),
                Err(error) => Err(self.kill(&error.to_string())),
            };
        }
    }

    /// Waits for the exit of QEMU, for an event on the monitor, or for the time between two checks.
    fn wait_for_exit(&mut self, limits: &Limits) -> Result<Option<ExitStatus>, Failure> {
        let mut fds = [
            PollFd::new(&self.pidfd, PollFlags::IN),
            PollFd::new(&self.monitor.socket, PollFlags::IN),
        ];
        // A poll that a signal interrupts only returns early.
        let _ = poll(&mut fds, Some(&timespec(limits.poll)));
        self.child.try_wait().map_err(|error| self.kill(&error.to_string()))
    }

    fn judge_exit(&mut self, status: ExitStatus, console: &Path) -> Result<Halt, Failure> {
        match status.code() {
            Some(GUEST_DONE | LIMIT_REACHED) => Ok(Halt::Exited),
            Some(0) => match judge_shutdown(console) {
                Ok(_) if self.monitor.was_ended_by_host() => {
                    Err(Failure::QemuLost { reason: "something on this host ended it".into() })
                }
                other => other,
            },
            _ => Err(exit_failure(status, &self.stderr, "")),
        }
    }

    /// Kills QEMU, and returns the Failure of a process that cannot be used any more.
    fn kill(&mut self, reason: &str) -> Failure {
        drop(self.child.kill());
        match self.child.wait() {
            Ok(status) => exit_failure(status, &self.stderr, reason),
            Err(error) => Failure::NoQemu { reason: error.to_string() },
        }
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        // Both fail if the process was waited for before.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Tells a shutdown or reset by the guest from one after a panic.
fn judge_shutdown(console: &Path) -> Result<Halt, Failure> {
    wire::check_panic_message(&read_tail(console)).map(|()| Halt::ShutDown)
}

/// Returns the text of an error of the monitor. The text is empty if QEMU has ended, because its
/// exit status then tells more.
fn monitor_error(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => String::new(),
        _ => error.to_string(),
    }
}

/// Returns the Failure of a QEMU that has ended. `reason` is the reason that ktax knows, or empty.
fn exit_failure(status: ExitStatus, stderr: &Path, reason: &str) -> Failure {
    let printed = escape_bytes(&read_tail(stderr));
    let status = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        // SIGBUS: the file behind the guest's memory could not grow.
        (_, Some(7)) => "signal 7: the cache's filesystem is full".into(),
        (_, Some(signal)) => {
            let signal = format!("signal {signal}");
            let parts = [if reason.is_empty() { signal.as_str() } else { reason }, &printed];
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            return Failure::QemuLost { reason: parts.join(": ") };
        }
        _ => "unknown status".into(),
    };
    let stderr = if printed.is_empty() { reason.to_owned() } else { printed };
    Failure::QemuDied { status, stderr }
}

/// A connection to the monitor. Every error means that QEMU has ended or does not answer.
pub struct Monitor {
    /// Readable when QEMU reports an event, such as a stopped VM.
    socket: UnixStream,
    is_ended_by_host: bool,
    qmp: Qmp<Stream<BufReader<PatientReader>, UnixStream>>,
}

/// Reads the answers of QEMU. QEMU has the time `limit` for each answer; time in which QEMU waits
/// for a CPU does not count.
struct PatientReader<R = UnixStream> {
    stream: R,
    clock: Clock,
    limit: Duration,
}

impl<R: Read> Read for PatientReader<R> {
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
    /// Connects to the QEMU at the other end of `stream`, which must give each answer within
    /// `limit` by `clock`.
    pub(super) fn connect(
        stream: UnixStream,
        clock: Clock,
        limit: Duration,
    ) -> io::Result<Monitor> {
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        let socket = stream.try_clone()?;
        let mut reader =
            BufReader::new(PatientReader { stream: stream.try_clone()?, clock, limit });
        // qapi expects a greeting, and a QEMU that dies at once sends none.
        if reader.fill_buf()?.is_empty() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        let mut qmp = Qmp::new(Stream::new(reader, stream));
        qmp.handshake()?;
        let capability = MigrationCapability::x_ignore_shared;
        let capabilities = vec![MigrationCapabilityStatus { capability, state: true }];
        let mut monitor = Monitor { socket, is_ended_by_host: false, qmp };
        monitor.execute(qmp::migrate_set_capabilities { capabilities })?;
        Ok(monitor)
    }

    pub fn status(&mut self) -> io::Result<RunState> {
        Ok(self.execute(qmp::query_status {})?.status)
    }

    /// Returns the thread IDs of the vCPUs, in the order of the vCPUs' numbers.
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

    /// Sends the device state to a listening socket, without the memory. Returns when all of the
    /// state is sent; `poll` is the interval of the status queries.
    pub fn send_state(&mut self, uri: String, poll: Duration) -> io::Result<()> {
        let uri = Some(uri);
        self.execute(qmp::migrate { channels: None, detach: None, resume: None, uri })?;
        loop {
            let info = self.execute(qmp::query_migrate {})?;
            match info.status {
                Some(MigrationStatus::completed) => return Ok(()),
                Some(MigrationStatus::failed | MigrationStatus::cancelled) => {
                    let reason = info.error_desc.unwrap_or_else(|| "no reason given".into());
                    return Err(io::Error::other(format!("saving the state failed: {reason}")));
                }
                _ => std::thread::sleep(poll),
            }
        }
    }

    /// Reads the device state from a file descriptor that QEMU inherited. Returns when all of the
    /// state is read; `poll` is the interval of the status queries.
    pub fn receive_state(&mut self, uri: String, poll: Duration) -> io::Result<()> {
        // After a migration QEMU announces the machine on the network five times, by a timer in
        // real time. A timer that is due ends the slice of a CPU, so with several CPUs the counts
        // would differ between Runs.
        let quiet = MigrateSetParameters { announce_rounds: Some(0), ..Default::default() };
        self.execute(qmp::migrate_set_parameters(quiet))?;
        let uri = Some(uri);
        self.execute(qmp::migrate_incoming { channels: None, exit_on_error: None, uri })?;
        while self.status()? == RunState::inmigrate {
            std::thread::sleep(poll);
        }
        Ok(())
    }

    /// Returns the virtual seconds since power-on, by the guest's real-time clock, which is virtual
    /// under icount and starts at `RTC_START_YEAR`. Each month counts as 31 days, which is close
    /// enough for a limit.
    pub fn guest_clock_s(&mut self) -> io::Result<u64> {
        let (path, property) = ("/machine".into(), "rtc-time".into());
        let time = self.execute(qmp::qom_get { path, property })?;
        let field = |name: &str| time.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0);
        // `tm_year` counts from 1900.
        let years = field("tm_year").saturating_sub(RTC_START_YEAR - 1900);
        let months = years * 12 + field("tm_mon");
        let days = months * 31 + field("tm_mday").saturating_sub(1);
        Ok(((days * 24 + field("tm_hour")) * 60 + field("tm_min")) * 60 + field("tm_sec"))
    }

    /// Returns whether a signal on the host ended QEMU, and not the guest. Call this only after the
    /// exit of QEMU.
    pub fn was_ended_by_host(&mut self) -> bool {
        // Read the last events from the socket. There is no answer any more.
        drop(self.qmp.read_response::<qmp::query_status>());
        self.note_events();
        self.is_ended_by_host
    }

    fn note_events(&mut self) {
        for event in self.qmp.events() {
            if let qmp::Event::SHUTDOWN { data, .. } = event {
                self.is_ended_by_host |= !data.guest;
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

/// Reads the hello of a guest that has halted and has not got an order yet.
pub(super) fn read_hello(halt: &Halt, wire: &Path, console: &Path) -> Result<Hello, Failure> {
    let console = read_tail(console);
    let printed = fs::read(wire).unwrap_or_default();
    wire::check_panic_message(&console)?;
    match wire::parse_hello(&printed) {
        Ok(hello) if *halt == Halt::Paused => Ok(hello),
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

    /// A stream whose first read times out. During this read QEMU waits for a CPU: `schedstat` gets
    /// the text `waited`.
    struct LateStream {
        schedstat: std::path::PathBuf,
        waited: &'static str,
        is_first: bool,
    }

    impl Read for LateStream {
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
            let clock = Clock::for_directory(process.path().to_owned());
            let stream = LateStream { schedstat, waited, is_first: true };
            let mut reader = PatientReader { stream, clock, limit: Duration::ZERO };
            assert_eq!(reader.read(&mut [0; 9]).is_ok(), is_answer, "{waited}");
        }
    }

    #[test]
    fn cpu_models_are_read_as_old_and_new_qemus_list_them() {
        let old = "Available CPUs:\nx86 486    (alias)\nx86 max    Enables\n\nRecognized flags:\n";
        let new = "Available CPUs:\n  486    (alias)\n  max    Enables\n\nRecognized:\n  3dnow\n";
        assert_eq!(parse_cpu_models(old), ["486", "max"]);
        assert_eq!(parse_cpu_models(new), ["486", "max"]);
        assert!(parse_cpu_models("no help\n").is_empty());
    }

    #[test]
    fn only_the_distributions_qemu_is_to_be_installed() {
        let missing = Path::new("/nonexistent/qemu");
        let error = Qemu::find(Some(missing)).unwrap_err().to_string();
        assert!(error.starts_with("cannot start /nonexistent/qemu: "), "{error}");
        assert!(error.ends_with("name a working QEMU with --qemu or KTAX_QEMU"), "{error}");
        let error = Qemu::find(Some(Path::new("/bin/false"))).unwrap_err().to_string();
        assert!(error.starts_with("cannot start /bin/false: exit status: 1; "), "{error}");
    }

    #[test]
    fn several_cpus_need_a_newer_qemu() {
        let qemu = |version: &str| Qemu { program: "qemu".into(), version: version.into() };
        qemu("10.0.2").check_cpus(4).unwrap();
        qemu("9.2.1").check_cpus(1).unwrap();
        let error = qemu("9.2.1").check_cpus(4).unwrap_err();
        let message = "--cpus 4 (machine.cpus) needs QEMU 10.0 or later, and this is 9.2.1";
        assert_eq!(error.message(), message);
        assert!(error.to_string().contains("; name a newer QEMU with --qemu: "), "{error}");
    }

    #[test]
    fn versions_are_read_with_their_suffix() {
        let debian = b"QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright\n";
        let version = parse_version(debian).unwrap();
        assert_eq!(version, "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)");
        assert_eq!(version_number(&version), Some(VersionNumber(7, 2)));
        assert_eq!(version_number("10.0.2"), Some(VersionNumber(10, 0)));
        assert_eq!(parse_version(b"hello\n"), None);
    }
}
