//! What can be said of settings before anything is changed or measured.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{Access, access};

use super::error::SettingError;
use super::setting::Setting;
use super::settings::{Running, sysctl_of};
use ktax_host::text::nearest;
use ktax_model::TimedSubject;

type Result<T> = std::result::Result<T, SettingError>;

/// The files below `/proc/sys` are about a thousand; no directory there is deeper.
const DEEPEST: usize = 8;

impl Running {
    /// Refuses settings that the running kernel does not have, and values that it does not list.
    ///
    /// # Errors
    ///
    /// A name or a value is wrong.
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
    ///
    /// # Errors
    ///
    /// A name is wrong, or a file cannot be written.
    pub fn check_may_change(&self, subject: &TimedSubject) -> Result<()> {
        for setting in self.wanted(subject)?.into_keys() {
            let path = self.file(&setting)?;
            access(&path, Access::WRITE_OK)
                .map_err(|error| SettingError::of(&setting, &path, io::Error::from(error)))?;
        }
        Ok(())
    }

    /// The values that the kernel lists; none where it takes numbers or any text.
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

    /// The sysctl that was probably meant.
    fn near(&self, setting: &Setting) -> Option<String> {
        let Setting::Sysctl(typed) = setting else { return None };
        let mut names = Vec::new();
        sysctls(&self.sysctls(), "", DEEPEST, &mut names);
        nearest(typed, names.iter().map(String::as_str)).map(str::to_owned)
    }
}

/// The names of all sysctls below a directory.
fn sysctls(directory: &Path, prefix: &str, depth: usize, names: &mut Vec<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type()) else {
            continue;
        };
        let name = format!("{prefix}{}", sysctl_of(&name));
        match kind.is_dir() {
            true if depth > 0 => {
                sysctls(&entry.path(), &format!("{name}."), depth - 1, names);
            }
            true => {}
            false => names.push(name),
        }
    }
}
