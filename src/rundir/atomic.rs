use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Writes a file so that after a crash its place holds the whole content or what was there before:
/// into an unguessable name beside it, synced, renamed, and the directory synced.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(dir)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(dir)?.sync_all()
}
