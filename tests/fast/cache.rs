//! The cache: what goes first, what stays, and what is not ktax's. The entries are planted.

mod crash;
mod foreign;
mod holders;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ktax::cache::{Budget, CacheKind, clean, survey};
use serde_json::Value;

use crate::common::{Ran, ktax, run, scratch};

/// A name such as those of most entries.
fn hash(number: u32) -> String {
    format!("{number:064x}")
}

/// Sets when an entry was last used.
fn age(path: &Path, seconds: u64) {
    let time = SystemTime::now() - Duration::from_secs(seconds);
    File::open(path).unwrap().set_modified(time).unwrap();
}

/// Plants a directory with one file, that was used so long ago.
fn directory(cache: &Path, name: &str, kib: usize, seconds: u64) -> PathBuf {
    let path = cache.join(name);
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("content"), vec![7; kib << 10]).unwrap();
    age(&path, seconds);
    path
}

/// Plants a file that was used so long ago.
fn file(cache: &Path, name: &str, kib: usize, seconds: u64) -> PathBuf {
    let path = cache.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, vec![7; kib << 10]).unwrap();
    age(&path, seconds);
    path
}

/// A lane, with the file that its builds lock.
fn lane(cache: &Path, name: &str, seconds: u64) -> PathBuf {
    fs::create_dir_all(cache.join("builds/tmp")).unwrap();
    let path = directory(cache, &format!("builds/lanes/{name}"), 100, seconds);
    File::create(path.join("lock")).unwrap();
    age(&path, seconds);
    path
}

/// One of each kind, in the order in which they were used.
fn one_of_each(cache: &Path) -> Vec<(CacheKind, PathBuf)> {
    let hash = |number| hash(number);
    vec![
        (CacheKind::Snapshot, directory(cache, &format!("snapshots/{}", hash(1)), 100, 900)),
        (CacheKind::Lane, lane(cache, "6.12-riscv64", 800)),
        (CacheKind::SymbolTable, file(cache, &format!("symbols/{}", hash(2)), 100, 700)),
        (CacheKind::SourceTrees, directory(cache, "builds/trees.git", 100, 600)),
        (CacheKind::Kernel, directory(cache, &format!("kernels/{}", hash(3)), 100, 500)),
        (CacheKind::HostArchive, file(cache, &format!("hosts/{}.cpio", hash(4)), 100, 400)),
        (CacheKind::CompilerCache, directory(cache, "builds/ccache", 100, 300)),
        (CacheKind::GuestPrograms, directory(cache, &format!("payload/{}", hash(5)), 100, 200)),
        (CacheKind::PackageList, file(cache, "kernels/tmp/apt.bin", 100, 100)),
        (CacheKind::SelfTest, file(cache, &format!("self-tests/{}", hash(6)), 100, 50)),
    ]
}

/// `ktax cache` with these words on a cache.
fn command(words: &[&str], cache: &Path) -> Ran {
    run(ktax().arg("cache").args(words).arg("--cache").arg(cache))
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stderr))
}

#[test]
fn what_was_not_used_for_longest_goes_first_whatever_it_is() {
    let dir = scratch();
    let cache = dir.path();
    let planted = one_of_each(cache);
    let found: Vec<(CacheKind, PathBuf)> =
        survey(cache).entries.into_iter().map(|entry| (entry.kind, entry.path)).collect();
    assert_eq!(found, planted);
    // Each step takes away one more: the oldest are gone, and the rest is whole.
    for gone in 0..=planted.len() {
        let rest: u64 = survey(cache).entries.iter().map(|entry| entry.bytes).sum();
        let there: Vec<bool> = planted.iter().map(|(_, path)| path.exists()).collect();
        let expected: Vec<bool> = (0..planted.len()).map(|at| at >= gone).collect();
        assert_eq!(there, expected, "{gone}");
        let cleaned = clean(cache, Budget::Bytes(rest.saturating_sub(1)), true).unwrap().unwrap();
        let removed: Vec<&Path> =
            cleaned.removed.iter().map(|entry| entry.path.as_path()).collect();
        let next: Vec<&Path> =
            planted.iter().skip(gone).take(1).map(|(_, path)| path.as_path()).collect();
        assert_eq!(removed, next);
        assert!(cleaned.failed.is_empty(), "{:?}", cleaned.failed);
    }
    assert_eq!(survey(cache).bytes(), 0);
}

#[test]
fn a_budget_that_holds_removes_nothing_and_one_of_zero_everything() {
    let dir = scratch();
    let cache = dir.path();
    let planted = one_of_each(cache);
    let size = survey(cache).bytes().to_string();
    for budget in [size.as_str(), "20G", "unlimited"] {
        let ran = command(&["clean", "--cache-size", budget], cache);
        assert!(ran.stdout.starts_with("removed nothing (0 bytes)"), "{budget}: {}", ran.stdout);
        assert!(planted.iter().all(|(_, path)| path.exists()), "{budget}");
    }
    let ran = command(&["clean", "--cache-size", "0", "--json"], cache);
    let cleaned = json(&ran);
    assert_eq!(cleaned["freed_bytes"].to_string(), size);
    assert_eq!(cleaned["removed"].as_array().unwrap().len(), planted.len());
    assert_eq!(cleaned["left_bytes"], 0);
    assert!(planted.iter().all(|(_, path)| !path.exists()));
    let ran = command(&["du"], cache);
    let expected = format!("   0 bytes  {}; --cache-size is 20.0 GiB\n", cache.display());
    assert_eq!(ran.stdout, expected);
}

/// Snapshots are: the memory of a guest has a length of 512 MiB and takes a tenth of that.
#[test]
fn a_sparse_file_takes_what_the_disk_has_of_it() {
    let dir = scratch();
    let cache = dir.path();
    let snapshot = directory(cache, &format!("snapshots/{}", hash(1)), 0, 10);
    File::create(snapshot.join("ram")).unwrap().set_len(1 << 30).unwrap();
    age(&snapshot, 10);
    assert!(survey(cache).bytes() < 1 << 20, "{}", survey(cache).bytes());
    let ran = command(&["clean", "--cache-size", "1M"], cache);
    assert!(snapshot.exists(), "{}", ran.stdout);
}

#[test]
fn a_use_is_what_counts_not_the_age() {
    let dir = scratch();
    let cache = dir.path();
    let [old, new] = [(1, 900), (2, 10)]
        .map(|(number, age)| directory(cache, &format!("snapshots/{}", hash(number)), 100, age));
    drop(ktax::cache::Holder::hold(&old).unwrap());
    let most = survey(cache).bytes() - 1;
    clean(cache, Budget::Bytes(most), true).unwrap();
    assert!(old.exists() && !new.exists());
}

#[test]
fn the_tables_say_how_many_there_are_and_what_they_take() {
    let dir = scratch();
    let cache = dir.path();
    for number in 1..=3 {
        directory(cache, &format!("snapshots/{}", hash(number)), 1020, 10);
    }
    lane(cache, "6.12", 20);
    let text = command(&["du", "--cache-size", "1G"], cache).stdout;
    assert!(text.contains("   3.0 MiB  3 snapshots\n"), "{text}");
    assert!(
        text.contains("  1 build lane\n") && text.contains("--cache-size is 1.0 GiB"),
        "{text}"
    );
    let du = json(&command(&["du", "--json"], cache));
    assert_eq!(du["cache_size_bytes"], 20_u64 << 30);
    let snapshots =
        du["kinds"].as_array().unwrap().iter().find(|kind| kind["kind"] == "snapshot").unwrap();
    assert_eq!((&snapshots["entries"], &snapshots["in_use"]), (&3.into(), &0.into()));
    let ran = command(&["clean", "--cache-size", "1M"], cache);
    let said = "removed 2 snapshots and 1 build lane (";
    assert!(
        ran.stdout.starts_with(said) && ran.stdout.contains("; the cache has "),
        "{}",
        ran.stdout
    );
    let ran = command(&["clean", "--cache-size", "20X"], cache);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("write a number with K, M, G or T, such as 20G"), "{}", ran.stderr);
}

/// Every command that measures ends with cleaning the cache, also one that fails.
#[test]
fn a_command_that_measures_cleans_at_its_end() {
    let dir = scratch();
    let cache = dir.path().join("cache");
    let planted = one_of_each(&cache);
    let ends = |size: &str| {
        let mut compare = ktax();
        compare.args(["compare", "lsm", "--qemu", "/nonexistent/qemu", "--cache-size", size]);
        let ran = run(compare.arg("--cache").arg(&cache).arg("--out").arg(dir.path().join("out")));
        assert_eq!(ran.status, 69, "{}", ran.stderr);
        ran.stderr
    };
    let said = ends("unlimited");
    assert!(!said.contains("removed"), "{said}");
    assert!(planted.iter().all(|(_, path)| path.exists()));
    let said = ends("0");
    let lines =
        said.lines().filter(|line| line.contains("the cache was larger than 0 bytes")).count();
    assert!(lines == 1 && said.contains("--cache-size changes the limit"), "{said}");
    assert!(planted.iter().all(|(_, path)| !path.exists()));
}
