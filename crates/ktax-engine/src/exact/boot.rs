//! Boots of the exact engine. A Snapshot is a Boot that is frozen at a fixed instruction; the cache
//! keeps it under a hash of all that it depends on. Runs start from it.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

use super::{Tools, archives};
use crate::argv::{self, Files, Paths, Plugin, Slices};
use crate::limits::Limits;
use crate::vm::{Rest, Vm, Watched, read_hello, read_tail};
use crate::wire::{self, Hello};
use crate::{Frozen, RawAnswer, Request, Stop, host_failure};
use ktax_host::cache::{Holder, Scratch};
use ktax_host::disk::{
    Lock, read_own, read_own_text, sha256_of_file, sha256_of_parts, sha256_of_sparse_file,
    write_atomically,
};
use ktax_model::{CONTENDED_QUANTUM, Failure, Machine, Model, QUANTUM, Region};

/// A Snapshot, ready for Runs.
pub struct ExactBoot<'a> {
    pub(super) tools: &'a Tools,
    pub(super) request: Request,
    pub(super) initrd: PathBuf,
    pub(super) snapshot: Snapshot,
    /// The kernel's functions; without them, nothing is counted.
    pub(super) symbols: Option<SymbolFile>,
    /// The kernel's variables, for the model of coherence.
    pub(super) variables: Option<SymbolFile>,
    pub(super) paths: Paths,
}

/// A file with a Kernel's functions or variables, which is in use until this is dropped.
pub(super) struct SymbolFile {
    pub path: PathBuf,
    pub _holder: Holder,
}

/// The files of one Run.
struct RunFiles {
    /// Removed with all that is in it after the Run.
    _scratch: Scratch,
    vm: Files,
    order: PathBuf,
    profile: PathBuf,
    machine: Option<PathBuf>,
}

impl RunFiles {
    /// Writes the order and the sizes of the machine. Without the memory of a Snapshot, the guest
    /// has new memory.
    fn create(
        tools: &Tools,
        machine: &Machine,
        order: &str,
        ram: Option<PathBuf>,
    ) -> Result<RunFiles, Failure> {
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
        let mut vm = Files::in_scratch(&scratch);
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
        // Without symbols the plugin does not know where the kernel starts: the profile has no
        // Region.
        let symbols = self.symbols().unwrap_or(Path::new(""));
        let plugin = self.plugin(&files, symbols, Region::Boot);
        let (request, initrd) = (&self.request, &self.initrd);
        let args = |control| argv::boot(request, initrd, &files.vm, control, &files.order, &plugin);
        let mut vm = Vm::start(&tools.qemu.program, args, None, &files.vm.stderr, &tools.limits)?;
        let watch = tools.watch(&files.vm, tools.limits.wire_bytes);
        let frozen = vm.wait(&watch).map_err(|stop| stop.with_console(&files.vm.console))?;
        if frozen == Rest::Paused {
            vm.go();
        }
        let mut answer = self.end(&mut vm, &files, tools.limits.wire_bytes)?;
        // A guest that boots prints its hello before its answer.
        const READY: &[u8] = b"\nready\n";
        let hello = answer.wire.windows(READY.len()).position(|window| window == READY);
        answer.wire.drain(..hello.map_or(0, |start| start + READY.len()));
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

    /// Starts from the Snapshot, gives the guest an order, and waits for its end. Counts if there
    /// are symbols.
    pub(super) fn resume(
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
        let (program, inherited) = (&tools.qemu.program, Some(state.as_fd()));
        let mut vm = Vm::start(program, args, inherited, &files.vm.stderr, &tools.limits)?;
        let uri = format!("fd:{}", state.as_raw_fd());
        vm.monitor(|monitor| monitor.receive_state(uri, tools.limits.poll / 50))?;
        vm.go();
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
pub(super) fn collect(vm: &mut Vm, watch: &Watched, profile: &Path) -> Result<RawAnswer, Stop> {
    let rest = vm.wait(watch)?;
    if rest == Rest::Paused {
        vm.quit(watch.limits)?;
    }
    let console = read_tail(watch.console);
    wire::check_panic(&console)?;
    let console_tail = wire::tail(&console);
    if rest == Rest::ShutDown {
        return Err(Failure::Silent { console: console_tail }.into());
    }
    let wire = fs::read(watch.wire.0).map_err(host_failure("cannot read the wire"))?;
    let profile = fs::read_to_string(profile).unwrap_or_default();
    Ok(RawAnswer { wire, profile, console_tail })
}

const SEAL: &str = "seal";

/// The largest seal or hello that is read, in bytes; neither has so much.
const TEXT_MAX: u64 = 1 << 20;

/// A Snapshot on disk: the guest's memory in `ram`, the state of all devices and of the CPU in
/// `state`, the Boot's console in `serial.log`.
#[derive(Debug)]
pub(super) struct Snapshot {
    dir: PathBuf,
    _holder: Holder,
    /// The hello of the guest, before it was frozen.
    pub hello: Hello,
}

impl Snapshot {
    fn open(dir: &Path) -> Option<Snapshot> {
        let holder = Holder::hold(dir).ok()??;
        let hello = wire::parse_hello(&read_own(&dir.join("wire"), TEXT_MAX).ok()?).ok()?;
        // A Snapshot that a full disk or a crash has damaged is made again.
        let sealed = read_own_text(&dir.join(SEAL), TEXT_MAX).ok()?;
        (sealed == seal_text(&dir.join("ram"), &dir.join("state")).ok()?).then_some(())?;
        Some(Snapshot { dir: dir.to_owned(), _holder: holder, hello })
    }
}

/// Finds the Snapshot of a Boot, or makes the Boot and the Snapshot.
pub fn obtain(tools: &Tools, request: &Request, initrd: &Path) -> Result<Snapshot, Stop> {
    let parent = tools.cache.join("snapshots");
    fs::create_dir_all(&parent).map_err(host_failure("cannot create the snapshot cache"))?;
    let key = key(tools, request);
    let dir = parent.join(&key);
    // If two threads or processes want the same Snapshot, one makes it and the other waits.
    let _lock = lock(&parent.join(format!("{key}.lock")), tools)?;
    match Snapshot::open(&dir) {
        Some(snapshot) => Ok(snapshot),
        None => make(tools, request, initrd, &parent, &dir),
    }
}

fn make(
    tools: &Tools,
    request: &Request,
    initrd: &Path,
    parent: &Path,
    dir: &Path,
) -> Result<Snapshot, Stop> {
    check_space(parent, request.machine.memory_mib)?;
    let scratch = Scratch::create(parent).map_err(host_failure("cannot create a snapshot"))?;
    let files = Files::in_scratch(&scratch);
    let args = |control| argv::freeze(request, initrd, &files, control);
    let mut vm = Vm::start(&tools.qemu.program, args, None, &files.stderr, &tools.limits)?;
    let watch = tools.watch(&files, tools.limits.wire_bytes);
    let booted =
        vm.wait(&watch).and_then(|rest| Ok(read_hello(&rest, &files.wire, &files.console)?));
    let hello = booted.map_err(|stop| stop.with_console(&files.console))?;
    save_state(&tools.limits, &mut vm, &scratch.file("state"))?;
    drop(vm);
    let failed = host_failure("cannot keep the snapshot");
    seal(&files.ram, &scratch.file("state"), &scratch.file(SEAL)).map_err(&failed)?;
    drop(fs::remove_file(&files.stderr));
    // The holder comes before the name under which a cleaner finds the Snapshot.
    let holder = Holder::hold_directory(scratch.path()).map_err(&failed)?;
    // A directory that is already there is a damaged Snapshot.
    drop(fs::remove_dir_all(dir));
    fs::rename(scratch.keep(), dir).map_err(failed)?;
    Ok(Snapshot { dir: dir.to_owned(), _holder: holder, hello })
}

/// The text of a seal: the hashes of the memory and of the state.
fn seal_text(ram: &Path, state: &Path) -> io::Result<String> {
    Ok(format!("{} {}\n", sha256_of_sparse_file(ram)?, sha256_of_file(state)?))
}

/// Syncs the memory to the disk, then writes the seal, which says that the Snapshot is complete.
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
        let sent = vm.monitor(|monitor| monitor.send_state(uri, limits.poll / 10));
        if sent.is_err() {
            // Makes accept() return in the other thread.
            drop(std::os::unix::net::UnixStream::connect(&socket));
        }
        let copied = copying.join().unwrap_or_else(|_| Err(io::Error::other("copying failed")));
        sent?;
        copied.map(drop).map_err(&failed)
    })?;
    Ok(())
}

/// A hash of everything that a Boot's state depends on.
pub(super) fn key(tools: &Tools, request: &Request) -> String {
    let boot_line = argv::boot_line(request);
    let memory_mib = request.machine.memory_mib.to_string();
    let seed = request.layout.seed.to_string();
    let cpus = format!("{} CPUs", request.machine.cpus);
    let mut parts = vec![
        request.image_sha256.as_str(),
        &tools.guest_sha256,
        &boot_line,
        &tools.qemu.version,
        argv::MACHINE,
        &request.machine.cpu,
        &memory_mib,
        &seed,
    ];
    parts.extend((request.machine.cpus > 1).then_some(&*cpus));
    parts.extend(archives(request).into_iter().map(|packed| packed.sha256.as_str()));
    sha256_of_parts(&parts)
}

/// Checks the free space. The guest's memory is a sparse file, and a full filesystem kills QEMU.
fn check_space(parent: &Path, memory_mib: u32) -> Result<(), Failure> {
    let space = statvfs(parent)
        .map_err(io::Error::from)
        .map_err(host_failure("cannot look at the cache"))?;
    let free_mib = (space.f_bavail * space.f_frsize) >> 20;
    let needed_mib = u64::from(memory_mib) + 32;
    if free_mib >= needed_mib {
        return Ok(());
    }
    let reason = format!(
        "{free_mib} MiB are free in {}, and this guest's memory can take {needed_mib} MiB",
        parent.display()
    );
    Err(Failure::Host { operation: "the disk is too full for a snapshot".into(), reason })
}

/// Waits for the lock of a cache entry.
pub fn lock(path: &Path, tools: &Tools) -> Result<Lock, Stop> {
    let failed = host_failure("cannot lock the snapshot");
    let lock = Lock::wait_at(path, tools.limits.poll, || tools.cancel.is_cancelled());
    lock.map_err(failed)?.ok_or(Stop::Cancelled)
}
