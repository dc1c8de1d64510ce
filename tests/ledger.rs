//! `ktax ledger` on real boots: what is added is found, ranked, and adds up.

mod common;

use std::fs;

use common::{KERNEL, ktax, run, scratch};
use ktax::model::{LedgerTable, Verdict};

fn file(kernel: &str) -> String {
    format!(
        "title = \"planted\"\nworkloads = [\"control-loop\"]\nlayouts = 1\n\
         base = {{ kernel = \"{kernel}\" }}\n\
         add = [\n  {{ name = \"nothing\", boot_line = \"ktax.none=a\" }},\n  \
         {{ name = \"one\", boot_line = \"ktax.extra=1\" }},\n]\n"
    )
}

#[test]
fn additions_are_ranked_and_add_up_and_are_not_measured_twice() {
    let dir = scratch();
    let (ledger, out) = (dir.path().join("planted.toml"), dir.path().join("out"));
    fs::write(&ledger, file(KERNEL)).unwrap();
    let measure = || run(ktax().arg("ledger").arg(&ledger).arg("--json").arg("--out").arg(&out));
    let first = measure();
    let table: LedgerTable = serde_json::from_str(&first.stdout).expect(&first.stderr);
    let row = &table.rows[0];
    let ranked: Vec<_> = row.entries.iter().map(|one| (one.name.as_str(), one.delta)).collect();
    assert_eq!(ranked, [("one", 1.0), ("nothing", 0.0)]);
    assert_eq!(row.together.as_ref().unwrap().delta, 1.0);
    assert_eq!(row.interaction, None);
    assert_eq!((row.entries[0].verdict, first.status), (Verdict::TooFewBoots, 4));
    let again = measure();
    assert_eq!(again.stdout, first.stdout);
    assert!(!again.stderr.contains("runs in"), "{}", again.stderr);
    let text = run(ktax().arg("ledger").arg(&ledger).arg("--out").arg(&out)).stdout;
    let line = text.lines().find(|line| line.starts_with("one ")).unwrap();
    assert!(line.contains("+1.00"), "{text}");
}

#[test]
fn a_directory_of_another_ledger_and_a_bad_file_are_refused() {
    let dir = scratch();
    let ledger = dir.path().join("ledger.toml");
    fs::write(&ledger, file(KERNEL).replace("one", "together")).unwrap();
    let ran = run(ktax().arg("ledger").arg(&ledger));
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("is no ledger: \"together\" is no name"), "{}", ran.stderr);
    let ran = run(ktax().args(["ledger", "no-such.toml"]));
    assert_eq!(ran.status, 2, "{}", ran.stderr);
}
