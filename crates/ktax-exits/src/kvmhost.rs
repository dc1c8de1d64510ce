//! A KVM host within QEMU: real KVM on any kernel, also where this machine has no KVM. QEMU
//! emulates AMD's virtualization with nested paging.
//!
//! ```text
//! host ─► initramfs: a ktax, modules, files, the order
//!            │ QEMU boots it, and ktax is its first process
//!            ▼
//!         init: mounts, loads modules, runs the commands ─► frames: what the commands printed
//! ```
//!
//! Guest experiments use a [`GuestEngine`]. [`X86Guests`] boots such a host once for each Side and
//! Layout, and freezes it before the first command. Each row goes on from there with its own order:
//! the commands that record one guest. [`BoardGuests`] boots a [`Board`], whose first process, in
//! C, runs the one guest.

mod board;
mod host;
mod init;
mod initramfs;
mod x86;

use std::io;
use std::path::Path;

use ktax_engine::Stop;
use ktax_engine::argv::TRANSLATOR;
use ktax_host::cache::{Scratch, remove_stale};
use ktax_model::{Blame, Error, ExitRun, Failure, Layout, Side, Signature};

pub use board::{Board, BoardGuests, BoardSetup, BoardSide};
pub use host::{HostKernel, KvmHost, MODULES, PLAIN};
pub use init::{CommandOutput, main as init};
pub use initramfs::{FREEZE_PATH, GIVEN_MAX, Given, THIS_PROGRAM};
pub use x86::{Guest, X86Guests, X86Setup};

/// Runs guests of a KVM host within QEMU: a Step boots a host, and each row is a guest. Equal Side,
/// Layout and row give the same table, to the byte.
pub trait GuestEngine: Sync {
    /// A shell script that boots the host by hand; `$1` names a file with a row's order.
    fn script(&self, side: Side, layout: &Layout) -> String;
    /// Boots a Side's host under a Layout, up to the point where its guests can start.
    fn boot(&self, side: Side, layout: &Layout) -> Result<Box<dyn ReadyHost + '_>, Stop>;
}

/// A host that has booted. Each row runs in an equal host of its own, so that no guest sees traces
/// of another.
pub trait ReadyHost {
    /// Returns the console of the boot that all rows share; `None` if each row boots.
    fn console(&self) -> Option<Vec<u8>>;
    /// Returns the kernel threads that still ran when the host was ready.
    fn busy(&self) -> Vec<String>;
    /// Returns the order for this row's host: the content of `orders/ROW`.
    fn order(&self, row: usize) -> String;
    /// Runs the work of this row, an index into the engine's rows, as a guest and records it.
    fn run(&self, row: usize) -> Result<Recorded, Stop>;
}

/// The outcome of one row: exit table and times, work, and consoles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    pub run: ExitRun,
    /// Work that a program reports; empty for other work.
    pub signature: Signature,
    /// Console of the row's own host, and of its guest if it has a console.
    pub console: Vec<u8>,
}

fn unprepared(path: &Path) -> impl Fn(io::Error) -> Error {
    let what = format!("cannot prepare {} for the KVM host", path.display());
    move |error| {
        let next = "check that it is readable and that the disk has free space";
        Error::host(format!("{what}: {error}")).next(next)
    }
}

/// Makes the failure of a row whose file cannot be read or written.
fn unprepared_row(path: &Path) -> impl Fn(io::Error) -> Stop {
    let operation = format!("cannot prepare {} for the KVM host", path.display());
    move |error| Failure::Host { operation: operation.clone(), reason: error.to_string() }.into()
}

/// Makes the error of a host without an answer; a host that does not run is a fault of the guest's
/// kernel.
fn no_answer(stop: Stop) -> Error {
    let (failure, console) = match stop {
        Stop::Cancelled => return Error::cancelled(),
        Stop::Failed(failure, console) => (failure, console),
    };
    if let Failure::Refused { message } = failure {
        return Error::guest(message).next("give a kernel with KVM for AMD (--kernel)");
    }
    let is_hosts = matches!(failure, Failure::Host { .. });
    let mut error = Error::guest(format!(
        "the KVM host did not answer: {failure}; its console ends with `{}`",
        ktax_engine::wire::tail(&console)
    ));
    error.blame = if is_hosts { Blame::Host } else { Blame::Guest };
    error.next("try a longer --time-limit, or run `ktax doctor`")
}

fn new_scratch(parent: &Path) -> io::Result<Scratch> {
    remove_stale(parent);
    Scratch::create(parent)
}

/// Returns options for exact time, as in the exact engine: one instruction is one virtual
/// nanosecond, idle time is skipped, and random numbers follow from the Layout's seed.
fn exact_time(layout: &Layout) -> String {
    let seed = layout.seed;
    format!("-accel {TRANSLATOR} -smp 1 -icount shift=0,sleep=off -seed {seed}")
}

/// Joins words of a boot line and the Layout's padding, behind the first. The kernel keeps a
/// parameter with a dot to itself, so that the padding moves no program's stack.
fn boot_line(first: &str, layout: &Layout, more: &[&str]) -> String {
    let padding = match layout.padding {
        0 => String::new(),
        padding => format!("ktax.pad={}", "x".repeat(padding as usize)),
    };
    let words = [first, &padding].into_iter().chain(more.iter().copied());
    words.filter(|words| !words.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Returns a shell script that starts `program` with these arguments and with `more`, which may use
/// `$1`.
fn script(program: &Path, args: Vec<String>, comment: &str, more: &str) -> String {
    let quote = |word: String| format!("'{}'", word.replace('\'', r"'\''"));
    let mut lines = vec![quote(program.display().to_string())];
    lines.extend(args.into_iter().map(quote));
    format!("#!/bin/sh\n{comment}\nexec {} \\\n  {more}\n", lines.join(" \\\n  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_blames_the_one_who_can_act() {
        let failed = |failure, console: &[u8]| no_answer(Stop::Failed(failure, console.to_vec()));
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let (operation, reason) = ("cannot write x".to_owned(), "it is full".to_owned());
        let host = failed(Failure::Host { operation, reason }, b"");
        assert_eq!([host.blame, unprepared(Path::new("/x"))(full()).blame], [Blame::Host; 2]);
        assert!(no_answer(Stop::Cancelled).is_cancelled());
        let error = failed(Failure::RealTime { limit_s: 3 }, b"last words");
        assert_eq!(error.blame, Blame::Guest);
        let message = error.to_string();
        assert!(message.starts_with("the KVM host did not answer: no result"), "{message}");
        assert!(message.contains("`last words`; try a longer --time-limit, or run"), "{message}");
        let message = "the KVM host cannot be used: no KVM".to_owned();
        let unusable = failed(Failure::Refused { message }, b"");
        assert_eq!(unusable.blame, Blame::Guest);
        assert!(
            unusable.to_string().ends_with("no KVM; give a kernel with KVM for AMD (--kernel)")
        );
        let Stop::Failed(failure, _) = unprepared_row(Path::new("/x"))(full()) else {
            panic!("it is a row")
        };
        assert!(failure.is_of_the_host());
    }
}
