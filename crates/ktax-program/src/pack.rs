//! Prepares programs to run: packed into an archive in the cache, named by its hash, or natively
//! from their own paths. Also packs a kernel's modules into an archive.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cpio::newc::{Builder, trailer};

use crate::tree::{GuestNode, GuestTree, HostFile};
use crate::{
    WORK, cache_error, check_regular, elf, needs, not_utf8_error, script, too_large, traced,
    unreadable,
};
use ktax_host::cache::{Holder, Scratch};
use ktax_host::disk::{is_sha256, sha256_of_file, sha256_of_parts};
use ktax_host::text::{escape, escape_path};
use ktax_model::{Disk, Error, Result, UserProgram};

/// Program `ktax-mark`, by which scripts mark the counted part.
static MARK: &[u8] = include_bytes!(env!("KTAX_MARK"));

/// File with the archive in a directory of the cache.
const ARCHIVE: &str = "archive.cpio";
/// File with the symbols for the plugin.
const SYMBOLS: &str = "symbols";
/// Empty file that exists if the archive has a setup.
const SETUP: &str = "setup";

/// Archive of programs in the cache.
#[derive(Debug, Clone)]
pub struct PackedPrograms {
    /// SHA-256 of the archive.
    pub sha256: String,
    /// Path of the archive, which the guest unpacks after its own files.
    pub archive: PathBuf,
    /// Path of the file with the functions of the archive, for the plugin.
    pub symbols: PathBuf,
    /// True if the archive has commands or settings for the time before the guest is frozen.
    pub has_setup: bool,
    /// Keeps the files in the cache while this value exists.
    _holder: Arc<Holder>,
}

/// Content of one archive.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ArchiveContents {
    /// Programs that are rows.
    pub programs: Vec<UserProgram>,
    /// Hooks of the rows that are not programs.
    pub hooks: Option<UserProgram>,
    /// File system of the guest's files, and the mkfs program, if the file system needs one.
    pub disk: Option<(Disk, Option<UserProgram>)>,
    /// Kernel settings: path of a file in the guest, and text to write to it.
    pub settings: Vec<(String, String)>,
    /// Commands of a Side's setup.
    pub setup: Option<UserProgram>,
}

impl ArchiveContents {
    pub fn is_empty(&self) -> bool {
        *self == ArchiveContents::default()
    }

    /// Returns true if there are commands or settings for the time before the guest is frozen.
    fn has_setup(&self) -> bool {
        let programs = self.programs.iter().chain(&self.hooks).chain(&self.setup);
        !self.settings.is_empty() || programs.into_iter().any(|program| program.setup.is_some())
    }
}

/// Packs programs, hooks, settings and the mkfs program into one archive, with all files that they
/// need. Paths are relative to `here`. `max_bytes` is the memory of the guest for files.
pub fn pack(
    contents: &ArchiveContents,
    here: &Path,
    max_bytes: u64,
    cache: &Path,
) -> Result<PackedPrograms> {
    let ArchiveContents { programs, hooks, disk, settings, setup } = contents;
    let mut memory = Space::with_bytes(max_bytes);
    let mut on_disk = disk.as_ref().map(|(disk, _)| Space::on_disk(disk));
    pack_with(cache, contents.has_setup(), |archive| {
        let mut placed = Vec::new();
        archive.add_directory("program")?;
        if let Some((disk, mkfs)) = disk {
            let mount = nul_terminated([disk.fs.as_str(), &disk.options, disk.device.path()]);
            archive.add_text("program/mount", 0o444, &mount)?;
            if let Some(mkfs) = mkfs {
                check_mkfs(mkfs, &disk.fs, here)?;
                add_packed(archive, "program/disk", mkfs, here, (&mut memory, None))?;
                archive.add_text(
                    "program/disk/device",
                    0o444,
                    &encode_settings(&disk.settings()),
                )?;
            }
        }
        if !settings.is_empty() {
            archive.add_text("program/sysctl", 0o444, &encode_settings(settings))?;
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

/// Refuses a file system whose mkfs program this machine does not have. The next step names the
/// package to install.
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

/// Archives of one Side of a Plan of counts. Each program has its own archive, because other files
/// in a guest's memory would change the costs of a program.
#[derive(Debug, Clone, Default)]
pub struct SideArchives {
    /// Archive that all guests have: hooks, settings, setup, and the mkfs program.
    pub common: Option<PackedPrograms>,
    /// Archive of each program.
    pub programs: Vec<PackedPrograms>,
}

impl SideArchives {
    /// Hashes of the archives, in the order of a Key.
    pub fn sha256s(&self) -> impl Iterator<Item = &str> {
        self.common.iter().chain(&self.programs).map(|packed| packed.sha256.as_str())
    }
}

/// Packs one program. Its guest also has a common archive of `common_bytes`, and a disk if there is
/// one.
pub fn pack_single(
    program: &UserProgram,
    (common_bytes, disk): (u64, Option<&Disk>),
    here: &Path,
    max_bytes: u64,
    cache: &Path,
) -> Result<PackedPrograms> {
    let mut memory = Space { max_bytes, left_bytes: max_bytes.saturating_sub(common_bytes) };
    let mut on_disk = disk.map(Space::on_disk);
    pack_with(cache, program.setup.is_some(), |archive| {
        archive.add_directory("program")?;
        add_packed(archive, "program/0", program, here, (&mut memory, on_disk.as_mut()))
    })
}

/// Packs the entries that `fill` adds. `fill` returns the files whose functions the plugin needs.
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
    archive.finish()?;
    let symbols = elf::symbol_text(&placed)?;
    fs::write(scratch.file(SYMBOLS), symbols).map_err(cache_error)?;
    if has_setup {
        fs::write(scratch.file(SETUP), "").map_err(cache_error)?;
    }
    keep_in_cache(scratch, &parent, cache)
}

/// Space for files in a guest's memory or on its disk.
struct Space {
    max_bytes: u64,
    left_bytes: u64,
}

impl Space {
    fn with_bytes(max_bytes: u64) -> Space {
        Space { max_bytes, left_bytes: max_bytes }
    }

    fn on_disk(disk: &Disk) -> Space {
        Space::with_bytes(u64::from(disk.mib) << 20)
    }

    /// Takes `bytes` of the space. `full` makes the error for insufficient space, from its size in
    /// MiB.
    fn take(&mut self, bytes: u64, full: impl Fn(u64) -> Error) -> Result<()> {
        let left = self.left_bytes.checked_sub(bytes);
        self.left_bytes = left.ok_or_else(|| full(self.max_bytes >> 20))?;
        Ok(())
    }
}

/// Adds one program, and returns its files with their offsets. If there is a disk, the working
/// directory is on it, and the disk is mounted on /tmp.
fn add_packed<W: Write>(
    archive: &mut Archive<W>,
    directory: &str,
    program: &UserProgram,
    here: &Path,
    (memory, on_disk): (&mut Space, Option<&mut Space>),
) -> Result<Vec<PlacedFile>> {
    let mut tree = GuestTree::new(memory.max_bytes);
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
    memory.take(bytes, |max_mib| too_large(&path, max_mib))?;
    let root = format!("{directory}/root");
    archive.add_directory(directory)?;
    archive.add_text(&format!("{directory}/words"), 0o444, &command_words(program, &executed))?;
    archive.add_text(
        &format!("{directory}/env"),
        0o444,
        &environment(&DEFAULT_ENVIRONMENT, program)?,
    )?;
    archive.add_text(&format!("{directory}/stdin"), 0o444, &read_stdin(program, here)?)?;
    if let Some(clock) = tree.clock() {
        archive.add_text(&format!("{directory}/clock"), 0o444, format!("{clock}\0").as_bytes())?;
    }
    for (name, words) in hooks {
        archive.add_text(&format!("{directory}/{name}"), 0o444, &words)?;
    }
    archive.add_directory(&root)?;
    // Directories of ktax-mark, which must be in PATH.
    for directory in ["usr", "usr/local", "usr/local/bin"] {
        archive.add_directory(&format!("{root}/{directory}"))?;
    }
    archive.add_text(&format!("{root}/usr/local/bin/ktax-mark"), 0o755, MARK)?;
    archive.add_tree(&root, &tree, program.user)
}

/// Finds an archive in the cache by its hash; `None` if the cache does not have it or if it is
/// damaged.
pub fn open_packed(sha256: &str, cache: &Path) -> Option<PackedPrograms> {
    let directory = is_sha256(sha256).then(|| cache.join("programs").join(sha256))?;
    let holder = Holder::hold(&directory).ok()??;
    let (archive, symbols) = (directory.join(ARCHIVE), directory.join(SYMBOLS));
    let is_intact = sha256_of_file(&archive).is_ok_and(|found| found == sha256) && symbols.exists();
    let (sha256, has_setup) = (sha256.to_owned(), directory.join(SETUP).exists());
    let holder = Arc::new(holder);
    is_intact.then(|| PackedPrograms { sha256, archive, symbols, has_setup, _holder: holder })
}

/// Moves a new archive to its place in the cache, unless the cache already has it.
fn keep_in_cache(scratch: Scratch, parent: &Path, cache: &Path) -> Result<PackedPrograms> {
    let sha256 = sha256_of_file(&scratch.file(ARCHIVE)).map_err(cache_error)?;
    if let Some(known) = open_packed(&sha256, cache) {
        return Ok(known);
    }
    let directory = parent.join(&sha256);
    // If the directory exists now, it is damaged, or another ktax has just made it.
    drop(fs::remove_dir_all(&directory));
    let renamed = fs::rename(scratch.keep(), &directory);
    match open_packed(&sha256, cache) {
        Some(packed) => Ok(packed),
        None => {
            let removed = || io::Error::other("another process removed it at the same time");
            Err(cache_error(renamed.err().unwrap_or_else(removed)))
        }
    }
}

/// Content of the file for a program's standard input; empty without one.
fn read_stdin(program: &UserProgram, here: &Path) -> Result<Vec<u8>> {
    const MAX_BYTES: u64 = 64 << 20;
    let Some(file) = &program.stdin else { return Ok(Vec::new()) };
    let path = here.join(file);
    check_regular(&path)?;
    ktax_host::disk::read_limited(&path, MAX_BYTES).map_err(unreadable(&path))
}

/// Archive of a kernel's modules in the cache.
#[derive(Debug, Clone)]
pub struct PackedModules {
    /// Archive, without functions of user mode.
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
    /// True for a module that only some CPUs can load. On other CPUs it is skipped without an
    /// error.
    pub is_cpu_specific: bool,
    /// Uncompressed content of the file.
    pub content: Vec<u8>,
}

/// Packs modules. The guest loads them in this order before it is frozen.
pub fn pack_modules(modules: &[LoadedModule], cache: &Path) -> Result<PackedModules> {
    let packed = pack_with(cache, false, |archive| {
        archive.add_directory("modules")?;
        for (index, module) in modules.iter().enumerate() {
            let name = format!("modules/{index}");
            archive.add_text(&name, 0o444, &module.content)?;
            archive.add_text(&format!("{name}.parameters"), 0o444, module.parameters.as_bytes())?;
            if module.is_cpu_specific {
                archive.add_text(&format!("{name}.cpu"), 0o444, b"")?;
            }
        }
        Ok(Vec::new())
    })?;
    let names = modules.iter().map(|module| module.name.clone()).collect();
    Ok(PackedModules { packed, names })
}

/// Description of programs for a run on this machine. Its files are removed when it is dropped.
#[derive(Debug)]
pub struct NativePrograms {
    /// SHA-256 over the programs, their arguments, the files that arguments name, and their
    /// standard input. Empty for a program that is traced.
    pub sha256: String,
    scratch: Scratch,
}

impl NativePrograms {
    /// Directory from which the guest program reads the descriptions.
    pub fn directory(&self) -> &Path {
        self.scratch.path()
    }
}

/// Prepares programs to run natively: finds them from the directory `here`, and writes into the
/// cache how each is started. They inherit the environment of ktax.
pub fn prepare_native(
    programs: &[UserProgram],
    here: &Path,
    cache: &Path,
) -> Result<NativePrograms> {
    let scratch = Scratch::create(&cache.join("runs")).map_err(cache_error)?;
    let mut parts = Vec::new();
    for (number, program) in programs.iter().enumerate() {
        let path =
            needs::find_executable(program.command.first().map_or("", String::as_str), here)?;
        let own_hash = sha256_of_file(&path).map_err(unreadable(&path))?;
        let (words, stdin) = (command_words(program, &path), read_stdin(program, here)?);
        let variables = environment(&[], program)?;
        for argument in program.command.iter().skip(1).map(|argument| here.join(argument)) {
            if argument.is_file() {
                let unreadable = unreadable(&argument);
                parts.push(sha256_of_file(&argument).map_err(unreadable)?);
            }
        }
        parts.push(sha256_of_parts(&[own_hash.as_bytes(), &words, &stdin, &variables]));
        let directory = scratch.path().join(number.to_string());
        let files = [("words", words), ("stdin", stdin), ("env", variables)];
        write_start(&directory, &["out"], files)?;
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    Ok(NativePrograms { sha256: sha256_of_parts(&parts), scratch })
}

/// Prepares a program to be traced on this machine: writes into the cache how it is started in a
/// guest, but with its path in the sandbox.
pub fn prepare_trace(program: &UserProgram, here: &Path, cache: &Path) -> Result<NativePrograms> {
    let scratch = Scratch::create(&cache.join("runs")).map_err(cache_error)?;
    let command = program.command.first().map_or("", String::as_str);
    let path = traced::sandbox_path(&needs::find_executable(command, here)?, here);
    let directory = scratch.path().join("0");
    let hook = |text: &Option<String>| {
        text.as_ref().map(|text| shell_words(Path::new(needs::SHELL), text))
    };
    let files = [
        ("words", Some(command_words(program, &path))),
        ("env", Some(environment(&DEFAULT_ENVIRONMENT, program)?)),
        ("stdin", Some(read_stdin(program, here)?)),
        ("setup", hook(&program.setup)),
        ("prepare", hook(&program.prepare)),
    ];
    let files = files.into_iter().filter_map(|(name, content)| Some((name, content?)));
    write_start(&directory, &["out", "root"], files)?;
    Ok(NativePrograms { sha256: String::new(), scratch })
}

/// Creates `directory` with subdirectories `directories`, and writes the files that describe the
/// start of a program.
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

// Mode bits of an entry in the archive.

const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_777;
const FILE: u32 = 0o100_000;

/// Alignment of the end of an archive in bytes, so that another archive can be appended.
const ALIGNMENT: u64 = 512;

/// File of the host, with the name and offset of its content in the archive.
pub(crate) struct PlacedFile {
    pub name: String,
    pub file: HostFile,
    pub offset: u64,
}

/// Inode number of a file in the archive. The kernel makes hard links of entries with one number.
enum Inode {
    /// No number, for a file that its program may change.
    Unshared,
    /// Number of a file whose content is not yet in the archive.
    New(u32),
    /// Number of a file whose content is in the archive.
    Known(u32),
}

/// Archive that is being written.
struct Archive<W> {
    writer: CountingWriter<W>,
    /// Inode numbers of the files in the archive, by file and owner. Programs that share a library
    /// share one copy.
    shared: BTreeMap<(HostFile, u32), u32>,
}

impl<W: Write> Archive<W> {
    pub fn new(inner: W) -> Archive<W> {
        Archive { writer: CountingWriter { inner, bytes: 0 }, shared: BTreeMap::new() }
    }

    /// Adds a directory.
    pub fn add_directory(&mut self, name: &str) -> Result<()> {
        let entry = Builder::new(name).mode(DIRECTORY | 0o755).nlink(2);
        self.add_entry(entry, &[])
    }

    /// Adds a file with this content.
    pub fn add_text(&mut self, name: &str, mode: u32, content: &[u8]) -> Result<()> {
        self.add_entry(Builder::new(name).mode(FILE | mode).nlink(1), content)
    }

    /// Adds the files of a guest below `root`. `user` owns the files in the working directory.
    pub fn add_tree(&mut self, root: &str, tree: &GuestTree, user: u32) -> Result<Vec<PlacedFile>> {
        let mut placed = Vec::new();
        for (path, node) in tree.nodes() {
            let name = format!("{root}{}", path.to_str().ok_or_else(|| not_utf8_error(path))?);
            let owner = owner(path, user);
            let entry = Builder::new(&name).uid(owner).gid(owner);
            match node {
                GuestNode::Directory => {
                    // All users may create files in /tmp.
                    let mode = if path == Path::new("/tmp") { 0o1777 } else { 0o755 };
                    self.add_entry(entry.mode(DIRECTORY | mode).nlink(2), &[])?;
                }
                GuestNode::Link(target) => {
                    let target = target.to_str().ok_or_else(|| not_utf8_error(path))?;
                    self.add_entry(entry.mode(LINK).nlink(1), target.as_bytes())?;
                }
                GuestNode::Text(text) => self.add_entry(entry.mode(FILE | 0o755).nlink(1), text)?,
                GuestNode::File(file) => {
                    let entry = entry.mode(FILE | file.mode).mtime(file.modified);
                    let entry = match self.inode(path, file, owner) {
                        Inode::Unshared => entry.nlink(1),
                        Inode::Known(number) => {
                            self.add_entry(entry.ino(number).nlink(2), &[])?;
                            continue;
                        }
                        Inode::New(number) => {
                            self.shared.insert((file.clone(), owner), number);
                            entry.ino(number).nlink(2)
                        }
                    };
                    let offset = self.add_file(entry, file)?;
                    placed.push(PlacedFile { name, file: file.clone(), offset });
                }
            }
        }
        Ok(placed)
    }

    /// Number of bytes by which a guest's files would enlarge the archive.
    pub fn added_bytes(&self, tree: &GuestTree, user: u32) -> u64 {
        let is_new = |path: &Path, file: &HostFile| {
            let owner = owner(path, user);
            !matches!(self.inode(path, file, owner), Inode::Known(_))
        };
        tree.files().filter(|(path, file)| is_new(path, file)).map(|(_, file)| file.bytes).sum()
    }

    fn inode(&self, path: &Path, file: &HostFile, owner: u32) -> Inode {
        let next = u32::try_from(self.shared.len()).unwrap_or(u32::MAX).saturating_add(1);
        match self.shared.get(&(file.clone(), owner)) {
            _ if is_below_work(path) => Inode::Unshared,
            Some(number) => Inode::Known(*number),
            None => Inode::New(next),
        }
    }

    /// Writes the end of the archive.
    pub fn finish(mut self) -> Result<()> {
        trailer(&mut self.writer).map_err(cache_error)?;
        let padding = self.writer.bytes.next_multiple_of(ALIGNMENT) - self.writer.bytes;
        let zeros = vec![0; usize::try_from(padding).unwrap_or_default()];
        self.writer.write_all(&zeros).and_then(|()| self.writer.flush()).map_err(cache_error)
    }

    fn add_entry(&mut self, entry: Builder, content: &[u8]) -> Result<()> {
        let size = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let mut writer = entry.write(&mut self.writer, size);
        let written = writer.write_all(content).and_then(|()| writer.finish());
        written.map(drop).map_err(cache_error)
    }

    /// Adds a file of the host, and returns the offset of its content. Fails if the file has shrunk
    /// since its size was read, because the archive would be damaged.
    fn add_file(&mut self, entry: Builder, file: &HostFile) -> Result<u64> {
        let unreadable = unreadable(&file.path);
        let changed = || {
            let path = escape_path(&file.path);
            Error::user(format!("{path} changed while it was read"))
                .next("run the same command again")
        };
        let mut content = file.open().map_err(&unreadable)?;
        let size = u32::try_from(file.bytes).map_err(|_| changed())?;
        let mut writer = entry.write(&mut self.writer, size);
        let mut buffer = vec![0; 1 << 16];
        let mut left = file.bytes;
        while left > 0 {
            let size = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            let read = content.read(&mut buffer[..size]).map_err(&unreadable)?;
            if read == 0 {
                return Err(changed());
            }
            writer.write_all(&buffer[..read]).map_err(cache_error)?;
            left -= read as u64;
        }
        writer.finish().map_err(cache_error)?;
        let padded = file.bytes.next_multiple_of(4);
        Ok(self.writer.bytes - padded)
    }
}

/// Writer that counts the written bytes.
struct CountingWriter<W> {
    inner: W,
    bytes: u64,
}

impl<W: Write> Write for CountingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

// Files that describe the start of a program, which `guest/program.c` reads.

/// Directories of `PATH` in the guest.
pub(crate) const PATH_DIRECTORIES: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Environment of programs in guests. It does not depend on the user's environment, so that counts
/// do not either.
const DEFAULT_ENVIRONMENT: [&str; 5] = [
    "HOME=/work",
    "LANG=C",
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "TZ=UTC0",
    "USER=root",
];

/// Shell commands of a program: its script, or the argument of a shell's option `-c`. `None` for
/// other programs.
pub(crate) fn shell_text(program: &UserProgram) -> Option<&str> {
    if program.script.is_some() {
        return program.script.as_deref();
    }
    let (command, arguments) = program.command.split_first()?;
    let is_shell = script::is_shell(command.rsplit('/').next().unwrap_or_default());
    let is_option = |word: &String| word.starts_with('-') && word.ends_with('c');
    let position = arguments.iter().take_while(|word| word.starts_with('-')).position(is_option)?;
    arguments.get(position + 1).filter(|_| is_shell).map(String::as_str)
}

/// Path to execute, then the words of the command, each with a NUL after it.
fn command_words(program: &UserProgram, executed: &Path) -> Vec<u8> {
    let path = executed.display().to_string();
    nul_terminated([path.as_str()].into_iter().chain(program.command.iter().map(String::as_str)))
}

/// Environment variables of a program, each with a NUL after it: the defaults, then those of the
/// user, which replace defaults of the same name.
fn environment(defaults: &[&str], program: &UserProgram) -> Result<Vec<u8>> {
    let mut variables = defaults.to_vec();
    for text in &program.env {
        let name = text.split_once('=').map(|(name, _)| name).filter(|name| !name.is_empty());
        let not_a_variable = || {
            Error::user(format!("--env {text:?} is not NAME=VALUE"))
                .next("write it as --env LANG=C")
        };
        let name = name.filter(|_| !text.contains('\0')).ok_or_else(not_a_variable)?;
        variables.retain(|variable| variable.split('=').next() != Some(name));
        variables.push(text);
    }
    Ok(nul_terminated(variables))
}

/// Paths and texts of /etc/passwd and /etc/group, with root, nobody and the user of the program.
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

/// Encodes settings, which are pairs of a path in the guest and a text to write to it.
fn encode_settings(pairs: &[(String, String)]) -> Vec<u8> {
    nul_terminated(pairs.iter().flat_map(|(path, text)| [path.as_str(), text.as_str()]))
}

/// Words of a command by which the shell at `path` runs the commands `text`.
fn shell_words(path: &Path, text: &str) -> Vec<u8> {
    nul_terminated([path.display().to_string().as_str(), "sh", "-ec", text])
}

/// User id of the owner of a file in the guest.
fn owner(path: &Path, user: u32) -> u32 {
    if is_below_work(path) { user } else { 0 }
}

/// Returns true for a path below the working directory, where the program's user owns the files.
fn is_below_work(path: &Path) -> bool {
    path.starts_with(WORK)
}

fn nul_terminated<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    words.into_iter().flat_map(|word| word.bytes().chain([0])).collect()
}
