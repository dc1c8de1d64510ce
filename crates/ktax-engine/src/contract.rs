use std::path::PathBuf;

use super::stop::Stop;
use crate::wire::Hello;
use ktax_model::{Layout, Machine};
use ktax_program::{PackedModules, PackedPrograms};

/// What to boot.
#[derive(Debug, Clone)]
pub struct Request {
    /// The kernel image.
    pub image: PathBuf,
    /// SHA-256 of the image.
    pub image_sha256: String,
    /// The Subject's boot line.
    pub boot_line: String,
    /// The virtual machine: CPU model and memory.
    pub machine: Machine,
    /// The Layout of this Boot.
    pub layout: Layout,
    /// The modules of the kernel that the guest loads, as an archive.
    pub modules: Option<PackedModules>,
    /// What each guest of a Side has: what makes the disk, hooks of rows that are no programs, and
    /// what it is set up with.
    pub beside: Option<PackedPrograms>,
    /// The one program of the user's that is in this guest.
    pub program: Option<PackedPrograms>,
}

/// An engine that counts.
pub trait Engine: Sync {
    /// A shell script that repeats the Boot by hand; `$1` is the path of an order.
    fn script(&self, request: &Request) -> String;
    /// Boots, or finds the Boot's Snapshot in the cache.
    ///
    /// # Errors
    ///
    /// The guest or the host failed, or the user cancelled.
    fn boot(&self, request: &Request) -> Result<Box<dyn Frozen + '_>, Stop>;
}

/// A Boot that any number of Runs start from, each from the same state.
pub trait Frozen {
    /// What the guest reported about itself.
    fn hello(&self) -> &Hello;
    /// The end of the console at the Snapshot.
    fn console(&self) -> Vec<u8>;
    /// Gives the guest an order and waits for its end.
    ///
    /// # Errors
    ///
    /// The guest or the host failed, or the user cancelled.
    fn run(&self, order: &str) -> Result<RawAnswer, Stop>;
    /// Boots once more and counts from the kernel's start to init's; then as [`Frozen::run`].
    ///
    /// # Errors
    ///
    /// As of [`Frozen::run`].
    fn run_boot(&self, order: &str) -> Result<RawAnswer, Stop>;
}

/// The output of a finished guest. Nothing in it has been checked.
#[derive(Debug, Clone, Default)]
pub struct RawAnswer {
    /// What it printed on the wire.
    pub wire: Vec<u8>,
    /// The plugin's profile.
    pub profile: String,
    /// The end of the console, escaped, for a message about an empty answer.
    pub console_tail: String,
}
