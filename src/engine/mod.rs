//! How a Subject runs. One small trait, so that everything above it can be tested against a fake.

pub mod argv;
pub mod command;
mod counters;
mod evict;
pub mod exact;
mod frozen;
pub mod host;
pub mod initramfs;
pub mod kvm;
pub mod limits;
pub mod monitor;
pub mod noise;
pub mod payload;
mod process;
pub mod qemu;
pub mod scratch;
mod snapshot;
mod symbols;
pub mod timed;
pub mod vm;

use std::path::{Path, PathBuf};

use crate::model::{Failure, Layout, Machine};
use crate::wire::Hello;

pub use limits::{Cancel, Limits};
pub use process::die_with_parent;
pub use scratch::remove_stale;
pub use timed::{Booted, Timed};

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The guest or QEMU failed: a row. With it the end of the console, where there is one.
    Failed(Failure, Vec<u8>),
    /// The user asked to stop: no row.
    Cancelled,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failed(failure, Vec::new())
    }
}

impl Stop {
    /// The same, with the end of the console at `path`.
    fn with_console(self, path: &Path) -> Stop {
        match self {
            Stop::Failed(failure, _) => Stop::Failed(failure, vm::read_tail(path)),
            Stop::Cancelled => Stop::Cancelled,
        }
    }
}

/// What to boot.
#[derive(Debug, Clone)]
pub struct Request {
    /// The kernel image.
    pub image: PathBuf,
    /// SHA-256 of the image.
    pub image_sha256: String,
    /// The Subject's boot line.
    pub boot_line: String,
    /// The shape of the computer.
    pub machine: Machine,
    /// The perturbation.
    pub layout: Layout,
}

/// An engine.
pub trait Engine: Sync {
    /// A shell script that repeats the Boot by hand, `$1` naming an order file.
    fn script(&self, request: &Request) -> String;
    /// Boots, or finds the Boot's Snapshot.
    fn boot(&self, request: &Request) -> Result<Box<dyn Frozen + '_>, Stop>;
}

/// A Boot from which any number of Runs can start, each from the same state.
pub trait Frozen {
    /// What the guest said of itself.
    fn hello(&self) -> &Hello;
    /// The console up to the Snapshot.
    fn console(&self) -> Vec<u8>;
    /// Hands over an order and waits for the end.
    fn run(&self, order: &str) -> Result<Answer, Stop>;
    /// Boots once more, counting all from the kernel's start to init's; then as [`Frozen::run`].
    fn run_boot(&self, order: &str) -> Result<Answer, Stop>;
}

/// What a finished guest left behind; nothing in it has been checked.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// What it printed on the wire.
    pub wire: Vec<u8>,
    /// What the plugin counted.
    pub profile: String,
    /// The end of the console, escaped, for a message about an empty answer.
    pub console_tail: String,
}
