use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads a file of at most `limit` bytes. Some files have no end, such as `/dev/zero`.
///
/// # Errors
///
/// The file cannot be read; `FileTooLarge` where it has more bytes.
pub fn read_limited(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_up_to(&mut File::open(path)?, limit)
}

/// Reads the rest of `from`, which must be at most `limit` bytes.
///
/// # Errors
///
/// It cannot be read; `FileTooLarge` where there is more.
pub fn read_up_to(from: &mut impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        false => Ok(bytes),
        true => {
            let text = format!("it has more than {limit} bytes");
            Err(io::Error::new(io::ErrorKind::FileTooLarge, text))
        }
    }
}

/// Reads a text file of at most `limit` bytes.
///
/// # Errors
///
/// As of [`read_limited`]; `InvalidData` where it is no UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    let text = String::from_utf8(read_limited(path, limit)?);
    text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_at_the_limit_is_read_and_a_larger_one_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("three");
        std::fs::write(&path, "abc").unwrap();
        assert_eq!(read_limited(&path, 3).unwrap(), b"abc");
        assert_eq!(read_limited(&path, u64::MAX).unwrap(), b"abc");
        for (path, limit) in [(path.as_path(), 2), (Path::new("/dev/zero"), 1 << 16)] {
            let error = read_limited(path, limit).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        }
        assert_eq!(read_text(&path, 3).unwrap(), "abc");
        std::fs::write(&path, b"\xff").unwrap();
        assert_eq!(read_text(&path, 3).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
