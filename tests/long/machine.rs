//! The model of a machine against another simulator of caches, and a meaningless change on all
//! rows.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use ktax::model::{Context, Modelled, Verdict, metric};

use crate::common::require::are_there;
use crate::common::{MEANINGLESS, compare, ktax, open_counts, run, scratch};
use crate::programs::{experiment, shell};

const CALLGRIND: &str = "valgrind --tool=callgrind --toggle-collect=counted --cache-sim=yes \
                         --callgrind-out-file=out.cg --I1=32768,8,64 --D1=32768,8,64 \
                         --LL=4194304,16,64 ./work";

/// Callgrind's counts, by the names of its events.
fn events(text: &str) -> BTreeMap<&str, u64> {
    let value_of = |what: &str| text.lines().find_map(|line| line.strip_prefix(what)).unwrap();
    let counts = value_of("summary: ").split_whitespace().map(|count| count.parse().unwrap());
    value_of("events: ").split_whitespace().zip(counts).collect()
}

#[test]
fn caches_miss_what_callgrinds_do() {
    if !are_there(&["gcc", "valgrind"]) {
        return;
    }
    let dir = scratch();
    let dir = dir.path();
    fs::copy("guest/ktax-mark.h", dir.join("ktax-mark.h")).unwrap();
    fs::write(dir.join("work.c"), include_str!("machine/work.c")).unwrap();
    shell(dir, "gcc -O1 -static -o work work.c");
    experiment(dir, [""; 2], 1, "[[program]]\ncommand = [\"./work\"]\n");
    let words = ["compare", "e.toml", "--model", "core2-extreme", "--out", "out"];
    run(ktax().current_dir(dir).args(words)).exits(0);
    run(Command::new("sh").current_dir(dir).args(["-c", CALLGRIND])).exits(0);

    let text = fs::read_to_string(dir.join("out.cg")).unwrap();
    let theirs = events(&text);
    let counted = open_counts(&dir.join("out")).unwrap();
    let profile = counted.profile(&counted.plan().method.steps[0], "program:work").unwrap();
    let ours = |counter| -> u64 {
        let lines = profile.lines.iter().filter(|line| line.context == Context::Process);
        let of_user =
            lines.filter(|line| line.function.starts_with('[') && line.function != "[kernel]");
        of_user.map(|line| line.counts[counter]).sum()
    };
    for (counter, events, within) in [
        (Modelled::L1dAccesses, ["Dr", "Dw"], 1e-5),
        (Modelled::L1dMisses, ["D1mr", "D1mw"], 0.005),
        (Modelled::CacheMisses, ["DLmr", "DLmw"], 0.005),
    ] {
        let theirs: u64 = events.iter().map(|event| theirs[event]).sum();
        let ours = ours(counter);
        let ratio = ours as f64 / theirs as f64 - 1.0;
        println!("{}: {ours}, callgrind {theirs}", counter.name());
        assert!(theirs > 100_000 && ratio.abs() <= within, "{counter:?}: {ours}, not {theirs}");
    }
}

#[test]
fn a_meaningless_change_gets_no_verdict_on_any_row_by_the_model() {
    let dir = scratch();
    let (ran, comparison) =
        compare(&dir.path().join("out"), ["", MEANINGLESS], &["--model", "skylake"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);

    let is_modelled = |name: &str| metric(name).is_some_and(|metric| metric.modelled().is_some());
    let (mut modelled, mut found) = (0, Vec::new());
    for row in &comparison.rows {
        let effects = row.effects();
        modelled += effects.iter().filter(|effect| is_modelled(&effect.metric)).count();
        for effect in effects.iter().filter(|effect| effect.verdict != Verdict::NoDetectedChange) {
            found.push(format!("{}: {effect:#?}", row.row));
        }
    }
    println!("{} rows, {modelled} counters of a model, {found:?}", comparison.rows.len());
    assert!(comparison.rows.len() > 60 && modelled > 600 && found.is_empty());
}
