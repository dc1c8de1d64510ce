//! The index is never the only copy of anything.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use rusqlite::Connection;

use super::Asked;
use super::generated::{self, Made};
use crate::common::run;

/// At once, and in all.
const WRITERS: usize = 16;
pub const KILLED: usize = 100;

pub const ASKED: [&[&str]; 6] = [
    &["log", "--json"],
    &["log", "--subjects", "--json"],
    &["history", "--json"],
    &["history", "stat", "--format", "csv"],
    &["diff", "6.1.1", "6.1.2", "--json"],
    &["tag", "--json"],
];

pub fn filled() -> Asked {
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

pub fn answers(asked: &Asked) -> Vec<String> {
    ASKED.iter().map(|words| lasting(&asked.said(words))).collect()
}

/// All but when files were written.
pub fn lasting(said: &str) -> String {
    said.lines().filter(|line| !line.contains("\"kept_")).collect::<Vec<_>>().join("\n")
}

pub fn file(asked: &Asked) -> PathBuf {
    asked.said(&["store", "index"]).trim().into()
}

/// Every row of every table but the numbers that SQLite gave them.
pub fn dump(path: &Path) -> Vec<String> {
    let db = Connection::open(path).unwrap();
    let mut all = Vec::new();
    for sql in [
        "SELECT sha256 || name || arch FROM kernel",
        "SELECT sha256 || boot_line FROM subject JOIN kernel ON kernel.id = kernel",
        "SELECT json || seed FROM conditions",
        "SELECT json || row || ops FROM workload",
        "SELECT object || asked || source || signature || sha256 || workload.json FROM measurement \
         JOIN subject ON subject.id = subject JOIN kernel ON kernel.id = kernel \
         JOIN workload ON workload.id = workload",
        "SELECT object || metric || layout || ':' || raw || ':' || whole FROM value \
         JOIN measurement ON measurement.id = measurement",
        "SELECT object || kind || title || headline || rows || kernels FROM result",
        "SELECT name || kernel_sha256 || boot_line FROM tag",
        "SELECT kernel_sha256 || asked || source FROM alias",
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
        assert!(answers(&asked) == expected, "{what}");
        assert!(dump(&path) == whole, "{what}");
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

#[test]
fn a_log_tells_the_results_of_one_day_apart_by_their_time() {
    let asked = filled();
    let [result] = &asked.store.results().unwrap()[..] else { panic!("one result") };
    let kept = UNIX_EPOCH + Duration::from_secs(1_769_867_100);
    fs::File::options().append(true).open(result).unwrap().set_modified(kept).unwrap();
    let print = |words: &[&str]| run(asked.command(words).env("TZ", "<+01>-1")).stdout;
    let listed = print(&["log"]);
    assert!(listed.contains("2026-01-31 14:45"), "{listed}");
    let json: Vec<serde_json::Value> = serde_json::from_str(&print(&["log", "--json"])).unwrap();
    assert_eq!(
        (&json[0]["kept_on"], &json[0]["kept_time"]),
        (&"2026-01-31".into(), &"14:45".into())
    );
    assert_eq!(json[0]["kept_at"], 1_769_867_100);
}

/// Another file in the place of one that the index knows.
#[test]
fn counts_that_are_replaced_are_read_again() {
    let asked = filled();
    assert!(asked.said(&["history", "stat"]).contains("10 100.00"), "as it was");
    let object = asked.store.path(&generated::measurement(&Made::of("stat", "6.1.2", 10_100)).of);
    fs::remove_file(&object).unwrap();
    generated::fill(&asked.store, [Made::of("stat", "6.1.2", 12_345)]);
    let said = asked.said(&["history", "stat"]);
    assert!(said.contains("12 345.00") && !said.contains("10 100.00"), "{said}");
    // A link to nowhere in the place of an object ends, and says so.
    fs::remove_file(&object).unwrap();
    std::os::unix::fs::symlink("/nowhere/x", &object).unwrap();
    let again = asked.store.put(&generated::measurement(&Made::of("stat", "6.1.2", 1)));
    assert!(again.unwrap_err().to_string().contains("it is a symbolic link, not a regular file"));
}

fn file_of_index(asked: &Asked) -> PathBuf {
    let dir = asked.path().join("cache/index");
    let mut all = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    all.find(|path| path.extension().is_some_and(|extension| extension == "sqlite")).unwrap()
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
        killed += kill(&asked, |command| {
            command.arg("log");
        });
        assert!(answers(&asked) == expected, "after {killed}");
        assert!(dump(&path) == whole, "after {killed}");
    }
}

/// Sixteen at once, each killed after another number of looks; how many had not ended yet.
pub fn kill(asked: &Asked, prepare: impl Fn(&mut Command)) -> usize {
    let writer = |_| {
        let mut command = asked.command(&[]);
        prepare(&mut command);
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

/// Somebody who waits is told for what, once.
#[test]
fn a_large_index_is_announced_when_it_is_made() {
    let asked = Asked::new();
    let all = (0..1024).map(|cost| ("getppid", format!("6.1.{cost}"), 10_000 + cost));
    for (row, release, cost) in all {
        generated::fill(&asked.store, [Made::of(row, &release, cost)]);
    }
    let said = || asked.ktax(&["log", "--subjects"]).stderr;
    assert_eq!(said(), "ktax: reading 1024 measurements into the index of the store\n");
    assert_eq!(said(), "");
}

/// Nothing is left of what only they had.
#[test]
fn the_subjects_of_measurements_that_are_gone_are_gone() {
    let asked = Asked::new();
    generated::fill(&asked.store, ["6.1.1", "6.1.2"].map(|release| Made::of("stat", release, 100)));
    let first = asked.store.objects().unwrap().remove(0);
    asked.said(&["store", "index"]);
    fs::remove_file(first).unwrap();
    let fresh = asked.path().join("fresh");
    let path = file(&asked);
    let mut command = asked.command(&["store", "index"]);
    let other = crate::common::run(command.env("KTAX_CACHE", &fresh)).stdout;
    assert!(dump(&path) == dump(Path::new(other.trim())));
}

/// One that somebody else has for long is theirs: it is not taken for a damaged one.
#[test]
fn an_index_that_is_locked_for_long_stays() {
    let asked = filled();
    let expected = answers(&asked);
    let path = file(&asked);
    let db = Connection::open(&path).unwrap();
    db.pragma_update(None, "locking_mode", "exclusive").unwrap();
    db.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let said = asked.said(ASKED[1]);
    assert!(path.exists());
    db.execute_batch("COMMIT").unwrap();
    drop(db);
    assert_eq!(lasting(&said), expected[1]);
    assert!(answers(&asked) == expected);
}
