//! Two stored subjects compared.

use std::fs;

use ktax::model::{
    AskedGuest, Comparison, CountsPlan, Disk, Failure, Measurement, Saved, SavedResult, Side,
    Signature, UserProgram, read_results,
};
use ktax::rundir::RunDir;
use ktax::store::{StoreError, encode_measurement};

use super::Asked;
use super::generated::{self, Made};
use crate::golden::fixtures::{self, Line, Made as FixtureRow};

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
    let dir: RunDir<CountsPlan> = fixtures::run_dir(&root, "any title", 5, ROWS);
    let measured = asked.said(&["analyse", root.to_str().unwrap(), "--json"]);
    assert_eq!(
        asked.said(&["store", "import", root.to_str().unwrap()]),
        "kept 4 new measurements and 1 new result\n"
    );
    // The runs and the result are gone: only the store has them.
    fs::remove_dir_all(&root).unwrap();
    let lines = &dir.plan().method.asked.subjects;
    let [base, change] = [&lines.base, &lines.change]
        .map(|subject| format!("6.1.0-56-cloud-amd64@{}", subject.boot_line));
    let stored = asked.said(&["diff", &base, &change, "--json"]);
    let [measured, stored] = [measured, stored].map(|text| comparison(&text));
    // Whoever has not asked for a title gets that of the subjects.
    assert!(stored.title.contains(" against "), "{}", stored.title);
    assert_eq!(Comparison { title: measured.title.clone(), ..stored }, measured);
    // One row alone, and in the order of the command line.
    let rows = |words: &[&str]| -> Vec<String> {
        let text = asked.said(&[&["diff", &base, &change, "--json"], words].concat());
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
        let mut made = generated::measurement(&Made::of("getppid", release, 100));
        made.of.key.modules =
            ["brd rd_nr=1 max_part=0 rd_size=65536", "ext4", "zram"].map(str::to_owned).to_vec();
        made.of.key.programs = "ab".repeat(32);
        let disk = Disk { fs: "ext4".into(), mib: 64, ..Disk::default() };
        let setup = Some("nft -f rules.nft".to_owned());
        let hooks = UserProgram { setup, ..UserProgram::default() };
        if is_asked {
            made.guest = AskedGuest { disk: Some(disk), hooks: Some(hooks), ..made.guest };
        }
        store.put(&made).unwrap();
    };
    ["6.1.1", "6.1.2"].into_iter().for_each(|release| keep(release, true));
    let mail = asked.said(&["diff", "6.1.1", "6.1.2", "--format", "mail"]);
    let (_, again) = mail.split_once("To measure it again:").unwrap_or_else(|| panic!("{mail}"));
    for words in ["--disk 'ext4 mib=64'", "--module zram", "--setup 'nft -f rules.nft'"] {
        assert!(again.contains(words), "{words}: {again}");
    }
    assert!(!again.contains("--module brd") && !again.contains("--module ext4"), "{again}");
    // Of what an older ktax has kept it is not known what its guests had.
    ["6.1.3", "6.1.4"].into_iter().for_each(|release| keep(release, false));
    let mail = asked.said(&["diff", "6.1.3", "6.1.4", "--format", "mail"]);
    assert!(!mail.contains("To measure it again"), "{mail}");
}

#[test]
fn only_what_was_measured_in_the_same_way_is_compared() {
    let asked = Asked::new();
    let of = Made::of;
    let newer = |made| Made { qemu: "10.0.2", ..made };
    generated::fill(
        &asked.store,
        [
            of("getppid", "6.1.1", 100),
            of("stat", "6.1.1", 100),
            of("getppid", "6.1.2", 110),
            of("stat", "6.1.2", 110),
            newer(of("getppid", "6.1.1", 900)),
            newer(of("getppid", "6.1.2", 900)),
            newer(of("getppid", "6.1.3", 900)),
        ],
    );
    let ran = asked.ktax(&["diff", "6.1.1", "6.1.2"]);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert!(ran.stdout.contains("2 of 2 rows slower"), "{}", ran.stdout);
    assert!(
        ran.stderr.contains("1 row more in common, measured with another QEMU"),
        "{}",
        ran.stderr
    );
    // 6.1.3 was never measured on the older one.
    let said = asked.said(&["diff", "6.1.2", "6.1.3"]);
    assert!(said.contains("QEMU 10.0.2"), "{said}");
    let said = asked.refused(&["diff", "6.1.2", "6.1.3", "-w", "stat"]);
    let package = |release: &str| format!("debian:linux-image-{release}={release}");
    let command = format!("ktax compare --base {} --change {}", package("6.1.2"), package("6.1.3"));
    assert!(said.contains(&format!("`{command} -w stat` measures what is missing")), "{said}");
    // A row that was asked for and is not there is said, also to a script.
    let equal = ["getppid", "stat"].map(|row| Made::of(row, "6.1.4", 900));
    generated::fill(&asked.store, equal.map(newer));
    let ran = asked.ktax(&["diff", "6.1.3", "6.1.4", "-w", "getppid", "-w", "stat"]);
    assert_eq!(ran.status, 4, "{}", ran.stderr);
    assert!(ran.stderr.contains("not measured of both in the same way: stat; `"), "{}", ran.stderr);
    assert_eq!(asked.ktax(&["diff", "6.1.3", "6.1.4"]).status, 0);
}

#[test]
fn a_damaged_measurement_is_said_and_a_planted_one_is_refused() {
    let asked = Asked::new();
    generated::fill(
        &asked.store,
        [Made::of("getppid", "6.1.1", 100), Made::of("getppid", "6.1.2", 100)],
    );
    asked.said(&["diff", "6.1.1", "6.1.2"]);
    let object = &asked.store.objects().unwrap()[0];
    fs::set_permissions(object, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    fs::write(object, "no gzip").unwrap();
    let ran = asked.ktax(&["diff", "6.1.1", "6.1.2"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("is damaged: "), "{}", ran.stderr);
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
        |measurement| measurement.of.workload.ops = 0,
    ];
    for (at, edit) in edits.iter().enumerate() {
        let asked = Asked::new();
        let sound = [Made::of("stat", "6.1.2", 100), Made::of("pipe", "6.1.1", 100)];
        generated::fill(&asked.store, sound);
        let mut wrong = generated::measurement(&Made::of("stat", "6.1.1", 100));
        edit(&mut wrong);
        // A store of ktax does not take it.
        assert!(matches!(asked.store.put(&wrong), Err(StoreError::Unsound { .. })), "{at}");
        let path = asked.store.path(&wrong.of);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, encode_measurement(&wrong)).unwrap();
        let ran = asked.ktax(&["history"]);
        assert!(ran.stderr.contains("1 file of the store cannot be read"), "{at}: {}", ran.stderr);
        assert_eq!(ran.status, 0, "{at}: {}", ran.stderr);
        assert!(asked.ktax(&["store", "fsck"]).stdout.contains("2 sound, 1 damaged"), "{at}");
    }
}

/// Another version's objects are neither damaged nor moved.
#[test]
fn what_a_newer_ktax_wrote_stays() {
    let asked = Asked::new();
    let mut newer = generated::measurement(&Made::of("stat", "6.1.1", 100));
    newer.format += 1;
    asked.store.put(&newer).unwrap();
    let ran = asked.ktax(&["log", "--subjects"]);
    assert!(ran.stderr.contains("use the ktax that wrote it"), "{}", ran.stderr);
    let said = asked.said(&["store", "fsck"]);
    assert_eq!(said, "0 sound, 0 damaged\n1 file of another version of ktax\n");
    assert!(asked.store.path(&newer.of).exists());
}

/// What was printed is kept, and printed again by the first digits of its name.
#[test]
fn a_result_is_listed_and_shown_again() {
    let asked = Asked::new();
    let root = asked.path().join("run");
    fixtures::run_dir(&root, "first title", 5, ROWS);
    let text = asked.said(&["analyse", root.to_str().unwrap()]);
    asked.said(&["store", "import", root.to_str().unwrap()]);
    let listed = asked.said(&["log"]);
    assert!(listed.contains("first title: 2 of 2 rows slower"), "{listed}");
    let id = listed.lines().nth(2).unwrap().split(' ').next().unwrap();
    assert_eq!(asked.said(&["show", id]), text);
    let saved: Vec<serde_json::Value> =
        serde_json::from_str(&asked.said(&["log", "--json"])).unwrap();
    assert!(saved[0]["id"].as_str().unwrap().starts_with(id) && saved.len() == 1);
    // A page is a result, too, and the same one is kept once.
    let page = asked.path().join("page.html");
    asked.said(&["show", id, "--html", page.to_str().unwrap()]);
    assert_eq!(asked.said(&["show", page.to_str().unwrap()]), text);
    assert_eq!(
        asked.said(&["store", "import", page.to_str().unwrap()]),
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
        let listed = asked.said(&[vec!["log"], words.clone()].concat());
        assert_eq!(listed.contains(id), has, "{words:?}: {listed}");
    }
    assert!(asked.refused(&["log", "--since", "today"]).contains("it takes a day"));
    assert!(asked.refused(&["show", "ffffff"]).contains("`ktax log` lists them"));
    // Two whose names begin alike are told apart.
    let mut ids: Vec<String> = Vec::new();
    for at in 0..40 {
        let saved = Saved {
            headline: at.to_string(),
            ..read_results(&asked.said(&["show", id, "--json"])).unwrap().remove(0)
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
