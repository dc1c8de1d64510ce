//! Programs that are ready to run: packed in the cache, by the hash of the archive, or natively
//! where they are. A kernel's modules are an archive, too, which the guest loads before its freeze.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cpio::newc::{Builder, trailer};

use crate::tree::{GuestNode, GuestTree, HostFile};
use crate::{
    WORK, cache_error, check_regular, elf, needs, not_utf8, script, too_large, traced, unreadable,
};
use ktax_host::cache::{Holder, Scratch};
use ktax_host::disk::{is_sha256, sha256_of_file, sha256_of_parts};
use ktax_host::text::{escape, escape_path};
use ktax_model::{Disk, Error, Result, UserProgram};

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
    /// Archive that the guest unpacks behind its own files.
    pub archive: PathBuf,
    /// The functions in it, for the plugin.
    pub symbols: PathBuf,
    /// True if something runs before the guest is frozen.
    pub has_setup: bool,
    _holder: Arc<Holder>,
}

/// Everything that a guest unpacks at once, beside ktax's own programs and the kernel's modules.
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
    pub setup: Option<UserProgram>,
}

impl Contents {
    pub fn is_empty(&self) -> bool {
        *self == Contents::default()
    }

    /// Returns whether something runs, or is set, before the guest is frozen.
    fn has_setup(&self) -> bool {
        let programs = self.programs.iter().chain(&self.hooks).chain(&self.setup);
        !self.settings.is_empty() || programs.into_iter().any(|program| program.setup.is_some())
    }
}

/// Packs programs for a guest that has them all, hooks, settings and what makes the disk, with all
/// that they need, from the directory `here`; `most_bytes` is what fits into the guest.
pub fn pack(
    contents: &Contents,
    here: &Path,
    most_bytes: u64,
    cache: &Path,
) -> Result<PackedPrograms> {
    let Contents { programs, hooks, disk, settings, setup } = contents;
    let mut memory = Room::with_bytes(most_bytes);
    let mut on_disk = disk.as_ref().map(|(disk, _)| Room::on_disk(disk));
    pack_with(cache, contents.has_setup(), |archive| {
        let mut placed = Vec::new();
        archive.directory("program")?;
        if let Some((disk, mkfs)) = disk {
            let mount = nul_terminated([disk.fs.as_str(), &disk.options, disk.device.path()]);
            archive.text("program/mount", 0o444, &mount)?;
            if let Some(mkfs) = mkfs {
                check_mkfs(mkfs, &disk.fs, here)?;
                add_packed(archive, "program/disk", mkfs, here, (&mut memory, None))?;
                archive.text("program/disk/device", 0o444, &encode_settings(&disk.settings()))?;
            }
        }
        if !settings.is_empty() {
            archive.text("program/sysctl", 0o444, &encode_settings(settings))?;
        }
        for (name, hooks) in [("rows", hooks), ("side", setup)] {
            if let Some(hooks) = hooks {
                let rooms = (&mut memory, on_disk.as_mut());
                add_packed(archive, &format!("program/{name}"), hooks, here, rooms)?;
            }
        }
        for (number, program) in programs.iter().enumerate() {
            let directory = format!("program/{number}");
            let rooms = (&mut memory, on_disk.as_mut());
            placed.extend(add_packed(archive, &directory, program, here, rooms)?);
        }
        Ok(placed)
    })
}

/// Refuses a file system whose program this machine does not have, and names the package with it.
fn check_mkfs(mkfs: &UserProgram, fs: &str, here: &Path) -> Result<()> {
    let package = match fs {
        "ext4" => "e2fsprogs",
        "xfs" => "xfsprogs",
        "btrfs" => "btrfs-progs",
        _ => "f2fs-tools",
    };
    let command = mkfs.command.first().map_or("", String::as_str);
    needs::find_program(command, here).map(drop).map_err(|_| {
        Error::user(format!("this machine has no {command}, which makes the disk"))
            .next(format!("type: sudo apt-get install {package}"))
    })
}

/// The programs of a Plan of counts, each packed alone: what else a guest has in its memory would
/// change what a program costs.
#[derive(Debug, Clone, Default)]
pub struct ProgramsAlone {
    /// Archive of every guest: what makes the disk, and hooks of rows that are no programs.
    pub beside: Option<PackedPrograms>,
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
pub fn pack_alone(
    program: &UserProgram,
    (beside_bytes, disk): (u64, Option<&Disk>),
    here: &Path,
    most_bytes: u64,
    cache: &Path,
) -> Result<PackedPrograms> {
    let mut memory = Room { most_bytes, left_bytes: most_bytes.saturating_sub(beside_bytes) };
    let mut on_disk = disk.map(Room::on_disk);
    pack_with(cache, program.setup.is_some(), |archive| {
        archive.directory("program")?;
        add_packed(archive, "program/0", program, here, (&mut memory, on_disk.as_mut()))
    })
}

/// Packs what `fill` adds; it returns the files whose functions the plugin is to know.
fn pack_with(
    cache: &Path,
    has_setup: bool,
    fill: impl FnOnce(&mut Archive<BufWriter<File>>) -> Result<Vec<PlacedFile>>,
) -> Result<PackedPrograms> {
    let parent = cache.join("programs");
    let scratch = Scratch::create(&parent).map_err(cache_error)?;
    let file = File::create(scratch.file(ARCHIVE)).map_err(cache_error)?;
    let mut archive = Archive::new(BufWriter::new(file));
    let placed = fill(&mut archive)?;
    archive.end()?;
    let symbols = elf::symbol_text(&placed)?;
    fs::write(scratch.file(SYMBOLS), symbols).map_err(cache_error)?;
    if has_setup {
        fs::write(scratch.file(SETUP), "").map_err(cache_error)?;
    }
    keep_in_cache(scratch, &parent, cache)
}

/// Bytes that fit into a guest or on its disk, and how many of them are left.
struct Room {
    most_bytes: u64,
    left_bytes: u64,
}

impl Room {
    fn with_bytes(most_bytes: u64) -> Room {
        Room { most_bytes, left_bytes: most_bytes }
    }

    fn on_disk(disk: &Disk) -> Room {
        Room::with_bytes(u64::from(disk.mib) << 20)
    }

    /// Takes `bytes` of the room. `full` makes the error if it is too small, from its size in MiB.
    fn take(&mut self, bytes: u64, full: impl Fn(u64) -> Error) -> Result<()> {
        let left = self.left_bytes.checked_sub(bytes);
        self.left_bytes = left.ok_or_else(|| full(self.most_bytes >> 20))?;
        Ok(())
    }
}

/// Adds one program, and returns where its files are. Where there is a disk, it has all that is in
/// the working directory and hides /tmp; its file system needs some of it, too.
fn add_packed<W: Write>(
    archive: &mut Archive<W>,
    directory: &str,
    program: &UserProgram,
    here: &Path,
    (memory, on_disk): (&mut Room, Option<&mut Room>),
) -> Result<Vec<PlacedFile>> {
    let mut tree = GuestTree::new(memory.most_bytes);
    let executed = needs::add_program(&mut tree, program, here)?;
    let hooks = [("setup", &program.setup), ("prepare", &program.prepare)];
    let hooks = hooks.into_iter().filter_map(|(name, text)| Some((name, text.as_ref()?)));
    let hooks = hooks.map(|(name, text)| {
        let path = needs::add_shell(&mut tree, text, here)?;
        Ok((name, shell_words(&path, text)))
    });
    let hooks = hooks.collect::<Result<Vec<_>>>()?;
    let path = escape(program.command.first().map_or("", String::as_str));
    if let Some(on_disk) = on_disk {
        if let Some(path) = tree.first_below(Path::new("/tmp")) {
            let problem =
                format!("{} would be below /tmp, where the disk is mounted", escape_path(path));
            return Err(Error::user(problem)
                .next("give it from a directory outside /tmp, or by a relative path"));
        }
        let bytes = tree.bytes_below(Path::new(WORK));
        on_disk.take(bytes, |mib| {
            Error::user(format!(
                "with {path} the files below /work exceed {mib} MiB, which is the size of the disk"
            ))
            .next("give it more `mib` in an experiment file, or fewer files")
        })?;
    }
    let bytes = archive.added_bytes(&tree, program.user);
    memory.take(bytes, |most_mib| too_large(&path, most_mib))?;
    let root = format!("{directory}/root");
    archive.directory(directory)?;
    archive.text(&format!("{directory}/words"), 0o444, &command_words(program, &executed))?;
    archive.text(&format!("{directory}/env"), 0o444, &environment(&USUAL_ENVIRONMENT, program)?)?;
    archive.text(&format!("{directory}/stdin"), 0o444, &read_stdin(program, here)?)?;
    if let Some(clock) = tree.clock() {
        archive.text(&format!("{directory}/clock"), 0o444, format!("{clock}\0").as_bytes())?;
    }
    for (name, words) in hooks {
        archive.text(&format!("{directory}/{name}"), 0o444, &words)?;
    }
    archive.directory(&root)?;
    // The directory in PATH that has ktax-mark.
    for directory in ["usr", "usr/local", "usr/local/bin"] {
        archive.directory(&format!("{root}/{directory}"))?;
    }
    archive.text(&format!("{root}/usr/local/bin/ktax-mark"), 0o755, MARK)?;
    archive.tree(&root, &tree, program.user)
}

/// Programs that were packed before, if the cache still has them.
pub fn open(sha256: &str, cache: &Path) -> Option<PackedPrograms> {
    let directory = is_sha256(sha256).then(|| cache.join("programs").join(sha256))?;
    let holder = Holder::hold(&directory).ok()??;
    let (archive, symbols) = (directory.join(ARCHIVE), directory.join(SYMBOLS));
    let is_whole = sha256_of_file(&archive).is_ok_and(|found| found == sha256) && symbols.exists();
    let (sha256, has_setup) = (sha256.to_owned(), directory.join(SETUP).exists());
    let holder = Arc::new(holder);
    is_whole.then(|| PackedPrograms { sha256, archive, symbols, has_setup, _holder: holder })
}

fn keep_in_cache(scratch: Scratch, parent: &Path, cache: &Path) -> Result<PackedPrograms> {
    let sha256 = sha256_of_file(&scratch.file(ARCHIVE)).map_err(cache_error)?;
    if let Some(known) = open(&sha256, cache) {
        return Ok(known);
    }
    let directory = parent.join(&sha256);
    // An existing directory is damaged, or another ktax was faster.
    drop(fs::remove_dir_all(&directory));
    let renamed = fs::rename(scratch.keep(), &directory);
    match open(&sha256, cache) {
        Some(packed) => Ok(packed),
        None => {
            let removed = || io::Error::other("it was removed in the same moment");
            Err(cache_error(renamed.err().unwrap_or_else(removed)))
        }
    }
}

fn read_stdin(program: &UserProgram, here: &Path) -> Result<Vec<u8>> {
    const MOST_BYTES: u64 = 64 << 20;
    let Some(file) = &program.stdin else { return Ok(Vec::new()) };
    let path = here.join(file);
    check_regular(&path)?;
    ktax_host::disk::read_limited(&path, MOST_BYTES).map_err(unreadable(&path))
}

/// The modules of a kernel, in the cache.
#[derive(Debug, Clone)]
pub struct PackedModules {
    /// Archive that the guest unpacks behind its own files; it has no functions of user mode.
    pub packed: PackedPrograms,
    /// Names of the modules, in the order in which they are loaded.
    pub names: Vec<String>,
}

/// A module that a guest loads.
#[derive(Debug, Clone)]
pub struct LoadedModule {
    /// Name of the module in the kernel.
    pub name: String,
    /// Parameters, separated by spaces.
    pub parameters: String,
    /// True if it is only for some CPUs: on others it is not loaded, and nothing fails.
    pub is_cpu_specific: bool,
    /// Content of the file, not compressed.
    pub content: Vec<u8>,
}

/// Packs modules, in the order in which they are loaded.
pub fn pack_modules(modules: &[LoadedModule], cache: &Path) -> Result<PackedModules> {
    let packed = pack_with(cache, false, |archive| {
        archive.directory("modules")?;
        for (index, module) in modules.iter().enumerate() {
            let name = format!("modules/{index}");
            archive.text(&name, 0o444, &module.content)?;
            archive.text(&format!("{name}.parameters"), 0o444, module.parameters.as_bytes())?;
            if module.is_cpu_specific {
                archive.text(&format!("{name}.cpu"), 0o444, b"")?;
            }
        }
        Ok(Vec::new())
    })?;
    let names = modules.iter().map(|module| module.name.clone()).collect();
    Ok(PackedModules { packed, names })
}

/// Programs that are ready to run natively; the files go when it is dropped.
#[derive(Debug)]
pub struct NativePrograms {
    /// SHA-256 of the programs, their arguments with the files that they name, and their standard
    /// input.
    pub sha256: String,
    scratch: Scratch,
}

impl NativePrograms {
    /// Directory in which the guest program finds them.
    pub fn directory(&self) -> &Path {
        self.scratch.path()
    }
}

/// Looks programs up from the directory `here`, and writes how each starts into the cache. They
/// have the environment of ktax.
pub fn native(programs: &[UserProgram], here: &Path, cache: &Path) -> Result<NativePrograms> {
    let scratch = Scratch::create(&cache.join("runs")).map_err(cache_error)?;
    let mut parts = Vec::new();
    for (number, program) in programs.iter().enumerate() {
        let path =
            needs::find_executable(program.command.first().map_or("", String::as_str), here)?;
        let own_hash = sha256_of_file(&path).map_err(unreadable(&path))?;
        let (words, stdin) = (command_words(program, &path), read_stdin(program, here)?);
        let given = environment(&[], program)?;
        for argument in program.command.iter().skip(1).map(|argument| here.join(argument)) {
            if argument.is_file() {
                let unreadable = unreadable(&argument);
                parts.push(sha256_of_file(&argument).map_err(unreadable)?);
            }
        }
        parts.push(sha256_of_parts(&[own_hash.as_bytes(), &words, &stdin, &given]));
        let directory = scratch.path().join(number.to_string());
        let files = [("words", words), ("stdin", stdin), ("env", given)];
        write_start(&directory, &["out"], files)?;
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    Ok(NativePrograms { sha256: sha256_of_parts(&parts), scratch })
}

/// Writes into the cache how a program starts in a guest, for a run on this machine: its path is
/// that of this machine.
pub fn to_trace(program: &UserProgram, here: &Path, cache: &Path) -> Result<NativePrograms> {
    let scratch = Scratch::create(&cache.join("runs")).map_err(cache_error)?;
    let command = program.command.first().map_or("", String::as_str);
    let path = traced::in_sandbox(&needs::find_executable(command, here)?, here);
    let directory = scratch.path().join("0");
    let hook = |text: &Option<String>| {
        text.as_ref().map(|text| shell_words(Path::new(needs::SHELL), text))
    };
    let files = [
        ("words", Some(command_words(program, &path))),
        ("env", Some(environment(&USUAL_ENVIRONMENT, program)?)),
        ("stdin", Some(read_stdin(program, here)?)),
        ("setup", hook(&program.setup)),
        ("prepare", hook(&program.prepare)),
    ];
    let files = files.into_iter().filter_map(|(name, content)| Some((name, content?)));
    write_start(&directory, &["out", "root"], files)?;
    Ok(NativePrograms { sha256: String::new(), scratch })
}

/// Writes how a program starts, beside these new directories.
fn write_start(
    directory: &Path,
    directories: &[&str],
    files: impl IntoIterator<Item = (&'static str, Vec<u8>)>,
) -> Result<()> {
    let create = |name: &&str| fs::create_dir_all(directory.join(name));
    directories.iter().try_for_each(create).map_err(cache_error)?;
    let mut files = files.into_iter();
    files
        .try_for_each(|(name, content)| fs::write(directory.join(name), content))
        .map_err(cache_error)
}

// The archive.

const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_777;
const FILE: u32 = 0o100_000;

/// Alignment of the end of an archive in bytes, so that another one can follow.
const BLOCK: u64 = 512;

/// File of the host whose content is in the archive at an offset.
pub(crate) struct PlacedFile {
    pub name: String,
    pub file: HostFile,
    pub offset: u64,
}

/// Inode number, by which the kernel tells files apart.
enum FileNumber {
    /// No number: what a program changes is its own.
    Own,
    New(u32),
    Known(u32),
}

/// An archive that is being written.
struct Archive<W> {
    to: CountingWriter<W>,
    /// Numbers of the files that are there already, by file and owner. Several programs share
    /// most of their libraries, and a run has one program: one copy is enough.
    shared: BTreeMap<(HostFile, u32), u32>,
}

impl<W: Write> Archive<W> {
    pub fn new(to: W) -> Archive<W> {
        Archive { to: CountingWriter { to, bytes: 0 }, shared: BTreeMap::new() }
    }

    /// Adds a directory.
    pub fn directory(&mut self, name: &str) -> Result<()> {
        let entry = Builder::new(name).mode(DIRECTORY | 0o755).nlink(2);
        self.entry(entry, &[])
    }

    /// Adds a file with this content.
    pub fn text(&mut self, name: &str, mode: u32, content: &[u8]) -> Result<()> {
        self.entry(Builder::new(name).mode(FILE | mode).nlink(1), content)
    }

    /// Adds a guest's files below `root`; `user` owns those in the working directory.
    pub fn tree(&mut self, root: &str, tree: &GuestTree, user: u32) -> Result<Vec<PlacedFile>> {
        let mut placed = Vec::new();
        for (path, node) in tree.nodes() {
            let name = format!("{root}{}", path.to_str().ok_or_else(|| not_utf8(path))?);
            let owner = owner(path, user);
            let entry = Builder::new(&name).uid(owner).gid(owner);
            match node {
                GuestNode::Directory => {
                    // All users may make files in /tmp.
                    let mode = if path == Path::new("/tmp") { 0o1777 } else { 0o755 };
                    self.entry(entry.mode(DIRECTORY | mode).nlink(2), &[])?;
                }
                GuestNode::Link(target) => {
                    let target = target.to_str().ok_or_else(|| not_utf8(path))?;
                    self.entry(entry.mode(LINK).nlink(1), target.as_bytes())?;
                }
                GuestNode::Text(text) => self.entry(entry.mode(FILE | 0o755).nlink(1), text)?,
                GuestNode::File(file) => {
                    let entry = entry.mode(FILE | file.mode).mtime(file.modified);
                    let entry = match self.number(path, file, owner) {
                        FileNumber::Own => entry.nlink(1),
                        // The kernel makes hard links of files with the same number.
                        FileNumber::Known(number) => {
                            self.entry(entry.ino(number).nlink(2), &[])?;
                            continue;
                        }
                        FileNumber::New(number) => {
                            self.shared.insert((file.clone(), owner), number);
                            entry.ino(number).nlink(2)
                        }
                    };
                    let offset = self.file(entry, file)?;
                    placed.push(PlacedFile { name, file: file.clone(), offset });
                }
            }
        }
        Ok(placed)
    }

    /// Bytes that a guest's files would add to the archive.
    pub fn added_bytes(&self, tree: &GuestTree, user: u32) -> u64 {
        let is_new = |path: &Path, file: &HostFile| {
            let owner = owner(path, user);
            !matches!(self.number(path, file, owner), FileNumber::Known(_))
        };
        tree.files().filter(|(path, file)| is_new(path, file)).map(|(_, file)| file.bytes).sum()
    }

    fn number(&self, path: &Path, file: &HostFile, owner: u32) -> FileNumber {
        let next = u32::try_from(self.shared.len()).unwrap_or(u32::MAX).saturating_add(1);
        match self.shared.get(&(file.clone(), owner)) {
            _ if is_below_work(path) => FileNumber::Own,
            Some(number) => FileNumber::Known(*number),
            None => FileNumber::New(next),
        }
    }

    pub fn end(mut self) -> Result<()> {
        trailer(&mut self.to).map_err(cache_error)?;
        let padding = self.to.bytes.next_multiple_of(BLOCK) - self.to.bytes;
        let zeros = vec![0; usize::try_from(padding).unwrap_or_default()];
        self.to.write_all(&zeros).and_then(|()| self.to.flush()).map_err(cache_error)
    }

    fn entry(&mut self, entry: Builder, content: &[u8]) -> Result<()> {
        let size = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let mut writer = entry.write(&mut self.to, size);
        let written = writer.write_all(content).and_then(|()| writer.finish());
        written.map(drop).map_err(cache_error)
    }

    /// A file that shrank since its size was read would damage the archive.
    fn file(&mut self, entry: Builder, file: &HostFile) -> Result<u64> {
        let unreadable = unreadable(&file.path);
        let changed = || {
            let path = escape_path(&file.path);
            Error::user(format!("{path} changed while it was read")).next("try again")
        };
        let mut from = file.open().map_err(&unreadable)?;
        let size = u32::try_from(file.bytes).map_err(|_| changed())?;
        let mut writer = entry.write(&mut self.to, size);
        let mut buffer = vec![0; 1 << 16];
        let mut left = file.bytes;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            let read = from.read(&mut buffer[..most]).map_err(&unreadable)?;
            if read == 0 {
                return Err(changed());
            }
            writer.write_all(&buffer[..read]).map_err(cache_error)?;
            left -= read as u64;
        }
        writer.finish().map_err(cache_error)?;
        let padded = file.bytes.next_multiple_of(4);
        Ok(self.to.bytes - padded)
    }
}

struct CountingWriter<W> {
    to: W,
    bytes: u64,
}

impl<W: Write> Write for CountingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

// Files beside a program's root directory, which `guest/program.c` reads: how the program starts.

/// Directories in which a program is looked up in a root directory of the user's: those of `PATH`
/// below.
pub(crate) const PATH_DIRECTORIES: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The environment of every program. It is not that of the user, so that it is the same for all.
const USUAL_ENVIRONMENT: [&str; 5] = [
    "HOME=/work",
    "LANG=C",
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "TZ=UTC0",
    "USER=root",
];

/// The text that a shell runs: a script of the program's own, or that behind `-c`.
pub(crate) fn shell_text(program: &UserProgram) -> Option<&str> {
    if program.script.is_some() {
        return program.script.as_deref();
    }
    let (command, arguments) = program.command.split_first()?;
    let is_shell = script::is_shell(command.rsplit('/').next().unwrap_or_default());
    let is_option = |word: &String| word.starts_with('-') && word.ends_with('c');
    let option = arguments.iter().take_while(|word| word.starts_with('-')).position(is_option)?;
    arguments.get(option + 1).filter(|_| is_shell).map(String::as_str)
}

/// The words of the command behind the path to execute, each with a NUL behind it.
fn command_words(program: &UserProgram, executed: &Path) -> Vec<u8> {
    let path = executed.display().to_string();
    nul_terminated([path.as_str()].into_iter().chain(program.command.iter().map(String::as_str)))
}

/// The environment: the usual one, in which a later variable replaces an earlier one.
fn environment(usual: &[&str], program: &UserProgram) -> Result<Vec<u8>> {
    let mut variables = usual.to_vec();
    for text in &program.env {
        let name = text.split_once('=').map(|(name, _)| name).filter(|name| !name.is_empty());
        let wrong = || {
            Error::user(format!("--env {text:?} is not NAME=VALUE"))
                .next("write it as --env LANG=C")
        };
        let name = name.filter(|_| !text.contains('\0')).ok_or_else(wrong)?;
        variables.retain(|set| set.split('=').next() != Some(name));
        variables.push(text);
    }
    Ok(nul_terminated(variables))
}

/// The files of users and groups: the superuser, nobody, and the user that the program runs as.
pub(crate) fn accounts(user: u32) -> [(&'static str, String); 2] {
    const NOBODY: u32 = 65534;
    let mut users = "root:x:0:0:root:/work:/bin/sh\n".to_owned();
    let mut groups = "root:x:0:\n".to_owned();
    if user != 0 && user != NOBODY {
        users += &format!("user:x:{user}:{user}:user:/work:/bin/sh\n");
        groups += &format!("user:x:{user}:\n");
    }
    users += "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
    groups += "nogroup:x:65534:\n";
    [("/etc/passwd", users), ("/etc/group", groups)]
}

/// Encodes settings: pairs of a path in the guest and the text to write to it.
fn encode_settings(pairs: &[(String, String)]) -> Vec<u8> {
    nul_terminated(pairs.iter().flat_map(|(path, text)| [path.as_str(), text.as_str()]))
}

/// The words that run a text for a shell at this path.
fn shell_words(path: &Path, text: &str) -> Vec<u8> {
    nul_terminated([path.display().to_string().as_str(), "sh", "-ec", text])
}

fn owner(path: &Path, user: u32) -> u32 {
    if is_below_work(path) { user } else { 0 }
}

/// Returns whether a file of the guest is in the working directory, where the program's user owns
/// it.
fn is_below_work(path: &Path) -> bool {
    path.starts_with(WORK)
}

fn nul_terminated<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    words.into_iter().flat_map(|word| word.bytes().chain([0])).collect()
}
