//! The running kernel: the guest's own programs run on it as plain processes, and a Side changes
//! its settings. What is changed is written down first, and restored.

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
use super::{Booted, EngineEntry, Measures, Stop, Timed, TimedSetup, host_failure};
use crate::{noise, payload};
use ktax_host::cache::Holder;
use ktax_host::text::{did_you_mean, nearest};
use ktax_model::{Error, ErrorKind, Facts, Failure, Result, RunsOn, TimedSubject, Workload};
use ktax_program::NativePrograms;

pub use changes::{Changer, JournalState, Replayed, journal_state, replay, state_dir};

pub const ENGINE: EngineEntry = EngineEntry {
    name: "host",
    about: "Time the running kernel: set each side's settings, then restore them",
    runs_on: RunsOn::RunningKernel,
    measures: Measures::Times { open: |setup| Ok(Box::new(TimedHost::open(setup)?)) },
};

/// The time that the guest's janitor has to remove what a killed workload leaves.
const TIDYING: Duration = Duration::from_secs(60);

/// The running kernel.
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

    /// Adds the user's programs, if there are any, and the directory in which they start.
    #[must_use]
    pub fn with_programs(self, programs: Option<(NativePrograms, PathBuf)>) -> Host {
        Host { programs, ..self }
    }

    /// Runs a Workload in a process of its own and returns its output. When this returns, no
    /// process or file of it is left: its janitor holds the pipe open until then.
    ///
    /// `prefix` is a command that gets the program and its arguments. It must execute the program
    /// in its own process, as `taskset`, `chrt` and `setarch` do. If it starts a child, or changes
    /// the user, ktax cannot end that process.
    pub fn run(
        &self,
        prefix: &[String],
        workload: &Workload,
        counters: bool,
    ) -> Result<Vec<u8>, Stop> {
        let failed =
            |operation: &str| host_failure(&format!("{operation} {}", self.guest.display()));
        let mut stderr = tempfile::tempfile().map_err(failed("run"))?;
        let behind = |reason: String| Failure::Prefix { command: prefix.join(" "), reason };
        let started = self.start(prefix, workload, counters, &stderr);
        let mut child = started.map_err(|error| match prefix {
            [] => failed("run")(error),
            _ => behind(error.to_string()),
        })?;
        let mut stdout = child.stdout.take().expect("it is piped");
        let ended = self.read_output(&mut child, &mut stdout);
        if ended.is_err() {
            drop(child.kill());
            drop(drain(&mut stdout, Instant::now() + TIDYING));
        }
        let status = child.wait().map_err(failed("wait for"))?;
        if self.programs.is_some() {
            end_orphans();
        }
        let wire = ended?;
        if wire.is_empty() {
            let mut printed = Vec::new();
            stderr.rewind().and_then(|()| stderr.read_to_end(&mut printed)).ok();
            let console = format!("{status} {}", ktax_host::text::escape_bytes(&printed));
            return Err(match prefix {
                [] => Failure::NoAnswer { console },
                _ => behind(console),
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
            // Processes whose parents end become children of this one.
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
                    let operation = format!("read from process {}", child.id());
                    return Err(host_failure(&operation)(error).into());
                }
            }
        }
    }
}

fn is_readable(stdout: &ChildStdout, within: Duration) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::IN)];
    // An interrupted poll only returns early.
    matches!(poll(&mut fds, Some(&timespec(within))), Ok(1..))
}

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
    between: &'a dyn Fn(),
}

impl<'a> TimedHost<'a> {
    /// Opens the running kernel for both Sides of a Plan, with the journal of this machine.
    pub fn open(setup: TimedSetup<'a>) -> Result<TimedHost<'a>> {
        let TimedSetup { plan, cache, limits, cancel, note, between, native, .. } = setup;
        let programs = Host::new(cache, limits, cancel)
            .map_err(host_failure("cannot put the guest program into the cache"))?
            .with_programs(native);
        let sides = plan.asked.subjects.both();
        let made = TimedHost::new(programs, &state_dir(), sides, noise::facts, note)?;
        Ok(TimedHost { between, ..made })
    }

    /// Restores what an earlier ktax left changed, and reads the present settings. `dir` has the
    /// journal, `facts` reads the facts of the machine, `note` prints a line for the user.
    pub fn new(
        host: Host,
        dir: &Path,
        sides: [&TimedSubject; 2],
        facts: fn() -> Facts,
        note: impl Fn(&str) + 'a,
    ) -> Result<TimedHost<'a>> {
        let changer = RefCell::new(Changer::new(dir, sides, note)?);
        Ok(TimedHost { host, changer, facts, between: &|| () })
    }
}

impl Timed for TimedHost<'_> {
    fn boot(&self, subject: &TimedSubject, loops: &[&Workload]) -> Result<Booted, Stop> {
        if self.host.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        self.changer.borrow_mut().apply(subject).map_err(failed)?;
        let facts = (self.facts)();
        let mut wires = Vec::with_capacity(loops.len());
        // A row that hangs waits for the limit once, not once in each loop.
        let mut ended: BTreeMap<&str, Failure> = BTreeMap::new();
        for workload in loops {
            (self.between)();
            if let Some(failure) = ended.get(workload.row.as_str()) {
                wires.push(Err(failure.clone()));
                continue;
            }
            wires.push(match self.host.run(&subject.prefix, workload, false) {
                Ok(wire) => Ok(wire),
                Err(Stop::Failed(failure, _)) => {
                    ended.insert(&workload.row, failure.clone());
                    Err(failure)
                }
                Err(Stop::Cancelled) => return Err(Stop::Cancelled),
            });
        }
        Ok(Booted { facts, wires, console: Vec::new() })
    }

    fn end(&self) -> Result<(), Stop> {
        self.changer.borrow_mut().restore().map_err(failed)
    }
}

fn failed(error: Error) -> Stop {
    Failure::Setting { reason: error.to_string() }.into()
}

/// Ends all children of this process, and those that it gets by that. Nothing else may have one.
fn end_orphans() {
    while let Some(left) = Some(children()).filter(|left| !left.is_empty()) {
        for pid in left {
            // The process may have ended by itself.
            kill_process(pid, Signal::KILL).ok();
            waitpid(Some(pid), WaitOptions::empty()).ok();
        }
    }
}

fn children() -> Vec<Pid> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let pids: String = lists.collect();
    pids.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

// The settings that a Side changes, and their files.

/// A setting of the running kernel. The name comes from users and from files;
/// [`Running`] makes the path of it, which cannot lead out of the kernel's own directory.
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

/// Depth of directories that are searched below `/proc/sys`; none is deeper.
const DEEPEST: usize = 8;

/// The longest value of a setting, in bytes.
const LONGEST_BYTES: u64 = 64 << 10;

impl Setting {
    /// Makes a sysctl of a name as in sysctl(8). Of `.` and `/`, the one that comes first separates
    /// the parts; the other one stands for a dot within a part: `net.ipv4.conf.eth0/100.mtu`.
    pub fn sysctl(name: &str) -> Result<Setting> {
        let is_dotted = name.find(['.', '/']).is_none_or(|index| name.as_bytes()[index] == b'.');
        let name = if is_dotted { name.to_owned() } else { swap(name) };
        let setting = Setting::Sysctl(name);
        setting.path().map(|_| setting)
    }

    /// The path below the root. Every path is made here, so that no name leads elsewhere.
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
                let below = swap(name);
                let is_part = |part: &str| !["", ".", ".."].contains(&part);
                let is_plain = name.bytes().all(|byte| byte.is_ascii_graphic());
                let is_name = is_plain && below.len() < 4096 && below.split('/').all(is_part);
                (is_name.then(|| Path::new(SYSCTLS).join(below)), name)
            }
        };
        path.ok_or_else(|| {
            Error::user(format!("{name:?} is not the name of a setting"))
                .next("use a sysctl that `sysctl -a` lists")
        })
    }
}

/// Converts between a name with dots and a path: each stands for the other within a part.
fn swap(name: &str) -> String {
    let swapped = name.chars().map(|c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    });
    swapped.collect()
}

/// Returns whether two spellings are the same value; the kernel separates numbers by tabs.
pub(super) fn is_same(value: &str, other: &str) -> bool {
    value.split_whitespace().eq(other.split_whitespace())
}

/// Returns whether the value is one line that can be written and read back.
pub(super) fn is_plain(value: &str) -> bool {
    value.len() as u64 <= LONGEST_BYTES && !value.chars().any(|c| c.is_control() && c != '\t')
}

/// The files of the running kernel, below a root that tests can plant.
#[derive(Debug, Clone)]
pub struct Running {
    pub(super) root: PathBuf,
}

impl Default for Running {
    fn default() -> Self {
        Running { root: "/".into() }
    }
}

/// Outcome of writing a value.
pub(super) enum Written {
    AsAsked,
    Refused(io::Error),
    /// The kernel changed it to this value.
    Became(String),
}

impl Running {
    /// Returns the settings of a Subject, with the values as the user spells them. Only the kernel
    /// can tell whether it accepts a value.
    pub fn wanted(&self, subject: &TimedSubject) -> Result<BTreeMap<Setting, String>> {
        let mut wanted = BTreeMap::new();
        for (name, value) in &subject.sysctl {
            let setting = Setting::sysctl(name)?;
            if wanted.insert(setting.clone(), value.clone()).is_some() {
                return Err(Error::user(format!("{setting} is set twice, in two spellings"))
                    .next("remove one"));
            }
        }
        wanted.extend(subject.thp.iter().map(|value| (Setting::Thp, value.clone())));
        if let Some(value) = &subject.governor {
            wanted.extend(self.governors()?.into_iter().map(|setting| (setting, value.clone())));
        }
        match wanted.iter().find(|(_, value)| !is_plain(value)) {
            Some((setting, _)) => {
                let what = "is too long or has control characters";
                Err(Error::user(format!("the value of {setting} {what}"))
                    .next("use one short line"))
            }
            None => Ok(wanted),
        }
    }

    fn governors(&self) -> Result<Vec<Setting>> {
        let names = fs::read_dir(self.root.join(CPUFREQ)).into_iter().flatten().flatten();
        let policies = names.filter_map(|entry| entry.file_name().into_string().ok());
        let governors = policies.map(Setting::Governor);
        let found: Vec<Setting> = governors.filter(|governor| governor.path().is_ok()).collect();
        if found.is_empty() {
            let what = "this machine has no frequency governor (no cpufreq policy)";
            return Err(Error::user(what).next("remove `governor`"));
        }
        Ok(found)
    }

    fn file(&self, setting: &Setting) -> Result<PathBuf> {
        Ok(self.root.join(setting.path()?))
    }

    /// Checks that this process may change sysctls, by one that every kernel has. Root may not
    /// where a container mounts them read-only.
    pub fn may_change(&self) -> io::Result<()> {
        Ok(access(self.root.join(SYSCTLS).join("kernel/panic"), Access::WRITE_OK)?)
    }

    /// Reads the present value, in the spelling in which it is written. A setting that the kernel
    /// does not have is an error of the kind [`ErrorKind::Absent`].
    pub fn read(&self, setting: &Setting) -> Result<String> {
        let path = self.file(setting)?;
        let failed = |reason: io::Error| match reason.kind() {
            io::ErrorKind::NotFound => absent(setting, &path, None),
            _ => unreadable(setting, &path, &reason),
        };
        let mut text = String::new();
        let file = File::open(&path).map_err(failed)?;
        file.take(LONGEST_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
        let text = text.trim_end_matches('\n');
        // In a list of words, the present one is in brackets: `always [madvise] never`.
        let chosen = || text.split_once('[')?.1.split_once(']').map(|(chosen, _)| chosen);
        Ok(if *setting == Setting::Thp { chosen().unwrap_or(text) } else { text }.to_owned())
    }

    /// Writes a value and reads it back, because the kernel may change it.
    pub(super) fn try_set(&self, setting: &Setting, value: &str) -> Result<Written> {
        let path = self.file(setting)?;
        // The kernel reads a value from a single write.
        let written = OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(&path)
            .and_then(|mut file| file.write_all(format!("{value}\n").as_bytes()));
        if let Err(error) = written {
            return match error.raw_os_error() {
                Some(libc::EINVAL | libc::ERANGE | libc::ENODEV | libc::EOPNOTSUPP) => {
                    Ok(Written::Refused(error))
                }
                _ => Err(no_access(setting, &path, error)),
            };
        }
        let became = self.read(setting)?;
        Ok(if is_same(&became, value) { Written::AsAsked } else { Written::Became(became) })
    }

    /// Writes a value, which the kernel must take as it is.
    pub(super) fn set(&self, setting: &Setting, value: &str) -> Result<()> {
        match self.try_set(setting, value)? {
            Written::AsAsked => Ok(()),
            Written::Refused(reason) => Err(refused(setting, value, &reason)),
            Written::Became(became) => Err(became_other(setting, value, &became)),
        }
    }

    /// Returns the kernel's boot ID; empty if the kernel has none.
    pub(super) fn boot_id(&self) -> String {
        let path = self.root.join("proc/sys/kernel/random/boot_id");
        fs::read_to_string(path).unwrap_or_default().trim().to_owned()
    }

    /// Refuses settings that the running kernel does not have, and values that it does not list.
    pub fn check(&self, subject: &TimedSubject) -> Result<()> {
        for (setting, value) in self.wanted(subject)? {
            let path = self.file(&setting)?;
            if !path.exists() {
                return Err(absent(&setting, &path, self.near(&setting).as_deref()));
            }
            let known = known_values(&setting, path);
            if !known.is_empty() && !known.contains(&value) {
                return Err(Error::user(format!("{setting} cannot be {value:?}"))
                    .next(format!("use one of {}", known.join(", "))));
            }
        }
        Ok(())
    }

    /// Refuses settings that this user may not change.
    pub fn check_may_change(&self, subject: &TimedSubject) -> Result<()> {
        for setting in self.wanted(subject)?.into_keys() {
            let path = self.file(&setting)?;
            access(&path, Access::WRITE_OK)
                .map_err(|error| no_access(&setting, &path, error.into()))?;
        }
        Ok(())
    }

    /// Returns the sysctl that was probably meant.
    fn near(&self, setting: &Setting) -> Option<String> {
        let Setting::Sysctl(typed) = setting else { return None };
        let mut names = Vec::new();
        list_sysctls(&self.root.join(SYSCTLS), "", DEEPEST, &mut names);
        nearest(typed, names.iter().map(String::as_str)).map(str::to_owned)
    }
}

/// Returns the values that the kernel lists; empty where it takes numbers or any text.
fn known_values(setting: &Setting, path: PathBuf) -> Vec<String> {
    let list = match setting {
        Setting::Sysctl(_) => return Vec::new(),
        Setting::Thp => path,
        Setting::Governor(_) => path.with_file_name("scaling_available_governors"),
    };
    // A kernel without the list refuses a wrong value when it is set.
    let text = fs::read_to_string(list).unwrap_or_default();
    text.split_whitespace().map(|word| word.trim_matches(['[', ']']).to_owned()).collect()
}

/// Collects the names of all sysctls below a directory.
fn list_sysctls(directory: &Path, prefix: &str, depth: usize, names: &mut Vec<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type()) else {
            continue;
        };
        let name = format!("{prefix}{}", swap(&name));
        if !kind.is_dir() {
            names.push(name);
        } else if depth > 0 {
            list_sysctls(&entry.path(), &format!("{name}."), depth - 1, names);
        }
    }
}

fn absent(setting: &Setting, path: &Path, near: Option<&str>) -> Error {
    let meant = did_you_mean(near);
    Error::user(format!("there is no {setting}{meant}: {} does not exist", path.display()))
        .next("check the name, or load the module that provides it")
        .kind(ErrorKind::Absent)
}

pub(super) fn refused(setting: &Setting, value: &str, reason: &io::Error) -> Error {
    Error::user(format!("the kernel refuses to set {setting} to {value:?}: {reason}"))
        .next("use a value that it accepts")
}

pub(super) fn became_other(setting: &Setting, value: &str, became: &str) -> Error {
    Error::user(format!("{setting} was set to {value:?} and reads back as {became:?}"))
        .next("use a value within its limits, in the kernel's spelling")
}

fn unreadable(setting: &Setting, path: &Path, reason: &io::Error) -> Error {
    Error::host(format!("cannot read or write {} ({setting}): {reason}", path.display()))
        .next("check the file, or remove the setting")
}

/// Error of writing a setting's file.
fn no_access(setting: &Setting, path: &Path, reason: io::Error) -> Error {
    // Nobody may write what root may not.
    let is_read_only = match reason.kind() {
        io::ErrorKind::NotFound => return absent(setting, path, None),
        io::ErrorKind::ReadOnlyFilesystem => true,
        io::ErrorKind::PermissionDenied => geteuid().is_root(),
        _ => return unreadable(setting, path, &reason),
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
