//! Snapshots: a Boot that is frozen at a fixed instruction. The cache keeps it under a hash of all
//! that it depends on.

use std::fs::{self, File};
use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

use super::{Tools, archives};
use crate::argv;
use crate::engine::{Request, Stop, host_failure};
use crate::limits::Limits;
use crate::vm::{Vm, read_hello};
use crate::wire::{self, Hello};
use ktax_host::cache::{Holder, Scratch};
use ktax_host::disk::{
    Lock, read_own, read_own_text, sha256_of_file, sha256_of_parts, sha256_of_sparse_file,
    write_atomically,
};
use ktax_model::Failure;

/// The file that says that a Snapshot is complete.
const SEAL: &str = "seal";

/// The largest seal or hello that is read, in bytes; neither has so much.
const TEXT_MAX: u64 = 1 << 20;

/// A Snapshot on disk.
#[derive(Debug)]
pub struct Snapshot {
    dir: PathBuf,
    _holder: Holder,
    /// The hello of the guest, before it was frozen.
    pub hello: Hello,
}

impl Snapshot {
    /// Returns the file of the guest's memory.
    pub fn ram(&self) -> PathBuf {
        self.dir.join("ram")
    }

    /// Returns the file of the state of all devices and of the CPU.
    pub fn state(&self) -> PathBuf {
        self.dir.join("state")
    }

    /// Returns the file of the Boot's console.
    pub fn console(&self) -> PathBuf {
        self.dir.join("serial.log")
    }

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
    let files = argv::Files {
        ram: scratch.file("ram"),
        wire: scratch.file("wire"),
        console: scratch.file("serial.log"),
    };
    let args = |control| argv::freeze(request, initrd, &files, control);
    let stderr = scratch.file("stderr");
    let mut vm = Vm::start(&tools.qemu.program, args, None, &stderr, &tools.limits)?;
    let watch = tools.watch(&files, tools.limits.wire_bytes);
    let booted =
        vm.wait(&watch).and_then(|rest| Ok(read_hello(&rest, &files.wire, &files.console)?));
    let hello = booted.map_err(|stop| stop.with_console(&files.console))?;
    save_state(&tools.limits, &mut vm, &scratch.file("state"))?;
    drop(vm);
    let failed = host_failure("cannot keep the snapshot");
    seal(&files.ram, &scratch.file("state"), &scratch.file(SEAL)).map_err(&failed)?;
    drop(fs::remove_file(&stderr));
    // The holder comes before the name under which a cleaner finds the Snapshot.
    let holder = Holder::hold_directory(scratch.path()).map_err(&failed)?;
    // A directory that is already there is a damaged Snapshot.
    drop(fs::remove_dir_all(dir));
    fs::rename(scratch.keep(), dir).map_err(failed)?;
    Ok(Snapshot { dir: dir.to_owned(), _holder: holder, hello })
}

/// Returns the text of a seal: the hashes of the memory and of the state.
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
    let failed = |error: io::Error| host_failure("cannot save the snapshot")(error);
    let dir = tempfile::Builder::new().prefix("ktax-").tempdir().map_err(failed)?;
    let socket = dir.path().join("state");
    let listener = UnixListener::bind(&socket).map_err(failed)?;
    let mut file = File::create(path).map_err(failed)?;
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
        copied.map(drop).map_err(failed)
    })?;
    Ok(())
}

/// Returns a hash of everything that a Boot's state depends on.
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
