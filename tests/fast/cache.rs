//! The cache: what goes first, what stays, and what is not ktax's. The entries are planted.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use ktax::cache::{Budget, CacheKind, Holder, clean, survey};
use serde_json::Value;

use crate::common::{Ran, ktax, run, scratch, scratch_path, until};

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
fn the_least_recently_used_entry_of_any_kind_is_removed_first() {
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
        let expected: Vec<bool> = (0..planted.len()).map(|index| index >= gone).collect();
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
fn sparse_files_count_with_their_disk_blocks() {
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
fn entries_are_ordered_by_use_and_not_by_age() {
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
fn the_tables_have_counts_and_sizes() {
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
    let message = "removed 2 snapshots and 1 build lane (";
    assert!(
        ran.stdout.starts_with(message) && ran.stdout.contains("; the cache has "),
        "{}",
        ran.stdout
    );
    let ran = command(&["clean", "--cache-size", "20X"], cache).exits(2);
    ran.says("write a number with K, M, G or T, such as 20G");
}

/// Every command that measures ends with cleaning the cache, also one that fails.
#[test]
fn a_command_that_measures_cleans_at_its_end() {
    let (dir, cache) = scratch_path("cache");
    let planted = one_of_each(&cache);
    let ends = |size: &str| {
        let mut compare = ktax();
        compare.args(["compare", "lsm", "--qemu", "/nonexistent/qemu", "--cache-size", size]);
        let ran = run(compare.arg("--cache").arg(&cache).arg("--out").arg(dir.path().join("out")))
            .exits(69);
        ran.stderr
    };
    let stderr = ends("unlimited");
    assert!(!stderr.contains("removed"), "{stderr}");
    assert!(planted.iter().all(|(_, path)| path.exists()));
    let stderr = ends("0");
    let lines =
        stderr.lines().filter(|line| line.contains("the cache was larger than 0 bytes")).count();
    assert!(lines == 1 && stderr.contains("--cache-size changes the limit"), "{stderr}");
    assert!(planted.iter().all(|(_, path)| !path.exists()));
}

// A cleaner that is killed leaves every entry whole or not there.

const SNAPSHOTS: u32 = 12;
const FILES: usize = 300;

/// Snapshots of many files, so that a kill meets one of them half removed.
fn plant(cache: &Path) {
    for number in 0..SNAPSHOTS {
        let path = directory(cache, &format!("snapshots/{}", hash(number)), 0, 10);
        for index in 0..FILES {
            File::create(path.join(index.to_string())).unwrap();
        }
        age(&path, 10);
    }
}

/// The names of all snapshots and of what else is there, each with the number of its files.
fn seen(cache: &Path) -> Vec<(OsString, usize)> {
    let entries = fs::read_dir(cache.join("snapshots")).unwrap().flatten();
    let files = |path: &Path| fs::read_dir(path).map_or(0, Iterator::count);
    let mut seen: Vec<_> = entries.map(|entry| (entry.file_name(), files(&entry.path()))).collect();
    seen.sort();
    seen
}

#[test]
fn a_killed_cleaner_leaves_no_partial_entry() {
    let dir = scratch();
    let cache = dir.path();
    plant(cache);
    let mut in_the_middle = 0;
    while !survey(cache).entries.is_empty() {
        let before = seen(cache);
        let mut clean = ktax();
        clean.args(["cache", "clean", "--all", "--cache"]).arg(cache);
        let mut clean = clean.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("something is gone", || seen(cache) != before);
        clean.kill().unwrap();
        clean.wait().unwrap();
        let left = survey(cache);
        for entry in &left.entries {
            let files = fs::read_dir(&entry.path).unwrap().count();
            assert_eq!(files, FILES + 1, "{}", entry.path.display());
        }
        in_the_middle += usize::from(left.temporary_bytes > 0);
    }
    assert!(in_the_middle > 0, "no kill came in the middle");
    // The next one removes what the killed ones left.
    assert_eq!(command(&["clean", "--all"], cache).status, 0);
    let left = seen(cache);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn files_of_killed_writers_are_removed_and_of_live_ones_kept() {
    let dir = scratch();
    let cache = dir.path();
    const DAYS: u64 = 2 * 24 * 60 * 60;
    let gone = [
        directory(cache, "snapshots/.gone-abc", 10, 0),
        directory(cache, "kernels/tmp/.tmpOLD", 10, DAYS),
        file(cache, "hosts/.new-old", 10, DAYS),
        file(cache, &format!("snapshots/{}.lock", hash(1)), 0, 0),
        directory(cache, "runs/.vm-left", 10, 0),
    ];
    File::create(gone[4].join("lock")).unwrap();
    let stay = [
        directory(cache, "builds/tmp/.tmpNEW", 10, 0),
        file(cache, "hosts/.new-new", 10, 0),
        file(cache, &format!("snapshots/{}.lock", hash(2)), 0, 0),
        directory(cache, "runs/.vm-runs", 10, 0),
    ];
    // A snapshot is locked while it is made, and a VM's directory while the VM runs.
    let making = ktax::disk::Lock::take(File::open(&stay[2]).unwrap()).unwrap();
    let lock = File::create(stay[3].join("lock")).unwrap();
    let running = ktax::disk::Lock::take(lock).unwrap();
    command(&["clean", "--cache-size", "unlimited"], cache).exits(0);
    for path in &gone {
        assert!(!path.exists(), "{}", path.display());
    }
    for path in &stay {
        assert!(path.exists(), "{}", path.display());
    }
    drop((making, running));
}

#[test]
fn records_go_with_their_kernels_and_indexes_with_their_trees() {
    let dir = scratch();
    let cache = dir.path();
    let record = |name: &str, sha256: &str| {
        let path = file(cache, name, 0, 0);
        fs::write(&path, format!("{{\"image_sha256\":\"{sha256}\"}}")).unwrap();
        path
    };
    fs::create_dir_all(cache.join("builds/tmp")).unwrap();
    let [used, unused] = [1, 2].map(|n| directory(cache, &format!("kernels/{}", hash(n)), 10, 10));
    let stays = record("kernels/by-package/linux_1.json", &hash(1));
    let goes = [
        record("kernels/by-package/linux_2.json", &hash(2)),
        record(&format!("builds/by-recipe/{}.json", hash(9)), &hash(2)),
        directory(cache, "builds/trees.git", 10, 10),
        directory(cache, "builds/indexes", 10, 10),
        directory(cache, "builds/packages", 10, 10),
        unused,
    ];
    let holder = Holder::hold(&used).unwrap();
    assert_eq!(command(&["clean", "--all"], cache).status, 0);
    assert!(used.exists() && stays.exists());
    for path in &goes {
        assert!(!path.exists(), "{}", path.display());
    }
    drop(holder);
}

// Files that ktax did not make are neither counted nor removed.

/// All paths below a directory; links are not followed.
fn tree(root: &Path) -> Vec<String> {
    let ran = run(Command::new("find").arg(root));
    let mut paths: Vec<String> = ran.stdout.lines().map(str::to_owned).collect();
    paths.sort();
    paths
}

fn pipe(path: &Path) {
    assert_eq!(run(Command::new("mkfifo").arg(path)).status, 0);
}

#[test]
fn files_of_others_are_neither_counted_nor_removed() {
    let dir = scratch();
    let cache = dir.path();
    for name in ["snapshots/holiday", "kernels/my-kernel", "payload/x", "mine", "hosts/backup"] {
        directory(cache, name, 10, 9999);
    }
    let upper = hash(0xabc).to_uppercase();
    for name in ["symbols/notes", "hosts/a.cpio", &format!("symbols/{upper}"), "README"] {
        file(cache, name, 10, 9999);
    }
    // The names of entries, and not what entries are.
    file(cache, &format!("snapshots/{}", hash(1)), 10, 9999);
    directory(cache, &format!("symbols/{}", hash(2)), 10, 9999);
    pipe(&cache.join("symbols").join(hash(3)));
    // Nobody has built a kernel here, so these are of somebody else.
    for name in ["builds/ccache", "builds/trees.git", "builds/lanes/6.12"] {
        directory(cache, name, 10, 9999);
    }
    let before = tree(cache);
    assert_eq!(survey(cache).bytes(), 0, "{:?}", survey(cache));
    command(&["clean", "--all"], cache).exits(0);
    assert_eq!(tree(cache), before);
    // A lane that no build has locked is none of ktax's either.
    fs::create_dir(cache.join("builds/tmp")).unwrap();
    assert_eq!(survey(cache).entries_of_kind(ktax::cache::CacheKind::Lane).count(), 0);
}

#[test]
fn links_are_not_followed() {
    let dir = scratch();
    let (cache, outside) = (dir.path().join("cache"), dir.path().join("outside"));
    directory(&outside, "kept", 10, 9999);
    directory(&outside, &hash(1), 10, 9999);
    let entry = directory(&cache, &format!("snapshots/{}", hash(2)), 0, 10);
    symlink(&outside, entry.join("link")).unwrap();
    symlink(outside.join("kept/content"), entry.join("file")).unwrap();
    // An entry that is a link, and a directory of entries that is one.
    symlink(&outside, cache.join("snapshots").join(hash(3))).unwrap();
    symlink(&outside, cache.join("payload")).unwrap();
    symlink(&outside, cache.join("snapshots/.gone-link")).unwrap();
    let before = tree(&outside);
    assert_eq!(survey(&cache).entries.len(), 1);
    let cleaned = clean(&cache, Budget::Bytes(0), true).unwrap().unwrap();
    assert_eq!(cleaned.removed.len(), 1);
    assert!(!entry.exists() && cache.join("payload").exists());
    assert!(fs::symlink_metadata(cache.join("snapshots").join(hash(3))).is_ok());
    assert_eq!(tree(&outside), before);
}

/// Root reads everything, so the reader is somebody else.
#[test]
fn unreadable_entries_are_not_removed() {
    let dir = scratch();
    let cache = dir.path();
    let closed = directory(cache, &format!("snapshots/{}", hash(1)), 10, 9999);
    let open = directory(cache, &format!("snapshots/{}", hash(2)), 10, 10);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let is_root = fs::read_dir(&closed).is_ok();
    let found = survey(cache).entries.len();
    assert_eq!(found, if is_root { 2 } else { 1 });
    if !is_root {
        command(&["clean", "--all"], cache);
        assert!(closed.exists() && !open.exists());
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_missing_cache_is_empty_and_is_not_made() {
    let (_dir, cache) = scratch_path("none");
    assert!(command(&["du"], &cache).stdout.starts_with("   0 bytes  "));
    let ran = command(&["clean", "--all"], &cache);
    assert_eq!((ran.status, cache.exists()), (0, false), "{}", ran.stderr);
    // A file in the place of the cache.
    fs::write(&cache, "").unwrap();
    command(&["clean", "--all"], &cache).exits(0);
    assert!(cache.exists());
}

// Files in use stay, whoever uses them and for however long.

/// Another process that has the lock of a file or a directory until it is killed.
struct Other(Child);

impl Other {
    fn locks(path: &Path, how: &str) -> Other {
        let mut flock = Command::new("flock");
        flock.args([how, "--no-fork"]).arg(path).args(["sh", "-c", "echo held; exec cat"]);
        let mut child = flock.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        Other(child)
    }

    /// Sends SIGKILL.
    fn kill_it(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn entries_in_use_stay_until_their_process_is_killed() {
    let dir = scratch();
    let cache = dir.path();
    let planted = one_of_each(cache);
    for (kind, path) in &planted {
        one_of_each(cache);
        let other = match kind {
            ktax::cache::CacheKind::Lane => Other::locks(&path.join("lock"), "--exclusive"),
            _ => Other::locks(path, "--shared"),
        };
        let du = json(&command(&["du", "--json"], cache));
        let in_use: u64 = du["kinds"]
            .as_array()
            .unwrap()
            .iter()
            .map(|kind| kind["in_use"].as_u64().unwrap())
            .sum();
        assert_eq!(in_use, 1, "{kind:?}: {du}");
        command(&["clean", "--all"], cache).exits(0).prints(" are in use\n");
        let left: Vec<_> = survey(cache).entries.into_iter().map(|entry| entry.path).collect();
        assert_eq!(left, [path.as_path()], "{kind:?}");
        other.kill_it();
        command(&["clean", "--all"], cache);
        assert_eq!(survey(cache).bytes(), 0, "{kind:?}");
    }
}

/// The least recently used one is in use, so the next one goes in its place.
#[test]
fn entries_in_use_count_towards_the_budget() {
    let dir = scratch();
    let cache = dir.path();
    let plant = |number, age| directory(cache, &format!("snapshots/{}", hash(number)), 100, age);
    let [used, next, newest] = [plant(1, 30), plant(2, 20), plant(3, 10)];
    let holder = ktax::cache::Holder::hold(&used).unwrap();
    // Each use updates the time.
    age(&used, 30);
    let most = survey(cache).bytes() - 1;
    let cleaned = clean(cache, Budget::Bytes(most), true).unwrap().unwrap();
    assert_eq!(cleaned.removed.iter().map(|entry| &entry.path).collect::<Vec<_>>(), [&next]);
    assert!(used.exists() && newest.exists() && cleaned.in_use > 0);
    drop(holder);
}

/// A real ktax uses the guest's programs.
#[test]
fn the_programs_of_a_running_ktax_stay_until_it_is_killed() {
    let (_dir, cache) = scratch_path("cache");
    let mut running = ktax();
    running.args(["workloads", "run", "getppid", "--samples", "10000", "--cache"]).arg(&cache);
    let mut running = running.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let in_use = || survey(&cache).entries.iter().filter(|entry| entry.in_use).count();
    until("the programs are in use", || in_use() == 1);
    let programs = fs::read_dir(cache.join("payload")).unwrap().next().unwrap().unwrap().path();
    command(&["clean", "--all"], &cache);
    assert!(programs.exists());
    running.kill().unwrap();
    running.wait().unwrap();
    until("nobody uses them", || in_use() == 0);
    command(&["clean", "--all"], &cache);
    assert!(!programs.exists());
}

/// A cleaner that waits for a build would wait for an hour.
#[test]
fn cleaners_skip_locked_entries_and_exclude_each_other() {
    let dir = scratch();
    let cache = dir.path();
    let lane = lane(cache, "6.12", 10);
    let build = Other::locks(&lane.join("lock"), "--exclusive");
    let cleaner = Other::locks(cache, "--exclusive");
    assert!(clean(cache, Budget::Bytes(0), false).unwrap().is_none());
    cleaner.kill_it();
    let cleaned = clean(cache, Budget::Bytes(0), false).unwrap().unwrap();
    assert!(cleaned.removed.is_empty() && lane.exists());
    build.kill_it();
}
