//! The settings that a Side changes on the running kernel, and their files.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use ktax_host::text::nearest;
use ktax_model::{Blame, TimedSubject};

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

/// The longest value of a setting, in bytes.
const LONGEST_BYTES: u64 = 64 << 10;

type Result<T> = std::result::Result<T, SettingError>;

impl Setting {
    /// Makes a sysctl of a name as in sysctl(8). Of `.` and `/`, the one that comes first separates
    /// the parts; the other one stands for a dot within a part: `net.ipv4.conf.eth0/100.mtu`.
    pub fn sysctl(name: &str) -> Result<Setting> {
        let is_dotted = name.find(['.', '/']).is_none_or(|index| name.as_bytes()[index] == b'.');
        let name = if is_dotted { name.to_owned() } else { swap(name) };
        let setting = Setting::Sysctl(name);
        setting.check().map(|()| setting)
    }

    /// Checks the name.
    pub(super) fn check(&self) -> Result<()> {
        self.path().map(drop)
    }

    /// The path below the root. Every path is made here, so that no name leads elsewhere.
    fn path(&self) -> Result<PathBuf> {
        let wrong = |name: &String| SettingError::Name { name: name.clone() };
        match self {
            Setting::Thp => Ok(THP.into()),
            Setting::Governor(policy) => {
                let number = policy.strip_prefix("policy").unwrap_or_default();
                match !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) {
                    true => Ok(Path::new(CPUFREQ).join(policy).join("scaling_governor")),
                    false => Err(wrong(policy)),
                }
            }
            Setting::Sysctl(name) => {
                let below = swap(name);
                let is_part = |part: &str| !["", ".", ".."].contains(&part);
                let is_plain = name.bytes().all(|byte| byte.is_ascii_graphic());
                match is_plain && below.len() < 4096 && below.split('/').all(is_part) {
                    true => Ok(Path::new(SYSCTLS).join(below)),
                    false => Err(wrong(name)),
                }
            }
        }
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
pub(super) fn is_same(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}

/// Returns whether the value is one line that can be written and read back.
pub(super) fn is_plain(value: &str) -> bool {
    value.len() as u64 <= LONGEST_BYTES && !value.chars().any(|c| c.is_control() && c != '\t')
}

/// The files of the running kernel.
#[derive(Debug, Clone)]
pub struct Running {
    root: PathBuf,
}

impl Default for Running {
    fn default() -> Self {
        Running { root: "/".into() }
    }
}

impl Running {
    /// Files below another root, for tests.
    #[cfg(test)]
    pub(super) fn below(root: &Path) -> Running {
        Running { root: root.to_owned() }
    }

    /// Returns the settings of a Subject, with the values as the user spells them. Only the kernel
    /// can tell whether it accepts a value.
    pub fn wanted(&self, subject: &TimedSubject) -> Result<BTreeMap<Setting, String>> {
        let mut wanted = BTreeMap::new();
        for (name, value) in &subject.sysctl {
            let setting = Setting::sysctl(name)?;
            if wanted.insert(setting.clone(), value.clone()).is_some() {
                return Err(SettingError::Twice { setting });
            }
        }
        wanted.extend(subject.thp.iter().map(|value| (Setting::Thp, value.clone())));
        if let Some(value) = &subject.governor {
            wanted.extend(self.governors()?.into_iter().map(|setting| (setting, value.clone())));
        }
        match wanted.iter().find(|(_, value)| !is_plain(value)) {
            Some((setting, _)) => Err(SettingError::Value { setting: setting.clone() }),
            None => Ok(wanted),
        }
    }

    fn governors(&self) -> Result<Vec<Setting>> {
        let names = fs::read_dir(self.root.join(CPUFREQ)).into_iter().flatten().flatten();
        let policies = names.filter_map(|entry| entry.file_name().into_string().ok());
        let governors = policies.map(Setting::Governor);
        let found: Vec<Setting> = governors.filter(|governor| governor.check().is_ok()).collect();
        if found.is_empty() { Err(SettingError::NoGovernor) } else { Ok(found) }
    }

    /// Returns the file of a setting.
    pub(super) fn file(&self, setting: &Setting) -> Result<PathBuf> {
        Ok(self.root.join(setting.path()?))
    }

    /// Checks that this process may change sysctls, by one that every kernel has. Root may not
    /// where a container mounts them read-only.
    pub fn may_change(&self) -> io::Result<()> {
        let file = self.root.join(SYSCTLS).join("kernel/panic");
        Ok(rustix::fs::access(file, rustix::fs::Access::WRITE_OK)?)
    }

    /// Returns the directory of all sysctls.
    pub(super) fn sysctls(&self) -> PathBuf {
        self.root.join(SYSCTLS)
    }

    /// Reads the present value, in the spelling in which it is written.
    pub fn read(&self, setting: &Setting) -> Result<String> {
        let path = self.file(setting)?;
        let failed = |reason: io::Error| match reason.kind() {
            io::ErrorKind::NotFound => SettingError::access(setting, &path, reason),
            _ => SettingError::unreadable(setting, &path, reason),
        };
        let mut text = String::new();
        let file = fs::File::open(&path).map_err(failed)?;
        file.take(LONGEST_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
        let text = text.trim_end_matches('\n');
        // In a list of words, the present one is in brackets: `always [madvise] never`.
        let chosen = || text.split_once('[')?.1.split_once(']').map(|(chosen, _)| chosen);
        Ok(if *setting == Setting::Thp { chosen().unwrap_or(text) } else { text }.to_owned())
    }

    /// Writes a value and reads it back, because the kernel may change it.
    pub(super) fn set(&self, setting: &Setting, value: &str) -> Result<()> {
        self.write(setting, value)?;
        let became = self.read(setting)?;
        if is_same(&became, value) {
            return Ok(());
        }
        Err(SettingError::Became { setting: setting.clone(), value: value.to_owned(), became })
    }

    fn write(&self, setting: &Setting, value: &str) -> Result<()> {
        let path = self.file(setting)?;
        let failed = |error: io::Error| match error.raw_os_error() {
            Some(libc::EINVAL | libc::ERANGE | libc::ENODEV | libc::EOPNOTSUPP) => {
                let (setting, value) = (setting.clone(), value.to_owned());
                SettingError::Refused { setting, value, reason: error }
            }
            _ => SettingError::access(setting, &path, error),
        };
        let mut file = OpenOptions::new().write(true).truncate(true).open(&path).map_err(failed)?;
        // The kernel reads a value from a single write.
        file.write_all(format!("{value}\n").as_bytes()).map_err(failed)
    }

    /// Returns the kernel's boot ID; empty if the kernel has none.
    pub(super) fn boot_id(&self) -> String {
        let path = self.root.join("proc/sys/kernel/random/boot_id");
        fs::read_to_string(path).unwrap_or_default().trim().to_owned()
    }
}

/// Depth of directories that are searched below `/proc/sys`; none is deeper.
const DEEPEST: usize = 8;

impl Running {
    /// Refuses settings that the running kernel does not have, and values that it does not list.
    pub fn check(&self, subject: &TimedSubject) -> Result<()> {
        for (setting, value) in self.wanted(subject)? {
            if !self.file(&setting)?.exists() {
                let path = self.file(&setting)?.display().to_string();
                let near = self.near(&setting);
                return Err(SettingError::Absent { setting, path, near });
            }
            let known = self.known_values(&setting)?;
            if !known.is_empty() && !known.contains(&value) {
                let known = known.join(", ");
                return Err(SettingError::NotListed { setting, value, known });
            }
        }
        Ok(())
    }

    /// Refuses settings that this user may not change.
    pub fn check_may_change(&self, subject: &TimedSubject) -> Result<()> {
        for setting in self.wanted(subject)?.into_keys() {
            let path = self.file(&setting)?;
            access(&path, Access::WRITE_OK)
                .map_err(|error| SettingError::access(&setting, &path, io::Error::from(error)))?;
        }
        Ok(())
    }

    /// Returns the values that the kernel lists; empty where it takes numbers or any text.
    fn known_values(&self, setting: &Setting) -> Result<Vec<String>> {
        let path = self.file(setting)?;
        let list = match setting {
            Setting::Sysctl(_) => return Ok(Vec::new()),
            Setting::Thp => path,
            Setting::Governor(_) => path.with_file_name("scaling_available_governors"),
        };
        // A kernel without the list refuses a wrong value when it is set.
        let text = fs::read_to_string(list).unwrap_or_default();
        Ok(text.split_whitespace().map(|word| word.trim_matches(['[', ']']).to_owned()).collect())
    }

    /// Returns the sysctl that was probably meant.
    fn near(&self, setting: &Setting) -> Option<String> {
        let Setting::Sysctl(typed) = setting else { return None };
        let mut names = Vec::new();
        sysctls(&self.sysctls(), "", DEEPEST, &mut names);
        nearest(typed, names.iter().map(String::as_str)).map(str::to_owned)
    }
}

/// Collects the names of all sysctls below a directory.
fn sysctls(directory: &Path, prefix: &str, depth: usize, names: &mut Vec<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type()) else {
            continue;
        };
        let name = format!("{prefix}{}", swap(&name));
        match kind.is_dir() {
            true if depth > 0 => {
                sysctls(&entry.path(), &format!("{name}."), depth - 1, names);
            }
            true => {}
            false => names.push(name),
        }
    }
}

/// Why a setting of the running kernel is not changed, or not restored. Each message ends with the
/// next step.
#[derive(Debug, Error)]
pub enum SettingError {
    #[error("{name:?} is not the name of a setting; use a sysctl that `sysctl -a` lists")]
    Name { name: String },
    #[error("{setting} is set twice, in two spellings; remove one")]
    Twice { setting: Setting },
    #[error("the value of {setting} is too long or has control characters; use one short line")]
    Value { setting: Setting },
    #[error(
        "there is no {setting}{}: {path} does not exist; check the name, or load the module that \
         provides it",
        meant(.near)
    )]
    Absent { setting: Setting, path: String, near: Option<String> },
    #[error("{setting} cannot be {value:?}; use one of {known}")]
    NotListed { setting: Setting, value: String, known: String },
    #[error("this machine has no frequency governor (no cpufreq policy); remove `governor`")]
    NoGovernor,
    #[error("cannot change {setting}: {reason}; run ktax with `sudo`")]
    Denied { setting: Setting, reason: io::Error },
    #[error(
        "{setting} is read-only here: {reason}; remove it, or run ktax outside of the container"
    )]
    ReadOnly { setting: Setting, reason: io::Error },
    #[error(
        "the kernel refuses to set {setting} to {value:?}: {reason}; use a value that it accepts"
    )]
    Refused { setting: Setting, value: String, reason: io::Error },
    #[error(
        "{setting} was set to {value:?} and reads back as {became:?}; use a value within its \
         limits, in the kernel's spelling"
    )]
    Became { setting: Setting, value: String, became: String },
    #[error(
        "cannot change {setting}, because ktax could not restore it after the run: {why}; \
         remove it"
    )]
    NoWayBack { setting: Setting, why: String },
    #[error("{setting} is not in the plan; plan again")]
    Unplanned { setting: Setting },
    #[error(
        "cannot read or write {path} ({setting}): {reason}; check the file, or remove the setting"
    )]
    Unreadable { setting: Setting, path: String, reason: io::Error },
    #[error(
        "another ktax is changing this machine's settings ({path} is locked); wait until it ends"
    )]
    Busy { path: String },
    #[error(
        "cannot use {path}: {reason}; run ktax with `sudo`, or set KTAX_STATE to a directory of \
         your own"
    )]
    State { path: String, reason: io::Error },
    #[error(
        "other users can write to {path}, and ktax restores the kernel's settings from it; set \
         KTAX_STATE to a directory that only this user can write"
    )]
    Shared { path: String },
    #[error(
        "cannot use the journal {path}: {reason}; restore the settings that it names by hand, \
         then remove it"
    )]
    Garbled { path: String, reason: String },
    #[error(
        "cannot restore all settings: {reasons}; make the named files writable, then type \
         `sudo ktax doctor --restore` ({path})"
    )]
    NotBack { path: String, reasons: String },
}

impl From<SettingError> for ktax_model::Error {
    fn from(error: SettingError) -> ktax_model::Error {
        ktax_model::Error::blamed(error.blame(), error.to_string())
    }
}

impl SettingError {
    /// Makes the error of reading or writing the setting's file.
    pub(super) fn access(setting: &Setting, path: &Path, reason: io::Error) -> SettingError {
        let (path, setting) = (path.display().to_string(), setting.clone());
        match reason.kind() {
            io::ErrorKind::NotFound => SettingError::Absent { setting, path, near: None },
            io::ErrorKind::ReadOnlyFilesystem => SettingError::ReadOnly { setting, reason },
            // Nobody may write what root may not.
            io::ErrorKind::PermissionDenied if rustix::process::geteuid().is_root() => {
                SettingError::ReadOnly { setting, reason }
            }
            io::ErrorKind::PermissionDenied => SettingError::Denied { setting, reason },
            _ => SettingError::Unreadable { setting, path, reason },
        }
    }

    /// Makes the error of reading a file that exists.
    fn unreadable(setting: &Setting, path: &Path, reason: io::Error) -> SettingError {
        let (setting, path) = (setting.clone(), path.display().to_string());
        SettingError::Unreadable { setting, path, reason }
    }

    /// Makes the error of using the state directory.
    pub(super) fn state(path: &Path) -> impl FnOnce(io::Error) -> SettingError {
        let path = path.display().to_string();
        move |reason| SettingError::State { path, reason }
    }

    /// Who can do something about it.
    pub fn blame(&self) -> Blame {
        use SettingError::*;
        match self {
            Name { .. } | Twice { .. } | Value { .. } | Absent { .. } => Blame::User,
            NotListed { .. } | NoGovernor | Refused { .. } | Became { .. } | NoWayBack { .. } => {
                Blame::User
            }
            Unplanned { .. } | Busy { .. } => Blame::User,
            Denied { .. } | ReadOnly { .. } | Unreadable { .. } | State { .. } => Blame::Host,
            Shared { .. } | Garbled { .. } | NotBack { .. } => Blame::Host,
        }
    }
}

fn meant(near: &Option<String>) -> String {
    near.as_ref().map(|near| format!(" (did you mean {near}?)")).unwrap_or_default()
}
