//! Rows over kernels.

use std::fs;

use ktax::model::{
    AskedGuest, Comparison, CountsPlan, Disk, Failure, History, Measurement, Saved, SavedResult,
    Side, Signature, UserProgram, read_results,
};
use ktax::rundir::RunDir;
use ktax::store::{StoreError, encode_measurement};

use super::Asked;
use super::generated::{self, Made};
use crate::common::{assert_has, run};
use crate::golden::cases::{self, Line, Made as FixtureRow};

fn history(asked: &Asked, words: &[&str]) -> History {
    let text = asked.stdout(&[&["history", "--json"], words].concat());
    match read_results(&text).unwrap().pop().unwrap().result {
        SavedResult::History(history) => *history,
        other => panic!("{other:?}"),
    }
}

/// Releases of one flavour, in no order of their texts.
fn releases(count: u64) -> Vec<&'static str> {
    (1..=count).map(|index| &*format!("6.1.{index}-1-cloud-amd64").leak()).collect()
}

fn steps(history: &History) -> Vec<&str> {
    let points = history.lines.iter().flat_map(|line| &line.points);
    points.filter(|point| point.is_step()).map(|point| point.kernel.as_str()).collect()
}

#[test]
fn a_creep_is_found_and_equals_never_step() {
    let asked = Asked::new();
    let releases = releases(50);
    // 0.06 % of 10 000 each time, below the threshold of 0.1 %.
    let creep =
        (0..12).map(|index| Made::new("getppid", releases[index], 10_000 + 6 * index as u64));
    let equal = releases.iter().map(|release| Made::new("stat", release, 10_000));
    generated::fill(&asked.store, creep.chain(equal));
    let found = history(&asked, &["getppid"]);
    assert_eq!(found.lines[0].points.len(), 12);
    // Sorted by version: 6.1.10 comes after 6.1.9.
    let kernels: Vec<&str> =
        found.lines[0].points.iter().map(|point| point.kernel.as_str()).collect();
    assert_eq!(kernels, releases[..12]);
    assert_eq!(steps(&found), [releases[2], releases[4], releases[6], releases[8], releases[10]]);
    // A row is one row, however often it is asked for.
    assert_eq!(history(&asked, &["getppid", "getppid"]).lines, found.lines);
    let equal = history(&asked, &["stat"]);
    assert_eq!((equal.lines[0].points.len(), steps(&equal).len()), (50, 0));
    let text = asked.stdout(&["history", "getppid"]);
    assert!(text.contains("getppid over 12 kernels: 5 steps, the largest +0.12 % at"), "{text}");
    assert!(text.contains("; +0.66 % from 6.1.1-1 to 6.1.12-1"), "{text}");
    // One more command explains the step, if the packages are there.
    assert!(
        text.contains("To see all functions of this step:\n  ktax compare --base debian:"),
        "{text}"
    );
    assert_has(asked.stdout(&["diff", releases[0], releases[2], "-w", "getppid"]), "slower");
}

#[test]
fn another_qemu_flavour_or_boot_line_is_a_line_of_its_own() {
    let asked = Asked::new();
    let releases = releases(4);
    let made = |release, cost| Made::new("getppid", release, cost);
    generated::fill(
        &asked.store,
        [
            made(releases[0], 10_000),
            made(releases[1], 10_000),
            // Another QEMU counts other costs for the same kernels.
            Made { qemu: "10.0.2", ..made(releases[1], 20_000) },
            Made { qemu: "10.0.2", ..made(releases[2], 20_000) },
            Made { boot_line: "quiet", ..made(releases[2], 30_000) },
            made("6.1.2-1-amd64", 40_000),
        ],
    );
    let found = history(&asked, &["getppid"]);
    let shape: Vec<(&str, usize)> =
        found.lines.iter().map(|line| (line.lineage.as_str(), line.points.len())).collect();
    assert_eq!(
        shape,
        [("amd64", 1), ("cloud-amd64", 2), ("cloud-amd64", 2), ("cloud-amd64 quiet", 1)]
    );
    assert!(steps(&found).is_empty());
    assert!(found.lines[2].measured.contains("10.0.2"), "{}", found.lines[2].measured);
    // Places are those of the lineage: the lines stand one after the other in a picture.
    let places = |index: usize| -> Vec<usize> {
        found.lines[index].points.iter().map(|point| point.position).collect()
    };
    assert_eq!((places(1), places(2)), (vec![0, 1], vec![1, 2]));
    let page = asked.stdout(&["history", "getppid", "--format", "html"]);
    assert!(page.contains("are not comparable"));
    // A picture has no line from one QEMU to the other: two of one step each.
    assert_eq!(history(&asked, &["getppid", "--boot-line", "quiet"]).lines.len(), 1);
    let message = asked.refused(&["history", "getppid", "--boot-line", "loud"]);
    assert!(message.contains("give one of '', quiet"), "{message}");
}

#[test]
fn what_ran_on_a_disk_is_a_line_of_its_own_and_has_no_command() {
    let asked = Asked::new();
    for (release, cost) in releases(2).into_iter().zip([1_000, 1_010]) {
        let plain = generated::measurement(&Made::new("fs-rename", release, cost));
        let mut on_disk = plain.clone();
        on_disk.measurand.key.modules = vec!["brd rd_nr=1".into(), "ext4".into()];
        on_disk.measurand.key.programs = "ab".repeat(32);
        asked.store.put(&plain).unwrap();
        asked.store.put(&on_disk).unwrap();
    }
    let found = history(&asked, &["fs-rename"]);
    let [first, other] = &found.lines[..] else { panic!("{found:?}") };
    let (plain, on_disk) = if first.asked.is_some() { (first, other) } else { (other, first) };
    assert!(!plain.measured.contains("modules") && plain.asked.is_some(), "{plain:?}");
    assert!(on_disk.measured.ends_with("modules brd and ext4, programs abababababab"));
    assert!(on_disk.asked.is_none());
    assert_eq!([plain.points.len(), on_disk.points.len()], [2, 2]);
}

#[test]
fn candidates_come_before_their_release_and_ten_after_nine() {
    let asked = Asked::new();
    let releases = ["6.9.0", "6.10.0-rc1", "6.10.0-rc2", "6.10.0-rc10", "6.10.0", "6.10.1"];
    // Not in this order.
    generated::fill(
        &asked.store,
        releases.iter().rev().map(|release| Made::new("stat", release, 10_000)),
    );
    let found = history(&asked, &["stat"]);
    let kernels: Vec<&str> =
        found.lines[0].points.iter().map(|point| point.kernel.as_str()).collect();
    assert_eq!(kernels, releases);
}

#[test]
fn subjects_are_followed_in_the_order_that_is_asked_for() {
    let asked = Asked::new();
    let releases = releases(3);
    let quiet = Made { boot_line: "quiet", ..Made::new("getppid", releases[2], 8_000) };
    let made = [
        Made::new("getppid", releases[0], 10_000),
        Made::new("getppid", releases[1], 9_000),
        quiet,
    ];
    generated::fill(&asked.store, made);
    asked.stdout(&["tag", "first", releases[1]]);
    let along = format!("first,{},{}@quiet", releases[0], releases[2]);
    let found = history(&asked, &["getppid", "--along", &along]);
    let names: Vec<&str> =
        found.lines[0].points.iter().map(|point| point.kernel.as_str()).collect();
    assert_eq!(names, ["6.1.2-1-cloud-amd64", releases[0], "6.1.3-1-cloud-amd64@quiet"]);
    assert_eq!(found.lines[0].points[0].tags, ["first"]);
    assert_eq!(steps(&found), [releases[0], "6.1.3-1-cloud-amd64@quiet"]);
}

#[test]
fn a_function_is_followed_and_an_unknown_one_is_said() {
    let asked = Asked::new();
    let releases = releases(2);
    generated::fill(
        &asked.store,
        [Made::new("getppid", releases[0], 6_000), Made::new("getppid", releases[1], 12_000)],
    );
    let found = history(&asked, &["getppid", "--function", "kernel_function_1"]);
    let values: Vec<u64> = found.lines[0].points.iter().map(|point| point.values[0]).collect();
    assert_eq!(values, [1_000_000, 2_000_000]);
    assert_eq!(steps(&found), [releases[1]]);
    let message = asked.refused(&["history", "getppid", "--function", "no_such"]);
    assert!(message.contains("no profile of these rows has the function \"no_such\""), "{message}");
    assert_has(asked.refused(&["history", "getppit"]), "did you mean \"getppid\"?");
    assert_has(asked.refused(&["history", "--metric", "cycles"]), "give one of instructions, ");
}

#[test]
fn a_history_of_every_row_fits_a_screen_and_is_read_back() {
    let asked = Asked::new();
    let releases = releases(6);
    for (row, grown) in [("getppid", 0), ("stat", 500), ("pipe", 20)] {
        let made = |(index, release): (usize, &&'static str)| {
            Made::new(row, release, 10_000 + grown * index as u64)
        };
        generated::fill(&asked.store, releases.iter().enumerate().map(made));
    }
    let text = asked.stdout(&["history"]);
    assert!(text.contains("2 of 3 rows step, most of all stat: +5.00 % at 6.1.2-1"), "{text}");
    assert!(text.contains("▁▂▄▅▇█") || text.contains("▁▂▄▅▆█"), "{text}");
    let page = asked.path().join("page.html");
    asked.stdout(&["history", "--html", page.to_str().unwrap()]);
    assert_eq!(asked.stdout(&["report", page.to_str().unwrap()]), text);
    let ascii = run(asked.command(&["history"]).env("LC_ALL", "C"));
    assert!(ascii.stdout.is_ascii() && ascii.stdout.contains('#'), "{}", ascii.stdout);
    let empty = Asked::new();
    assert!(empty.refused(&["history"]).contains("`ktax compare lsm` makes some"));
}

#[test]
fn a_workload_stands_for_its_rows_and_what_is_not_there_is_said() {
    let asked = Asked::new();
    let rows = ["fork-pages:pages=1", "fork-pages:pages=16", "fork-exit"];
    let made = |release| rows.map(|row| Made::new(row, release, 100));
    generated::fill(&asked.store, made("6.1.1").into_iter().chain(made("6.1.2")));
    generated::fill(&asked.store, [Made::new("stat", "6.1.3", 100)]);
    let found = history(&asked, &["fork-pages"]);
    let rows: Vec<&str> = found.lines.iter().map(|line| line.row.as_str()).collect();
    assert_eq!(rows, ["fork-pages:pages=1", "fork-pages:pages=16"]);
    let message = asked.refused(&["history", "fork-exit", "--along", "6.1.3"]);
    assert!(message.contains("none of these subjects was measured with these rows"), "{message}");
    assert_has(asked.refused(&["history", "fork"]), "the store has no row \"fork\"");
}

// Two stored subjects compared.

fn call(side: Side, layout: usize) -> Result<(Vec<Line>, Signature), Failure> {
    let more = if side == Side::Change { 10 } else { 0 };
    let lines = vec![
        ("process", "entry_SYSCALL_64", 61 + layout as u64, 0),
        ("process", "__x64_sys_getppid", 40 + more, 0),
        ("interrupt", "tick", 3, 0),
    ];
    Ok((lines, Signature::from([("calls".to_owned(), 400)])))
}

pub const ROWS: &[FixtureRow] = &[("getppid", "one call", call), ("stat", "one call", call)];

fn comparison(text: &str) -> Comparison {
    match read_results(text).unwrap().pop().unwrap().result {
        SavedResult::Comparison(comparison) => *comparison,
        other => panic!("{other:?}"),
    }
}

/// The result of a run directory, and what `ktax diff` makes of its measurements alone.
#[test]
fn a_diff_is_the_comparison_that_was_measured() {
    let asked = Asked::new();
    let root = asked.path().join("run");
    let dir: RunDir<CountsPlan> = cases::run_dir(&root, "any title", 5, ROWS);
    let measured = asked.stdout(&["analyse", root.to_str().unwrap(), "--json"]);
    assert_eq!(
        asked.stdout(&["store", "import", root.to_str().unwrap()]),
        "kept 4 new measurements and 1 new result\n"
    );
    // The runs and the result are gone: only the store has them.
    fs::remove_dir_all(&root).unwrap();
    let lines = &dir.plan().method.asked.subjects;
    let [base, change] =
        lines.both().map(|subject| format!("6.1.0-56-cloud-amd64@{}", subject.boot_line));
    let stored = asked.stdout(&["diff", &base, &change, "--json"]);
    let [measured, stored] = [measured, stored].map(|text| comparison(&text));
    // The default title names the subjects.
    assert!(stored.title.contains(" against "), "{}", stored.title);
    assert_eq!(Comparison { title: measured.title.clone(), ..stored }, measured);
    // One row alone, and in the order of the command line.
    let rows = |words: &[&str]| -> Vec<String> {
        let text = asked.stdout(&[&["diff", &base, &change, "--json"], words].concat());
        comparison(&text).rows.into_iter().map(|row| row.row).collect()
    };
    assert_eq!(rows(&["-w", "stat"]), ["stat"]);
    assert_eq!(rows(&["-w", "stat", "-w", "getppid"]), ["stat", "getppid"]);
}

#[test]
fn a_diff_asks_for_the_disk_and_the_hooks_again() {
    let asked = Asked::new();
    let store = &asked.store;
    let keep = |release: &str, is_asked: bool| {
        let mut made = generated::measurement(&Made::new("getppid", release, 100));
        made.measurand.key.modules =
            ["brd rd_nr=1 max_part=0 rd_size=65536", "ext4", "zram"].map(str::to_owned).to_vec();
        made.measurand.key.programs = "ab".repeat(32);
        let disk = Disk { fs: "ext4".into(), mib: 64, ..Disk::default() };
        let setup = Some("nft -f rules.nft".to_owned());
        let hooks = UserProgram { setup, ..UserProgram::default() };
        if is_asked {
            made.guest = AskedGuest { disk: Some(disk), hooks: Some(hooks), ..made.guest };
        }
        store.put(&made).unwrap();
    };
    ["6.1.1", "6.1.2"].into_iter().for_each(|release| keep(release, true));
    let mail = asked.stdout(&["diff", "6.1.1", "6.1.2", "--format", "mail"]);
    let (_, again) = mail.split_once("To measure it again:").unwrap_or_else(|| panic!("{mail}"));
    for words in ["--disk 'ext4 mib=64'", "--module zram", "--setup 'nft -f rules.nft'"] {
        assert!(again.contains(words), "{words}: {again}");
    }
    assert!(!again.contains("--module brd") && !again.contains("--module ext4"), "{again}");
    // Measurements of an older ktax do not say what their guests had.
    ["6.1.3", "6.1.4"].into_iter().for_each(|release| keep(release, false));
    let mail = asked.stdout(&["diff", "6.1.3", "6.1.4", "--format", "mail"]);
    assert!(!mail.contains("To measure it again"), "{mail}");
}

#[test]
fn only_what_was_measured_in_the_same_way_is_compared() {
    let asked = Asked::new();
    let made = Made::new;
    let newer = |made| Made { qemu: "10.0.2", ..made };
    generated::fill(
        &asked.store,
        [
            made("getppid", "6.1.1", 100),
            made("stat", "6.1.1", 100),
            made("getppid", "6.1.2", 110),
            made("stat", "6.1.2", 110),
            newer(made("getppid", "6.1.1", 900)),
            newer(made("getppid", "6.1.2", 900)),
            newer(made("getppid", "6.1.3", 900)),
        ],
    );
    let ran = asked.ktax(&["diff", "6.1.1", "6.1.2"]).exits(3);
    ran.prints("2 of 2 rows slower").says("1 row more in common, measured with another QEMU");
    // 6.1.3 was never measured on the older one.
    assert_has(asked.stdout(&["diff", "6.1.2", "6.1.3"]), "QEMU 10.0.2");
    let message = asked.refused(&["diff", "6.1.2", "6.1.3", "-w", "stat"]);
    let package = |release: &str| format!("debian:linux-image-{release}={release}");
    let command = format!("ktax compare --base {} --change {}", package("6.1.2"), package("6.1.3"));
    assert!(
        message.contains(&format!("`{command} -w stat` measures what is missing")),
        "{message}"
    );
    // A row that was asked for and is not there is said, also to a script.
    let equal = ["getppid", "stat"].map(|row| Made::new(row, "6.1.4", 900));
    generated::fill(&asked.store, equal.map(newer));
    let ran = asked.ktax(&["diff", "6.1.3", "6.1.4", "-w", "getppid", "-w", "stat"]).exits(4);
    ran.says("not measured of both in the same way: stat; `");
    assert_eq!(asked.ktax(&["diff", "6.1.3", "6.1.4"]).status, 0);
}

#[test]
fn a_damaged_measurement_is_said_and_a_planted_one_is_refused() {
    let asked = Asked::new();
    generated::fill(
        &asked.store,
        [Made::new("getppid", "6.1.1", 100), Made::new("getppid", "6.1.2", 100)],
    );
    asked.stdout(&["diff", "6.1.1", "6.1.2"]);
    let object = &asked.store.objects().unwrap()[0];
    fs::set_permissions(object, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    fs::write(object, "no gzip").unwrap();
    asked.ktax(&["diff", "6.1.1", "6.1.2"]).exits(2).says("is damaged: ");
}

/// Objects that are sealed as any other, and that no ktax writes: whoever reads one says so.
#[test]
fn what_cannot_have_been_measured_is_damaged() {
    type Edit = fn(&mut Measurement);
    let edits: [Edit; 6] = [
        |measurement| measurement.layouts[0].sample.total += 1,
        |measurement| {
            measurement.layouts[1].profile =
                measurement.layouts[1].profile.replacen("fn\t", "fx\t", 1)
        },
        |measurement| drop(measurement.layouts.pop()),
        |measurement| measurement.layouts.clear(),
        |measurement| measurement.kernel.sha256 = "0".repeat(64),
        |measurement| measurement.measurand.workload.ops = 0,
    ];
    for (index, edit) in edits.iter().enumerate() {
        let asked = Asked::new();
        let sound = [Made::new("stat", "6.1.2", 100), Made::new("pipe", "6.1.1", 100)];
        generated::fill(&asked.store, sound);
        let mut wrong = generated::measurement(&Made::new("stat", "6.1.1", 100));
        edit(&mut wrong);
        // A store of ktax does not take it.
        assert!(matches!(asked.store.put(&wrong), Err(StoreError::Unsound { .. })), "{index}");
        let path = asked.store.path(&wrong.measurand);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, encode_measurement(&wrong)).unwrap();
        let ran = asked.ktax(&["history"]);
        ran.says("1 file of the store cannot be read");
        assert_eq!(ran.status, 0, "{index}: {}", ran.stderr);
        assert!(asked.ktax(&["store", "fsck"]).stdout.contains("2 sound, 1 damaged"), "{index}");
    }
}

/// Another version's objects are neither damaged nor moved.
#[test]
fn what_a_newer_ktax_wrote_stays() {
    let asked = Asked::new();
    let mut newer = generated::measurement(&Made::new("stat", "6.1.1", 100));
    newer.format += 1;
    asked.store.put(&newer).unwrap();
    asked.ktax(&["log", "--subjects"]).says("use the ktax that wrote it");
    let text = asked.stdout(&["store", "fsck"]);
    assert_eq!(text, "0 sound, 0 damaged\n1 file of another version of ktax\n");
    assert!(asked.store.path(&newer.measurand).exists());
}

/// A printed result is kept, and printed again by the first digits of its name.
#[test]
fn a_result_is_listed_and_shown_again() {
    let asked = Asked::new();
    let root = asked.path().join("run");
    cases::run_dir(&root, "first title", 5, ROWS);
    let text = asked.stdout(&["analyse", root.to_str().unwrap()]);
    asked.stdout(&["store", "import", root.to_str().unwrap()]);
    let listed = asked.stdout(&["log"]);
    assert!(listed.contains("first title: 2 of 2 rows slower"), "{listed}");
    let id = listed.lines().nth(2).unwrap().split(' ').next().unwrap();
    assert_eq!(asked.stdout(&["show", id]), text);
    let saved: Vec<serde_json::Value> =
        serde_json::from_str(&asked.stdout(&["log", "--json"])).unwrap();
    assert!(saved[0]["id"].as_str().unwrap().starts_with(id) && saved.len() == 1);
    // A page is a result, too, and the same one is kept once.
    let page = asked.path().join("page.html");
    asked.stdout(&["show", id, "--html", page.to_str().unwrap()]);
    assert_eq!(asked.stdout(&["show", page.to_str().unwrap()]), text);
    assert_eq!(
        asked.stdout(&["store", "import", page.to_str().unwrap()]),
        "kept 0 new measurements\n"
    );
    for (words, has) in [
        (vec!["-w", "stat"], true),
        (vec!["-w", "pipe"], false),
        (vec!["--kernel", "6.1.0-56"], true),
        (vec!["--kernel", "6.12"], false),
        (vec!["--since", "2020-01-31"], true),
        (vec!["--since", "2999-01-31"], false),
        (vec!["-n", "1"], true),
    ] {
        let listed = asked.stdout(&[vec!["log"], words.clone()].concat());
        assert_eq!(listed.contains(id), has, "{words:?}: {listed}");
    }
    assert!(asked.refused(&["log", "--since", "today"]).contains("it takes a day"));
    assert!(asked.refused(&["show", "ffffff"]).contains("`ktax log` lists them"));
    // Two whose names begin alike are told apart.
    let mut ids: Vec<String> = Vec::new();
    for index in 0..40 {
        let saved = Saved {
            headline: index.to_string(),
            ..read_results(&asked.stdout(&["show", id, "--json"])).unwrap().remove(0)
        };
        asked.store.put_result(&saved).unwrap();
        ids = asked
            .store
            .results()
            .unwrap()
            .iter()
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
    }
    let twice = ids.windows(2).find(|two| two[0][..1] == two[1][..1]).unwrap();
    assert!(asked.refused(&["show", &twice[0][..1]]).contains("give one of these"));
}
