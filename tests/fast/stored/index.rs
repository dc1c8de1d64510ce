//! The index is never the only copy of anything.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rusqlite::Connection;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule, apply_filter};

use super::Asked;
use super::generated::{self, Made};
use crate::common::{Need, Ran, ktax, own, require, run};

/// At once, and in all.
const WRITERS: usize = 16;
const KILLED: usize = 100;

const ASKED: [&[&str]; 6] = [
    &["log", "--json"],
    &["log", "--subjects", "--json"],
    &["history", "--json"],
    &["history", "stat", "--format", "csv"],
    &["diff", "6.1.1", "6.1.2", "--json"],
    &["tag", "--json"],
];

fn filled() -> Asked {
    let asked = Asked::new();
    let releases = ["6.1.1", "6.1.2", "6.1.3"];
    let rows = ["getppid", "stat", "pipe"];
    let all = releases
        .iter()
        .enumerate()
        .flat_map(|(at, release)| rows.map(|row| Made::of(row, release, 10_000 + 100 * at as u64)));
    generated::fill(&asked.store, all);
    asked.said(&["tag", "first", "6.1.1"]);
    let run = asked.path().join("run");
    crate::golden::fixtures::run_dir(&run, "kept", 5, super::diff::ROWS);
    asked.said(&["analyse", run.to_str().unwrap()]);
    asked.said(&["store", "import", run.to_str().unwrap()]);
    asked
}

fn answers(asked: &Asked) -> Vec<String> {
    ASKED.iter().map(|words| asked.said(words)).collect()
}

fn file(asked: &Asked) -> PathBuf {
    asked.said(&["store", "index"]).trim().into()
}

/// Every row of every table but the numbers that SQLite gave them.
fn dump(path: &Path) -> Vec<String> {
    let db = Connection::open(path).unwrap();
    let mut all = Vec::new();
    for sql in [
        "SELECT sha256 || name || source || arch FROM kernel",
        "SELECT sha256 || boot_line || asked FROM subject JOIN kernel ON kernel.id = kernel",
        "SELECT json || seed FROM conditions",
        "SELECT json || row || ops FROM workload",
        "SELECT object || signature || sha256 || workload.json FROM measurement \
         JOIN subject ON subject.id = subject JOIN kernel ON kernel.id = kernel \
         JOIN workload ON workload.id = workload",
        "SELECT object || metric || layout || ':' || raw || ':' || whole FROM value \
         JOIN measurement ON measurement.id = measurement",
        "SELECT object || kind || title || headline || rows || kernels FROM result",
        "SELECT name || kernel_sha256 || boot_line FROM tag",
    ] {
        let mut query = db.prepare(sql).unwrap();
        let rows = query.query_map((), |row| row.get::<_, String>(0)).unwrap();
        let mut rows: Vec<String> = rows.map(Result::unwrap).collect();
        rows.sort();
        all.push(format!("{sql}: {}", rows.len()));
        all.extend(rows);
    }
    all
}

#[test]
fn an_index_that_is_gone_or_broken_is_made_again_and_answers_the_same() {
    let asked = filled();
    let expected = answers(&asked);
    let path = file(&asked);
    let whole = dump(&path);
    let bytes = fs::read(&path).unwrap();
    let mut torn = bytes.clone();
    let half = torn.len() / 2;
    torn[100..half].fill(0x5a);
    let mut version = bytes.clone();
    version[63] ^= 0xff; // the schema's, behind the cookie of the header
    let others: [(&str, Option<Vec<u8>>); 6] = [
        ("gone", None),
        ("empty", Some(Vec::new())),
        ("no database", Some(b"not SQLite".repeat(1000))),
        ("cut off", Some(bytes[..half].to_vec())),
        ("torn", Some(torn)),
        ("of another version", Some(version)),
    ];
    for (what, found) in others {
        for suffix in ["-wal", "-shm"] {
            let _ = fs::remove_file(format!("{}{suffix}", path.display()));
        }
        match found {
            None => fs::remove_file(&path).unwrap(),
            Some(bytes) => fs::write(&path, bytes).unwrap(),
        }
        assert_eq!(answers(&asked), expected, "{what}");
        assert_eq!(dump(&path), whole, "{what}");
    }
}

#[test]
fn what_the_store_loses_the_index_forgets_and_what_is_damaged_is_said() {
    let asked = filled();
    let object = |at: usize| asked.store.objects().unwrap()[at].clone();
    let count = || dump(&file(&asked)).len();
    let before = count();
    fs::remove_file(object(0)).unwrap();
    assert!(count() < before);
    let damaged = object(1);
    fs::remove_file(&damaged).unwrap();
    fs::write(&damaged, "x").unwrap();
    fs::remove_file(file_of_index(&asked)).unwrap();
    let ran = asked.ktax(&["log"]);
    assert_eq!(ran.status, 0);
    assert!(ran.stderr.contains("1 file of the store cannot be read: "), "{}", ran.stderr);
    assert!(ran.stderr.contains("`ktax store fsck` moves it aside"), "{}", ran.stderr);
    asked.ktax(&["store", "fsck"]);
    assert_eq!(asked.ktax(&["log"]).stderr, "");
}

fn file_of_index(asked: &Asked) -> PathBuf {
    let dir = asked.path().join("cache/index");
    let mut all = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    all.find(|path| path.extension().is_some_and(|it| it == "sqlite")).unwrap()
}

#[test]
fn sixteen_processes_of_which_a_hundred_are_killed_leave_a_whole_index() {
    let asked = filled();
    let expected = answers(&asked);
    let path = file(&asked);
    let whole = dump(&path);
    let mut killed = 0;
    while killed < KILLED {
        let _ = fs::remove_file(&path);
        killed += kill(&asked, |command| drop(command.arg("log")));
        assert_eq!(answers(&asked), expected, "after {killed}");
        assert_eq!(dump(&path), whole, "after {killed}");
    }
}

/// Sixteen at once, each killed after another number of looks; how many had not ended yet.
fn kill(asked: &Asked, prepare: impl Fn(&mut Command)) -> usize {
    let writer = |_| {
        let mut command = ktax();
        prepare(&mut command);
        command.env("KTAX_STORE", asked.store.root());
        command.env("KTAX_CACHE", asked.path().join("cache"));
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut writers: Vec<_> = (0..WRITERS).map(writer).collect();
    let mut killed = 0;
    for (at, writer) in writers.iter_mut().enumerate() {
        let mut looks = at * 20;
        while looks > 0 && writer.try_wait().unwrap().is_none() {
            looks -= 1;
        }
        writer.kill().unwrap();
        killed += usize::from(!writer.wait().unwrap().success());
    }
    killed
}

/// The store of another run is filled on a file system without locks, and asked on one with them.
#[test]
fn writers_that_are_killed_without_file_locks_lose_nothing() {
    let asked = filled();
    let expected = answers(&asked);
    let (objects, results) = (asked.store.objects().unwrap(), asked.store.results().unwrap());
    let filter = without_locks();
    let run = asked.path().join("run");
    let mut killed = 0;
    while killed < KILLED {
        for object in objects.iter().chain(&results).step_by(3) {
            let _ = fs::remove_file(object);
        }
        killed += kill(&asked, |command| {
            command.args(["store", "import"]).arg(&run);
            lock_free(command, &filter);
        });
        for object in asked.store.objects().unwrap() {
            asked.store.read(&object).unwrap();
        }
    }
    // What was removed is made again: of the run by its import, of the others by hand.
    let again = filled();
    asked.said(&["store", "import", again.store.root().to_str().unwrap()]);
    assert_eq!(answers(&asked), expected);
    assert_eq!(dump(&file(&asked)), dump(&file(&again)));
}

/// A filter under which file locks fail, as on a file system without them.
fn without_locks() -> BpfProgram {
    use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition};
    let command = |number| {
        let is_it = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, number);
        SeccompRule::new(vec![is_it.unwrap()]).unwrap()
    };
    // fcntl(F_SETLK, F_SETLKW and those of open files), and flock.
    let fcntl = [6, 7, 37, 38].map(command).to_vec();
    let rules = [(72, fcntl), (73, vec![])].into();
    let refused = SeccompAction::Errno(37); // ENOLCK
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        refused,
        std::env::consts::ARCH.try_into().unwrap(),
    );
    filter.unwrap().try_into().unwrap()
}

fn under(filter: &BpfProgram, asked: &Asked, words: &[&str]) -> Ran {
    let mut command = ktax();
    command.args(words).env("KTAX_STORE", asked.store.root());
    command.env("KTAX_CACHE", asked.path().join("cache"));
    lock_free(&mut command, filter);
    run(&mut command)
}

fn lock_free(command: &mut Command, filter: &BpfProgram) {
    let filter = filter.clone();
    // SAFETY: the closure makes system calls alone, and allocates nothing.
    unsafe { command.pre_exec(move || apply_filter(&filter).map_err(io::Error::other)) };
}

#[test]
fn without_file_locks_the_answers_are_the_same_and_the_index_is_in_memory() {
    let asked = filled();
    let expected = answers(&asked);
    let filter = without_locks();
    for (words, expected) in ASKED.iter().zip(&expected) {
        let ran = under(&filter, &asked, words);
        assert_eq!(&ran.stdout, expected, "{words:?}: {}", ran.stderr);
    }
    let ran = under(&filter, &asked, &["store", "index"]);
    assert_eq!(ran.status, 2, "{}", ran.stdout);
    assert!(ran.stderr.contains("there is no file; give --cache"), "{}", ran.stderr);
    // The store itself locks nothing: it can be written.
    let run = asked.path().join("run");
    let other = asked.path().join("other");
    let words = ["store", "import", run.to_str().unwrap(), "--store", other.to_str().unwrap()];
    let ran = under(&filter, &asked, &words);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "kept 4 new measurements and 1 new result\n")
    );
}

#[test]
fn a_cache_and_a_store_that_are_read_only_can_be_asked() {
    let may_mount = || {
        let script = "mount -t tmpfs none /mnt";
        let words = ["--user", "--map-root-user", "--mount", "sh", "-c", script];
        run(own(Command::new("unshare").args(words))).status == 0
    };
    if !require(Need::Namespaces, may_mount(), "user namespaces may not mount here") {
        return;
    }
    let asked = filled();
    let expected = asked.said(&["history", "--json"]);
    let mount = "mount --bind \"$2\" /mnt && mount -o remount,bind,ro,noexec /mnt && \
                 KTAX_STORE=/mnt/store KTAX_CACHE=/mnt/cache \"$1\" history --json";
    for remove in [false, true] {
        if remove {
            fs::remove_dir_all(asked.path().join("cache")).unwrap();
        }
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]);
        command.arg(env!("CARGO_BIN_EXE_ktax")).arg(asked.path());
        let ran = run(own(&mut command));
        assert_eq!((ran.status, ran.stdout.as_str()), (0, expected.as_str()), "{}", ran.stderr);
    }
}

#[test]
fn a_full_disk_beneath_the_index_costs_no_answer() {
    let may_mount = || {
        let words =
            ["--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"];
        run(own(Command::new("unshare").args(words))).status == 0
    };
    if !require(Need::Namespaces, may_mount(), "user namespaces may not mount here") {
        return;
    }
    let asked = filled();
    let expected = asked.said(&["history", "--json"]);
    // From no room for a directory to room for all of it.
    for pages in [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144] {
        let script = "mount -t tmpfs -o size=$3k none /mnt && KTAX_CACHE=/mnt KTAX_STORE=\"$2\" \
                      \"$1\" history --json";
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
        command
            .arg(env!("CARGO_BIN_EXE_ktax"))
            .arg(asked.store.root())
            .arg((4 * pages).to_string());
        let ran = run(own(&mut command));
        assert_eq!((ran.status, ran.stdout.as_str()), (0, expected.as_str()), "{}", ran.stderr);
    }
}

/// What docs/history.md says that people may ask.
#[test]
fn the_view_of_costs_has_a_line_for_each_row_and_metric() {
    let asked = filled();
    let db = Connection::open(file(&asked)).unwrap();
    let sql = "SELECT least, most, layouts FROM cost WHERE row = 'stat' AND kernel = '6.1.2' \
               AND metric = 'instructions'";
    let found: (f64, f64, i64) =
        db.query_row(sql, (), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    assert_eq!(found, (10_100.0, 10_100.004, 5));
}
