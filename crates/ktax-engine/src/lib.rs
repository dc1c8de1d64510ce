//! Engines that run a Subject: [`Engine`] for counts and [`Timed`] for times are two small traits,
//! so that everything above can be tested against a fake. The exact engine boots QEMU with ktax's
//! plugin, in `plugin/`, and ktax's guest, in `guest/`; [`wire`] is the only parser of what a guest
//! prints. Other engines time rows on the running kernel or in guests of KVM. [`limits`] has every
//! limit.
//!
//! ```
//! assert!(ktax_engine::find_engine("exact").is_some());
//! ```
//!
//! A new engine is a file with an [`EngineEntry`] in it, and a line in the list below.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use serde::{Deserialize, Deserializer, de};

use ktax_host::cache::Scratch;
use ktax_model::{
    Facts, Failure, Key, Layout, Machine, Result, RunsOn, TimedSubject, TimesPlan, Workload,
};
use ktax_program::{NativePrograms, PackedModules, PackedPrograms};
use payload::UserSpace;
use qemu::Qemu;
use wire::Hello;

pub mod argv;
pub mod command;
pub mod limits;
pub mod noise;
pub mod operations;
pub mod payload;
pub mod qemu;
pub mod wire;

pub use command::die_with_parent;
pub use exact::save_state;
pub use limits::{Cancel, Limits};
pub use qemu::read_tail;

/// Declares the modules of the engines and lists them, so that adding an engine takes one line.
macro_rules! engines {
    ($(#[$about:meta])* pub const $list:ident; $(mod $module:ident;)*) => {
        $(pub mod $module;)*
        $(#[$about])*
        pub const $list: &[EngineEntry] = &[$($module::ENGINE),*];
    };
}

engines! [
    /// All engines; the first is the default.
    pub const ENGINES;
    mod exact;
    mod host;
    mod kvm;
];

/// A guest to boot.
#[derive(Debug, Clone)]
pub struct Request {
    pub image: PathBuf,
    pub image_sha256: String,
    /// The Subject's boot line, without the engine's own parameters.
    pub boot_line: String,
    pub machine: Machine,
    pub layout: Layout,
    /// The modules of the kernel that the guest loads, as an archive.
    pub modules: Option<PackedModules>,
    /// Programs in every guest of the Side: those that make the disk and set the guest up, and the
    /// hooks of rows without a user's program.
    pub side_programs: Option<PackedPrograms>,
    /// The user's program that this guest runs, if its rows run one.
    pub program: Option<PackedPrograms>,
}

/// An engine that counts.
pub trait Engine: Sync {
    /// Returns a shell script that repeats the Boot by hand; `$1` is the path of an order.
    fn script(&self, request: &Request) -> String;
    /// Boots, or finds the Boot's Snapshot in the cache.
    fn boot(&self, request: &Request) -> Result<Box<dyn Frozen + '_>, Stop>;
}

/// A Boot that any number of Runs start from, each from the same state.
pub trait Frozen {
    fn hello(&self) -> &Hello;
    /// Returns the end of the console at the Snapshot.
    fn console(&self) -> Vec<u8>;
    /// Gives the guest an order and waits until the guest ends.
    fn run(&self, order: &str) -> Result<RawAnswer, Stop>;
    /// Boots once more, counts from the start of the kernel to the start of init, and then runs the
    /// order as [`Frozen::run`] does.
    fn run_boot(&self, order: &str) -> Result<RawAnswer, Stop>;
}

/// The unchecked output of a guest that has ended.
#[derive(Debug, Clone, Default)]
pub struct RawAnswer {
    pub wire: Vec<u8>,
    pub profile: String,
    /// The end of the console, escaped, for a message about an empty answer.
    pub console_tail: String,
}

/// An engine that measures time.
pub trait Timed {
    /// Makes a fresh Boot of a Subject and runs these Workloads one after the other, each in a
    /// fresh process.
    fn boot(&self, subject: &TimedSubject, loops: &[&Workload]) -> Result<BootOutput, Stop>;
    /// Restores all settings. Called once, after the last measurement or when the user stops.
    fn end(&self) -> Result<(), Stop>;
}

/// The unchecked output of a timed Boot.
#[derive(Debug, Clone, Default)]
pub struct BootOutput {
    /// The facts of the machine, read after the Subject's settings were applied.
    pub facts: Facts,
    /// The output on the wire of each loop, or the reason why the loop has none.
    pub wires: Vec<Result<Vec<u8>, Failure>>,
    /// The end of the guest's console, if the guest stopped early.
    pub console: Vec<u8>,
}

/// Entry of [`ENGINES`]: what planning, running and help use of an engine.
#[derive(Debug, Clone, Copy)]
pub struct EngineEntry {
    /// Name for `--engine` and experiment files.
    pub name: &'static str,
    /// Description for `--help`.
    pub about: &'static str,
    pub runs_on: RunsOn,
    /// Kind of measurement, with the function that opens the engine.
    pub measures: Measures,
}

impl PartialEq for EngineEntry {
    fn eq(&self, other: &EngineEntry) -> bool {
        self.name == other.name
    }
}

/// Kinds of measurements, each with the function that opens the engine for it.
#[derive(Clone, Copy)]
pub enum Measures {
    Counts {
        key: fn(&Qemu, &Machine) -> Key,
        /// Opens the engine.
        open: fn(CountsSetup<'_>) -> Result<Box<dyn Engine>>,
    },
    Times {
        /// Opens the engine.
        open: for<'a> fn(TimedSetup<'a>) -> Result<Box<dyn Timed + 'a>>,
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

/// The setup of an engine for counts.
pub struct CountsSetup<'a> {
    pub qemu: Qemu,
    /// Number of CPUs of a guest.
    pub cpus: u32,
    /// ktax's own directory.
    pub cache: &'a Path,
    pub limits: Limits,
    pub cancel: Cancel,
    pub guest: UserSpace,
}

/// The setup of a timed engine.
pub struct TimedSetup<'a> {
    pub plan: &'a TimesPlan,
    /// ktax's own directory.
    pub cache: &'a Path,
    /// The setup of the guests; `None` for an engine without guests.
    pub guests: Option<kvm::GuestSetup>,
    /// The user's programs on the running kernel, and the directory in which they start.
    pub native_programs: Option<(NativePrograms, PathBuf)>,
    pub limits: Limits,
    /// Called between two loops, when nothing is measured.
    pub between_loops: &'a dyn Fn(),
    pub cancel: Cancel,
    /// Prints a line for the user.
    pub note: Box<dyn Fn(&str) + 'a>,
}

/// Finds the engine with this name.
pub fn find_engine(name: &str) -> Option<&'static EngineEntry> {
    ENGINES.iter().find(|engine| engine.name == name)
}

impl<'de> Deserialize<'de> for &'static EngineEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        find_engine(&name).ok_or_else(|| {
            let names: Vec<String> =
                ENGINES.iter().map(|engine| format!("`{}`", engine.name)).collect();
            let names = names.join(", ");
            de::Error::custom(format!("unknown engine {name:?}, expected one of {names}"))
        })
    }
}

/// Reason why a Boot or a Run has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The guest or QEMU failed; the row shows why. The bytes are the end of the console.
    Failed(Failure, Vec<u8>),
    /// The user asked to stop: there is no row.
    Cancelled,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failed(failure, Vec::new())
    }
}

impl Stop {
    /// Adds the end of the console at `path`.
    fn with_console(self, path: &Path) -> Stop {
        self.map_failure(|failure| Stop::Failed(failure, read_tail(path)))
    }

    /// Replaces a failure and its console by what `map` returns.
    pub fn map_failure(self, map: impl FnOnce(Failure) -> Stop) -> Stop {
        match self {
            Stop::Failed(failure, _) => map(failure),
            Stop::Cancelled => Stop::Cancelled,
        }
    }
}

/// Converts errors of the host into Failures. `operation` is the operation that failed, such as
/// `cannot write the order`.
fn host_failure(operation: &str) -> impl Fn(io::Error) -> Failure + Clone + use<> {
    let operation = operation.to_owned();
    move |error| Failure::Host { operation: operation.clone(), reason: error.to_string() }
}

/// Creates the directory for the files of one VM, below ktax's own directory.
fn create_run_directory(cache: &Path) -> Result<Scratch, Failure> {
    let parent = cache.join("runs");
    let operation = format!("cannot create a directory in {}", parent.display());
    Scratch::create(&parent).map_err(host_failure(&operation))
}

/// Returns the first word in brackets: the chosen one in a list such as `always [madvise] never`.
fn bracketed_word(text: &str) -> Option<&str> {
    Some(text.split_once('[')?.1.split_once(']')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_is_found_by_its_name() {
        for engine in ENGINES {
            let found = find_engine(engine.name).map(|found| (found.about, found.runs_on));
            assert_eq!(found, Some((engine.about, engine.runs_on)), "{}", engine.name);
        }
        assert_eq!(find_engine("hots"), None);
    }
}
