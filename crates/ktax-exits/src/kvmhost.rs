//! A KVM host within QEMU: real KVM on any kernel, also where this machine has no KVM. QEMU
//! emulates AMD's virtualization with nested paging.
//!
//! ```text
//! host ─► initramfs: a ktax, modules, files, the order
//!            │ QEMU boots it, and ktax is its first process
//!            ▼
//!         init: mounts, loads modules, runs the commands ─► frame: what the commands printed
//! ```
//!
//! Guest experiments use a [`GuestEngine`]. [`X86Guests`] boots such a host once for each Side and
//! Layout, and freezes it before the first command. Each row goes on from there with its own order:
//! the commands that record one guest. [`BoardGuests`] boots a [`Board`], whose first process, in
//! C, runs the one guest.

mod argv;
mod board;
mod frame;
mod host;
mod init;
mod initramfs;
mod x86;

use std::io;

use ktax_engine::Stop;
use ktax_model::{Blame, ExitRun, Failure, Layout, Side, Signature};

pub use board::{Board, BoardGuests, BoardSetup, BoardSide, BoardWork};
pub use frame::CommandOutput;
pub use host::{KvmHost, MODULES, PLAIN};
pub use init::{InitError, main as init};
pub use initramfs::{FREEZE_PATH, GIVEN_MAX, Given, THIS_PROGRAM};
pub use x86::{Guest, HostKernel, Task, X86Guests, X86Setup};

/// Runs guests of a KVM host within QEMU. For guest experiments it is what
/// [`Engine`](ktax_engine::Engine) is for counts: a Step boots a host, and each row is a guest.
///
/// One Side, Layout and row always give the same table, to the byte.
pub trait GuestEngine: Sync {
    /// A shell script that boots the host by hand; `$1` names a file with a row's order.
    fn script(&self, side: Side, layout: &Layout) -> String;
    /// Boots a Side's host under a Layout, up to where its guests can start.
    ///
    /// # Errors
    /// With a typed failure and the end of the console, which is a failed Step; or cancelled.
    fn boot(&self, side: Side, layout: &Layout) -> Result<Box<dyn ReadyHost + '_>, Stop>;
}

/// A host that has booted. Each row runs in a host of its own that is equal to this one, so that
/// no guest sees what another left.
pub trait ReadyHost {
    /// Returns the console of the boot that the rows go on from; `None` where each row boots.
    fn console(&self) -> Option<Vec<u8>>;
    /// Returns the kernel threads that still ran when the host was ready.
    fn busy(&self) -> Vec<String>;
    /// Returns what the host is told to do for this row: the content of `orders/ROW`.
    fn order(&self, row: usize) -> String;
    /// Runs the work of this row, an index into the engine's rows, as a guest and records it.
    ///
    /// # Errors
    /// With a typed failure and the end of the console, which is a failed row; or cancelled.
    fn run(&self, row: usize) -> Result<Recorded, Stop>;
}

/// The outcome of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Exit table and times.
    pub run: ExitRun,
    /// Work that a program reports; empty for other work.
    pub signature: Signature,
    /// The console of the row's own host, and that of its guest where it has one.
    pub console: Vec<u8>,
}

/// Why a host gives no answer. Each message ends with the next step.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error(
        "cannot prepare {path} for the KVM host: {error}; check that it is readable and that the \
         disk has free space"
    )]
    File { path: String, error: io::Error },
    #[error("the KVM host cannot run {path}: {reason}; use a ktax that is built for this machine")]
    Program { path: String, reason: &'static str },
    #[error("the KVM host cannot be used: {reason}; give a kernel with KVM for AMD (--kernel)")]
    Unusable { reason: String },
    #[error(
        "the KVM host{} did not answer: {failure}; its console ends with `{}`; \
         try a longer --time-limit, or run `ktax doctor`",
        on(.board),
        ktax_engine::wire::tail(.console)
    )]
    Failed {
        /// The machine, where it is not the usual one.
        board: Option<&'static str>,
        failure: Failure,
        /// The end of its console.
        console: Vec<u8>,
    },
    #[error(
        "a KVM host on {name} needs {missing}; type: \
         sudo apt-get install --no-install-recommends {packages}"
    )]
    Missing { name: &'static str, missing: String, packages: String },
    #[error(
        "{compiler}-gcc cannot compile the host's program: {message}; install the compiler again"
    )]
    Compiler { compiler: &'static str, message: String },
    #[error(transparent)]
    Qemu(#[from] ktax_model::Error),
    #[error("stopped; run the same command again")]
    Cancelled,
}

impl From<HostError> for ktax_model::Error {
    fn from(error: HostError) -> ktax_model::Error {
        match error {
            HostError::Cancelled => ktax_model::Error::cancelled(),
            error => ktax_model::Error::blamed(error.blame(), error.to_string()),
        }
    }
}

fn on(board: &Option<&'static str>) -> String {
    board.map(|name| format!(" on {name}")).unwrap_or_default()
}

impl HostError {
    /// Who can do something about it. A host that does not run is a guest's kernel that does not.
    pub fn blame(&self) -> Blame {
        use HostError::*;
        match self {
            File { .. } | Program { .. } | Compiler { .. } | Cancelled => Blame::Host,
            Failed { failure: Failure::Host { .. }, .. } => Blame::Host,
            Failed { .. } | Unusable { .. } | Missing { .. } => Blame::Guest,
            Qemu(error) => error.blame,
        }
    }

    /// Makes an error of a failed read or write of `path`.
    fn file(path: impl Into<String>) -> impl Fn(io::Error) -> HostError {
        let path = path.into();
        move |error| HostError::File { path: path.clone(), error }
    }

    /// Makes an error about the host of what stopped its machine.
    fn stopped(board: Option<&'static str>) -> impl Fn(Stop) -> HostError {
        move |stop| match stop {
            Stop::Cancelled => HostError::Cancelled,
            Stop::Failed(failure, console) => HostError::Failed { board, failure, console },
        }
    }
}

impl From<HostError> for Stop {
    fn from(error: HostError) -> Stop {
        let host_failure = |operation: String, reason: String| Failure::Host { operation, reason };
        match error {
            HostError::Cancelled => Stop::Cancelled,
            HostError::Failed { failure, console, .. } => Stop::Failed(failure, console),
            HostError::Unusable { reason } => {
                Failure::Refused { message: format!("the KVM host cannot be used: {reason}") }
                    .into()
            }
            HostError::File { path, error } => {
                host_failure(format!("cannot prepare {path} for the KVM host"), error.to_string())
                    .into()
            }
            error @ (HostError::Program { .. }
            | HostError::Missing { .. }
            | HostError::Compiler { .. }) => {
                host_failure("cannot make a KVM host".into(), error.to_string()).into()
            }
            HostError::Qemu(error) => Failure::NoQemu { reason: error.to_string() }.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_blames_the_one_who_can_act() {
        let failed = |failure| HostError::Failed { board: None, failure, console: Vec::new() };
        let (operation, reason) = ("cannot write x".to_owned(), "it is full".to_owned());
        let (path, message) = (String::new(), String::new());
        for host in [
            HostError::file("/x")(io::ErrorKind::StorageFull.into()),
            failed(Failure::Host { operation, reason: reason.clone() }),
            HostError::Program { path, reason: "no 64-bit ELF file" },
            HostError::Compiler { compiler: "powerpc-linux-gnu", message },
            HostError::Cancelled,
        ] {
            assert_eq!(host.blame(), Blame::Host, "{host}");
        }
        let (missing, packages) = ("QEMU".to_owned(), "qemu-system-ppc".to_owned());
        for guest in [
            failed(Failure::Panic { message: "oops".into() }),
            failed(Failure::RealTime { limit_s: 3 }),
            HostError::Unusable { reason },
            HostError::Missing { name: "e500v2", missing, packages },
            HostError::Qemu(ktax_model::Error::guest("QEMU 6.0 is too old")),
        ] {
            assert_eq!(guest.blame(), Blame::Guest, "{guest}");
        }
    }

    #[test]
    fn an_error_of_a_host_becomes_a_row() {
        let stop = |error: HostError| Stop::from(error);
        assert_eq!(stop(HostError::Cancelled), Stop::Cancelled);
        let failure = Failure::RealTime { limit_s: 3 };
        let console = b"last words".to_vec();
        let failed = HostError::stopped(Some("e500v2"))(Stop::Failed(failure.clone(), console));
        let message = failed.to_string();
        assert!(
            message.starts_with("the KVM host on e500v2 did not answer: no result"),
            "{message}"
        );
        assert!(message.contains("`last words`"), "{message}");
        assert_eq!(stop(failed), Stop::Failed(failure, b"last words".to_vec()));
        let Stop::Failed(failure, _) = stop(HostError::Unusable { reason: "no KVM".into() }) else {
            panic!("it is a row")
        };
        assert!(failure.to_string().ends_with("cannot be used: no KVM"), "{failure}");
        let full = HostError::file("/x")(io::ErrorKind::StorageFull.into());
        let Stop::Failed(failure, _) = stop(full) else { panic!("it is a row") };
        assert!(failure.is_of_the_host());
    }
}
