//! The running kernel: Workloads run on it as plain processes of the guest's program, and a Side
//! changes its settings. ktax writes the old values to a journal before it changes a setting, and
//! restores them.

mod changes;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Access, access};
use rustix::process::{
    Pid, Signal, WaitOptions, geteuid, getpid, kill_process, set_child_subreaper, waitpid,
};
use serde::{Deserialize, Serialize};

use super::command::die_with_parent;
use super::limits::{Cancel, Limits, timespec};
use super::{BootOutput, EngineEntry, Measures, Stop, Timed, TimedSetup, host_failure};
use crate::{bracketed_word, noise, payload};
use ktax_host::cache::Holder;
use ktax_host::text::{did_you_mean, nearest};
use ktax_model::{Error, ErrorKind, Facts, Failure, Result, RunsOn, TimedSubject, Workload};
use ktax_program::NativePrograms;

pub use changes::{
    Changer, JournalReplay, JournalState, journal_state, replay, restore_command, state_dir,
};

pub const ENGINE: EngineEntry = EngineEntry {
    name: "host",
    about: "Time the running kernel: set each side's settings, then restore them",
    runs_on: RunsOn::RunningKernel,
    measures: Measures::Times { open: |setup| Ok(Box::new(TimedHost::open(setup)?)) },
};

/// The time that the guest program's janitor process has to remove the files and processes of a
/// killed workload.
const CLEANUP_TIME: Duration = Duration::from_secs(60);

/// The programs and limits with which Workloads run on the running kernel.
pub struct Host {
    guest: PathBuf,
    hello: PathBuf,
    _holder: Holder,
    limits: Limits,
    cancel: Cancel,
    programs: Option<(NativePrograms, PathBuf)>,
}

impl Host {
    pub fn new(cache: &Path, limits: Limits, cancel: Cancel) -> io::Result<Host> {
        let (guest, hello, _holder) = payload::install_programs(cache)?;
        Ok(Host { guest, hello, _holder, limits, cancel, programs: None })
    }

    /// Sets the user's programs, and the directory in which they start.
    #[must_use]
    pub fn with_programs(self, programs: Option<(NativePrograms, PathBuf)>) -> Host {
        Host { programs, ..self }
    }

    /// Runs a Workload in a new process and returns the output. When this returns, the Workload has
    /// left no process or file: the janitor process removes them before it closes the pipe of the
    /// output.
    ///
    /// `prefix` is a command that gets the program and its arguments. The command must execute the
    /// program in its own process, as `taskset`, `chrt` and `setarch` do. ktax cannot end a process
    /// that the command starts as a child, or runs as another user.
    pub fn run(
        &self,
        prefix: &[String],
        workload: &Workload,
        counters: bool,
    ) -> Result<Vec<u8>, Stop> {
        let failed =
            |operation: &str| host_failure(&format!("{operation} {}", self.guest.display()));
        let mut stderr = tempfile::tempfile().map_err(failed("cannot run"))?;
        let prefix_failure = |reason: String| Failure::Prefix { command: prefix.join(" "), reason };
        let started = self.start(prefix, workload, counters, &stderr);
        let mut child = started.map_err(|error| match prefix {
            [] => failed("cannot run")(error),
            _ => prefix_failure(error.to_string()),
        })?;
        let mut stdout = child.stdout.take().expect("it is piped");
        let output = self.read_output(&mut child, &mut stdout);
        if output.is_err() {
            drop(child.kill());
            drop(drain(&mut stdout, Instant::now() + CLEANUP_TIME));
        }
        let status = child.wait().map_err(failed("cannot wait for"))?;
        if self.programs.is_some() {
            kill_orphans();
        }
        let wire = output?;
        if wire.is_empty() {
            let mut printed = Vec::new();
            stderr.rewind().and_then(|()| stderr.read_to_end(&mut printed)).ok();
            let console = format!("{status} {}", ktax_host::text::escape_bytes(&printed));
            return Err(match prefix {
                [] => Failure::NoAnswer { console },
                _ => prefix_failure(console),
            }
            .into());
        }
        Ok(wire)
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    fn start(
        &self,
        prefix: &[String],
        workload: &Workload,
        counters: bool,
        stderr: &File,
    ) -> io::Result<Child> {
        let mut command = match prefix {
            [] => Command::new(&self.guest),
            [program, arguments @ ..] => {
                let mut command = Command::new(program);
                command.args(arguments).arg(&self.guest);
                command
            }
        };
        command.args(crate::wire::arguments(workload));
        command.args(counters.then_some("counters=1"));
        command.env("KTAX_HELLO", &self.hello);
        if let Some((programs, directory)) = &self.programs {
            // Processes whose parents end become children of ktax, so that ktax can end them.
            set_child_subreaper(Some(getpid()))?;
            command.env("KTAX_PROGRAMS", programs.directory()).current_dir(directory);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr.try_clone()?);
        die_with_parent(&mut command, [None, None]);
        command.spawn()
    }

    /// Reads the output of the process to its end, within the limits.
    fn read_output(&self, child: &mut Child, stdout: &mut ChildStdout) -> Result<Vec<u8>, Stop> {
        let started = Instant::now();
        let mut wire = Vec::new();
        let mut block = [0; 4096];
        loop {
            if self.is_cancelled() {
                return Err(Stop::Cancelled);
            }
            if started.elapsed() > self.limits.time {
                return Err(Failure::RealTime { limit_s: self.limits.time.as_secs() }.into());
            }
            if wire.len() as u64 > self.limits.wire_bytes {
                return Err(Failure::Flood { limit_bytes: self.limits.wire_bytes }.into());
            }
            if !is_readable(stdout, self.limits.poll) {
                continue;
            }
            match stdout.read(&mut block) {
                Ok(0) => return Ok(wire),
                Ok(length) => wire.extend_from_slice(&block[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let operation = format!("cannot read from process {}", child.id());
                    return Err(host_failure(&operation)(error).into());
                }
            }
        }
    }
}

/// Waits until the pipe has data or is closed, and returns whether that was within the timeout.
fn is_readable(stdout: &ChildStdout, timeout: Duration) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::IN)];
    // A poll that a signal interrupts only returns early.
    matches!(poll(&mut fds, Some(&timespec(timeout))), Ok(1..))
}

/// Reads and drops output until the pipe is closed or the deadline is over.
fn drain(stdout: &mut ChildStdout, deadline: Instant) -> io::Result<()> {
    let mut block = [0; 4096];
    while Instant::now() < deadline {
        if is_readable(stdout, Duration::from_millis(200)) && stdout.read(&mut block)? == 0 {
            break;
        }
    }
    Ok(())
}

/// The running kernel with the settings of two Sides.
pub struct TimedHost<'a> {
    host: Host,
    changer: RefCell<Changer<'a>>,
    facts: fn() -> Facts,
    between_loops: &'a dyn Fn(),
}

impl<'a> TimedHost<'a> {
    /// Opens the running kernel for both Sides of a Plan, with the journal of this machine.
    pub fn open(setup: TimedSetup<'a>) -> Result<TimedHost<'a>> {
        let TimedSetup { plan, cache, limits, cancel, note, between_loops, .. } = setup;
        let host = Host::new(cache, limits, cancel)
            .map_err(host_failure("cannot put the guest program into the cache"))?
            .with_programs(setup.native_programs);
        let sides = plan.asked.subjects.both();
        let timed = TimedHost::new(host, &state_dir(), sides, noise::facts, note)?;
        Ok(TimedHost { between_loops, ..timed })
    }

    /// Restores the settings that a killed ktax left changed, and reads the present settings. The
    /// journal is in `dir`; `facts` reads the facts of the machine; `note` prints a line for the
    /// user.
    pub fn new(
        host: Host,
        dir: &Path,
        sides: [&TimedSubject; 2],
        facts: fn() -> Facts,
        note: impl Fn(&str) + 'a,
    ) -> Result<TimedHost<'a>> {
        let changer = RefCell::new(Changer::new(dir, sides, note)?);
        Ok(TimedHost { host, changer, facts, between_loops: &|| () })
    }
}

impl Timed for TimedHost<'_> {
    fn boot(&self, subject: &TimedSubject, loops: &[&Workload]) -> Result<BootOutput, Stop> {
        if self.host.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        self.changer.borrow_mut().apply(subject).map_err(setting_failure)?;
        let facts = (self.facts)();
        let mut wires = Vec::with_capacity(loops.len());
        // A row that failed is not run again: if it hangs, it waits for the limit only once.
        let mut failures: BTreeMap<&str, Failure> = BTreeMap::new();
        for workload in loops {
            (self.between_loops)();
            if let Some(failure) = failures.get(workload.row.as_str()) {
                wires.push(Err(failure.clone()));
                continue;
            }
            wires.push(match self.host.run(&subject.prefix, workload, false) {
                Ok(wire) => Ok(wire),
                Err(Stop::Failed(failure, _)) => {
                    failures.insert(&workload.row, failure.clone());
                    Err(failure)
                }
                Err(Stop::Cancelled) => return Err(Stop::Cancelled),
            });
        }
        Ok(BootOutput { facts, wires, console: Vec::new() })
    }

    fn end(&self) -> Result<(), Stop> {
        self.changer.borrow_mut().restore().map_err(setting_failure)
    }
}

fn setting_failure(error: Error) -> Stop {
    Failure::Setting { reason: error.to_string() }.into()
}

/// Kills all children of this process, also those that it inherits when their parents end. No other
/// thread may have a child at this time.
fn kill_orphans() {
    while let Some(pids) = Some(child_pids()).filter(|pids| !pids.is_empty()) {
        for pid in pids {
            // The process may have ended by itself.
            kill_process(pid, Signal::KILL).ok();
            waitpid(Some(pid), WaitOptions::empty()).ok();
        }
    }
}

fn child_pids() -> Vec<Pid> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let pids: String = lists.collect();
    pids.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

// The settings that a Side changes, and the kernel's files of these settings.

/// A setting of the running kernel. Its name comes from users and from files, so only
/// `Setting::path` makes a path of it, which cannot lead out of the kernel's own directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Setting {
    /// A sysctl, by its name with dots.
    Sysctl(String),
    /// Transparent huge pages.
    Thp,
    /// The frequency governor of a policy: `policy0`.
    Governor(String),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Sysctl(name) => f.write_str(name),
            Setting::Thp => f.write_str("transparent huge pages"),
            Setting::Governor(policy) => write!(f, "governor of {policy}"),
        }
    }
}

const THP: &str = "sys/kernel/mm/transparent_hugepage/enabled";
const SYSCTLS: &str = "proc/sys";
const CPUFREQ: &str = "sys/devices/system/cpu/cpufreq";

/// Depth to which `/proc/sys` is searched. No directory in it is deeper.
const MAX_DEPTH: usize = 8;

/// The longest value of a setting, in bytes.
const MAX_VALUE_BYTES: u64 = 64 << 10;

impl Setting {
    /// Parses the name of a sysctl as sysctl(8) does. The first `.` or `/` in the name is the
    /// separator of its parts; the other character stands for a dot within a part, as in
    /// `net.ipv4.conf.eth0/100.mtu`.
    pub fn sysctl(name: &str) -> Result<Setting> {
        let is_dotted = name.find(['.', '/']).is_none_or(|index| name.as_bytes()[index] == b'.');
        let name = if is_dotted { name.to_owned() } else { swap_separators(name) };
        let setting = Setting::Sysctl(name);
        setting.path().map(|_| setting)
    }

    /// Returns the path below the root. An error for a name that would lead out of the directory of
    /// its kind of settings.
    pub(super) fn path(&self) -> Result<PathBuf> {
        let (path, name) = match self {
            Setting::Thp => return Ok(THP.into()),
            Setting::Governor(policy) => {
                let number = policy.strip_prefix("policy").unwrap_or_default();
                let is_number =
                    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
                let path = || Path::new(CPUFREQ).join(policy).join("scaling_governor");
                (is_number.then(path), policy)
            }
            Setting::Sysctl(name) => {
                let below = swap_separators(name);
                let is_part = |part: &str| !["", ".", ".."].contains(&part);
                let is_printable = name.bytes().all(|byte| byte.is_ascii_graphic());
                let is_name = is_printable && below.len() < 4096 && below.split('/').all(is_part);
                (is_name.then(|| Path::new(SYSCTLS).join(below)), name)
            }
        };
        path.ok_or_else(|| {
            Error::user(format!("{name:?} is not the name of a setting"))
                .next("use a sysctl that `sysctl -a` lists")
        })
    }
}

/// Converts between a name with dots and a path: `.` and `/` change their roles.
fn swap_separators(name: &str) -> String {
    let swapped = name.chars().map(|c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    });
    swapped.collect()
}

/// Returns whether two texts are the same value. The kernel may separate its words by tabs.
pub(super) fn is_same_value(value: &str, other: &str) -> bool {
    value.split_whitespace().eq(other.split_whitespace())
}

/// Returns whether the value is a single line without control characters, not too long.
pub(super) fn is_single_line(value: &str) -> bool {
    value.len() as u64 <= MAX_VALUE_BYTES && !value.chars().any(|c| c.is_control() && c != '\t')
}

/// The settings of the running kernel, in files below a root that tests can choose.
#[derive(Debug, Clone)]
pub struct RunningKernel {
    pub(super) root: PathBuf,
}

impl Default for RunningKernel {
    fn default() -> Self {
        RunningKernel { root: "/".into() }
    }
}

/// Outcome of writing a value.
pub(super) enum WriteOutcome {
    /// The setting reads back as the value.
    Accepted,
    /// The kernel refused the value.
    Refused(io::Error),
    /// The setting reads back as this other value.
    Adjusted(String),
}

impl RunningKernel {
    /// Returns the settings that a Subject sets, with the values as the user wrote them. Only the
    /// kernel can tell whether it accepts a value.
    pub fn settings_of(&self, subject: &TimedSubject) -> Result<BTreeMap<Setting, String>> {
        let mut settings = BTreeMap::new();
        for (name, value) in &subject.sysctl {
            let setting = Setting::sysctl(name)?;
            if settings.insert(setting.clone(), value.clone()).is_some() {
                return Err(Error::user(format!("{setting} is set twice, in two spellings"))
                    .next("write it once"));
            }
        }
        settings.extend(subject.thp.iter().map(|value| (Setting::Thp, value.clone())));
        if let Some(value) = &subject.governor {
            settings.extend(self.governors()?.into_iter().map(|setting| (setting, value.clone())));
        }
        match settings.iter().find(|(_, value)| !is_single_line(value)) {
            Some((setting, _)) => {
                let problem = "is too long or has control characters";
                Err(Error::user(format!("the value of {setting} {problem}"))
                    .next("use one short line"))
            }
            None => Ok(settings),
        }
    }

    fn governors(&self) -> Result<Vec<Setting>> {
        let names = fs::read_dir(self.root.join(CPUFREQ)).into_iter().flatten().flatten();
        let policies = names.filter_map(|entry| entry.file_name().into_string().ok());
        let governors = policies.map(Setting::Governor);
        let found: Vec<Setting> = governors.filter(|governor| governor.path().is_ok()).collect();
        if found.is_empty() {
            let problem = "this machine has no frequency governor (no cpufreq policy)";
            return Err(Error::user(problem).next("remove `governor`"));
        }
        Ok(found)
    }

    fn file(&self, setting: &Setting) -> Result<PathBuf> {
        Ok(self.root.join(setting.path()?))
    }

    /// Checks that this process may change sysctls, by the example of one that every kernel has. In
    /// a container that mounts /proc/sys read-only, even root may not.
    pub fn check_sysctls_writable(&self) -> io::Result<()> {
        Ok(access(self.root.join(SYSCTLS).join("kernel/panic"), Access::WRITE_OK)?)
    }

    /// Reads the present value, in the form that the kernel accepts back. The error for a setting
    /// that the kernel does not have is of the kind [`ErrorKind::Absent`].
    pub fn read(&self, setting: &Setting) -> Result<String> {
        let path = self.file(setting)?;
        let failed = |reason: io::Error| match reason.kind() {
            io::ErrorKind::NotFound => absent_error(setting, &path, None),
            _ => access_error(setting, &path, &reason),
        };
        let mut text = String::new();
        let file = File::open(&path).map_err(failed)?;
        file.take(MAX_VALUE_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
        let text = text.trim_end_matches('\n');
        let value = match setting {
            Setting::Thp => bracketed_word(text).unwrap_or(text),
            _ => text,
        };
        Ok(value.to_owned())
    }

    /// Writes a value and reads it back, because the kernel may adjust it.
    pub(super) fn try_set(&self, setting: &Setting, value: &str) -> Result<WriteOutcome> {
        let path = self.file(setting)?;
        // The kernel takes the value from a single write(2).
        let written = OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(&path)
            .and_then(|mut file| file.write_all(format!("{value}\n").as_bytes()));
        if let Err(error) = written {
            return match error.raw_os_error() {
                Some(libc::EINVAL | libc::ERANGE | libc::ENODEV | libc::EOPNOTSUPP) => {
                    Ok(WriteOutcome::Refused(error))
                }
                _ => Err(write_error(setting, &path, error)),
            };
        }
        let value_now = self.read(setting)?;
        Ok(match is_same_value(&value_now, value) {
            true => WriteOutcome::Accepted,
            false => WriteOutcome::Adjusted(value_now),
        })
    }

    /// Writes a value. An error if the kernel refuses or adjusts it.
    pub(super) fn set(&self, setting: &Setting, value: &str) -> Result<()> {
        match self.try_set(setting, value)? {
            WriteOutcome::Accepted => Ok(()),
            WriteOutcome::Refused(reason) => Err(refused_error(setting, value, &reason)),
            WriteOutcome::Adjusted(value_now) => Err(adjusted_error(setting, value, &value_now)),
        }
    }

    /// Returns the kernel's boot ID; empty if the kernel has none.
    pub(super) fn boot_id(&self) -> String {
        let path = self.root.join("proc/sys/kernel/random/boot_id");
        fs::read_to_string(path).unwrap_or_default().trim().to_owned()
    }

    /// Refuses settings that the running kernel does not have, and values that it does not list.
    pub fn check(&self, subject: &TimedSubject) -> Result<()> {
        for (setting, value) in self.settings_of(subject)? {
            let path = self.file(&setting)?;
            if !path.exists() {
                return Err(absent_error(
                    &setting,
                    &path,
                    self.similar_sysctl(&setting).as_deref(),
                ));
            }
            let values = listed_values(&setting, path);
            if !values.is_empty() && !values.contains(&value) {
                return Err(Error::user(format!("{setting} cannot be {value:?}"))
                    .next(format!("use one of {}", values.join(", "))));
            }
        }
        Ok(())
    }

    /// Refuses settings that this user may not change.
    pub fn check_writable(&self, subject: &TimedSubject) -> Result<()> {
        for setting in self.settings_of(subject)?.into_keys() {
            let path = self.file(&setting)?;
            access(&path, Access::WRITE_OK)
                .map_err(|error| write_error(&setting, &path, error.into()))?;
        }
        Ok(())
    }

    /// Returns the sysctl whose name is most like a mistyped one; `None` for other settings.
    fn similar_sysctl(&self, setting: &Setting) -> Option<String> {
        let Setting::Sysctl(mistyped) = setting else { return None };
        let mut names = Vec::new();
        list_sysctls(&self.root.join(SYSCTLS), "", MAX_DEPTH, &mut names);
        nearest(mistyped, names.iter().map(String::as_str)).map(str::to_owned)
    }
}

/// Returns the values that the kernel lists for a setting; empty for settings without a list.
fn listed_values(setting: &Setting, path: PathBuf) -> Vec<String> {
    let list = match setting {
        Setting::Sysctl(_) => return Vec::new(),
        Setting::Thp => path,
        Setting::Governor(_) => path.with_file_name("scaling_available_governors"),
    };
    // If there is no list, the kernel refuses a wrong value when it is written.
    let text = fs::read_to_string(list).unwrap_or_default();
    text.split_whitespace().map(|word| word.trim_matches(['[', ']']).to_owned()).collect()
}

/// Collects the names of all sysctls below a directory.
fn list_sysctls(directory: &Path, prefix: &str, depth: usize, names: &mut Vec<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type()) else {
            continue;
        };
        let name = format!("{prefix}{}", swap_separators(&name));
        if !kind.is_dir() {
            names.push(name);
        } else if depth > 0 {
            list_sysctls(&entry.path(), &format!("{name}."), depth - 1, names);
        }
    }
}

fn absent_error(setting: &Setting, path: &Path, similar: Option<&str>) -> Error {
    let suggestion = did_you_mean(similar);
    let path = path.display();
    Error::user(format!("this kernel has no setting {setting}{suggestion}: {path} does not exist"))
        .next("check the name, or load the module that provides it")
        .kind(ErrorKind::Absent)
}

pub(super) fn refused_error(setting: &Setting, value: &str, reason: &io::Error) -> Error {
    Error::user(format!("the kernel refuses to set {setting} to {value:?}: {reason}"))
        .next("use a value that it accepts")
}

pub(super) fn adjusted_error(setting: &Setting, value: &str, value_now: &str) -> Error {
    Error::user(format!("{setting} was set to {value:?} and reads back as {value_now:?}"))
        .next("use a value within its limits, in the kernel's spelling")
}

fn access_error(setting: &Setting, path: &Path, reason: &io::Error) -> Error {
    Error::host(format!("cannot read or write {} ({setting}): {reason}", path.display()))
        .next("check the file, or remove the setting")
}

/// Returns the error for a setting that cannot be written.
fn write_error(setting: &Setting, path: &Path, reason: io::Error) -> Error {
    // If even root is refused, the file is read-only.
    let is_read_only = match reason.kind() {
        io::ErrorKind::NotFound => return absent_error(setting, path, None),
        io::ErrorKind::ReadOnlyFilesystem => true,
        io::ErrorKind::PermissionDenied => geteuid().is_root(),
        _ => return access_error(setting, path, &reason),
    };
    if is_read_only {
        Error::host(format!("{setting} is read-only here: {reason}"))
            .next("remove it, or run ktax outside of the container")
    } else {
        Error::host(format!("cannot change {setting}: {reason}")).next("run ktax with `sudo`")
    }
}

#[cfg(test)]
mod tests;
