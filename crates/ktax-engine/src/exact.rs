//! The exact engine: QEMU TCG under icount, counted by the plugin. A Snapshot is a Boot that is
//! frozen at a fixed instruction; the cache keeps it under a hash of all that it depends on. Every
//! Run starts from it.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

use super::argv::{self, CallPaths, Files, Plugin, Slices};
use super::limits::{Cancel, Limits};
use super::payload::{self, Payload, UserSpace};
use super::qemu::{Halt, Qemu, Vm, VmStart, VmWatch, read_hello, read_tail};
use super::wire::{
    self, Answer, Hello, SYMBOLS_ORDER, VARIABLES_ORDER, parse_answer, parse_symbols,
    parse_variables,
};
use super::{
    CountsSetup, Engine, EngineEntry, Frozen, Measures, RawAnswer, Request, Stop,
    create_run_directory, host_failure,
};
use ktax_host::cache::{Holder, Scratch, remove_stale};
use ktax_host::disk::{
    Lock, read_own, read_own_text, sha256_of_file, sha256_of_parts, sha256_of_sparse_file,
    write_atomically,
};
use ktax_model::{
    Blame, CONTENDED_QUANTUM, Error, Failure, Key, Machine, Model, QUANTUM, Region, Result, RunsOn,
};
use ktax_program::PackedPrograms;

pub const ENGINE: EngineEntry = EngineEntry {
    name: NAME,
    about: "Count instructions under QEMU's translator: the same numbers everywhere",
    runs_on: RunsOn::Guests,
    measures: Measures::Counts {
        key: Exact::key,
        open: |CountsSetup { qemu, cpus, cache, limits, cancel, guest }| {
            let engine = Exact::with_guest(guest, qemu, cache, limits, cancel)?;
            if cpus > 1 {
                engine.check_slices()?;
            }
            Ok(Box::new(engine))
        },
    },
};

const NAME: &str = "exact";

/// The exact engine.
#[derive(Debug)]
pub struct Exact {
    tools: Tools,
}

impl Exact {
    /// Prepares the engine; `cache` is ktax's own directory.
    pub fn new(qemu: Qemu, cache: &Path, limits: Limits, cancel: Cancel) -> Result<Exact, Failure> {
        Exact::with_guest(UserSpace::bundled(), qemu, cache, limits, cancel)
    }

    /// Prepares the engine with a guest that may have more workloads.
    pub fn with_guest(
        guest: UserSpace,
        qemu: Qemu,
        cache: &Path,
        limits: Limits,
        cancel: Cancel,
    ) -> Result<Exact, Failure> {
        let payload = payload::install_guest(&guest, cache)
            .map_err(host_failure("cannot write to the cache"))?;
        for dir in ["snapshots", "runs"] {
            remove_stale(&cache.join(dir));
        }
        let guest_sha256 = guest.sha256();
        let cache = cache.to_owned();
        let tools = Tools { qemu, cache, payload, guest_sha256, limits, cancel };
        Ok(Exact { tools })
    }

    /// Checks that QEMU can load the plugin, without a machine.
    pub fn try_plugin(&self) -> Result<(), Failure> {
        let tools = &self.tools;
        let scratch = create_run_directory(&tools.cache)?;
        let symbols = write_one_symbol(&scratch)?;
        let profile = scratch.file("profile");
        let library = &tools.payload.plugin;
        let plugin = Plugin::new(library, &symbols, &profile);
        let args = |control| argv::plugin_only(&plugin, control);
        let stderr = scratch.file("stderr");
        let mut vm =
            Vm::start(&tools.qemu.program, args, VmStart::PowerOn, &stderr, &tools.limits)?;
        vm.monitor(|monitor| monitor.status()).map(drop)
    }

    /// Returns the Key: counts compare only with counts of the same Key.
    pub fn key(qemu: &Qemu, machine: &Machine) -> Key {
        Key {
            engine: NAME.into(),
            qemu: qemu.version.clone(),
            machine_type: argv::MACHINE.into(),
            machine: machine.clone(),
            guest: payload::guest_sha256(),
            programs: String::new(),
            modules: Vec::new(),
        }
    }

    /// Boots and makes the Snapshot, or finds it in the cache.
    pub fn freeze(&self, request: &Request) -> Result<ExactBoot<'_>, Stop> {
        let initrd = self.tools.initrd(request)?;
        let snapshot = obtain_snapshot(&self.tools, request, &initrd)?;
        Ok(ExactBoot {
            tools: &self.tools,
            request: request.clone(),
            initrd,
            snapshot,
            symbols: None,
            variables: None,
            paths: CallPaths::Followed,
        })
    }

    /// Returns the path in the cache of the file with the functions of a booted Kernel.
    pub fn functions_file(&self, request: &Request) -> PathBuf {
        let name = symbol_file_name(&self.tools, request, SYMBOLS_ORDER);
        self.tools.cache.join("symbols").join(name)
    }

    /// Boots as [`Engine::boot`] does; `paths` is the extent to which Runs follow calls.
    pub fn boot_with_paths(
        &self,
        request: &Request,
        paths: CallPaths,
    ) -> Result<Box<dyn Frozen + '_>, Stop> {
        let mut boot = self.boot_for_counts(request)?;
        boot.paths = paths;
        Ok(Box::new(boot))
    }

    /// Boots or finds a Snapshot, with the symbols that counting needs.
    fn boot_for_counts(&self, request: &Request) -> Result<ExactBoot<'_>, Stop> {
        let mut boot = self.freeze(request)?;
        let tools = &self.tools;
        boot.symbols = Some(obtain_symbols(tools, request, &boot, SYMBOLS_ORDER, parse_symbols)?);
        if request.machine.model == Some(Model::Coherence) {
            let (order, parse) = (VARIABLES_ORDER, parse_variables);
            boot.variables = Some(obtain_symbols(tools, request, &boot, order, parse)?);
        }
        Ok(boot)
    }
}

impl Engine for Exact {
    fn script(&self, request: &Request) -> String {
        // `initrd` writes this file when the boot is needed.
        let initrd = self.tools.payload.initrd_path(&archives(request));
        argv::script(&self.tools.qemu.program, request, &initrd)
    }

    fn boot(&self, request: &Request) -> Result<Box<dyn Frozen + '_>, Stop> {
        Ok(Box::new(self.boot_for_counts(request)?))
    }
}

/// Programs, directories and limits that all parts of the exact engine use.
#[derive(Debug)]
struct Tools {
    pub qemu: Qemu,
    /// ktax's own directory.
    pub cache: PathBuf,
    pub payload: Payload,
    pub guest_sha256: String,
    pub limits: Limits,
    pub cancel: Cancel,
}

impl Tools {
    /// Writes the archive that the guest of a Boot unpacks: ktax's programs, the kernel's modules
    /// and the user's programs.
    pub fn initrd(&self, request: &Request) -> Result<PathBuf, Failure> {
        self.payload
            .write_initrd(&archives(request))
            .map_err(host_failure("cannot write to the cache"))
    }

    /// Returns whether the guest loads code into the kernel that the image does not contain.
    pub fn loads_code(request: &Request) -> bool {
        let mut programs = request.side_programs.iter().chain(&request.program);
        request.modules.is_some() || programs.any(|programs| programs.has_setup)
    }

    /// Returns the limits and files to watch while a VM with these files runs.
    pub fn watch<'a>(&'a self, files: &'a Files, wire_bytes: u64) -> VmWatch<'a> {
        VmWatch {
            limits: &self.limits,
            cancel: &self.cancel,
            wire: (&files.wire, wire_bytes),
            expects_hello: true,
            console: &files.console,
        }
    }
}

/// Returns the archives that a guest gets in addition to ktax's own programs.
fn archives(request: &Request) -> Vec<&PackedPrograms> {
    let modules = request.modules.iter().map(|modules| &modules.packed);
    modules.chain(&request.side_programs).chain(&request.program).collect()
}

/// Returns the name in the cache of the file with the symbols that `order` asks for. The boot line
/// always has `nokaslr`, so the addresses depend on the image alone, unless the guest loads modules
/// or a hook loads code.
fn symbol_file_name(tools: &Tools, request: &Request, order: &str) -> String {
    let kernel = match Tools::loads_code(request) {
        true => snapshot_key(tools, request),
        false => request.image_sha256.clone(),
    };
    sha256_of_parts(&[&*kernel, &*tools.guest_sha256, order])
}

/// Finds or makes the file of symbols of the Kernel that `boot` runs.
fn obtain_symbols(
    tools: &Tools,
    request: &Request,
    boot: &ExactBoot,
    order: &str,
    parse: fn(&[u8]) -> Result<String>,
) -> Result<SymbolFile, Stop> {
    let dir = tools.cache.join("symbols");
    fs::create_dir_all(&dir).map_err(host_failure("cannot create the symbol cache"))?;
    let name = symbol_file_name(tools, request, order);
    let path = dir.join(&name);
    let _lock = wait_for_lock(&dir.join(format!("{name}.lock")), tools)?;
    loop {
        if let Some(holder) =
            Holder::hold(&path).map_err(host_failure("cannot read the symbols"))?
        {
            return Ok(SymbolFile { path, _holder: holder });
        }
        let answer = boot.resume(order, None, tools.limits.symbols_bytes)?;
        let symbols =
            parse(&answer.wire).map_err(|error| Failure::Garbled { reason: error.to_string() })?;
        write_atomically(&path, symbols.as_bytes())
            .map_err(host_failure("cannot keep the symbols"))?;
    }
}

/// A Boot that was frozen as a Snapshot, from which Runs start.
pub struct ExactBoot<'a> {
    tools: &'a Tools,
    request: Request,
    initrd: PathBuf,
    snapshot: Snapshot,
    /// The kernel's functions; `None` for Runs that are not counted.
    symbols: Option<SymbolFile>,
    /// The kernel's variables, for the model of coherence.
    variables: Option<SymbolFile>,
    paths: CallPaths,
}

/// A file in the cache with a Kernel's functions or variables. No cleaner removes the file until
/// this value is dropped.
struct SymbolFile {
    path: PathBuf,
    _holder: Holder,
}

/// The files of one Run.
struct RunFiles {
    /// The directory of the files, which is removed after the Run.
    _scratch: Scratch,
    vm: Files,
    order: PathBuf,
    profile: PathBuf,
    machine: Option<PathBuf>,
}

impl RunFiles {
    /// Writes the order and, if a machine is modelled, the parameters of that machine for the
    /// plugin. `ram` is the memory of a Snapshot; `None` for a guest with new memory.
    fn create(
        tools: &Tools,
        machine: &Machine,
        order: &str,
        ram: Option<PathBuf>,
    ) -> Result<RunFiles, Failure> {
        let scratch = create_run_directory(&tools.cache)?;
        let (order_file, profile) = (scratch.file("order"), scratch.file("profile"));
        fs::write(&order_file, order).map_err(host_failure("cannot write the order"))?;
        let machine = match machine.model.as_ref().and_then(Model::machine) {
            None => None,
            Some(model) => {
                let path = scratch.file("machine");
                let text = model.wire().map_err(io::Error::other);
                let text = text.map_err(host_failure("cannot format the modelled machine"))?;
                fs::write(&path, text)
                    .map_err(host_failure("cannot write the file of the modelled machine"))?;
                Some(path)
            }
        };
        let mut vm = Files::in_directory(&scratch);
        vm.ram = ram.unwrap_or(vm.ram);
        Ok(RunFiles { _scratch: scratch, vm, order: order_file, profile, machine })
    }
}

impl Frozen for ExactBoot<'_> {
    fn hello(&self) -> &Hello {
        &self.snapshot.hello
    }

    fn console(&self) -> Vec<u8> {
        read_tail(&self.snapshot.dir.join("serial.log"))
    }

    fn run(&self, order: &str) -> Result<RawAnswer, Stop> {
        self.resume(order, self.symbols(), self.tools.limits.wire_bytes)
    }

    fn run_boot(&self, order: &str) -> Result<RawAnswer, Stop> {
        let tools = self.tools;
        let files = RunFiles::create(tools, &self.request.machine, order, None)?;
        // Without symbols the plugin does not know where the kernel starts, and the profile has no
        // Region.
        let symbols = self.symbols().unwrap_or(Path::new(""));
        let plugin = self.plugin(&files, symbols, Region::Boot);
        let (request, initrd) = (&self.request, &self.initrd);
        let args = |control| argv::boot(request, initrd, &files.vm, control, &files.order, &plugin);
        let mut vm = Vm::start(
            &tools.qemu.program,
            args,
            VmStart::PowerOn,
            &files.vm.stderr,
            &tools.limits,
        )?;
        let watch = tools.watch(&files.vm, tools.limits.wire_bytes);
        let halt = vm.wait(&watch).map_err(|stop| stop.with_console(&files.vm.console))?;
        if halt == Halt::Paused {
            vm.resume();
        }
        let mut answer = self.end(&mut vm, &files, tools.limits.wire_bytes)?;
        // A guest that boots prints its hello before its answer.
        const READY: &[u8] = b"\nready\n";
        let ready_offset = answer.wire.windows(READY.len()).position(|window| window == READY);
        answer.wire.drain(..ready_offset.map_or(0, |start| start + READY.len()));
        Ok(answer)
    }
}

impl ExactBoot<'_> {
    fn symbols(&self) -> Option<&Path> {
        self.symbols.as_ref().map(|symbols| symbols.path.as_path())
    }

    /// Runs without the plugin, to measure the overhead of counting.
    pub fn run_uncounted(&self, order: &str) -> Result<RawAnswer, Stop> {
        self.resume(order, None, self.tools.limits.wire_bytes)
    }

    /// Starts from the Snapshot, gives the guest an order, and waits until the guest ends. The
    /// plugin counts if `symbols` is the file of the kernel's functions.
    fn resume(
        &self,
        order: &str,
        symbols: Option<&Path>,
        wire_bytes: u64,
    ) -> Result<RawAnswer, Stop> {
        let (tools, request, initrd) = (self.tools, &self.request, &self.initrd);
        let ram = self.snapshot.dir.join("ram");
        let files = RunFiles::create(tools, &request.machine, order, Some(ram))?;
        let plugin = symbols.map(|symbols| self.plugin(&files, symbols, Region::Marked));
        let args = |control| {
            argv::resume(request, initrd, &files.vm, control, &files.order, plugin.as_ref())
        };
        let state = File::open(self.snapshot.dir.join("state"))
            .map_err(host_failure("cannot read the snapshot"))?;
        let (program, start) = (&tools.qemu.program, VmStart::Snapshot(state.as_fd()));
        let mut vm = Vm::start(program, args, start, &files.vm.stderr, &tools.limits)?;
        let uri = format!("fd:{}", state.as_raw_fd());
        vm.monitor(|monitor| monitor.receive_state(uri, tools.limits.resume_poll()))?;
        vm.resume();
        self.end(&mut vm, &files, wire_bytes)
    }

    fn plugin<'b>(&'b self, files: &'b RunFiles, symbols: &'b Path, region: Region) -> Plugin<'b> {
        let Request { machine, layout, program, .. } = &self.request;
        let slices = (machine.cpus > 1).then(|| Slices {
            quantum: machine.quantum.unwrap_or(QUANTUM),
            contended: machine.quantum.is_none().then_some(CONTENDED_QUANTUM),
            seed: Some(layout.seed),
            limit: self.tools.limits.instructions(),
        });
        Plugin {
            programs: program.as_ref(),
            region,
            paths: &self.paths,
            slices,
            variables: self.variables.as_ref().map(|variables| variables.path.as_path()),
            machine: files.machine.as_deref(),
            ..Plugin::new(&self.tools.payload.plugin, symbols, &files.profile)
        }
    }

    fn end(&self, vm: &mut Vm, files: &RunFiles, wire_bytes: u64) -> Result<RawAnswer, Stop> {
        let watch = self.tools.watch(&files.vm, wire_bytes);
        collect(vm, &watch, &files.profile).map_err(|stop| stop.with_console(&files.vm.console))
    }
}

/// Waits until a guest is done, lets the plugin write its profile, and reads the output.
fn collect(vm: &mut Vm, watch: &VmWatch, profile: &Path) -> Result<RawAnswer, Stop> {
    let halt = vm.wait(watch)?;
    if halt == Halt::Paused {
        vm.quit(watch.limits)?;
    }
    let console = read_tail(watch.console);
    wire::check_panic_message(&console)?;
    let console_tail = wire::tail(&console);
    if halt == Halt::ShutDown {
        return Err(Failure::NoAnswer { console: console_tail }.into());
    }
    let wire = fs::read(watch.wire.0).map_err(host_failure("cannot read the wire"))?;
    let profile = read_profile(profile).map_err(host_failure("cannot read the profile"))?;
    Ok(RawAnswer { wire, profile, console_tail })
}

/// Reads a profile; empty if the plugin wrote none.
fn read_profile(path: &Path) -> io::Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}

/// The name of the file whose presence shows that a Snapshot is complete.
const SEAL: &str = "seal";

/// The largest seal or hello that is read, in bytes. Both are far smaller.
const MAX_TEXT_BYTES: u64 = 1 << 20;

/// A Snapshot on disk: the guest's memory in `ram`, the state of all devices and of the CPU in
/// `state`, the Boot's console in `serial.log`.
#[derive(Debug)]
struct Snapshot {
    dir: PathBuf,
    _holder: Holder,
    /// The hello of the guest, before it was frozen.
    hello: Hello,
}

impl Snapshot {
    fn open(dir: &Path) -> Option<Snapshot> {
        let holder = Holder::hold(dir).ok()??;
        let hello = wire::parse_hello(&read_own(&dir.join("wire"), MAX_TEXT_BYTES).ok()?).ok()?;
        // A Snapshot that a full disk or a crash has damaged is made again.
        let sealed = read_own_text(&dir.join(SEAL), MAX_TEXT_BYTES).ok()?;
        (sealed == seal_text(&dir.join("ram"), &dir.join("state")).ok()?).then_some(())?;
        Some(Snapshot { dir: dir.to_owned(), _holder: holder, hello })
    }
}

/// Finds the Snapshot of a Boot, or makes the Boot and the Snapshot.
fn obtain_snapshot(tools: &Tools, request: &Request, initrd: &Path) -> Result<Snapshot, Stop> {
    let parent = tools.cache.join("snapshots");
    fs::create_dir_all(&parent).map_err(host_failure("cannot create the snapshot cache"))?;
    let key = snapshot_key(tools, request);
    let dir = parent.join(&key);
    // If two threads or processes want the same Snapshot, one makes it and the other waits.
    let _lock = wait_for_lock(&parent.join(format!("{key}.lock")), tools)?;
    match Snapshot::open(&dir) {
        Some(snapshot) => Ok(snapshot),
        None => make_snapshot(tools, request, initrd, &parent, &dir),
    }
}

fn make_snapshot(
    tools: &Tools,
    request: &Request,
    initrd: &Path,
    parent: &Path,
    dir: &Path,
) -> Result<Snapshot, Stop> {
    check_space(parent, request.machine.memory_mib)?;
    let scratch = Scratch::create(parent).map_err(host_failure("cannot create a snapshot"))?;
    let files = Files::in_directory(&scratch);
    let args = |control| argv::freeze(request, initrd, &files, control);
    let mut vm =
        Vm::start(&tools.qemu.program, args, VmStart::PowerOn, &files.stderr, &tools.limits)?;
    let watch = tools.watch(&files, tools.limits.wire_bytes);
    let hello =
        vm.wait(&watch).and_then(|halt| Ok(read_hello(&halt, &files.wire, &files.console)?));
    let hello = hello.map_err(|stop| stop.with_console(&files.console))?;
    save_state(&tools.limits, &mut vm, &scratch.file("state"))?;
    drop(vm);
    let failed = host_failure("cannot keep the snapshot");
    seal(&files.ram, &scratch.file("state"), &scratch.file(SEAL)).map_err(&failed)?;
    drop(fs::remove_file(&files.stderr));
    // Hold the directory before it gets the name under which a cleaner finds the Snapshot.
    let holder = Holder::hold_directory(scratch.path()).map_err(&failed)?;
    // A directory of this name is a damaged Snapshot.
    drop(fs::remove_dir_all(dir));
    fs::rename(scratch.keep(), dir).map_err(failed)?;
    Ok(Snapshot { dir: dir.to_owned(), _holder: holder, hello })
}

/// The text of a seal: the hashes of the memory and of the state.
fn seal_text(ram: &Path, state: &Path) -> io::Result<String> {
    Ok(format!("{} {}\n", sha256_of_sparse_file(ram)?, sha256_of_file(state)?))
}

/// Syncs the memory to the disk, then writes the seal of a complete Snapshot.
fn seal(ram: &Path, state: &Path, seal: &Path) -> io::Result<()> {
    File::open(ram)?.sync_data()?;
    write_atomically(seal, seal_text(ram, state)?.as_bytes())
}

/// Receives QEMU's device state on a socket and writes it to a file.
pub fn save_state(limits: &Limits, vm: &mut Vm, path: &Path) -> Result<(), Stop> {
    let failed = host_failure("cannot save the snapshot");
    let dir = tempfile::Builder::new().prefix("ktax-").tempdir().map_err(&failed)?;
    let socket = dir.path().join("state");
    let listener = UnixListener::bind(&socket).map_err(&failed)?;
    let mut file = File::create(path).map_err(&failed)?;
    std::thread::scope(|scope| {
        let copying = scope.spawn(move || -> io::Result<u64> {
            let (mut stream, _) = listener.accept()?;
            let copied = io::copy(&mut stream, &mut file)?;
            file.sync_all()?;
            Ok(copied)
        });
        let uri = format!("unix:{}", socket.display());
        let sent = vm.monitor(|monitor| monitor.send_state(uri, limits.freeze_poll()));
        if sent.is_err() {
            // QEMU may not have connected: this connection wakes the thread that waits in accept().
            drop(std::os::unix::net::UnixStream::connect(&socket));
        }
        let copied = copying.join().unwrap_or_else(|_| Err(io::Error::other("copying failed")));
        sent?;
        copied.map(drop).map_err(&failed)
    })?;
    Ok(())
}

/// Returns a hash of everything that the state of a Boot depends on.
fn snapshot_key(tools: &Tools, request: &Request) -> String {
    let boot_line = argv::boot_line(request);
    let seed = request.layout.seed.to_string();
    // The quantum and the model act after the freeze, so the state does not depend on them.
    let machine = Machine { quantum: None, model: None, ..request.machine.clone() };
    let machine = serde_json::to_string(&machine).expect("a machine is JSON");
    let mut parts = vec![
        request.image_sha256.as_str(),
        &tools.guest_sha256,
        &boot_line,
        &tools.qemu.version,
        argv::MACHINE,
        &machine,
        &seed,
    ];
    parts.extend(archives(request).into_iter().map(|packed| packed.sha256.as_str()));
    sha256_of_parts(&parts)
}

/// Space for the files of a Snapshot other than the memory, in MiB.
const DEVICE_STATE_MIB: u64 = 32;

/// Checks the free space. The guest's memory is a sparse file, and a full filesystem kills QEMU.
fn check_space(parent: &Path, memory_mib: u32) -> Result<(), Failure> {
    let space = statvfs(parent)
        .map_err(io::Error::from)
        .map_err(host_failure("cannot read the free space of the cache"))?;
    let free_mib = (space.f_bavail * space.f_frsize) >> 20;
    let needed_mib = u64::from(memory_mib) + DEVICE_STATE_MIB;
    if free_mib >= needed_mib {
        return Ok(());
    }
    let reason = format!(
        "{free_mib} MiB are free in {}, and this guest's memory and devices can take \
         {needed_mib} MiB",
        parent.display()
    );
    Err(Failure::Host { operation: "the disk is too full for a snapshot".into(), reason })
}

/// Waits for the lock of an entry of the cache.
fn wait_for_lock(path: &Path, tools: &Tools) -> Result<Lock, Stop> {
    let failed = host_failure(&format!("cannot lock {}", path.display()));
    let lock = Lock::wait_at(path, tools.limits.poll, || tools.cancel.is_cancelled());
    lock.map_err(failed)?.ok_or(Stop::Cancelled)
}

// The self-test.

/// Writes a symbol file for a QEMU without a kernel: the plugin needs one symbol.
fn write_one_symbol(scratch: &Scratch) -> Result<PathBuf, Failure> {
    let symbols = scratch.file("symbols");
    fs::write(&symbols, "ffffffff81000000 _stext\n")
        .map_err(host_failure("cannot write the symbols"))?;
    Ok(symbols)
}

/// Number of CPUs of the self-test: `CPUS` in `guest/self-test/main.c`.
const CPUS: u32 = 4;

/// Number of times that all CPUs together take the lock: each CPU takes it 20 000 times, the number
/// that `work` of `guest/self-test/work.S` begins with.
const ACQUISITIONS: u64 = 80_000;

/// A quantum, and the percentage of acquisitions that find the lock taken at this quantum. The
/// percentage is steepest here: a quantum that is 5 % off changes it by three points.
/// The test takes a second.
const SELF_TEST_POINT: (u32, f64) = (200, 43.0);

/// Largest deviation from that percentage, in points. Firmware decides where in a slice the first
/// CPU begins, which changes the percentage a little.
const MAX_DEVIATION: f64 = 1.0;

/// The work of the guest of the self-test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelfTest {
    /// Each CPU takes the lock before it counts.
    Locked,
    /// CPUs count without the lock.
    Unlocked,
}

impl Exact {
    /// Checks that this QEMU ends slices after the quantum. The cache keeps a record of each QEMU
    /// that passed.
    pub fn check_slices(&self) -> Result<()> {
        let record = self.self_test_record()?;
        if Holder::hold(&record).map_err(host_failure("cannot read the self-test"))?.is_some() {
            return Ok(());
        }
        let refused = |reason| {
            let found = &self.tools.qemu.version;
            Error::guest(format!(
                "QEMU {found} fails ktax's scheduling self-test, so --cpus cannot be used: {reason}"
            ))
            .next(
                "use another QEMU, such as that of Debian 13 or of `ktax doctor --newer-qemu \
                 DIR`, and name it with --qemu",
            )
        };
        match self.self_test(SelfTest::Locked, SELF_TEST_POINT.0) {
            Ok(answer) => judge(&answer).map_err(refused)?,
            Err(Stop::Cancelled) => return Err(Error::cancelled()),
            Err(Stop::Failed(failure, _)) if failure.blame() == Blame::Host => {
                return Err(failure.into());
            }
            Err(Stop::Failed(failure, _)) => return Err(refused(failure.to_string())),
        }
        Ok(write_atomically(&record, b"passed\n")
            .map_err(host_failure("cannot keep the self-test"))?)
    }

    /// Returns the path of the file that exists if this QEMU has passed the self-test.
    fn self_test_record(&self) -> Result<PathBuf, Failure> {
        let qemu = &self.tools.qemu;
        let dir = self.tools.cache.join("self-tests");
        fs::create_dir_all(&dir).map_err(host_failure("cannot write to the cache"))?;
        let program = sha256_of_file(&qemu.program).map_err(host_failure("cannot read QEMU"))?;
        let point = format!("{SELF_TEST_POINT:?}");
        let parts = [&program, &qemu.version, &payload::self_test_sha256(), &point];
        Ok(dir.join(sha256_of_parts(&parts)))
    }

    /// Runs the guest of the self-test with this quantum.
    pub fn self_test(&self, work: SelfTest, quantum: u32) -> Result<RawAnswer, Stop> {
        let tools = &self.tools;
        let scratch = create_run_directory(&tools.cache)?;
        let image = tools.payload.self_test().map_err(host_failure("cannot write to the cache"))?;
        let files = Files::in_directory(&scratch);
        let (symbols, profile) = (write_one_symbol(&scratch)?, scratch.file("profile"));
        let limit = tools.limits.instructions();
        let plugin = Plugin {
            slices: Some(Slices { quantum, contended: None, seed: None, limit }),
            ..Plugin::new(&tools.payload.plugin, &symbols, &profile)
        };
        let command_line = if work == SelfTest::Locked { "locked" } else { "unlocked" };
        let args = |control| argv::self_test(&image, command_line, CPUS, &files, control, &plugin);
        // The self-test does not have the limits of the user's guests.
        let limits = Limits::default().for_cpus(CPUS);
        let mut vm =
            Vm::start(&tools.qemu.program, args, VmStart::PowerOn, &files.stderr, &limits)?;
        let watch = VmWatch {
            limits: &limits,
            cancel: &tools.cancel,
            wire: (&files.wire, limits.wire_bytes),
            expects_hello: false,
            console: &files.console,
        };
        collect(&mut vm, &watch, &profile)
    }
}

/// Judges the answer of the self-test. The error is the reason why QEMU fails.
fn judge(answer: &RawAnswer) -> Result<(), String> {
    let done = match parse_answer(&answer.wire, "self-test") {
        Ok(Answer::Done(done)) => done,
        Ok(Answer::Refused(reason)) => return Err(reason),
        Err(error) => return Err(error.to_string()),
    };
    let number = |name: &str| done.signature.get(name).copied().unwrap_or_default();
    let counter = number("counter");
    if counter != ACQUISITIONS {
        return Err(format!("a counter behind a lock is {counter} instead of {ACQUISITIONS}"));
    }
    let (quantum, expected) = SELF_TEST_POINT;
    let share = percent(number("contended"), ACQUISITIONS);
    match (share - expected).abs() <= MAX_DEVIATION {
        true => Ok(()),
        false => Err(format!(
            "at a quantum of {quantum}, {share:.1} % of a lock's acquisitions are contended \
             instead of {expected:.1} %"
        )),
    }
}

#[allow(clippy::cast_precision_loss, reason = "both are small")]
fn percent(part: u64, total: u64) -> f64 {
    part as f64 / total as f64 * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_profile_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("profile");
        assert_eq!(read_profile(&path).unwrap(), "");
        fs::write(&path, "total 1\n").unwrap();
        assert_eq!(read_profile(&path).unwrap(), "total 1\n");
        fs::write(&path, b"\xff").unwrap();
        assert_eq!(read_profile(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(read_profile(dir.path()).is_err());
    }
}
