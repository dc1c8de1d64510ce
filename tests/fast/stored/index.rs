//! The index is never the only copy of anything.

use std::ffi::OsStr;
use std::fs;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::Connection;
use seccompiler::{BpfProgram, SeccompCmpOp};
use serde_json::Value;
use syscalls::x86_64::Sysno;

use super::Asked;
use super::generated::{self, Made};
use crate::common::calls::{filtered, refusing};
use crate::common::hostile::hostile;
use crate::common::mounts::{in_namespace, may_mount};
use crate::common::{Ran, assert_has, run};
use crate::golden::cases;

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
    let measurements = releases.iter().enumerate().flat_map(|(index, release)| {
        rows.map(|row| Made::new(row, release, 10_000 + 100 * index as u64))
    });
    generated::fill(&asked.store, measurements);
    asked.stdout(&["tag", "first", "6.1.1"]);
    let run = asked.path().join("run");
    crate::golden::cases::run_dir(&run, "kept", 5, super::history::ROWS);
    asked.stdout(&["analyse", run.to_str().unwrap()]);
    asked.stdout(&["store", "import", run.to_str().unwrap()]);
    asked
}

pub fn answers(asked: &Asked) -> Vec<String> {
    ASKED.iter().map(|words| lasting(&asked.stdout(words))).collect()
}

/// All but when files were written.
pub fn lasting(text: &str) -> String {
    text.lines().filter(|line| !line.contains("\"kept_")).collect::<Vec<_>>().join("\n")
}

pub fn file(asked: &Asked) -> PathBuf {
    asked.stdout(&["store", "index"]).trim().into()
}

/// Every row of every table but the numbers that SQLite gave them.
pub fn dump(path: &Path) -> Vec<String> {
    let db = Connection::open(path).unwrap();
    let mut lines = Vec::new();
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
        lines.push(format!("{sql}: {}", rows.len()));
        lines.extend(rows);
    }
    lines
}

#[test]
fn an_index_that_is_gone_or_broken_is_made_again_and_answers_the_same() {
    let asked = filled();
    let expected = answers(&asked);
    let path = file(&asked);
    let complete = dump(&path);
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
        assert!(dump(&path) == complete, "{what}");
    }
}

#[test]
fn what_the_store_loses_the_index_forgets_and_what_is_damaged_is_said() {
    let asked = filled();
    let object = |index: usize| asked.store.objects().unwrap()[index].clone();
    let count = || dump(&file(&asked)).len();
    let before = count();
    fs::remove_file(object(0)).unwrap();
    assert!(count() < before);
    let damaged = object(1);
    fs::remove_file(&damaged).unwrap();
    fs::write(&damaged, "x").unwrap();
    fs::remove_file(file_of_index(&asked)).unwrap();
    let ran = asked.ktax(&["log"]).exits(0);
    ran.says("1 file of the store cannot be read: ").says("`ktax store fsck` moves it aside");
    asked.ktax(&["store", "fsck"]);
    assert_eq!(asked.ktax(&["log"]).stderr, "");
}

#[test]
fn a_log_tells_the_results_of_one_day_apart_by_their_time() {
    let asked = filled();
    let [result] = &asked.store.results().unwrap()[..] else { panic!("one result") };
    let kept_at = UNIX_EPOCH + Duration::from_secs(1_769_867_100);
    fs::File::options().append(true).open(result).unwrap().set_modified(kept_at).unwrap();
    let print = |words: &[&str]| run(asked.command(words).env("TZ", "<+01>-1")).stdout;
    assert_has(print(&["log"]), "2026-01-31 14:45");
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
    assert!(asked.stdout(&["history", "stat"]).contains("10 100.00"), "as it was");
    let object =
        asked.store.path(&generated::measurement(&Made::new("stat", "6.1.2", 10_100)).measurand);
    fs::remove_file(&object).unwrap();
    generated::fill(&asked.store, [Made::new("stat", "6.1.2", 12_345)]);
    let text = asked.stdout(&["history", "stat"]);
    assert!(text.contains("12 345.00") && !text.contains("10 100.00"), "{text}");
    // A link to nowhere in the place of an object ends, and says so.
    fs::remove_file(&object).unwrap();
    std::os::unix::fs::symlink("/nowhere/x", &object).unwrap();
    let again = asked.store.put(&generated::measurement(&Made::new("stat", "6.1.2", 1)));
    assert!(again.unwrap_err().to_string().contains("it is a symbolic link, not a regular file"));
}

fn file_of_index(asked: &Asked) -> PathBuf {
    let dir = asked.path().join("cache/index");
    let mut paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.find(|path| path.extension().is_some_and(|extension| extension == "sqlite")).unwrap()
}

#[test]
fn sixteen_processes_of_which_a_hundred_are_killed_leave_a_whole_index() {
    let asked = filled();
    let expected = answers(&asked);
    let path = file(&asked);
    let complete = dump(&path);
    let mut killed = 0;
    while killed < KILLED {
        let _ = fs::remove_file(&path);
        killed += kill(&asked, |command| {
            command.arg("log");
        });
        assert!(answers(&asked) == expected, "after {killed}");
        assert!(dump(&path) == complete, "after {killed}");
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
    for (index, writer) in writers.iter_mut().enumerate() {
        let mut looks = index * 20;
        while looks > 0 && writer.try_wait().unwrap().is_none() {
            looks -= 1;
        }
        writer.kill().unwrap();
        killed += usize::from(!writer.wait().unwrap().success());
    }
    killed
}

/// Queries that docs/history.md documents.
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
    let rows = (0..1024).map(|cost| ("getppid", format!("6.1.{cost}"), 10_000 + cost));
    for (row, release, cost) in rows {
        generated::fill(&asked.store, [Made::new(row, &release, cost)]);
    }
    let stderr = || asked.ktax(&["log", "--subjects"]).stderr;
    assert_eq!(stderr(), "ktax: reading 1024 measurements into the index of the store\n");
    assert_eq!(stderr(), "");
}

/// Nothing is left of what only they had.
#[test]
fn the_subjects_of_measurements_that_are_gone_are_gone() {
    let asked = Asked::new();
    generated::fill(
        &asked.store,
        ["6.1.1", "6.1.2"].map(|release| Made::new("stat", release, 100)),
    );
    let first = asked.store.objects().unwrap().remove(0);
    asked.stdout(&["store", "index"]);
    fs::remove_file(first).unwrap();
    let fresh = asked.path().join("fresh");
    let path = file(&asked);
    let mut command = asked.command(&["store", "index"]);
    let other = crate::common::run(command.env("KTAX_CACHE", &fresh)).stdout;
    assert!(dump(&path) == dump(Path::new(other.trim())));
}

/// An index that another process locks for long is not taken for a damaged one.
#[test]
fn an_index_that_is_locked_for_long_stays() {
    let asked = filled();
    let expected = answers(&asked);
    let path = file(&asked);
    let db = Connection::open(&path).unwrap();
    db.pragma_update(None, "locking_mode", "exclusive").unwrap();
    db.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let text = asked.stdout(ASKED[1]);
    assert!(path.exists());
    db.execute_batch("COMMIT").unwrap();
    drop(db);
    assert_eq!(lasting(&text), expected[1]);
    assert!(answers(&asked) == expected);
}

// File systems that lack something: locks, room, the right to write.

const KTAX: &str = env!("CARGO_BIN_EXE_ktax");

/// A filter under which file locks fail, as on a file system without them.
fn without_locks() -> BpfProgram {
    const ENOLCK: u32 = 37;
    // F_SETLK, F_SETLKW and those of open files.
    let fcntl = [6, 7, 37, 38].map(|command| (Sysno::fcntl, Some((1, SeccompCmpOp::Eq, command))));
    refusing(fcntl.into_iter().chain([(Sysno::flock, None)]), ENOLCK)
}

fn under(filter: &BpfProgram, asked: &Asked, words: &[&str]) -> Ran {
    run(filtered(&mut asked.command(words), filter))
}

#[test]
fn without_file_locks_the_answers_are_the_same_and_the_index_is_in_memory() {
    let asked = filled();
    let expected = answers(&asked);
    let filter = without_locks();
    for (words, expected) in ASKED.iter().zip(&expected) {
        let ran = under(&filter, &asked, words);
        assert!(lasting(&ran.stdout) == *expected, "{words:?}: {}", ran.stderr);
    }
    under(&filter, &asked, &["store", "index"])
        .exits(2)
        .says("there is no index file; give --cache");
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
    if !may_mount() {
        return;
    }
    let asked = filled();
    let expected = asked.stdout(&["history", "--json"]);
    let mount = "mount --bind \"$2\" /mnt && mount -o remount,bind,ro,noexec /mnt && \
                 KTAX_STORE=/mnt/store KTAX_CACHE=/mnt/cache \"$1\" history --json";
    for remove in [false, true] {
        if remove {
            fs::remove_dir_all(asked.path().join("cache")).unwrap();
        }
        let ran = in_namespace(mount, &[OsStr::new(KTAX), asked.path().as_os_str()]);
        assert_eq!((ran.status, ran.stdout.as_str()), (0, expected.as_str()), "{}", ran.stderr);
    }
}

#[test]
fn a_full_disk_beneath_the_index_costs_no_answer() {
    if !may_mount() {
        return;
    }
    let asked = filled();
    let expected = asked.stdout(&["history", "--json"]);
    // From no room for a directory to room for all of it.
    for pages in [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144] {
        let script = "mount -t tmpfs -o size=$3k none /mnt && KTAX_CACHE=/mnt KTAX_STORE=\"$2\" \
                      \"$1\" history --json";
        let size = (4 * pages).to_string();
        let words = [OsStr::new(KTAX), asked.store.root().as_os_str(), OsStr::new(&size)];
        let ran = in_namespace(script, &words);
        assert_eq!((ran.status, ran.stdout.as_str()), (0, expected.as_str()), "{}", ran.stderr);
    }
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
            filtered(command, &filter);
        });
        for object in asked.store.objects().unwrap() {
            asked.store.read(&object).unwrap();
        }
    }
    // Make the removed files again: the run by its import, the others by hand.
    let again = filled();
    asked.stdout(&["store", "import", again.store.root().to_str().unwrap()]);
    assert!(answers(&asked) == expected);
    assert!(dump(&file(&asked)) == dump(&file(&again)));
}

// Text in a store does nothing to a terminal, to a page, or to the database.

/// Texts that mean something to a shell, SQL or a spreadsheet, beside those for pages.
const TEXTS: [&str; 12] = [
    "'; DROP TABLE measurement; --",
    "\" OR 1=1 --",
    "%_\\",
    "</td><script>alert(1)</script>",
    "\u{1b}[2J\u{1b}]0;title\u{7}",
    "\u{202e}drow",
    "a\nb\tc",
    "$(touch x)",
    "`id`",
    "\u{0}",
    "=cmd|' /C calc'!A0",
    "x@y@z",
];

fn hostile_texts() -> Vec<String> {
    TEXTS.iter().map(|text| (*text).to_owned()).chain(hostile()).collect()
}

/// A store that has them in every place.
fn filled_by_others() -> Asked {
    let asked = Asked::new();
    let usual = Made::new("getppid", "6.1.1", 10_000);
    generated::fill(&asked.store, [usual.clone(), Made { boot_line: "quiet", ..usual }]);
    for (index, text) in hostile_texts().iter().enumerate() {
        let mut measurement = generated::measurement(&Made::new("getppid", "6.1.2", 10_000));
        measurement.measurand.kernel_sha256 = ktax::disk::sha256(text);
        measurement.kernel.sha256 = measurement.measurand.kernel_sha256.clone();
        measurement.kernel.release = Some(format!("6.2.{index}{text}"));
        measurement.kernel.source.clone_from(text);
        measurement.subject.kernel.clone_from(text);
        measurement.measurand.boot_line.clone_from(text);
        measurement.measurand.workload.operation.clone_from(text);
        measurement.measurand.key.qemu.clone_from(text);
        asked.store.put(&measurement).unwrap();
        let mut row = generated::measurement(&Made::new("getppid", "6.1.1", 10_000));
        row.measurand.workload.row = format!("row{text}");
        asked.store.put(&row).unwrap();
    }
    let run = asked.path().join("run");
    cases::run_dir(&run, TEXTS[3], 5, super::history::ROWS);
    asked.stdout(&["analyse", run.to_str().unwrap()]);
    asked.stdout(&["store", "import", run.to_str().unwrap()]);
    asked
}

/// Runs it, and looks at every character that it prints.
fn harmless(asked: &Asked, words: &[&str]) -> Ran {
    let ran = asked.ktax(words);
    for stream in [&ran.stdout, &ran.stderr] {
        let bad = stream.chars().find(|c| ktax::text::is_dangerous(*c) && *c != '\n');
        assert!(bad.is_none(), "{words:?}: {bad:?} in {stream}");
    }
    ran
}

#[test]
fn texts_of_others_are_inert_everywhere() {
    let asked = filled_by_others();
    for words in [
        &["log"][..],
        &["log", "--json"],
        &["log", "--subjects"],
        &["log", "--subjects", "--json"],
        &["history"],
        &["history", "--format", "markdown"],
        &["history", "--format", "csv"],
        &["history", "--json"],
        &["tag"],
    ] {
        harmless(&asked, words).exits(0);
    }
    // An argument has no NUL.
    let texts = hostile_texts().into_iter().filter(|text| !text.contains('\0'));
    for (index, text) in texts.enumerate() {
        let text = text.as_str();
        let most = if index < TEXTS.len() { usize::MAX } else { 3 };
        for words in [
            ["diff", "6.1.1", text],
            ["tag", text, "6.1.1"],
            ["history", "--along", text],
            ["diff", text, "6.1.1"],
            ["tag", "name", text],
            ["history", "--", text],
            ["history", "--function", text],
            ["show", "--", text],
            ["log", "-w", text],
            ["log", "--kernel", text],
        ]
        .into_iter()
        .take(most)
        {
            let ran = harmless(&asked, &words);
            assert!([0, 2, 3].contains(&ran.status), "{words:?}: {} {}", ran.status, ran.stderr);
        }
    }
    // Nothing was dropped, and a page has no more elements than ktax writes.
    assert!(asked.stdout(&["log", "--subjects"]).contains("6.1.1@quiet"));
    let site = asked.path().join("site");
    asked.stdout(&["site", site.to_str().unwrap()]);
    let index = fs::read_to_string(site.join("index.html")).unwrap();
    assert!(!index.contains("<script") && index.contains("&lt;script&gt;"), "{index}");
    assert!(!fs::exists("x").unwrap());
}

/// The control: the same look at what is not escaped finds something.
#[test]
fn what_is_looked_for_is_there_before_it_is_escaped() {
    let texts = hostile_texts();
    let found = texts.iter().filter(|text| text.chars().any(ktax::text::is_dangerous)).count();
    assert!(texts.len() >= 62 && found >= 20, "{found} of {}", texts.len());
}

// Removal from a store: what goes, what stays, and the messages about it.

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Two rows of two kernels by one guest, one of them by another guest too, and a result.
fn filled_to_prune() -> Asked {
    let asked = Asked::new();
    for release in ["6.1.1", "6.1.2"] {
        generated::fill(&asked.store, ["getppid", "stat"].map(|row| Made::new(row, release, 100)));
    }
    let mut newer = generated::measurement(&Made::new("getppid", "6.1.2", 100));
    newer.measurand.key.guest = "8".repeat(64);
    asked.store.put(&newer).unwrap();
    let run = asked.path().join("run");
    cases::run_dir(&run, "what it costs", 5, super::history::ROWS);
    asked.stdout(&["analyse", run.to_str().unwrap()]);
    asked.stdout(&["import", run.to_str().unwrap()]);
    asked
}

fn files(asked: &Asked) -> [usize; 2] {
    [asked.store.objects().unwrap().len(), asked.store.results().unwrap().len()]
}

fn json(asked: &Asked, words: &[&str]) -> Value {
    let words = [&["store", "prune", "--json"], words].concat();
    serde_json::from_str(&asked.stdout(&words)).unwrap()
}

#[test]
fn a_dry_run_lists_what_goes_with_its_size_and_removes_nothing() {
    let asked = filled_to_prune();
    let [objects, results] = files(&asked);
    let text = asked.stdout(&["store", "prune", "-n", "--subject", "6.1.2"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[..3].iter().all(|line| line.contains(" bytes  measurement ")), "{text}");
    assert!(
        lines[0].contains("getppid of 6.1.2, guest ") && lines[2].contains("stat of "),
        "{text}"
    );
    assert!(lines[3].starts_with("would remove 3 measurements and 0 results, "), "{text}");
    assert_eq!(files(&asked), [objects, results]);
    let json_report = json(&asked, &["-n", "--subject", "6.1.2"]);
    let bytes = asked.store.objects().unwrap();
    let named: u64 = json_report["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|object| {
            let path = object["path"].as_str().unwrap();
            assert!(bytes.iter().any(|object| object.to_str() == Some(path)), "{path}");
            fs::metadata(path).unwrap().len()
        })
        .sum();
    assert_eq!(
        (json_report["bytes"].as_u64(), json_report["dry_run"].as_bool()),
        (Some(named), Some(true))
    );
    let removed = asked.stdout(&["store", "prune", "--subject", "6.1.2"]);
    assert!(removed.starts_with("removed 3 measurements and 0 results, "), "{removed}");
    assert_eq!(files(&asked), [objects - 3, results]);
    assert!(asked.refused(&["diff", "6.1.1", "6.1.2"]).contains("has no \"6.1.2\""));
}

#[test]
fn guests_are_listed_and_removed_and_others_stay() {
    let asked = filled_to_prune();
    let listed = asked.stdout(&["store", "du", "--guests"]);
    assert!(listed.contains("888888888888") && listed.contains("999999999999"), "{listed}");
    let [objects, results] = files(&asked);
    let text = asked.stdout(&["store", "prune", "--guest", "8888"]);
    assert!(text.starts_with("removed 1 measurement and 0 results, "), "{text}");
    assert_eq!(files(&asked), [objects - 1, results]);
    // None of these is of the guest programs of this ktax.
    asked.stdout(&["store", "prune", "--other-guests"]);
    assert_eq!(files(&asked), [0, results]);
    assert_eq!(
        asked.stdout(&["store", "prune", "--other-guests"]),
        "removed 0 measurements and 0 \
         results, 0 bytes\n"
    );
}

/// Tags are reasons to keep, and what depends on what goes is named.
#[test]
fn what_has_a_tag_stays_unless_it_is_asked_for() {
    let asked = filled_to_prune();
    asked.stdout(&["tag", "before", "6.1.1"]);
    let message = asked.refused(&["store", "prune", "--subject", "6.1.1"]);
    assert!(
        message.contains("`ktax tag --delete before`") && message.contains("--tagged"),
        "{message}"
    );
    let json_report = json(&asked, &["--other-guests"]);
    assert_eq!(json_report["kept_for_tags"]["before"], 2, "{json_report}");
    assert_eq!(files(&asked)[0], 2, "those of the tag");
    let text = asked.stdout(&["store", "prune", "--subject", "before", "--tagged"]);
    assert!(text.contains("then no measurement has the tag before"), "{text}");
    assert_eq!(files(&asked)[0], 0);
    // The result of what was imported: its measurements are gone.
    let asked = filled_to_prune();
    let json_report = json(&asked, &["--dry-run", "--other-guests"]);
    let results = asked.store.results().unwrap();
    let name = results[0].file_name().unwrap().to_str().unwrap();
    assert_eq!(
        json_report["results_of_these"][0],
        name.split('.').next().unwrap(),
        "{json_report}"
    );
    let text = asked.stdout(&["store", "prune", "--other-guests"]);
    assert!(text.contains("1 result, such as ") && text.contains("`ktax show` still"), "{text}");
    asked.stdout(&["show", &name[..8]]);
}

#[test]
fn what_is_named_or_old_goes_alone() {
    let asked = filled_to_prune();
    let [objects, results] = files(&asked);
    let object = asked.store.objects().unwrap().remove(0);
    let old = File::options().append(true).open(&object).unwrap();
    old.set_modified(SystemTime::now() - 40 * DAY).unwrap();
    let result = asked.store.results().unwrap().remove(0);
    let id = |path: &std::path::Path| path.file_name().unwrap().to_str().unwrap()[..12].to_owned();
    let text = asked.stdout(&["store", "prune", "-n", "--older-than", "41"]);
    assert!(text.starts_with("would remove 0 measurements and 0 results"), "{text}");
    let text = asked.stdout(&["store", "prune", "-n", "--older-than", "39"]);
    assert!(text.contains(&id(&object)) && text.contains("1 measurement and 0 results"), "{text}");
    let named = [id(&object), id(&result)];
    let text = asked.stdout(&["store", "prune", &named[0], &named[1].to_uppercase()]);
    assert!(text.starts_with("removed 1 measurement and 1 result, "), "{text}");
    assert_eq!(files(&asked), [objects - 1, results - 1]);
    let message = asked.refused(&["store", "prune", &named[0]]);
    assert!(message.contains("no result and no measurement begins with"), "{message}");
    // With age alone results go, too.
    asked.stdout(&["store", "prune", "--older-than", "0"]);
    assert_eq!(asked.stdout(&["log"]), "");
}

#[test]
fn what_is_not_named_is_not_guessed() {
    let asked = filled_to_prune();
    let before = files(&asked);
    assert!(asked.refused(&["store", "prune"]).contains("nothing is named"));
    assert!(asked.refused(&["store", "prune", "--tagged"]).contains("nothing is named"));
    for words in [
        &["--guest", "89"][..],
        &["--guest", "../x"],
        &["--guest", ""],
        &["--guest", "8888", "--other-guests"],
        &["--older-than", "-1"],
        &["--older-than", "18446744073709551615"],
        &["--older-than", "tomorrow"],
        &["--subject", "6.1"],
        &["--subject", ""],
        &["", "x"],
        &["2a", "--subject", "6.1.1"],
    ] {
        asked.ktax(&[&["store", "prune"], words].concat()).exits(2);
        assert_eq!(files(&asked), before, "{words:?}");
    }
}
