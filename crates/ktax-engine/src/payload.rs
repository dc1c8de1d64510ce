//! Writes the guest programs and the plugin, which are part of ktax, to files for QEMU.

use std::borrow::Cow;
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use cpio::newc::{Builder, trailer};

use ktax_host::cache::Holder;
use ktax_host::disk::{is_sha256, read_own, sha256_of_parts, unpack, write_atomically};
use ktax_program::PackedPrograms;

pub static GUEST: LazyLock<Vec<u8>> =
    LazyLock::new(|| unpack(include_bytes!(env!("KTAX_GUEST_Z"))));
pub static HELLO: &[u8] = include_bytes!(env!("KTAX_HELLO"));
/// The guest without a kernel: `guest/self-test/`.
static SELF_TEST: &[u8] = include_bytes!(env!("KTAX_SELF_TEST"));
static PLUGIN: LazyLock<Vec<u8>> = LazyLock::new(|| unpack(include_bytes!(env!("KTAX_PLUGIN_Z"))));

/// Version of the rule by which [`super::wire::parse_symbols`] chooses one of several names of an
/// address.
const FUNCTION_NAMES: &[u8] = b"functions before sections";

/// The program that is the guest's user space.
#[derive(Debug, Clone)]
pub struct UserSpace(Cow<'static, [u8]>);

impl UserSpace {
    /// Returns the user space with ktax's own workloads, which is part of the binary.
    pub fn bundled() -> UserSpace {
        UserSpace(Cow::Borrowed(&GUEST))
    }

    /// Makes a user space of a program that was compiled with the user's workloads.
    pub fn compiled(program: Vec<u8>) -> UserSpace {
        UserSpace(Cow::Owned(program))
    }

    pub fn program(&self) -> &[u8] {
        &self.0
    }

    /// Returns the SHA-256 over the guest programs, the plugin and the rule that chooses the names
    /// of functions. This hash is part of the Key.
    pub fn sha256(&self) -> String {
        sha256_of_parts(&[&*self.0, HELLO, &PLUGIN, FUNCTION_NAMES])
    }

    /// Writes the program to the cache, for plans that are resumed.
    pub fn keep(&self, cache: &Path) -> io::Result<()> {
        let (dir, _holder) = directory(cache, self)?;
        put(&dir.join(GUEST_PROGRAM), &self.0)
    }

    /// Finds the user space with this hash: ktax's own, or one that is still in the cache.
    pub fn find(sha256: &str, cache: &Path) -> Option<UserSpace> {
        if UserSpace::bundled().sha256() == sha256 {
            return Some(UserSpace::bundled());
        }
        let dir = is_sha256(sha256).then(|| cache.join("payload").join(sha256))?;
        let found = UserSpace::compiled(read_own(&dir.join(GUEST_PROGRAM), MAX_FILE_BYTES).ok()?);
        (found.sha256() == sha256).then_some(found)
    }
}

const GUEST_PROGRAM: &str = "ktax-guest";
/// The largest file that is read back, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// The paths of the files that QEMU needs, in the cache.
#[derive(Debug, Clone)]
pub struct Payload {
    /// The guest's user space.
    pub initrd: PathBuf,
    pub plugin: PathBuf,
    _holder: Arc<Holder>,
}

impl Payload {
    /// Writes the guest's user space, followed by other archives, as one initrd.
    pub fn write_initrd(&self, archives: &[&PackedPrograms]) -> io::Result<PathBuf> {
        let path = self.initrd_path(archives);
        if archives.is_empty() {
            return Ok(path);
        }
        let mut initrd = fs::read(&self.initrd)?;
        for packed in archives {
            initrd.extend(fs::read(&packed.archive)?);
        }
        put(&path, &initrd)?;
        Ok(path)
    }

    /// Returns the path that [`Payload::write_initrd`] writes.
    pub fn initrd_path(&self, archives: &[&PackedPrograms]) -> PathBuf {
        if archives.is_empty() {
            return self.initrd.clone();
        }
        let names: Vec<&str> = archives.iter().map(|packed| packed.sha256.as_str()).collect();
        self.initrd.with_file_name(format!("{}.cpio", sha256_of_parts(&names)))
    }

    /// Writes the guest of the self-test.
    pub fn self_test(&self) -> io::Result<PathBuf> {
        let path = self.initrd.with_file_name("self-test");
        put(&path, SELF_TEST)?;
        Ok(path)
    }
}

/// Returns the SHA-256 of ktax's own user space.
pub fn guest_sha256() -> String {
    UserSpace::bundled().sha256()
}

/// Returns the SHA-256 over the guest of the self-test and the plugin.
pub fn self_test_sha256() -> String {
    sha256_of_parts(&[SELF_TEST, &PLUGIN])
}

/// Writes ktax's own guest and the plugin to the cache.
pub fn install(cache: &Path) -> io::Result<Payload> {
    install_guest(&UserSpace::bundled(), cache)
}

/// Writes a guest and the plugin to the cache, except files that are there already.
pub fn install_guest(guest: &UserSpace, cache: &Path) -> io::Result<Payload> {
    let (dir, holder) = directory(cache, guest)?;
    let payload = Payload {
        initrd: dir.join("initramfs.cpio"),
        plugin: dir.join("ktax-plugin.so"),
        _holder: Arc::new(holder),
    };
    let programs = [("init", guest.program()), ("bin/hello", HELLO)];
    put(&payload.initrd, &pack_initramfs(["dev", "proc", "sys", "tmp", "bin"], programs)?)?;
    put(&payload.plugin, &PLUGIN)?;
    Ok(payload)
}

/// Writes the guest's programs, `ktax-guest` and `ktax-hello`, to the cache as executable files.
pub fn install_programs(cache: &Path) -> io::Result<(PathBuf, PathBuf, Holder)> {
    let (dir, holder) = directory(cache, &UserSpace::bundled())?;
    let (guest, hello) = (dir.join(GUEST_PROGRAM), dir.join("ktax-hello"));
    for (path, content) in [(&guest, &**GUEST), (&hello, HELLO)] {
        put(path, content)?;
        fs::set_permissions(path, Permissions::from_mode(0o755))?;
    }
    Ok((guest, hello, holder))
}

/// Returns the directory of a guest's files. No cleaner removes it until the holder is dropped.
fn directory(cache: &Path, guest: &UserSpace) -> io::Result<(PathBuf, Holder)> {
    let dir = cache.join("payload").join(guest.sha256());
    let holder = Holder::hold_directory(&dir)?;
    Ok((dir, holder))
}

/// Writes a file unless it has this content. A damaged file is replaced.
fn put(path: &Path, content: &[u8]) -> io::Result<()> {
    match read_own(path, MAX_FILE_BYTES) {
        Ok(found) if found == content => Ok(()),
        _ => write_atomically(path, content),
    }
}

/// The file modes in an archive.
const DIRECTORY_MODE: u32 = 0o040_755;
const PROGRAM_MODE: u32 = 0o100_755;
const CONSOLE_MODE: u32 = 0o020_600;

/// Packs directories, programs and /dev/console as an uncompressed cpio archive. The same arguments
/// give the same bytes. The archive has /dev/console because the kernel opens it before it starts
/// init.
pub fn pack_initramfs<'a>(
    directories: impl IntoIterator<Item = impl AsRef<str>>,
    programs: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> io::Result<Vec<u8>> {
    let mut archive = Vec::new();
    for directory in directories {
        append(&mut archive, Builder::new(directory.as_ref()).mode(DIRECTORY_MODE), &[])?;
    }
    let console = Builder::new("dev/console").mode(CONSOLE_MODE).rdev_major(5).rdev_minor(1);
    append(&mut archive, console, &[])?;
    for (name, content) in programs {
        append(&mut archive, Builder::new(name).mode(PROGRAM_MODE), content)?;
    }
    trailer(&mut archive)?;
    Ok(archive)
}

fn append(archive: &mut Vec<u8>, entry: Builder, content: &[u8]) -> io::Result<()> {
    let size = u32::try_from(content.len()).map_err(io::Error::other)?;
    let mut writer = entry.nlink(1).mtime(0).write(archive, size);
    writer.write_all(content)?;
    writer.finish().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_and_the_console_precede_programs() {
        let programs = [("init", &[1][..]), ("bin/hello", &[2; 5])];
        let archive = pack_initramfs(["bin", "dev"], programs).unwrap();
        let (mut names, mut rest) = (Vec::new(), archive.as_slice());
        loop {
            let reader = cpio::newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            names.push(reader.entry().name().to_owned());
            rest = reader.finish().unwrap();
        }
        assert_eq!(names, ["bin", "dev", "dev/console", "init", "bin/hello"]);
    }
}
