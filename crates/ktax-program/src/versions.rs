//! Managers of versions, such as pyenv and rbenv: the program that one of their shims executes.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// What a manager's root directory has: `shims/NAME` are scripts, `versions/VERSION/bin/NAME` are
/// programs, and `version` says which version is usual.
const MANAGERS: [(&str, &str, &str); 3] = [
    ("pyenv", "PYENV_VERSION", ".python-version"),
    ("rbenv", "RBENV_VERSION", ".ruby-version"),
    ("nodenv", "NODENV_VERSION", ".node-version"),
];

/// The program behind a shim, for who works in `here`; `None` where it is no shim, or where its
/// manager does not say what it would execute.
pub(super) fn behind_shim(shim: &Path, here: &Path) -> Option<PathBuf> {
    let directory = shim.parent()?;
    let root = directory.parent()?;
    if directory.file_name()? != "shims" || !root.join("versions").is_dir() {
        return None;
    }
    let text = fs::read_to_string(shim).ok()?;
    let manager = MANAGERS.iter().find(|(name, ..)| text.contains(name))?;
    let versions = chosen(manager, root, here)?;
    let name = shim.file_name()?;
    let program = |version: &str| root.join("versions").join(version).join("bin").join(name);
    versions.split([':', '\n', ' ']).map(program).find(|path| path.is_file())
}

/// The versions that are chosen: by the environment, by a file in this directory or above it, or
/// for all.
fn chosen((_, variable, file): &(&str, &str, &str), root: &Path, here: &Path) -> Option<String> {
    if let Some(version) = env::var(variable).ok().filter(|version| !version.is_empty()) {
        return Some(version);
    }
    let files = here.ancestors().map(|directory| directory.join(file));
    let mut files = files.chain([root.join("version")]);
    let text = files.find_map(|path| fs::read_to_string(path).ok())?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shim_is_the_program_of_the_version_that_is_chosen() {
        let dir = tempfile::tempdir().unwrap();
        let (root, here) = (dir.path().join("manager"), dir.path().join("here/below"));
        for path in ["shims", "versions/1.0/bin", "versions/2.0/bin"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        fs::create_dir_all(&here).unwrap();
        let shim = root.join("shims/ruby");
        fs::write(&shim, "#!/bin/sh\nexec rbenv exec \"$0\"\n").unwrap();
        let real = |version: &str| root.join("versions").join(version).join("bin/ruby");
        for version in ["1.0", "2.0"] {
            fs::write(real(version), "").unwrap();
        }
        assert_eq!(behind_shim(&shim, &here), None);
        fs::write(root.join("version"), "system\n1.0\n").unwrap();
        assert_eq!(behind_shim(&shim, &here), Some(real("1.0")));
        fs::write(dir.path().join("here/.ruby-version"), "2.0\n").unwrap();
        assert_eq!(behind_shim(&shim, &here), Some(real("2.0")));
        assert_eq!(behind_shim(&real("1.0"), &here), None);
    }
}
