//! Reads patches: files, and those in the binary that the experiments of ktax name.

use std::io;
use std::path::Path;

use crate::error::BuildError;
use crate::patch::{self, Patch};
use ktax_host::disk::read_limited;
use ktax_host::text::escape_path;

/// More than a patch has. Some files have no end, such as `/dev/zero`.
const PATCH_MAX: u64 = 64 << 20;

/// The patches of ktax by their paths in its source tree.
const BUILT_IN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/patches.rs"));

/// Whether the path names a patch that is in the binary, and no file.
pub fn is_built_in(path: &Path) -> bool {
    !path.exists() && built_in(path).is_some()
}

/// The bytes of a patch: of the file of that name, else of the one that is built in.
///
/// # Errors
/// There is neither, or the file cannot be read, or has more than 64 MiB.
pub fn patch(path: &Path) -> io::Result<Vec<u8>> {
    match read_limited(path, PATCH_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            built_in(path).map(|text| text.as_bytes().to_vec()).ok_or(error)
        }
        read => read,
    }
}

/// The patches in the file of that name, in the order in which they apply.
pub(super) fn read(path: &Path) -> Result<Vec<Patch>, BuildError> {
    let bytes = patch(path).map_err(|error| BuildError::Unreadable {
        path: escape_path(path),
        error,
        wanted: "a patch, such as `git format-patch` or `b4 am` writes",
    })?;
    patch::read(&bytes).map_err(|reason| BuildError::NotAPatch { patch: escape_path(path), reason })
}

fn built_in(path: &Path) -> Option<&'static str> {
    BUILT_IN.iter().find(|(known, _)| path == Path::new(known)).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_patch_of_the_tree_is_in_the_binary_and_a_file_wins() {
        assert!(BUILT_IN.len() >= 4);
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (path, text) in BUILT_IN {
            assert_eq!(std::fs::read_to_string(tree.join(path)).unwrap(), *text);
            // The tests run where there is no such file.
            assert!(is_built_in(Path::new(path)) && built_in(Path::new(path)).is_some());
            assert!(!is_built_in(&tree.join(path)), "a file wins");
        }
        let missing = patch(Path::new("kernels/patches/no-such.patch")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
