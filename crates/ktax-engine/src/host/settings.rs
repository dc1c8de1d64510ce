//! The settings that a Side changes on the running kernel, and their files.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::error::SettingError;
use super::setting::Setting;
use ktax_model::TimedSubject;

const THP: &str = "sys/kernel/mm/transparent_hugepage/enabled";
const SYSCTLS: &str = "proc/sys";
const CPUFREQ: &str = "sys/devices/system/cpu/cpufreq";

/// The longest value of a setting, in bytes.
const LONGEST_BYTES: u64 = 64 << 10;

type Result<T> = std::result::Result<T, SettingError>;

impl Setting {
    /// A sysctl by a name as in sysctl(8). Of `.` and `/`, the one that comes first separates the
    /// parts; the other one stands for a dot within a part: `net.ipv4.conf.eth0/100.mtu`.
    ///
    /// # Errors
    ///
    /// The name is not the name of a sysctl.
    pub fn sysctl(name: &str) -> Result<Setting> {
        let is_dotted = name.find(['.', '/']).is_none_or(|at| name.as_bytes()[at] == b'.');
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

/// The part of a sysctl's name that a file's name stands for.
pub(super) fn sysctl_of(file: &str) -> String {
    swap(file)
}

fn swap(name: &str) -> String {
    let swapped = name.chars().map(|c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    });
    swapped.collect()
}

/// Whether two spellings are the same value; the kernel separates numbers by tabs.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}

/// Whether the value is one line that can be written and read back.
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

    /// The settings of a Subject, with the values as the user spells them. Only the kernel can tell
    /// whether it accepts a value.
    ///
    /// # Errors
    ///
    /// A name or a value is wrong, or this machine has no frequency governor.
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

    /// The file of a setting.
    pub(super) fn file(&self, setting: &Setting) -> Result<PathBuf> {
        Ok(self.root.join(setting.path()?))
    }

    /// Whether this process may change sysctls: one of them that every kernel has. Also root may
    /// not where a container mounts them read-only.
    pub fn may_change(&self) -> io::Result<()> {
        let file = self.root.join(SYSCTLS).join("kernel/panic");
        Ok(rustix::fs::access(file, rustix::fs::Access::WRITE_OK)?)
    }

    /// The directory of all sysctls.
    pub(super) fn sysctls(&self) -> PathBuf {
        self.root.join(SYSCTLS)
    }

    /// The present value, in the spelling in which it is written.
    ///
    /// # Errors
    ///
    /// The setting does not exist or cannot be read.
    pub fn read(&self, setting: &Setting) -> Result<String> {
        let path = self.file(setting)?;
        let failed = |reason: io::Error| match reason.kind() {
            io::ErrorKind::NotFound => SettingError::of(setting, &path, reason),
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
            _ => SettingError::of(setting, &path, error),
        };
        let mut file = OpenOptions::new().write(true).truncate(true).open(&path).map_err(failed)?;
        // The kernel reads a value from a single write.
        file.write_all(format!("{value}\n").as_bytes()).map_err(failed)
    }

    /// The kernel's boot ID; empty if the kernel has none.
    pub(super) fn boot_id(&self) -> String {
        let path = self.root.join("proc/sys/kernel/random/boot_id");
        fs::read_to_string(path).unwrap_or_default().trim().to_owned()
    }
}
