use std::fs;
use std::path::{Path, PathBuf};

/// Every file below a directory, by its path there, with what is in it.
pub fn files_below(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut all, mut dirs) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => dirs.push(path),
                false => {
                    let name = path.strip_prefix(dir).unwrap().to_owned();
                    all.push((name, fs::read(path).unwrap()));
                }
            }
        }
    }
    all.sort();
    all
}
