//! Every experiment can be planned; an answer below its question says of which versions it is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use ktax::flow::expand_touching;
use ktax::plan::{
    BuiltIn, Campaign, Experiment, ExperimentFile, ExperimentMethod, GuestsExperiment, Ledger,
    TouchedTable, definitions, experiments, ledgers, select_rows,
};

use crate::common::{Ran, assert_has, ktax, run, scratch, scratch_path};
use crate::golden::{every, rendered};

fn files(directory: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let mut paths: Vec<PathBuf> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn every_experiment_can_be_planned() {
    let (mut of_kernels, mut guests_plan) = (0, 0);
    for path in files("experiments") {
        let name = path.display().to_string();
        let file = ExperimentFile::parse(&fs::read_to_string(&path).unwrap(), &name).unwrap();
        assert!(!file.why.is_empty(), "{name}");
        assert!(Some(&file.base) != file.change.as_ref(), "{name} compares nothing");
        match Experiment::from_file(&file).unwrap().method {
            ExperimentMethod::Counts(counts) => {
                of_kernels += 1;
                counts.check().unwrap();
                let rows = select_rows(&definitions().unwrap(), counts.workloads.as_deref());
                let rows = rows.unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(!rows.is_empty(), "{name}");
                for subject in counts.asked.subjects.both() {
                    assert_patches(&subject.patches, &name);
                }
            }
            ExperimentMethod::Guests(guests) => {
                guests_plan += 1;
                assert_guests(&guests, &name);
            }
            ExperimentMethod::Times(times) => panic!("{name}: {times:?}"),
        }
    }
    assert!(of_kernels >= 14 && guests_plan > 0, "{of_kernels} {guests_plan}");
}

#[test]
fn what_is_built_in_is_planned_without_any_file() {
    for BuiltIn { name, text } in experiments() {
        Experiment::parse(text, name).unwrap();
    }
    for BuiltIn { name, text } in ledgers() {
        Ledger::parse(text, name).unwrap();
    }
    assert!(experiments().any(|experiment| experiment.name == "lsm") && experiments().count() > 20);
    assert!(ledgers().any(|ledger| ledger.name == "hardening-boot"));
    // This one names patches, which are built in, too.
    assert!(experiments().any(|experiment| experiment.name == "magic-page"));
}

fn assert_guests(guests: &GuestsExperiment, name: &str) {
    assert!(!guests.asked.rows.is_empty(), "{name}");
    assert_patches(&guests.asked.host_subject.patches, name);
}

fn assert_patches(patches: &[String], name: &str) {
    for patch in patches {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(patch);
        assert!(path.is_file(), "{name} names {patch}, which is not there");
    }
}

#[test]
fn every_ledger_can_be_planned() {
    let definitions = definitions().unwrap();
    let paths = files("ledgers");
    assert!(!paths.is_empty());
    for path in paths {
        let name = path.display().to_string();
        let ledger = Ledger::parse(&fs::read_to_string(&path).unwrap(), &name).unwrap();
        assert!(ledger.experiments.len() > 1 && !ledger.why.is_empty(), "{name}");
        for (_, experiment) in ledger.experiments {
            if let ExperimentMethod::Counts(counts) = experiment.method {
                select_rows(&definitions, counts.workloads.as_deref()).unwrap();
            }
        }
    }
}

#[test]
fn every_campaign_can_be_planned() {
    for path in files("campaigns") {
        let name = path.display().to_string();
        let file = Campaign::read(&fs::read_to_string(&path).unwrap(), &name).unwrap();
        assert!(!file.why.is_empty(), "{name}");
        let campaign = Campaign::from_file(&file, &name).unwrap();
        assert!(campaign.subjects.len() > 1, "{name} compares nothing");
        assert!(
            campaign.subjects.iter().all(|subject| !subject.method.rows().unwrap().is_empty()),
            "{name}"
        );
    }
}

#[test]
fn every_experiment_has_an_answer_that_names_its_versions() {
    for path in files("experiments").into_iter().chain(files("ledgers")) {
        let name = path.display().to_string();
        let text = fs::read_to_string(&path).unwrap();
        let answer = text.split("written by `make answers`:\n").nth(1);
        let answer = answer.unwrap_or_else(|| panic!("{name} has no answer: type make answers"));
        let lacking = lacking(answer);
        assert!(lacking.is_empty(), "{name} lacks {lacking:?}: type make answers");
        let failed = ["  failed", "different work", "too few boots"];
        assert!(!failed.iter().any(|verdict| answer.contains(verdict)), "{name}");
    }
}

/// Which versions do not stand above the title, where `--versions` puts them.
fn lacking(answer: &str) -> Vec<&'static str> {
    let above: Vec<&str> = answer.lines().skip(1).take_while(|line| *line != "#").collect();
    let has = |name: &str| {
        let mut of_name =
            above.iter().filter_map(|line| line.strip_prefix("# ")?.strip_prefix(name));
        of_name.any(|version| version.starts_with(' ') && !version.trim().is_empty())
    };
    let mut lacking: Vec<&str> =
        ["ktax", "guest", "QEMU"].into_iter().filter(|word| !has(word)).collect();
    // Bare metal has no kernel in a guest, and then there is a host.
    if !["base", "host"].iter().any(|side| has(side)) {
        lacking.push("base");
    }
    lacking
}

#[test]
fn an_answer_of_an_older_format_is_found() {
    let today =
        "#\n# ktax 0.1.0\n# guest   abc\n# QEMU    7.2\n# base    debian:x=1, image abc\n#\n";
    assert_eq!(lacking(&format!("{today}# A title\n")), Vec::<&str>::new());
    assert_eq!(lacking(&today.replace("# guest   abc\n", "")), ["guest"]);
    let before = "#\n# A title\n#\n# base  6.1.0\n# exact · QEMU 7.2.22 · 5 layouts\n";
    assert_eq!(lacking(before), ["ktax", "guest", "QEMU", "base"]);
}

#[test]
fn answers_have_the_words_that_ktax_says_today() {
    let shown =
        every().flat_map(|(_, result)| [80, 100].map(|width| rendered(&result, width, false)));
    let today: BTreeSet<String> =
        shown.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let is_today = |line: &str| today.contains(line);
    let legends = |text: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix("# "));
        let is_wanted =
            |line: &&str| ["MDE %  ", "verdict  s"].iter().any(|begin| line.starts_with(begin));
        lines.filter(is_wanted).map(str::to_owned).collect()
    };
    let paths = files("experiments").into_iter().chain(files("ledgers"));
    let legends = paths.flat_map(|path| legends(&fs::read_to_string(path).unwrap()));
    let legends: Vec<String> = legends.collect();
    assert!(legends.len() > 20, "{legends:?}");
    let stale: Vec<&String> = legends.iter().filter(|line| !is_today(line)).collect();
    assert!(stale.is_empty(), "type make answers: {stale:?}");
    assert!(!is_today(
        "verdict  slower or faster: by at least 0.1 %, and by more than layouts move"
    ));
}

#[test]
fn a_ledger_is_no_experiment_and_each_says_how_to_run_it() {
    let ledger = concat!(env!("CARGO_MANIFEST_DIR"), "/ledgers/hardening.toml");
    let experiment = concat!(env!("CARGO_MANIFEST_DIR"), "/experiments/lsm.toml");
    for (command, names, message) in [
        ("compare", [ledger, "hardening"], "it has additions. Run it with `ktax ledger "),
        ("ledger", [experiment, "lsm"], "it has no additions. Run it with `ktax compare "),
    ] {
        for name in names {
            let mut ktax = crate::common::ktax();
            crate::common::run(ktax.args([command, name]).current_dir("/")).exits(2).says(message);
        }
    }
}

#[test]
fn a_file_without_an_end_is_refused() {
    for (command, wanted) in [("compare", "an experiment file"), ("ledger", "a ledger file")] {
        let dir = crate::common::scratch();
        let mut ktax = crate::common::ktax();
        ktax.args([command, "/dev/zero", "--out"]).arg(dir.path().join("out"));
        let ran = crate::common::run(&mut ktax).exits(2);
        assert!(ran.stderr.contains(wanted) && ran.stderr.contains("bytes"), "{}", ran.stderr);
    }
}

// `ktax workloads --touching`, and `-w @touching`: which rows execute what a patch changes.

fn touching(named: &str, more: &[&str]) -> Ran {
    run(ktax().args(["workloads", "--touching", named]).args(more))
}

/// A patch of the handler of write faults.
const PATCH: &str = "From: a <a@example.org>\nSubject: [PATCH] mm: count\n\n---\n\
    --- a/mm/memory.c\n+++ b/mm/memory.c\n\
    @@ -4000,3 +4000,4 @@ static vm_fault_t handle_mm_fault(struct vm_fault *vmf)\n \
    \tint a;\n+\tint b;\n \n \tint c;\n";

#[test]
fn the_shipped_table_is_of_the_rows_that_ktax_has() {
    let (table, definitions) = (TouchedTable::built_in(), definitions().unwrap());
    let known: Vec<String> = table.rows.keys().cloned().collect();
    select_rows(&definitions, Some(&known)).unwrap();
    let usual = select_rows(&definitions, None).unwrap().into_iter().map(|row| row.row);
    let missing: Vec<String> = usual.filter(|row| !table.rows.contains_key(row)).collect();
    // `bcopy-libc` executes nothing of the kernel.
    assert_eq!(missing, ["bcopy-libc"], "run `make functions`");
}

#[test]
fn rows_are_listed_by_function_patch_and_file() {
    let dir = scratch();
    let (patch, file) = (dir.path().join("mm.patch"), dir.path().join("pipe.c"));
    fs::write(&patch, PATCH).unwrap();
    fs::write(&file, "static int pipe_write(int a)\n{\n}\nint unheard_of(void)\n{\n}\n").unwrap();
    let rows = |named: &str| -> BTreeSet<String> {
        let ran = touching(named, &["--json"]);
        let saved: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let rows = saved["rows"].as_array().unwrap();
        rows.iter().map(|row| row["row"].as_str().unwrap().to_owned()).collect()
    };
    let by_patch = rows(patch.to_str().unwrap());
    assert!(by_patch.contains("page-fault") && by_patch == rows("handle_mm_fault"));
    assert!(!by_patch.contains("getppid") && rows("getppid").contains("getppid"));
    assert_eq!(rows(file.to_str().unwrap()), rows("pipe_write"));
    let printed = touching(file.to_str().unwrap(), &[]).stdout;
    assert!(
        printed.contains("In no row (not executed, or inlined by the compiler): unheard_of"),
        "{printed}"
    );
    assert!(printed.contains("bw-pipe") && printed.contains("6.1.0-56-cloud-amd64"), "{printed}");
    for (named, about) in [
        ("pipe_wriet", "no row executes a function \"pipe_wriet\" (did you mean pipe_write?)"),
        ("no-such.patch", "cannot read no-such.patch: No such file"),
        ("Makefile.am/x", "cannot read Makefile.am/x"),
        ("CHANGELOG.md", "cannot use the patch CHANGELOG.md: it contains no diff"),
    ] {
        touching(named, &[]).exits(2).says(about);
    }
}

#[test]
fn the_rows_of_a_patch_take_the_place_of_their_selector() {
    let (_dir, patch) = scratch_path("mm.patch");
    fs::write(&patch, PATCH).unwrap();
    let expanded = |patches: &[String]| {
        let mut file = ExperimentFile {
            workloads: Some(vec!["getppid".into(), "@touching".into(), "page-fault".into()]),
            ..ExperimentFile::default()
        };
        file.change_mut().patches = patches.to_vec();
        expand_touching(&mut file).map(|()| file.workloads.unwrap())
    };
    let rows = expanded(&[patch.display().to_string()]).unwrap();
    assert_eq!(rows[0], "getppid");
    assert_eq!(rows.iter().filter(|row| *row == "page-fault").count(), 1);
    assert!(rows.len() > 10, "{rows:?}");
    assert_has(expanded(&[]).unwrap_err().to_string(), "has no patch; give it with --patch");
    let other = expanded(&["tests/data/patches/plain.diff".to_owned()]).unwrap_err().to_string();
    assert!(
        other.contains("of its instructions in what") && other.contains("(answer, other)"),
        "{other}"
    );
}
