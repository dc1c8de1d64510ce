//! A KVM host inside QEMU: real KVM where this machine has none, on a kernel that is not this
//! machine's. QEMU's translator emulates AMD's virtualization, nested paging included.
//!
//! ```text
//! ktax kvm-host ─► initramfs: ktax itself, its libraries, modules, files, the order
//!                     │ QEMU boots it; ktax is its first process
//!                     ▼
//!                  init: mounts, loads modules, runs the commands ─► frame: what they said
//! ```

mod argv;
pub mod board;
mod frame;
pub mod guests;
pub mod init;
mod initramfs;
mod own;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::engine::qemu::{Qemu, QemuError};
use crate::engine::scratch::{Scratch, remove_stale};
use crate::engine::vm::{Vm, Watch, read_tail};
use crate::engine::{Cancel, Limits, Stop};
use crate::model::Failure;

pub use frame::Said;
pub use init::InitError;

/// Bytes that all commands together may print.
const FRAMES_MAX: u64 = 64 << 20;

/// The modules that the host needs, in the order in which they are loaded.
pub const MODULES: [&str; 3] = ["irqbypass", "kvm", "kvm-amd"];

/// What to boot.
#[derive(Debug)]
pub struct Host<'a> {
    pub qemu: &'a Qemu,
    pub kernel: &'a Path,
    /// Added to what is on its command line.
    pub boot_line: &'a str,
    /// The files of [`MODULES`], or none where they are built in.
    pub modules: &'a [PathBuf],
    /// One instruction is one nanosecond on one CPU, so that two runs do and print the same.
    pub exact: bool,
    pub limits: &'a Limits,
    pub cancel: &'a Cancel,
    /// A directory for what does not outlive the host.
    pub scratch: &'a Path,
}

/// A file that commands find at `/files/NAME`.
#[derive(Debug, Clone)]
pub struct Given {
    pub name: String,
    pub content: Vec<u8>,
}

/// What all given files may have together, in bytes: while the host unpacks them, its memory has
/// them twice, and no more than half of the rest may be files.
pub const GIVEN_MAX: u64 = 256 << 20;

/// Why there is no answer from a host. Each message ends with the next step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    #[error("cannot make the host's files from {path}: {error}: make it readable, with space left")]
    File { path: String, error: io::Error },
    #[error("{path} is no program that the host could run ({reason}): build ktax for this machine")]
    Program { path: String, reason: &'static str },
    #[error("the KVM host is not usable: {reason}: give a kernel with KVM for AMD, --kernel")]
    Unusable { reason: String },
    #[error(
        "the KVM host did not answer: {failure}; its console ends with `{console}`: \
         try a longer --time-limit, or run `ktax doctor`"
    )]
    Failed { failure: Failure, console: String },
    #[error("{row}: {what}; it said `{said}`: try it by hand with `ktax kvm-host`")]
    Guest { row: String, what: String, said: String },
    #[error(
        "for a KVM host on {name} {missing} is missing: \
         `sudo apt-get install --no-install-recommends {packages}`"
    )]
    Missing { name: &'static str, missing: String, packages: String },
    #[error("{compiler}-gcc cannot compile the host's program: {said}: install it again")]
    Compiler { compiler: &'static str, said: String },
    #[error(transparent)]
    Qemu(#[from] QemuError),
    #[error(
        "the KVM host on {name} did not answer: {problem}: all that it said is in {console}; \
         see what its kernel lacks, or try a longer --time-limit"
    )]
    Board { name: &'static str, problem: String, console: String },
    #[error("stopped: run the same command again")]
    Cancelled,
}

/// Boots the host, runs the commands one after the other, and returns what each one said.
///
/// # Errors
/// Where there is not an answer of each.
pub fn run(
    host: &Host<'_>,
    commands: &[Vec<String>],
    files: &[Given],
) -> Result<Vec<Said>, HostError> {
    let broken = |path: &Path| {
        let path = path.display().to_string();
        move |error| HostError::File { path, error }
    };
    remove_stale(host.scratch);
    let scratch = Scratch::create(host.scratch).map_err(broken(host.scratch))?;
    let initrd = scratch.file("initramfs.cpio");
    let archive = initramfs::build(host.modules, commands, files)?;
    fs::write(&initrd, archive).map_err(broken(&initrd))?;
    let places = argv::Places {
        initrd: &initrd,
        console: &scratch.file("console"),
        frames: &scratch.file("frames"),
    };
    let failed = |stop: Stop| match stop {
        Stop::Cancelled => HostError::Cancelled,
        Stop::Failed(failure, _) => {
            let console = crate::wire::tail(&read_tail(places.console));
            HostError::Failed { failure, console }
        }
    };
    let stderr = scratch.file("stderr");
    // Without a counted clock, virtual time is as long as real time.
    let virtual_s = host.limits.virtual_s.max(host.limits.real.as_secs());
    let limits = Limits { virtual_s, ..host.limits.clone() };
    let args = |control| argv::qemu(host.kernel, host.boot_line, &places, host.exact, control);
    let vm = Vm::start(&host.qemu.program, args, None, &stderr, &limits);
    let mut vm = vm.map_err(|failure| failed(failure.into()))?;
    vm.go();
    let watch = Watch {
        limits: &limits,
        cancel: host.cancel,
        wire: (places.frames, FRAMES_MAX),
        console: places.console,
    };
    vm.wait(&watch).map_err(failed)?;
    drop(vm);
    let frames = fs::read(places.frames).map_err(broken(places.frames))?;
    frame::parse(&frames, commands.len()).map_err(|problem| match problem {
        frame::Problem::Init(reason) => HostError::Unusable { reason },
        frame::Problem::Garbled(reason) => failed(Failure::Garbled { reason }.into()),
    })
}
