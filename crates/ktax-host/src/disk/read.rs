//! Reads files up to a limit, and hashes them. Does not block on a FIFO or a device.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::{fs, io};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{Mode, OFlags, SeekFrom, fcntl_getfl, fcntl_setfl, fstatfs, seek};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

/// The filesystem type of pipes without a name, such as those of a shell's `<(…)`.
const PIPEFS: i64 = 0x5049_5045;

/// Returns the error for a file that is not regular.
fn not_regular(kind: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is {kind}, not a regular file"))
}

/// Returns whether a file was refused because it is a directory, a link, a pipe, a socket or a
/// device.
pub fn is_not_regular(error: &io::Error) -> bool {
    // EINVAL has the same kind, but no inner error.
    error.kind() == io::ErrorKind::InvalidInput && error.get_ref().is_some()
}

/// Reads a file that ktax itself wrote. Refuses all but regular files ([`is_not_regular`]): does
/// not follow a symbolic link, and does not wait for the writer of a FIFO. The error is
/// `FileTooLarge` for a file of more than `limit` bytes.
pub fn read_own(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open_without_waiting(path, OFlags::NOFOLLOW).map_err(name_link)?;
    read_file(if_regular(file)?, limit)
}

/// Reads a text file that ktax itself wrote. The error is `InvalidData` if it is not UTF-8.
pub fn read_own_text(path: &Path, limit: u64) -> io::Result<String> {
    as_text(read_own(path, limit)?)
}

/// Reads a file that a user named. Refuses a FIFO ([`is_not_regular`]), because there may never be
/// a writer, but reads a pipe of the shell. The error is `FileTooLarge` for a file of more than
/// `limit` bytes, or without an end, such as `/dev/zero`.
pub fn read_limited(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open_without_waiting(path, OFlags::empty())?;
    let found = file.metadata()?.file_type();
    if found.is_fifo() && fstatfs(&file)?.f_type as i64 != PIPEFS {
        return Err(not_regular("a FIFO"));
    }
    if !found.is_file() {
        // Wait for the writer of a pipe or a terminal.
        fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    }
    read_file(file, limit)
}

/// Opens a regular file. Follows symbolic links.
fn open_regular(path: &Path) -> io::Result<File> {
    if_regular(open_without_waiting(path, OFlags::empty())?)
}

/// Returns the file if it is regular.
fn if_regular(file: File) -> io::Result<File> {
    match irregular_kind(&file.metadata()?.file_type()) {
        None => Ok(file),
        Some(kind) => Err(not_regular(kind)),
    }
}

/// Opens a file without waiting for the writer of a FIFO.
fn open_without_waiting(path: &Path, more: OFlags) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | more;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => Ok(file.into()),
        // The error of a socket is ENXIO, "No such device or address", which does not name it.
        Err(error) => {
            match fs::metadata(path).ok().and_then(|found| irregular_kind(&found.file_type())) {
                Some(socket @ "a socket") => Err(not_regular(socket)),
                _ => Err(error.into()),
            }
        }
    }
}

/// Opens a file for a lock, and creates it if it does not exist. Does not change its content, and
/// does not follow a symbolic link.
pub fn lock_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    // Open for reading as well: opening a FIFO for writing alone fails without a clear message.
    options.read(true).write(true).create(true).truncate(false);
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits();
    if_regular(options.custom_flags(flags as i32).open(path).map_err(name_link)?)
}

/// Converts the error of a symbolic link that was not followed into one that names the kind of
/// file.
fn name_link(error: io::Error) -> io::Error {
    match error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
        true => not_regular("a symbolic link"),
        false => error,
    }
}

/// Returns the kind of a file that is not regular; `None` for a regular file.
fn irregular_kind(found: &fs::FileType) -> Option<&'static str> {
    match found {
        found if found.is_file() => None,
        found if found.is_dir() => Some("a directory"),
        found if found.is_symlink() => Some("a symbolic link"),
        found if found.is_fifo() => Some("a FIFO"),
        found if found.is_socket() => Some("a socket"),
        _ => Some("a device"),
    }
}

/// Reads an open file. Refuses a regular file that is too large before reading it.
fn read_file(mut file: File, limit: u64) -> io::Result<Vec<u8>> {
    let found = file.metadata()?;
    match found.is_file() && found.len() > limit {
        true => Err(too_large(limit)),
        false => read_up_to(&mut file, limit),
    }
}

/// Reads all that is left in `from`. The error is `FileTooLarge` if that is more than `limit`
/// bytes.
pub fn read_up_to(from: &mut impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        false => Ok(bytes),
        true => Err(too_large(limit)),
    }
}

fn too_large(limit: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {limit} bytes"))
}

/// Reads a text file as [`read_limited`] does. The error is `InvalidData` if it is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    as_text(read_limited(path, limit)?)
}

fn as_text(bytes: Vec<u8>) -> io::Result<String> {
    let text = String::from_utf8(bytes);
    text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Returns the SHA-256 as 64 hexadecimal digits.
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// Returns whether a text has the form of a result of [`sha256`]. Such a text is safe in a path.
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the SHA-256 in base64, for a Content-Security-Policy.
pub fn sha256_base64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(Sha256::digest(bytes))
}

/// Returns the SHA-256 over several parts and their lengths, so that different lists of parts have
/// different hashes.
pub fn sha256_of_parts<P: AsRef<[u8]>>(parts: &[P]) -> String {
    let mut hash = Sha256::new();
    for part in parts.iter().map(AsRef::as_ref) {
        hash.update(u64::to_le_bytes(part.len() as u64));
        hash.update(part);
    }
    format!("{:x}", hash.finalize())
}

pub fn sha256_of_file(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    io::copy(&mut open_regular(path)?, &mut hash)?;
    Ok(format!("{:x}", hash.finalize()))
}

/// Number of bytes of a sparse file that are hashed at once.
const HASHED_PAGE: usize = 4096;

/// Returns the SHA-256 over the length of a file and over each page that is not all zeros. It does
/// not depend on which of the zeros are holes.
pub fn sha256_of_sparse_file(path: &Path) -> io::Result<String> {
    let file = open_regular(path)?;
    let length = file.metadata()?.len();
    let mut hash = Sha256::new();
    hash.update(length.to_le_bytes());
    let (mut buffer, mut offset) = (vec![0; 256 * HASHED_PAGE], 0);
    loop {
        let page = HASHED_PAGE as u64;
        offset = match seek(&file, SeekFrom::Data(offset)) {
            Ok(data) => offset.max(data / page * page),
            Err(Errno::NXIO) => return Ok(format!("{:x}", hash.finalize())),
            Err(error) => return Err(error.into()),
        };
        let end = seek(&file, SeekFrom::Hole(offset))?;
        while offset < end {
            let wanted = buffer.len().min(usize::try_from(length - offset).unwrap_or(usize::MAX));
            file.read_exact_at(&mut buffer[..wanted], offset)?;
            for content in buffer[..wanted].chunks(HASHED_PAGE) {
                if content != &[0; HASHED_PAGE][..content.len()] {
                    hash.update(offset.to_le_bytes());
                    hash.update(content);
                }
                offset += content.len() as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::process::{Command, Stdio};

    use rustix::fs::{CWD, FileType, mknodat};

    use super::*;

    #[test]
    fn a_file_at_the_limit_is_read_and_a_larger_one_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("three");
        std::fs::write(&path, "abc").unwrap();
        assert_eq!(read_limited(&path, 3).unwrap(), b"abc");
        assert_eq!(read_own(&path, 3).unwrap(), b"abc");
        assert_eq!(read_limited(&path, u64::MAX).unwrap(), b"abc");
        for (path, limit) in [(path.as_path(), 2), (Path::new("/dev/zero"), 1 << 16)] {
            let error = read_limited(path, limit).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        }
        assert_eq!(read_own(&path, 2).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read_text(&path, 3).unwrap(), "abc");
        std::fs::write(&path, b"\xff").unwrap();
        assert_eq!(read_text(&path, 3).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(read_own_text(&path, 3).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn own_files_must_be_regular() {
        let dir = tempfile::tempdir().unwrap();
        let path_of = |name: &str| dir.path().join(name);
        fs::write(path_of("file"), "abc").unwrap();
        fs::create_dir(path_of("directory")).unwrap();
        symlink(path_of("file"), path_of("link")).unwrap();
        symlink(path_of("nothing"), path_of("dangling")).unwrap();
        mknodat(CWD, path_of("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let _socket = UnixListener::bind(path_of("socket")).unwrap();
        for (name, kind) in [
            ("directory", "a directory"),
            ("link", "a symbolic link"),
            ("dangling", "a symbolic link"),
            ("fifo", "a FIFO"),
            ("socket", "a socket"),
        ] {
            let error = read_own(&path_of(name), 9).unwrap_err();
            assert!(is_not_regular(&error), "{name}: {error}");
            assert_eq!(error.to_string(), format!("it is {kind}, not a regular file"));
            assert!(
                name == "directory"
                    || name == "socket"
                    || is_not_regular(&lock_file(&path_of(name)).unwrap_err()),
                "{name}"
            );
        }
        assert!(is_not_regular(&read_own(Path::new("/dev/zero"), 9).unwrap_err()));
        // A user may name a symbolic link or a device, but not a FIFO.
        assert_eq!(read_limited(&path_of("link"), 9).unwrap(), b"abc");
        assert_eq!(read_limited(Path::new("/dev/null"), 9).unwrap(), b"");
        assert!(is_not_regular(&read_limited(&path_of("fifo"), 9).unwrap_err()));
        assert!(is_not_regular(&read_limited(&path_of("socket"), 9).unwrap_err()));
        // The content of a lock file stays as it is.
        drop(lock_file(&path_of("file")).unwrap());
        assert_eq!(fs::read(path_of("file")).unwrap(), b"abc");
    }

    /// A shell names the pipe of `<(…)` by its file descriptor.
    #[test]
    fn a_pipe_of_the_shell_is_read_to_its_end() {
        let mut shell = Command::new("printf");
        let mut writer = shell.arg("abc").stdout(Stdio::piped()).spawn().unwrap();
        let path = format!("/proc/self/fd/{}", writer.stdout.as_ref().unwrap().as_raw_fd());
        assert_eq!(read_limited(Path::new(&path), 9).unwrap(), b"abc");
        writer.wait().unwrap();
    }

    #[test]
    fn bytes_and_files_have_the_same_hash() {
        let hash_of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256("abc"), hash_of_abc);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        assert_eq!(sha256_of_file(file.path()).unwrap(), hash_of_abc);
    }

    #[test]
    fn the_hash_of_a_sparse_file_ignores_its_holes() {
        let hash = |write: &dyn Fn(&File)| {
            let file = tempfile::NamedTempFile::new().unwrap();
            write(file.as_file());
            sha256_of_sparse_file(file.path()).unwrap()
        };
        let offset = 5 << 20;
        let sparse = hash(&|file| {
            file.set_len(8 << 20).unwrap();
            file.write_all_at(b"x", offset).unwrap();
        });
        let mut content = vec![0; 8 << 20];
        content[offset as usize] = b'x';
        assert_eq!(hash(&|file| file.write_all_at(&content, 0).unwrap()), sparse);
        // Another byte, the same byte at another offset, and another length.
        content[offset as usize] = b'y';
        assert_ne!(hash(&|file| file.write_all_at(&content, 0).unwrap()), sparse);
        for (length, offset) in [(8 << 20, offset + HASHED_PAGE as u64), ((8 << 20) + 1, offset)] {
            let other = hash(&|file| {
                file.set_len(length).unwrap();
                file.write_all_at(b"x", offset).unwrap();
            });
            assert_ne!(other, sparse);
        }
    }

    #[test]
    fn different_parts_have_different_hashes() {
        assert_ne!(sha256_of_parts(&["ab", "c"]), sha256_of_parts(&["a", "bc"]));
    }
}
