//! Writers that are killed at any moment lose nothing of what was kept.

use std::process::Stdio;

use ktax::store::Store;

use super::{ROWS, command, filled, measured_dir};
use crate::common::{ktax, scratch};

/// At once, and in all.
const WRITERS: usize = 16;
const KILLED: usize = 100;

#[test]
fn sixteen_writers_of_which_a_hundred_are_killed_lose_nothing() {
    let dir = scratch();
    let root = dir.path().join("run");
    let run_dir = measured_dir(&root);
    let (expected, kept) = filled(dir.path().join("expected"), &run_dir);
    assert_eq!(kept, 2 * ROWS.len() - 1);
    let store = Store::new(dir.path().join("store"));
    let import = || {
        let mut command = ktax();
        command.args(["store", "import"]).arg(&root).arg("--store").arg(store.root());
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut killed = 0;
    while killed < KILLED {
        let mut writers: Vec<_> = (0..WRITERS).map(|_| import()).collect();
        // Each after another number of looks, so that some have begun and some are done.
        for (at, writer) in writers.iter_mut().enumerate() {
            let mut looks = at * 40;
            while looks > 0 && writer.try_wait().unwrap().is_none() {
                looks -= 1;
            }
            writer.kill().unwrap();
            killed += usize::from(!writer.wait().unwrap().success());
        }
        // Whatever is there is whole.
        for object in store.objects().unwrap() {
            store.read(&object).unwrap();
        }
    }
    let ran = command(&["import", root.to_str().unwrap()], store.root());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let bytes = |store: &Store| -> Vec<Vec<u8>> {
        store.objects().unwrap().iter().map(|path| std::fs::read(path).unwrap()).collect()
    };
    assert!(bytes(&store) == bytes(&expected));
    // What the killed ones left is removed once nobody can be writing it, and nothing else.
    assert!(command(&["gc"], store.root()).stdout.starts_with("removed 0 files"));
    for file in unfinished(&store) {
        std::fs::File::open(file).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    let left = store.leftovers().unwrap().len();
    let ran = command(&["gc"], store.root());
    assert!(ran.stdout.starts_with(&format!("removed {left} file")), "{}", ran.stdout);
    assert!(bytes(&store) == bytes(&expected) && store.leftovers().unwrap().is_empty());
}

fn unfinished(store: &Store) -> Vec<std::path::PathBuf> {
    let dirs = std::fs::read_dir(store.root().join("objects")).unwrap();
    let files = dirs.flat_map(|dir| std::fs::read_dir(dir.unwrap().path()).unwrap());
    let paths = files.map(|file| file.unwrap().path());
    paths.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(".new-")).collect()
}
