//! Programs in the cache, by the hash of the archive.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::archive::{Archive, Placed};
use super::error::ProgramError;
use super::tree::GuestTree;
use super::{needs, start, symbols};
use ktax_host::cache::{Holder, Scratch};
use ktax_host::disk::{is_sha256, sha256_of_file};
use ktax_host::text::{escape, escape_path};
use ktax_model::{Disk, UserProgram};

/// The markers for scripts.
static MARK: &[u8] = include_bytes!(env!("KTAX_MARK"));

const ARCHIVE: &str = "archive.cpio";
const SYMBOLS: &str = "symbols";
const SETUP: &str = "setup";

/// The programs of a plan, in the cache.
#[derive(Debug, Clone)]
pub struct PackedPrograms {
    /// SHA-256 of the archive.
    pub sha256: String,
    /// What the guest unpacks behind its own files.
    pub archive: PathBuf,
    /// The functions in it, for the plugin.
    pub symbols: PathBuf,
    /// Whether something runs before the guest is frozen.
    pub has_setup: bool,
    _holder: Arc<Holder>,
}

/// What a guest unpacks at once, beside ktax's own programs and the kernel's modules.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Contents {
    /// The programs that are rows.
    pub programs: Vec<UserProgram>,
    /// The hooks of all other rows.
    pub hooks: Option<UserProgram>,
    /// The file system of the guest's files, and the program that makes it, if it needs one.
    pub disk: Option<(Disk, Option<UserProgram>)>,
    /// Kernel settings: a file of the guest, and what is written to it.
    pub settings: Vec<(String, String)>,
    /// The Side's own set-up.
    pub setup: Option<UserProgram>,
}

impl Contents {
    /// Whether there is nothing to unpack.
    pub fn is_empty(&self) -> bool {
        *self == Contents::default()
    }

    /// Whether something runs, or is set, before the guest is frozen.
    fn has_setup(&self) -> bool {
        let all = self.programs.iter().chain(&self.hooks).chain(&self.setup);
        !self.settings.is_empty() || all.into_iter().any(|program| program.setup.is_some())
    }
}

/// Packs programs for a guest that has them all, hooks, settings and what makes the disk, with all
/// that they need, from the directory `here`; `most_bytes` is what fits into the guest.
///
/// # Errors
///
/// A file is missing, is too large or is not a program; or the cache cannot be written.
pub fn pack(
    contents: &Contents,
    here: &Path,
    most_bytes: u64,
    cache: &Path,
) -> Result<PackedPrograms, ProgramError> {
    let Contents { programs, hooks, disk, settings, setup } = contents;
    let mut memory = Room::of(most_bytes);
    let mut on_disk = disk.as_ref().map(|(disk, _)| Room::on(disk));
    pack_with(cache, contents.has_setup(), |archive| {
        let mut placed = Vec::new();
        archive.directory("program")?;
        if let Some((disk, mkfs)) = disk {
            archive.text("program/mount", 0o444, &start::mount(disk))?;
            if let Some(mkfs) = mkfs {
                let added = add(archive, "program/disk", mkfs, here, (&mut memory, None));
                added.map_err(|error| error.of_mkfs(&disk.fs))?;
                archive.text("program/disk/device", 0o444, &start::device(disk))?;
            }
        }
        if !settings.is_empty() {
            archive.text("program/sysctl", 0o444, &start::settings(settings))?;
        }
        for (name, hooks) in [("rows", hooks), ("side", setup)] {
            if let Some(hooks) = hooks {
                let rooms = (&mut memory, on_disk.as_mut());
                add(archive, &format!("program/{name}"), hooks, here, rooms)?;
            }
        }
        for (number, program) in programs.iter().enumerate() {
            let directory = format!("program/{number}");
            let rooms = (&mut memory, on_disk.as_mut());
            placed.extend(add(archive, &directory, program, here, rooms)?);
        }
        Ok(placed)
    })
}

/// The programs of a Plan of counts, each packed alone: what else a guest has in its memory would
/// change what a program costs.
#[derive(Debug, Clone, Default)]
pub struct ProgramsAlone {
    /// What each guest has: what makes the disk, and hooks of rows that are no programs.
    pub beside: Option<PackedPrograms>,
    /// Each program.
    pub programs: Vec<PackedPrograms>,
}

impl ProgramsAlone {
    /// The hashes of the archives, in the order in which a Key has them.
    pub fn sha256s(&self) -> impl Iterator<Item = &str> {
        self.beside.iter().chain(&self.programs).map(|packed| packed.sha256.as_str())
    }
}

/// Packs one program, for a guest that has an archive of `beside_bytes` beside it and, where there
/// is one, a disk.
///
/// # Errors
///
/// As of [`pack`].
pub fn pack_alone(
    program: &UserProgram,
    (beside_bytes, disk): (u64, Option<&Disk>),
    here: &Path,
    most_bytes: u64,
    cache: &Path,
) -> Result<PackedPrograms, ProgramError> {
    let mut memory = Room { most_bytes, left_bytes: most_bytes.saturating_sub(beside_bytes) };
    let mut on_disk = disk.map(Room::on);
    pack_with(cache, program.setup.is_some(), |archive| {
        archive.directory("program")?;
        add(archive, "program/0", program, here, (&mut memory, on_disk.as_mut()))
    })
}

/// Packs what `fill` adds; it returns the files whose functions the plugin is to know.
pub(super) fn pack_with(
    cache: &Path,
    has_setup: bool,
    fill: impl FnOnce(&mut Archive<BufWriter<File>>) -> Result<Vec<Placed>, ProgramError>,
) -> Result<PackedPrograms, ProgramError> {
    let parent = cache.join("programs");
    let scratch = Scratch::create(&parent).map_err(ProgramError::Cache)?;
    let file = File::create(scratch.file(ARCHIVE)).map_err(ProgramError::Cache)?;
    let mut archive = Archive::new(BufWriter::new(file));
    let placed = fill(&mut archive)?;
    archive.end()?;
    let symbols = symbols::text(&placed)?;
    fs::write(scratch.file(SYMBOLS), symbols).map_err(ProgramError::Cache)?;
    if has_setup {
        fs::write(scratch.file(SETUP), "").map_err(ProgramError::Cache)?;
    }
    keep(scratch, &parent, cache)
}

/// How much fits, and how much of that is left.
struct Room {
    most_bytes: u64,
    left_bytes: u64,
}

impl Room {
    fn of(most_bytes: u64) -> Room {
        Room { most_bytes, left_bytes: most_bytes }
    }

    fn on(disk: &Disk) -> Room {
        Room::of(u64::from(disk.mib) << 20)
    }

    /// Takes some of it; `full` says that there is not so much, of how many MiB.
    fn take(&mut self, bytes: u64, full: impl Fn(u64) -> ProgramError) -> Result<(), ProgramError> {
        let left = self.left_bytes.checked_sub(bytes);
        self.left_bytes = left.ok_or_else(|| full(self.most_bytes >> 20))?;
        Ok(())
    }
}

/// Adds one program, and returns where its files are. Where there is a disk, it has all that is in
/// the working directory and hides /tmp; its file system needs some of it, too.
fn add<W: Write>(
    archive: &mut Archive<W>,
    directory: &str,
    program: &UserProgram,
    here: &Path,
    (memory, on_disk): (&mut Room, Option<&mut Room>),
) -> Result<Vec<Placed>, ProgramError> {
    let mut tree = GuestTree::new(memory.most_bytes);
    let at = needs::add(&mut tree, program, here)?;
    let hooks = [("setup", &program.setup), ("prepare", &program.prepare)];
    let hooks = hooks.into_iter().filter_map(|(name, text)| Some((name, text.as_ref()?)));
    let hooks = hooks.map(|(name, text)| {
        let at = needs::shell(&mut tree, text, here)?;
        Ok((name, start::shell(&at, text)))
    });
    let hooks = hooks.collect::<Result<Vec<_>, ProgramError>>()?;
    let path = || escape(program.command.first().map_or("", String::as_str));
    if let Some(on_disk) = on_disk {
        if let Some(path) = tree.first_below(Path::new("/tmp")) {
            return Err(ProgramError::Hidden { path: escape_path(path).to_string() });
        }
        let bytes = tree.bytes_below(Path::new(super::WORK));
        on_disk.take(bytes, |mib| ProgramError::SmallDisk { path: path(), mib })?;
    }
    let bytes = archive.bytes_of(&tree, program.user);
    memory.take(bytes, |most_mib| ProgramError::TooLarge { path: path(), most_mib })?;
    let root = format!("{directory}/root");
    archive.directory(directory)?;
    archive.text(&format!("{directory}/words"), 0o444, &start::words(program, &at))?;
    archive.text(
        &format!("{directory}/env"),
        0o444,
        &start::environment(&start::USUAL, program)?,
    )?;
    archive.text(&format!("{directory}/stdin"), 0o444, &stdin(program, here)?)?;
    if let Some(clock) = tree.clock() {
        archive.text(&format!("{directory}/clock"), 0o444, format!("{clock}\0").as_bytes())?;
    }
    for (name, words) in hooks {
        archive.text(&format!("{directory}/{name}"), 0o444, &words)?;
    }
    archive.directory(&root)?;
    // Its place in PATH.
    for directory in ["usr", "usr/local", "usr/local/bin"] {
        archive.directory(&format!("{root}/{directory}"))?;
    }
    archive.text(&format!("{root}/usr/local/bin/ktax-mark"), 0o755, MARK)?;
    archive.tree(&root, &tree, program.user)
}

/// Programs that were packed before, if the cache still has them.
pub fn open(sha256: &str, cache: &Path) -> Option<PackedPrograms> {
    let directory = is_sha256(sha256).then(|| cache.join("programs").join(sha256))?;
    let holder = Holder::of(&directory).ok()??;
    let (archive, symbols) = (directory.join(ARCHIVE), directory.join(SYMBOLS));
    let is_whole = sha256_of_file(&archive).is_ok_and(|found| found == sha256) && symbols.exists();
    let (sha256, has_setup) = (sha256.to_owned(), directory.join(SETUP).exists());
    let holder = Arc::new(holder);
    is_whole.then(|| PackedPrograms { sha256, archive, symbols, has_setup, _holder: holder })
}

fn keep(scratch: Scratch, parent: &Path, cache: &Path) -> Result<PackedPrograms, ProgramError> {
    let sha256 = sha256_of_file(&scratch.file(ARCHIVE)).map_err(ProgramError::Cache)?;
    if let Some(known) = open(&sha256, cache) {
        return Ok(known);
    }
    let directory = parent.join(&sha256);
    // A directory that is there is damaged, or another ktax was faster.
    drop(fs::remove_dir_all(&directory));
    let renamed = fs::rename(scratch.keep(), &directory);
    match open(&sha256, cache) {
        Some(packed) => Ok(packed),
        None => Err(ProgramError::Cache(renamed.err().unwrap_or_else(damaged))),
    }
}

fn damaged() -> std::io::Error {
    std::io::Error::other("it was removed in the same moment")
}

pub(super) fn stdin(program: &UserProgram, here: &Path) -> Result<Vec<u8>, ProgramError> {
    const MOST_BYTES: u64 = 64 << 20;
    let Some(file) = &program.stdin else { return Ok(Vec::new()) };
    let path = here.join(file);
    ProgramError::if_irregular(&path)?;
    ktax_host::disk::read_limited(&path, MOST_BYTES).map_err(ProgramError::unreadable(&path))
}
