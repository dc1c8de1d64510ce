//! What files take on the disk.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What a file or a directory with all that is in it takes on the disk, in bytes. The memory of a
/// snapshot is a sparse file, so its length says nothing. Links are not followed. What goes
/// meanwhile takes nothing.
pub(super) fn size_on_disk(path: &Path) -> io::Result<u64> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        metadata => metadata?,
    };
    if !metadata.is_dir() {
        return Ok(allocated(&metadata));
    }
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    // A directory that is removed meanwhile ends with the same error.
    let is_there = |entry: &io::Result<fs::DirEntry>| {
        !entry.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    entries
        .filter(is_there)
        .map(|entry| size_on_disk(&entry?.path()))
        .sum::<io::Result<u64>>()
        .map(|below| below + allocated(&metadata))
}

/// `st_blocks` has units of 512 bytes on every filesystem.
fn allocated(metadata: &Metadata) -> u64 {
    metadata.blocks() * 512
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn holes_take_nothing_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dir.path().join("inside"), dir.path().join("outside"));
        fs::create_dir(&inside).unwrap();
        fs::write(&outside, vec![1; 1 << 20]).unwrap();
        let empty = size_on_disk(&inside).unwrap();
        fs::File::create(inside.join("sparse")).unwrap().set_len(1 << 30).unwrap();
        symlink(&outside, inside.join("link")).unwrap();
        symlink("/", inside.join("root")).unwrap();
        let sparse = size_on_disk(&inside).unwrap();
        assert!(sparse < empty + (64 << 10), "{empty} {sparse}");
        fs::write(inside.join("full"), vec![1; 1 << 20]).unwrap();
        assert!(size_on_disk(&inside).unwrap() >= sparse + (1 << 20));
        assert_eq!(size_on_disk(&dir.path().join("none")).unwrap(), 0);
    }
}
