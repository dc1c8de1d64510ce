//! The settings that a Side changes on the running kernel, and their files.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use ktax_host::text::{did_you_mean, nearest};
use ktax_model::{Error, ErrorKind, Result, TimedSubject};

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
