//! How long it takes: what `ktax plan` expects, and what it learns from runs.

use std::fs;

use serde_json::Value;

use crate::common::{KERNEL, QUICK_BOOT, ktax, own_cache, run, scratch};

/// A boot that is made, because one of the cache says nothing of how long it takes.
#[test]
fn a_plan_says_how_long_it_takes_as_earlier_runs_did() {
    let dir = scratch();
    let (cache, state) = (own_cache(dir.path()), dir.path().join("state"));
    let own = |words: &[&str]| {
        let lines = ["--base-boot-line", QUICK_BOOT, "--change-boot-line", QUICK_BOOT];
        let mut command = ktax();
        command.env("KTAX_CACHE", &cache).env("KTAX_STATE", &state).args(words).args(lines);
        let ran = run(command.args(["--same", "--kernel", KERNEL, "-w", "getppid", "-l", "1"]));
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        ran.stderr
    };
    let said = own(&["plan", "--jobs", "1"]);
    // Two boots of 6 s, and two runs of 0.4 s.
    assert!(said.contains("ktax: it takes about 13 s with 1 VM at a time (a guess"), "{said}");
    own(&["compare", "--out", dir.path().join("out").to_str().unwrap()]);
    let rates: Value =
        serde_json::from_str(&fs::read_to_string(state.join("rates.json")).unwrap()).unwrap();
    let (boot, row) = (&rates["boots"]["exact"], &rates["runs"]["exact/getppid"]);
    assert!(boot.as_f64().unwrap() >= 1.0 && row.as_f64().unwrap() > 0.0, "{rates}");
    fs::write(state.join("rates.json"), r#"{"boots":{"exact":20},"runs":{"exact/getppid":2}}"#)
        .unwrap();
    let said = own(&["plan", "--jobs", "1"]);
    let learned = "ktax: it takes about 44 s with 1 VM at a time (as earlier runs on this machine";
    assert!(said.contains(learned), "{said}");
}
