use std::fs;
use std::path::{Path, PathBuf};

use super::argv::{self, Places, Stretch};
use super::error::HostError;
use super::frame::{self, Said};
use super::initramfs::{self, Given};
use super::order::Order;
use super::own::THIS_PROGRAM;
use ktax_engine::qemu::Qemu;
use ktax_engine::read_tail;
use ktax_engine::vm::{Rest, Vm, Watched};
use ktax_engine::wire;
use ktax_engine::{Cancel, Limits, Stop};
use ktax_host::cache::{Scratch, remove_stale};
use ktax_model::{Failure, Layout};

/// Bytes that all commands together may print.
const FRAMES_MAX: u64 = 64 << 20;

/// The modules that the host needs, in the order in which they are loaded.
pub const MODULES: [&str; 3] = ["irqbypass", "kvm", "kvm-amd"];

/// The Layout of a host that is booted only once.
pub const PLAIN: Layout = Layout { seed: 1, padding: 0, phase: 0 };

/// A host to boot.
#[derive(Debug)]
pub struct KvmHost<'a> {
    pub qemu: &'a Qemu,
    pub kernel: &'a Path,
    /// Added to the kernel's command line.
    pub boot_line: &'a str,
    /// The files of [`MODULES`], or none where they are built in.
    pub modules: &'a [PathBuf],
    /// One instruction is one nanosecond on one CPU, so that two runs do and print the same.
    pub exact: bool,
    /// The perturbation of this boot.
    pub layout: &'a Layout,
    pub limits: &'a Limits,
    pub cancel: &'a Cancel,
    /// A directory for files that are removed with the host.
    pub scratch: &'a Path,
}

impl KvmHost<'_> {
    /// Boots the host, runs the commands one after the other, and returns what each printed.
    ///
    /// # Errors
    /// Where a command has no answer.
    pub fn run(&self, commands: &[Vec<String>], files: &[Given]) -> Result<Vec<Said>, HostError> {
        let scratch = self.scratch()?;
        let initrd = scratch.file("initramfs.cpio");
        let order = Order { phase: self.layout.phase, commands: commands.to_vec() };
        let archive = initramfs::build(Path::new(THIS_PROGRAM), self.modules, Some(&order), files)?;
        fs::write(&initrd, archive).map_err(HostError::of_file(initrd.display().to_string()))?;
        let session = self.session(&scratch);
        let mut vm = session.start(&self.machine(&initrd), &Stretch::Whole)?;
        vm.go();
        session.wait(&mut vm)?;
        drop(vm);
        session.answers(commands.len())
    }

    /// A new directory for one QEMU process.
    pub(super) fn scratch(&self) -> Result<Scratch, HostError> {
        remove_stale(self.scratch);
        let failed = HostError::of_file(self.scratch.display().to_string());
        Scratch::create(self.scratch).map_err(failed)
    }

    /// What QEMU boots.
    pub(super) fn machine<'b>(&'b self, initrd: &'b Path) -> argv::Machine<'b> {
        let KvmHost { kernel, boot_line, layout, exact, .. } = *self;
        argv::Machine { kernel, boot_line, initrd, layout, exact }
    }

    /// One QEMU process with its files in `scratch`.
    pub(super) fn session(&self, scratch: &Scratch) -> Session<'_> {
        Session {
            program: &self.qemu.program,
            limits: limits(self.limits, self.exact),
            cancel: self.cancel,
            console: scratch.file("console"),
            frames: scratch.file("frames"),
            stderr: scratch.file("stderr"),
        }
    }
}

/// These limits for a host, which may have as much virtual time as real time.
fn limits(given: &Limits, exact: bool) -> Limits {
    let virtual_s = given.virtual_s.max(given.time.as_secs());
    let limits = Limits { virtual_s, ..given.clone() };
    if exact { limits } else { limits.without_virtual_time() }
}

/// The files and limits of one QEMU process.
pub(super) struct Session<'a> {
    program: &'a Path,
    pub limits: Limits,
    cancel: &'a Cancel,
    pub console: PathBuf,
    frames: PathBuf,
    stderr: PathBuf,
}

impl Session<'_> {
    /// Starts QEMU.
    pub fn start(
        &self,
        machine: &argv::Machine<'_>,
        stretch: &Stretch<'_>,
    ) -> Result<Vm, HostError> {
        let places = Places { console: &self.console, frames: &self.frames };
        let args = |control| argv::qemu(machine, stretch, &places, control);
        let state = match stretch {
            Stretch::FromFreeze { state, .. } => Some(*state),
            _ => None,
        };
        Vm::start(self.program, args, state, &self.stderr, &self.limits)
            .map_err(|failure| self.failed(failure))
    }

    /// Waits until the machine is frozen or off.
    pub fn wait(&self, vm: &mut Vm) -> Result<Rest, HostError> {
        let (limits, cancel) = (&self.limits, self.cancel);
        let wire = (self.frames.as_path(), FRAMES_MAX);
        let (speaks_first, console) = (false, &self.console);
        let rest = vm.wait(&Watched { limits, cancel, wire, speaks_first, console });
        rest.map_err(|stop| match stop {
            Stop::Failed(failure, _) => self.failed(failure),
            Stop::Cancelled => HostError::Cancelled,
        })
    }

    /// What the commands printed, of which there are so many.
    pub fn answers(&self, commands: usize) -> Result<Vec<Said>, HostError> {
        let failed = HostError::of_file(self.frames.display().to_string());
        let frames = fs::read(&self.frames).map_err(failed)?;
        frame::parse(&frames, commands).map_err(|problem| match problem {
            frame::Problem::Init(reason) => HostError::Unusable { reason },
            frame::Problem::Garbled(reason) => self.failed(Failure::Garbled { reason }),
        })
    }

    /// A failure with the end of the console; a panic there is why.
    pub fn failed(&self, failure: Failure) -> HostError {
        let console = read_tail(&self.console);
        let panicked = wire::panic_message(&console);
        let failure = panicked.map_or(failure, |message| Failure::Panic { message });
        HostError::Failed { board: None, failure, console }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_is_limited_only_where_it_is_counted() {
        let given = Limits::of_seconds(1000);
        let counted = limits(&given, true);
        assert_eq!((counted.virtual_s, counted.is_counted), (1000, true));
        assert!(!limits(&given, false).is_counted);
    }
}
