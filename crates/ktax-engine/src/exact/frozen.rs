//! A Boot of the exact engine, and its Runs.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use super::Tools;
use super::snapshot::Snapshot;
use crate::argv::{self, Files, Paths, Plugin, Slices};
use crate::engine::{Frozen, RawAnswer, Request, Stop, host_failure};
use crate::vm::{Rest, Vm, read_tail};
use crate::wire::{self, Hello};
use ktax_host::cache::{Holder, Scratch};
use ktax_model::{CONTENDED_QUANTUM, Failure, Machine, Model, QUANTUM, Region};

/// A Snapshot, ready for Runs.
pub struct ExactBoot<'a> {
    tools: &'a Tools,
    request: Request,
    initrd: PathBuf,
    snapshot: Snapshot,
    symbols: Option<SymbolFile>,
    variables: Option<SymbolFile>,
    paths: Paths,
}

/// A file with a Kernel's functions or variables, which is in use until this is dropped.
pub(super) struct SymbolFile {
    path: PathBuf,
    _holder: Holder,
}

impl SymbolFile {
    pub fn new(path: PathBuf, holder: Holder) -> SymbolFile {
        SymbolFile { path, _holder: holder }
    }
}

/// The files of one Run.
struct RunFiles {
    scratch: Scratch,
    order: PathBuf,
    profile: PathBuf,
    machine: Option<PathBuf>,
}

impl RunFiles {
    fn create(tools: &Tools, machine: &Machine, order: &str) -> Result<RunFiles, Failure> {
        let scratch =
            Scratch::create(&tools.cache.join("runs")).map_err(host_failure("cannot start"))?;
        let (order_file, profile) = (scratch.file("order"), scratch.file("profile"));
        fs::write(&order_file, order).map_err(host_failure("cannot write the order"))?;
        let machine = match machine.model.as_ref().and_then(Model::machine) {
            None => None,
            Some(model) => {
                let path = scratch.file("machine");
                let text = model.wire().map_err(io::Error::other);
                let text = text.map_err(host_failure("cannot model the machine"))?;
                fs::write(&path, text).map_err(host_failure("cannot write the machine"))?;
                Some(path)
            }
        };
        Ok(RunFiles { scratch, order: order_file, profile, machine })
    }

    fn files(&self, ram: PathBuf) -> Files {
        let (wire, console) = (self.scratch.file("wire"), self.scratch.file("serial.log"));
        Files { ram, wire, console }
    }

    fn stderr(&self) -> PathBuf {
        self.scratch.file("stderr")
    }
}

impl Frozen for ExactBoot<'_> {
    fn hello(&self) -> &Hello {
        &self.snapshot.hello
    }

    fn console(&self) -> Vec<u8> {
        read_tail(&self.snapshot.console())
    }

    fn run(&self, order: &str) -> Result<RawAnswer, Stop> {
        self.resume(order, self.symbols(), self.tools.limits.wire_bytes)
    }

    fn run_boot(&self, order: &str) -> Result<RawAnswer, Stop> {
        let (tools, place) =
            (self.tools, RunFiles::create(self.tools, &self.request.machine, order)?);
        let files = place.files(place.scratch.file("ram"));
        // Without symbols the plugin does not know where the kernel starts: the profile has no
        // Region.
        let symbols = self.symbols().unwrap_or(Path::new(""));
        let plugin = self.plugin(&place, symbols, Region::Boot);
        let initrd = &self.initrd;
        let args =
            |control| argv::boot(&self.request, initrd, &files, control, &place.order, &plugin);
        let mut vm = Vm::start(&tools.qemu.program, args, None, &place.stderr(), &tools.limits)?;
        let watch = tools.watch(&files, tools.limits.wire_bytes);
        let frozen = vm.wait(&watch).map_err(|stop| stop.with_console(&files.console))?;
        if frozen == Rest::Paused {
            vm.go();
        }
        let mut answer = self.end(&mut vm, &files, &place, tools.limits.wire_bytes)?;
        answer.wire = after_hello(answer.wire);
        Ok(answer)
    }
}

impl<'a> ExactBoot<'a> {
    /// Makes a Boot whose symbols are not known yet.
    pub(super) fn new(
        tools: &'a Tools,
        request: Request,
        initrd: PathBuf,
        snapshot: Snapshot,
    ) -> ExactBoot<'a> {
        let paths = Paths::Followed;
        ExactBoot { tools, request, initrd, snapshot, symbols: None, variables: None, paths }
    }

    /// Sets the file with the kernel's functions.
    pub(super) fn set_symbols(&mut self, symbols: SymbolFile) {
        self.symbols = Some(symbols);
    }

    /// Sets the file with the kernel's variables, for the model of coherence.
    pub(super) fn set_variables(&mut self, variables: SymbolFile) {
        self.variables = Some(variables);
    }

    /// Sets how Runs follow calls.
    pub(super) fn set_paths(&mut self, paths: Paths) {
        self.paths = paths;
    }

    fn symbols(&self) -> Option<&Path> {
        self.symbols.as_ref().map(|symbols| symbols.path.as_path())
    }

    /// Runs without the plugin, to measure the overhead of counting.
    pub fn run_uncounted(&self, order: &str) -> Result<RawAnswer, Stop> {
        self.resume(order, None, self.tools.limits.wire_bytes)
    }

    /// Starts from the Snapshot, gives the guest an order, and waits for its end. Counts if there
    /// are symbols.
    pub(super) fn resume(
        &self,
        order: &str,
        symbols: Option<&Path>,
        wire_bytes: u64,
    ) -> Result<RawAnswer, Stop> {
        let (tools, place) =
            (self.tools, RunFiles::create(self.tools, &self.request.machine, order)?);
        let files = place.files(self.snapshot.ram());
        let plugin = symbols.map(|symbols| self.plugin(&place, symbols, Region::Marked));
        let initrd = &self.initrd;
        let args = |control| {
            argv::resume(&self.request, initrd, &files, control, &place.order, plugin.as_ref())
        };
        let state =
            File::open(self.snapshot.state()).map_err(host_failure("cannot read the snapshot"))?;
        let (program, stderr) = (&tools.qemu.program, place.stderr());
        let mut vm = Vm::start(program, args, Some(state.as_fd()), &stderr, &tools.limits)?;
        let uri = format!("fd:{}", state.as_raw_fd());
        vm.monitor(|monitor| monitor.receive_state(uri, tools.limits.poll / 50))?;
        vm.go();
        self.end(&mut vm, &files, &place, wire_bytes)
    }

    fn plugin<'b>(&'b self, place: &'b RunFiles, symbols: &'b Path, region: Region) -> Plugin<'b> {
        let (library, profile) = (self.tools.payload.plugin.as_path(), place.profile.as_path());
        let Request { machine, layout, program, .. } = &self.request;
        let (limit, seed) = (self.tools.limits.instructions(), Some(layout.seed));
        let slices = (machine.cpus > 1).then(|| Slices {
            quantum: machine.quantum.unwrap_or(QUANTUM),
            contended: machine.quantum.is_none().then_some(CONTENDED_QUANTUM),
            seed,
            limit,
        });
        let variables = self.variables.as_ref().map(|variables| variables.path.as_path());
        let (programs, paths) = (program.as_ref(), &self.paths);
        let machine = place.machine.as_deref();
        Plugin { library, symbols, programs, profile, region, paths, slices, variables, machine }
    }

    /// Waits until the guest is done, and reads its output.
    fn end(
        &self,
        vm: &mut Vm,
        files: &Files,
        place: &RunFiles,
        wire_bytes: u64,
    ) -> Result<RawAnswer, Stop> {
        let tools = self.tools;
        let ended = vm.wait(&tools.watch(files, wire_bytes)).and_then(|rest| {
            if rest == Rest::Paused {
                vm.quit(&tools.limits)?;
            }
            Ok(collect(&rest, files, &place.profile)?)
        });
        ended.map_err(|stop| stop.with_console(&files.console))
    }
}

/// Removes the hello, which a guest prints before its answer when it boots.
fn after_hello(wire: Vec<u8>) -> Vec<u8> {
    const READY: &[u8] = b"\nready\n";
    match wire.windows(READY.len()).position(|window| window == READY) {
        Some(start) => wire[start + READY.len()..].to_vec(),
        None => wire,
    }
}

/// Reads the output of a guest that came to rest.
pub(super) fn collect(rest: &Rest, files: &Files, profile: &Path) -> Result<RawAnswer, Failure> {
    let console = read_tail(&files.console);
    if let Some(message) = wire::panic_message(&console) {
        return Err(Failure::Panic { message });
    }
    let console_tail = wire::tail(&console);
    if *rest == Rest::ShutDown {
        return Err(Failure::Silent { console: console_tail });
    }
    let wire = fs::read(&files.wire).map_err(host_failure("cannot read the wire"))?;
    let profile = fs::read_to_string(profile).unwrap_or_default();
    Ok(RawAnswer { wire, profile, console_tail })
}
