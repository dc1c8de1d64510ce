use std::fs;

use ktax::engine::Timed;
use ktax::model::{Failure, TimedSubject};

use super::changer::{timed, workload};
use crate::common::scratch;

#[test]
fn after_a_failure_a_row_has_no_more_loops_and_the_other_rows_have() {
    let dir = scratch();
    let tried = dir.path().join("tried");
    // Says which program was tried, and fails for one of them.
    let script = "echo $2 >>$0; case $2 in getppid) exit 1; esac; exec \"$@\"";
    let prefix = ["sh", "-c", script, tried.to_str().unwrap()].map(str::to_owned).to_vec();
    let side = TimedSubject { prefix, ..TimedSubject::default() };
    let host = timed(dir.path(), [&side, &side]);
    let [fails, runs] = ["getppid", "open-close"].map(|name| workload(name, &["ops=10"]));
    let booted = host.boot(&side, &[&fails, &fails, &runs, &fails, &runs]).unwrap();
    let failures: Vec<Option<&Failure>> = booted.wires.iter().map(|w| w.as_ref().err()).collect();
    assert!(matches!(failures[0], Some(Failure::Prefix { .. })), "{failures:?}");
    assert_eq!(failures, [failures[0], failures[0], None, failures[0], None]);
    let tried = fs::read_to_string(tried).unwrap();
    assert_eq!(tried.lines().collect::<Vec<_>>(), ["getppid", "open-close", "open-close"]);
}
