//! A host that is booted once, and goes on from the same state with one order after the other.

use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use super::HostError;
use super::argv::{self, HostMachine, OutputFiles, RunSpan};
use super::frame::{CommandOutput, FrameProblem, Order, parse_frames};
use super::initramfs::{self, Given, THIS_PROGRAM};
use ktax_engine::qemu::Qemu;
use ktax_engine::vm::{Rest, Vm, Watched};
use ktax_engine::{Cancel, Limits, Stop, read_tail, save_state, wire};
use ktax_host::cache::{Scratch, remove_stale};
use ktax_host::text::escape_bytes;
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
    pub fn run(
        &self,
        commands: &[Vec<String>],
        files: &[Given],
    ) -> Result<Vec<CommandOutput>, HostError> {
        let scratch = self.scratch()?;
        let initrd = scratch.file("initramfs.cpio");
        let order = Order { phase: self.layout.phase, commands: commands.to_vec() };
        let archive = initramfs::build(Path::new(THIS_PROGRAM), self.modules, Some(&order), files)?;
        fs::write(&initrd, archive).map_err(HostError::file(initrd.display().to_string()))?;
        let session = self.session(&scratch);
        let mut vm = session.start(&self.machine(&initrd), &RunSpan::Whole)?;
        vm.go();
        session.wait(&mut vm)?;
        drop(vm);
        session.answers(commands.len())
    }

    /// Makes a new directory for one QEMU process.
    pub(super) fn scratch(&self) -> Result<Scratch, HostError> {
        remove_stale(self.scratch);
        let failed = HostError::file(self.scratch.display().to_string());
        Scratch::create(self.scratch).map_err(failed)
    }

    /// Returns the machine that QEMU boots.
    pub(super) fn machine<'b>(&'b self, initrd: &'b Path) -> HostMachine<'b> {
        let KvmHost { kernel, boot_line, layout, exact, .. } = *self;
        HostMachine { kernel, boot_line, initrd, layout, exact }
    }

    /// Makes a session with its files in `scratch`.
    fn session(&self, scratch: &Scratch) -> Session<'_> {
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

/// Returns limits for a host, which may have as much virtual time as real time.
fn limits(given: &Limits, exact: bool) -> Limits {
    let virtual_s = given.virtual_s.max(given.time.as_secs());
    let limits = Limits { virtual_s, ..given.clone() };
    if exact { limits } else { limits.without_virtual_time() }
}

/// The files and limits of one QEMU process.
struct Session<'a> {
    program: &'a Path,
    pub limits: Limits,
    cancel: &'a Cancel,
    pub console: PathBuf,
    frames: PathBuf,
    stderr: PathBuf,
}

impl Session<'_> {
    /// Starts QEMU.
    pub fn start(&self, machine: &HostMachine<'_>, span: &RunSpan<'_>) -> Result<Vm, HostError> {
        let outputs = OutputFiles { console: &self.console, frames: &self.frames };
        let args = |control| argv::qemu(machine, span, &outputs, control);
        let state = match span {
            RunSpan::FromFreeze { state, .. } => Some(*state),
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

    /// Reads the outputs of so many commands.
    pub fn answers(&self, commands: usize) -> Result<Vec<CommandOutput>, HostError> {
        let failed = HostError::file(self.frames.display().to_string());
        let frames = fs::read(&self.frames).map_err(failed)?;
        parse_frames(&frames, commands).map_err(|problem| match problem {
            FrameProblem::Init(reason) => HostError::Unusable { reason },
            FrameProblem::Garbled(reason) => self.failed(Failure::Garbled { reason }),
        })
    }

    /// Makes an error with the end of the console; a panic there is the reason.
    pub fn failed(&self, failure: Failure) -> HostError {
        let console = read_tail(&self.console);
        let panicked = wire::panic_message(&console);
        let failure = panicked.map_or(failure, |message| Failure::Panic { message });
        HostError::Failed { board: None, failure, console }
    }
}

/// A host's memory and state at the freeze.
#[derive(Debug)]
pub(super) struct Frozen {
    scratch: Scratch,
    /// The console up to there.
    pub console: Vec<u8>,
    /// Tasks that still ran there.
    pub busy: Vec<String>,
}

impl Frozen {
    /// Boots a host whose initramfs has no order, up to where it asks for one.
    pub fn make(host: &KvmHost<'_>, initrd: &Path) -> Result<Frozen, HostError> {
        let scratch = host.scratch()?;
        let session = host.session(&scratch);
        let ram = scratch.file("ram");
        let mut vm = session.start(&host.machine(initrd), &RunSpan::ToFreeze { ram: &ram })?;
        if session.wait(&mut vm)? != Rest::Paused {
            // Init says why it went off instead.
            session.answers(0)?;
            let console = ktax_engine::wire::tail(&read_tail(&session.console));
            return Err(session.failed(Failure::Silent { console }));
        }
        let busy = session.answers(1)?.iter().flat_map(output_lines).collect();
        save_state(&session.limits, &mut vm, &scratch.file("state"))
            .map_err(HostError::stopped(None))?;
        drop(vm);
        let console = read_tail(&session.console);
        Ok(Frozen { scratch, console, busy })
    }

    /// Goes on with an order to the end. Returns the output of each command, and the console since
    /// the freeze.
    pub fn run(
        &self,
        host: &KvmHost<'_>,
        initrd: &Path,
        order: &Order,
    ) -> Result<(Vec<CommandOutput>, Vec<u8>), HostError> {
        let scratch = host.scratch()?;
        let session = host.session(&scratch);
        let file = scratch.file("order");
        fs::write(&file, order.to_json()).map_err(HostError::file(file.display().to_string()))?;
        let state = self.scratch.file("state");
        let state = File::open(&state).map_err(HostError::file(state.display().to_string()))?;
        let (ram, uri) = (self.scratch.file("ram"), format!("fd:{}", state.as_raw_fd()));
        let span = RunSpan::FromFreeze { ram: &ram, order: &file, state: state.as_fd() };
        let mut vm = session.start(&host.machine(initrd), &span)?;
        let poll = session.limits.poll / 50;
        vm.monitor(|monitor| monitor.receive_state(uri, poll))
            .map_err(|failure| session.failed(failure))?;
        vm.go();
        let rest = session.wait(&mut vm)?;
        drop(vm);
        let console = read_tail(&session.console);
        if rest == Rest::Paused {
            let console = ktax_engine::wire::tail(&console);
            return Err(session.failed(Failure::Silent { console }));
        }
        Ok((session.answers(order.commands.len())?, console))
    }
}

fn output_lines(output: &CommandOutput) -> Vec<String> {
    output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(escape_bytes)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_is_limited_only_where_it_is_counted() {
        let given = Limits::with_seconds(1000);
        let counted = limits(&given, true);
        assert_eq!((counted.virtual_s, counted.is_counted), (1000, true));
        assert!(!limits(&given, false).is_counted);
    }
}
