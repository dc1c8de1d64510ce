use std::path::PathBuf;

use super::stop::Stop;
use crate::model::{Layout, Machine};
use crate::wire::Hello;

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
