//! Boots the host with its commands, and takes what they said.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::HostError;
use super::frame::{self, Said};
use super::given::Given;
use super::{argv, initramfs};
use crate::engine::qemu::Qemu;
use crate::engine::scratch::{Scratch, remove_stale};
use crate::engine::vm::{Vm, Watch};
use crate::engine::{Cancel, Limits, Stop, read_tail};
use crate::model::Failure;
use crate::wire;

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
            let console = wire::tail(&read_tail(places.console));
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
