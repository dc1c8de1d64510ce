use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Every file below a directory, by its path there, with what is in it.
pub fn files_below(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut files, mut dirs) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => dirs.push(path),
                false => {
                    let name = path.strip_prefix(dir).unwrap().to_owned();
                    files.push((name, fs::read(path).unwrap()));
                }
            }
        }
    }
    files.sort();
    files
}

/// Writes a program that a shell or another interpreter runs.
pub fn script(dir: &Path, name: &str, text: &str) {
    fs::write(dir.join(name), text).unwrap();
    fs::set_permissions(dir.join(name), PermissionsExt::from_mode(0o755)).unwrap();
}

/// A QEMU that does something with each of its words, which is `$word`, before it starts.
pub fn wrapped_qemu(dir: &Path, qemu: &Path, with_word: &str) -> PathBuf {
    let text = format!(
        "#!/bin/sh\nfor word; do\n  shift\n  {with_word}\n  set -- \"$@\" \"$word\"\ndone\n\
         exec '{}' \"$@\"\n",
        qemu.display()
    );
    script(dir, "qemu", &text);
    dir.join("qemu")
}

/// Whether a directory of PATH has this program.
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}
