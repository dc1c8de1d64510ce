//! `ktax ledger` on real boots: what is added is found, ranked, and adds up.

use std::fs;

use crate::common::recorder::Recorder;
use crate::common::{KERNEL, QUICK_BOOT, ktax, printed, run, scratch};
use ktax::flow::ledger::rank;
use ktax::flow::remaining::Part;
use ktax::model::{LedgerEntry, Verdict};
use ktax::plan::Ledger;

const ADDITIONS: [(&str, &str); 2] = [("nothing", "ktax.none=a"), ("one", "ktax.extra=1")];

fn file(additions: &[(&str, &str)]) -> String {
    let line = |(name, line): &(&str, &str)| {
        format!("  {{ name = \"{name}\", boot_line = \"{line}\" }},\n")
    };
    let additions: String = additions.iter().map(line).collect();
    format!(
        "title = \"planted\"\nworkloads = [\"control-loop\"]\nlayouts = 1\n\
         base = {{ kernel = \"{KERNEL}\", boot_line = \"{QUICK_BOOT}\" }}\n\
         add = [\n{additions}]\n"
    )
}

#[test]
fn additions_are_ranked_and_add_up_and_are_not_measured_twice() {
    let dir = scratch();
    let (ledger, out) = (dir.path().join("planted.toml"), dir.path().join("out"));
    fs::write(&ledger, file(&ADDITIONS)).unwrap();
    let measure = || run(ktax().arg("ledger").arg(&ledger).arg("--json").arg("--out").arg(&out));
    let first = measure();
    let table = printed::ledger(&first.stdout);
    let row = &table.rows[0];
    let delta = |entry: &LedgerEntry| entry.costs.as_ref().unwrap().first_metric.delta;
    let ranked: Vec<_> =
        row.entries.iter().map(|entry| (entry.name.as_str(), delta(entry))).collect();
    assert_eq!(ranked, [("one", 1.0), ("nothing", 0.0)]);
    assert_eq!(delta(row.combination.as_ref().unwrap()), 1.0);
    assert!(row.interactions.iter().all(|entry| entry.excess.delta == 0.0), "{row:?}");
    assert_eq!((row.entries[0].verdict, first.status), (Verdict::TooFewBoots, 4));
    // Both sides of the first addition, and only the change of the others.
    let runs = first.stderr.lines().filter_map(|line| {
        let made = line.strip_prefix("ktax: ")?.split_once(" in ")?.0;
        made.strip_suffix(" runs").or(made.strip_suffix(" run"))
    });
    assert_eq!(runs.collect::<Vec<_>>(), ["2", "1", "1"], "{}", first.stderr);
    let again = measure();
    assert_eq!(again.stdout, first.stdout);
    let is_run = again.stderr.contains(" runs in ") || again.stderr.contains(" run in ");
    assert!(!is_run, "{}", again.stderr);
    let text = run(ktax().arg("ledger").arg(&ledger).arg("--out").arg(&out)).stdout;
    let line = text.lines().find(|line| line.starts_with("one ")).unwrap();
    assert!(line.contains("+1.00"), "{text}");
}

/// The progress of a ledger is one whole: each addition, and then all of them, is a part of it.
#[test]
fn a_ledger_says_which_part_begins_and_its_runs_add_up() {
    let (dir, recorder) = (scratch(), Recorder::new());
    let file = Ledger::read(&file(&ADDITIONS), "planted.toml").unwrap();
    let ledger = Ledger::from_file(file, "planted.toml").unwrap();
    rank(&ledger, &dir.path().join("out"), &recorder.session()).unwrap().unwrap();
    let part = |index| Part { index, count: 3, shares_base: true };
    assert_eq!(recorder.parts(), [part(0), part(1), part(2)]);
    // Two boots of a row in each; the base's are there from the second part on.
    assert_eq!(recorder.ends(), [(2, 6), (4, 6), (6, 6)]);
}

/// Costs are what a ledger is asked for: they are no failure.
#[test]
fn a_ledger_whose_additions_are_slower_is_a_success() {
    let dir = scratch();
    let (ledger, out) = (dir.path().join("planted.toml"), dir.path().join("out"));
    let five = file(&ADDITIONS[1..]).replace("layouts = 1", "layouts = 5");
    fs::write(&ledger, five).unwrap();
    let ran = run(ktax().arg("ledger").arg(&ledger).arg("--json").arg("--out").arg(&out));
    let verdict = printed::ledger(&ran.stdout).rows[0].entries[0].verdict;
    assert_eq!((verdict, ran.status), (Verdict::Slower, 0), "{}", ran.stderr);
}

#[test]
fn an_addition_that_fails_says_nothing_of_the_base_and_a_misspelt_one_is_no_free_one() {
    let dir = scratch();
    let ledger = dir.path().join("broken.toml");
    let additions = [("broken", "rdinit=/none"), ("typo", "nosuchparam=1"), ADDITIONS[1]];
    fs::write(&ledger, file(&additions)).unwrap();
    let ran = run(ktax()
        .arg("ledger")
        .arg(&ledger)
        .arg("--json")
        .arg("--out")
        .arg(dir.path().join("out")));
    let table = printed::ledger(&ran.stdout);
    assert_eq!((table.rows[0].base.round(), ran.status), (3.0, 69));
    let broken = table.rows[0].entries.iter().find(|entry| entry.name == "broken").unwrap();
    assert_eq!(broken.verdict, Verdict::Failed);
    let warned: Vec<_> =
        table.warnings.iter().map(|(name, warning)| (&**name, &*warning.fact)).collect();
    assert!(
        warned.iter().any(|(name, fact)| *name == "typo" && fact.contains("nosuchparam=1")),
        "{warned:?}"
    );
}

#[test]
fn a_directory_of_another_ledger_and_a_bad_file_are_refused() {
    let dir = scratch();
    let ledger = dir.path().join("ledger.toml");
    fs::write(&ledger, file(&[("together", "ktax.extra=1")])).unwrap();
    let ran = run(ktax().arg("ledger").arg(&ledger)).exits(2);
    ran.says("is not a ledger file: \"together\" is the name of");
    run(ktax().args(["ledger", "no-such.toml"])).exits(2);
}

/// Flags of a comparison choose the rows, and the printed command repeats them.
#[test]
fn flags_choose_the_rows_and_the_layouts_and_a_mail_says_them_again() {
    let dir = scratch();
    let (ledger, out) = (dir.path().join("planted.toml"), dir.path().join("out"));
    let text = file(&ADDITIONS[1..]).replace("[\"control-loop\"]", "[\"getppid\", \"pipe\"]");
    fs::write(&ledger, text.replace("layouts = 1", "layouts = 5")).unwrap();
    let measure = |options: &[&str]| {
        run(ktax().arg("ledger").arg(&ledger).args(options).arg("--out").arg(&out))
    };
    let ran = measure(&["-w", "control-loop", "--layouts", "1", "--format", "mail"]).exits(4);
    ran.says("ktax: 2 runs in ");
    assert!(ran.stdout.contains("control-loop, "), "{}", ran.stdout);
    let (_, again) = ran.stdout.split_once("To measure it again:\n").unwrap();
    let words = shlex::split(&again.replace("\\\n", " ")).unwrap();
    let file = ledger.display().to_string();
    let typed = ["ktax", "ledger", &file, "-w", "control-loop", "--layouts", "1"];
    assert_eq!(words, typed);
    let wrong = measure(&["-w", "getpid"]).exits(2);
    wrong.says("getppid");
}
