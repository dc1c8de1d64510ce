//! `ktax validate` of an experiment: it is counted with a machine's model, timed, and both are
//! joined. QEMU's translator is the machine that is timed, and no clock.

use std::fs;

use ktax::model::{SavedResult, Validation};

use crate::common::{KERNEL, QUICK_BOOT, ktax, printed, run, scratch};

const ROWS: [&str; 2] = ["getppid:ops=500", "stat:ops=50"];

fn validation(json: &str) -> Validation {
    match printed::result(json) {
        SavedResult::Validation(validation) => *validation,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_experiment_is_counted_and_timed_and_both_are_joined() {
    let dir = scratch();
    let dir = dir.path();
    fs::write(dir.join("made-up.toml"), include_str!("validate/made-up.toml")).unwrap();
    let [base, change] = ["", " pti=on"]
        .map(|words| format!("{{ kernel = \"{KERNEL}\", boot_line = \"{QUICK_BOOT}{words}\" }}"));
    // `layouts` is of counts, `loops` is of times.
    let experiment = format!(
        "title = \"t\"\nworkloads = {ROWS:?}\nlayouts = 3\nloops = 2\nbase = {base}\n\
         change = {change}\n[machine]\naccelerator = \"tcg\"\n"
    );
    fs::write(dir.join("e.toml"), experiment).unwrap();
    let words = |more: &'static str| {
        let command = ["validate", "e.toml", "--machine", "made-up.toml", "--out", "out"];
        run(ktax().current_dir(dir).args(command).args(more.split_whitespace()))
    };
    let ran = words("--json").exits(0);
    let found = validation(&ran.stdout);
    assert_eq!((found.machine.as_str(), found.cpu.as_str()), ("made-up.toml", "Made up"));
    let mut rows: Vec<&str> = found.rows.iter().map(|row| row.row.as_str()).collect();
    rows.sort();
    assert_eq!((rows, &found.left_out, &found.differences), (ROWS.to_vec(), &vec![], &vec![]));
    // Two loads of CR3 more, each a flush of the TLBs of the model.
    assert!(found.rows.iter().all(|row| row.predicted_percent[0] > 1.0), "{found:?}");
    // A second run has nothing to do, and first says that a translator is no clock.
    let again = words("");
    let unfit = found.unfit.unwrap();
    assert!(unfit.contains("translator"), "{unfit}");
    let text = again.stdout.replace('\n', " ");
    assert!(text.find(&unfit).unwrap() < text.find("getppid").unwrap(), "{text}");
    assert!(!again.stderr.contains("runs in"), "{}", again.stderr);
    // The kept results can be joined again, and printed.
    let joined = ["validate", "out/counted", "out/timed", "--json"];
    assert_eq!(run(ktax().current_dir(dir).args(joined)).stdout, ran.stdout);
    let printed = run(ktax().current_dir(dir).args(["report", "out/validation.json", "--json"]));
    assert_eq!(printed.stdout, ran.stdout);
}
