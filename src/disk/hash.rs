use std::fs::File;
use std::io;
use std::path::Path;

use sha2::{Digest, Sha256};

/// SHA-256, as 64 hexadecimal digits.
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    format!("{:x}", Sha256::digest(bytes))
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
    io::copy(&mut File::open(path)?, &mut hash)?;
    Ok(format!("{:x}", hash.finalize()))
}

#[cfg(test)]
mod tests {
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
    fn parts_are_kept_apart() {
        assert_ne!(sha256_of_parts(&["ab", "c"]), sha256_of_parts(&["a", "bc"]));
    }
}
