use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::contract::Engine;
use super::host::error::SettingError;
use super::kvm::device::DeviceError;
use super::limits::{Cancel, Limits};
use super::qemu::{Qemu, QemuError};
use super::timed::Timed;
use crate::payload::UserSpace;
use ktax_model::{Failure, Key, Machine, RunsOn, TimesPlan};
use ktax_program::NativePrograms;
use ktax_program::PackedPrograms;

/// An engine in the list: what the other phases know of it.
#[derive(Debug, Clone, Copy)]
pub struct EngineEntry {
    /// What `--engine` and experiment files call it.
    pub name: &'static str,
    /// What it does, for `--help`.
    pub about: &'static str,
    /// What it runs Subjects on.
    pub runs_on: RunsOn,
    /// What it measures, and how it is made ready.
    pub measures: Measures,
}

impl PartialEq for EngineEntry {
    fn eq(&self, other: &EngineEntry) -> bool {
        self.name == other.name
    }
}

/// What an engine measures, and how it is made ready.
#[derive(Clone, Copy)]
pub enum Measures {
    /// Counts.
    Counts {
        /// The Key of its counts.
        key: fn(&Qemu, &Machine) -> Key,
        /// Makes it ready.
        open: fn(CountsSetup<'_>) -> Result<Box<dyn Engine>, OpenError>,
    },
    /// Times.
    Times {
        /// Makes it ready.
        open: for<'a> fn(TimedSetup<'a>) -> Result<Box<dyn Timed + 'a>, OpenError>,
    },
}

impl fmt::Debug for Measures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Measures::Counts { .. } => "counts",
            Measures::Times { .. } => "times",
        })
    }
}

/// What an engine for counts is made of.
pub struct CountsSetup<'a> {
    /// QEMU to run.
    pub qemu: Qemu,
    /// How many CPUs the guests have.
    pub cpus: u32,
    /// ktax's own directory.
    pub cache: &'a Path,
    /// What no guest may exceed.
    pub limits: Limits,
    /// Stops everything once it is raised.
    pub cancel: Cancel,
    /// The guest's user space.
    pub guest: UserSpace,
}

/// What a timed engine is made of.
pub struct TimedSetup<'a> {
    /// What is to be measured.
    pub plan: &'a TimesPlan,
    /// QEMU to run; the one on the PATH where absent.
    pub qemu: Option<&'a Path>,
    /// ktax's own directory.
    pub cache: &'a Path,
    /// The image of each Kernel of the guests, by its name in the Subjects.
    pub images: BTreeMap<String, PathBuf>,
    /// The user's programs in guests.
    pub programs: Option<PackedPrograms>,
    /// The user's programs on the running kernel, and the directory in which they start.
    pub native: Option<(NativePrograms, PathBuf)>,
    /// The CPUs of this machine that vCPUs are pinned to, in turn; empty: not pinned.
    pub cpus: Vec<usize>,
    /// What no program and no guest may exceed.
    pub limits: Limits,
    /// Is called between two loops, when nothing is measured.
    pub between: &'a dyn Fn(),
    /// Stops everything once it is raised.
    pub cancel: Cancel,
    /// Prints a line for the user.
    pub note: Box<dyn Fn(&str) + 'a>,
}

/// Why an engine cannot be made ready.
#[derive(Debug, Error)]
pub enum OpenError {
    /// There is no QEMU that can be used.
    #[error(transparent)]
    Qemu(#[from] QemuError),
    /// A setting is wrong, or cannot be changed or restored.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// This user cannot use KVM.
    #[error(transparent)]
    Kvm(#[from] DeviceError),
    /// Something of the host's failed.
    #[error("{0}")]
    Failed(Failure),
    /// The user stopped it.
    #[error("stopped")]
    Cancelled,
}

impl From<Failure> for OpenError {
    fn from(failure: Failure) -> OpenError {
        OpenError::Failed(failure)
    }
}

/// Declares the modules of the engines and lists them, so that an engine is one line.
macro_rules! engines {
    ($(#[$about:meta])* pub const $list:ident; $(mod $module:ident;)*) => {
        $(pub mod $module;)*
        $(#[$about])*
        pub const $list: &[EngineEntry] = &[$($module::ENGINE),*];
    };
}
pub(super) use engines;
