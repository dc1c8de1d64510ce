//! Why settings cannot be changed or put back.

use std::io;
use std::path::Path;

use thiserror::Error;

use super::setting::Setting;

/// Why a setting of the running kernel is not changed, or not put back. Each message ends with the
/// next step.
#[derive(Debug, Error)]
pub enum SettingError {
    #[error("{name:?} is no name of a setting; name a sysctl as `sysctl -a` lists it")]
    Name { name: String },
    #[error("{setting} is there in two spellings; leave one out")]
    Twice { setting: Setting },
    #[error("the value of {setting} is too long or has control characters; give one line")]
    Value { setting: Setting },
    #[error("there is no {setting} (no {path}); name another, or load the module that has it")]
    Absent { setting: Setting, path: String },
    #[error("this machine has no frequency governor (no cpufreq policy); leave `governor` out")]
    NoGovernor,
    #[error("{setting} cannot be changed: {reason}; be root: `sudo`")]
    Denied { setting: Setting, reason: io::Error },
    #[error(
        "{setting} is read-only here: {reason}; leave it out, or go where it is not: containers \
         have settings that only their host can change"
    )]
    ReadOnly { setting: Setting, reason: io::Error },
    #[error("{setting} cannot be {value:?}: {reason}; name a value that the kernel takes")]
    Refused { setting: Setting, value: String, reason: io::Error },
    #[error(
        "{setting} was set to {value:?} and became {became:?}; name a value within its bounds, as \
         the kernel spells it"
    )]
    Became { setting: Setting, value: String, became: String },
    #[error("{setting} could not be put back: {why}; leave it out")]
    NoWayBack { setting: Setting, why: String },
    #[error("{setting} is not what was announced; plan again")]
    Unplanned { setting: Setting },
    #[error(
        "cannot read or write {path} ({setting}): {reason}; look at it by hand, or leave it out"
    )]
    Unreadable { setting: Setting, path: String, reason: io::Error },
    #[error("another ktax changes this machine ({path} is locked); wait for it to end")]
    Busy { path: String },
    #[error("cannot use {path}: {reason}; be root, or set KTAX_STATE to a directory of your own")]
    State { path: String, reason: io::Error },
    #[error(
        "{path} is not a directory of this user alone, and what is in it is written into the \
         kernel; set KTAX_STATE to a directory that only this user can write"
    )]
    Shared { path: String },
    #[error(
        "{path} says what to put back and cannot be used: {reason}; read it, put back by hand what \
         it names, and remove it"
    )]
    Garbled { path: String, reason: String },
    #[error("not put back: {reasons}; mend that, then `sudo ktax doctor --restore` ({path})")]
    NotBack { path: String, reasons: String },
}

impl SettingError {
    /// What reading or writing the setting's file came to.
    pub(super) fn of(setting: &Setting, path: &Path, reason: io::Error) -> SettingError {
        let (path, setting) = (path.display().to_string(), setting.clone());
        match reason.kind() {
            io::ErrorKind::NotFound => SettingError::Absent { setting, path },
            io::ErrorKind::ReadOnlyFilesystem => SettingError::ReadOnly { setting, reason },
            // What root may not write nobody may.
            io::ErrorKind::PermissionDenied if rustix::process::geteuid().is_root() => {
                SettingError::ReadOnly { setting, reason }
            }
            io::ErrorKind::PermissionDenied => SettingError::Denied { setting, reason },
            _ => SettingError::Unreadable { setting, path, reason },
        }
    }

    /// What reading it came to, where it is there.
    pub(super) fn unreadable(setting: &Setting, path: &Path, reason: io::Error) -> SettingError {
        let (setting, path) = (setting.clone(), path.display().to_string());
        SettingError::Unreadable { setting, path, reason }
    }

    /// What the state directory came to.
    pub(super) fn state(path: &Path) -> impl FnOnce(io::Error) -> SettingError {
        let path = path.display().to_string();
        move |reason| SettingError::State { path, reason }
    }

    /// Whether it is the experiment's or the moment's fault, not this machine's.
    pub fn is_usage(&self) -> bool {
        use SettingError::*;
        match self {
            Name { .. } | Twice { .. } | Value { .. } | Absent { .. } | NoGovernor => true,
            Refused { .. } | Became { .. } | NoWayBack { .. } | Unplanned { .. } => true,
            Busy { .. } => true,
            Denied { .. } | ReadOnly { .. } | Unreadable { .. } | State { .. } => false,
            Shared { .. } | Garbled { .. } | NotBack { .. } => false,
        }
    }
}
