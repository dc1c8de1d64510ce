use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::read::open_regular;

/// SHA-256, as 64 hexadecimal digits.
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// Whether a text can be the result of [`sha256`], and so is safe in a path.
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// SHA-256 in base64, as a Content-Security-Policy has it.
pub fn sha256_base64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(Sha256::digest(bytes))
}

/// SHA-256 over several parts and where each ends, so that no two lists of parts have the same.
pub fn sha256_of_parts<P: AsRef<[u8]>>(parts: &[P]) -> String {
    let mut hash = Sha256::new();
    for part in parts.iter().map(AsRef::as_ref) {
        hash.update(u64::to_le_bytes(part.len() as u64));
        hash.update(part);
    }
    format!("{:x}", hash.finalize())
}

/// SHA-256 of a file's content.
///
/// # Errors
///
/// The file cannot be read.
pub fn sha256_of_file(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    io::copy(&mut open_regular(path)?, &mut hash)?;
    Ok(format!("{:x}", hash.finalize()))
}

/// What a sparse file is hashed in.
const PAGE: usize = 4096;

/// SHA-256 of a sparse file: of its length and of each page that is not all zeros. It is the same
/// wherever the file's holes are.
///
/// # Errors
///
/// The file cannot be read.
pub fn sha256_of_sparse_file(path: &Path) -> io::Result<String> {
    let file = open_regular(path)?;
    let length = file.metadata()?.len();
    let mut hash = Sha256::new();
    hash.update(length.to_le_bytes());
    let (mut buffer, mut at) = (vec![0; 256 * PAGE], 0);
    loop {
        let page = PAGE as u64;
        at = match seek(&file, SeekFrom::Data(at)) {
            Ok(data) => at.max(data / page * page),
            Err(Errno::NXIO) => return Ok(format!("{:x}", hash.finalize())),
            Err(error) => return Err(error.into()),
        };
        let end = seek(&file, SeekFrom::Hole(at))?;
        while at < end {
            let wanted = buffer.len().min(usize::try_from(length - at).unwrap_or(usize::MAX));
            file.read_exact_at(&mut buffer[..wanted], at)?;
            for content in buffer[..wanted].chunks(PAGE) {
                if content != &[0; PAGE][..content.len()] {
                    hash.update(at.to_le_bytes());
                    hash.update(content);
                }
                at += content.len() as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn bytes_and_files_have_the_same_hash() {
        let of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256("abc"), of_abc);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        assert_eq!(sha256_of_file(file.path()).unwrap(), of_abc);
    }

    #[test]
    fn a_sparse_file_is_its_content_wherever_its_holes_are() {
        let hash = |write: &dyn Fn(&File)| {
            let file = tempfile::NamedTempFile::new().unwrap();
            write(file.as_file());
            sha256_of_sparse_file(file.path()).unwrap()
        };
        let place = 5 << 20;
        let sparse = hash(&|file| {
            file.set_len(8 << 20).unwrap();
            file.write_all_at(b"x", place).unwrap();
        });
        let mut content = vec![0; 8 << 20];
        content[place as usize] = b'x';
        assert_eq!(hash(&|file| file.write_all_at(&content, 0).unwrap()), sparse);
        // Another byte, another place of the same byte, and another length.
        content[place as usize] = b'y';
        assert_ne!(hash(&|file| file.write_all_at(&content, 0).unwrap()), sparse);
        for (length, place) in [(8 << 20, place + PAGE as u64), ((8 << 20) + 1, place)] {
            let other = hash(&|file| {
                file.set_len(length).unwrap();
                file.write_all_at(b"x", place).unwrap();
            });
            assert_ne!(other, sparse);
        }
    }

    #[test]
    fn parts_are_kept_apart() {
        assert_ne!(sha256_of_parts(&["ab", "c"]), sha256_of_parts(&["a", "bc"]));
    }
}
