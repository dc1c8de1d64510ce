//! Why settings cannot be changed or restored.

use std::io;
use std::path::Path;

use thiserror::Error;

use super::setting::Setting;
use ktax_model::Blame;

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

impl SettingError {
    /// The error of reading or writing the setting's file.
    pub(super) fn of(setting: &Setting, path: &Path, reason: io::Error) -> SettingError {
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

    /// The error of reading a file that exists.
    pub(super) fn unreadable(setting: &Setting, path: &Path, reason: io::Error) -> SettingError {
        let (setting, path) = (setting.clone(), path.display().to_string());
        SettingError::Unreadable { setting, path, reason }
    }

    /// The error of using the state directory.
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
