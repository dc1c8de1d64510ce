//! Every workload does its work on the machine at hand, says so in the format, and tidies up.

use std::collections::BTreeSet;

use ktax::model::{Signature, Workload};
use ktax::plan::{Definition, definitions, with_ops};
use ktax::wire::{Answer, Done, arguments, parse_answer};
use rustix::io::{ioctl_fionread, write};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

use super::examples::{assert_goes, guest, run_workload};
use crate::common::{scratch, until};

fn is_bad(definition: &Definition) -> bool {
    definition.name.starts_with("bad-")
}

fn rows() -> Vec<Workload> {
    rows_of(|definition| !is_bad(definition) && definition.needs.is_none())
}

fn rows_of(chosen: impl Fn(&Definition) -> bool) -> Vec<Workload> {
    let chosen = definitions().unwrap().into_iter().filter(chosen);
    chosen.flat_map(|definition| definition.rows().unwrap()).collect()
}

fn answer(workload: &Workload) -> Done {
    let output = run_workload(workload);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}: {text}", workload.row);
    match parse_answer(text.as_bytes(), &workload.program) {
        Ok(Answer::Done(done)) => done,
        other => panic!("{}: {other:?}", workload.row),
    }
}

/// Two tests, because they are the longest and the last.
#[test]
fn every_row_does_exactly_its_work() {
    every_second_row_does_its_work(0);
}

#[test]
fn every_other_row_does_exactly_its_work() {
    every_second_row_does_its_work(1);
}

fn every_second_row_does_its_work(from: usize) {
    let rows = rows();
    assert!(rows.len() > 30, "{}", rows.len());
    for row in rows.iter().skip(from).step_by(2) {
        // Fewer operations than a measurement has: what is checked is that each is done. Two
        // threads share them evenly.
        let workload = with_ops(row, (row.ops / 64 * 2).max(1)).unwrap();
        let done = answer(&workload);
        let deviations = workload.deviations(&done.signature);
        assert!(deviations.is_empty(), "{}: {deviations:?}", workload.row);
        assert!(done.tsc.is_none(), "{}: natively the counter is time", workload.row);
        assert_each_entry_counts(&workload, &done.signature);
    }
}

#[test]
fn what_a_machine_lacks_is_said() {
    let demanding = rows_of(|definition| definition.needs.is_some());
    assert!(!demanding.is_empty());
    for workload in demanding {
        let output = run_workload(&workload);
        match parse_answer(&output.stdout, &workload.program).unwrap() {
            Answer::Done(done) => assert_eq!(workload.deviations(&done.signature), [""; 0]),
            Answer::Refused(why) => assert!(why.len() > 10, "{}: {why}", workload.row),
        }
    }
}

/// A signature with one entry missing, or one off, is always reported.
fn assert_each_entry_counts(workload: &Workload, signature: &Signature) {
    for name in workload.signature.keys() {
        let mut missing = signature.clone();
        missing.remove(name);
        let mut off = signature.clone();
        off.entry(name.clone()).and_modify(|value| *value = value.wrapping_add(1));
        for wrong in [missing, off] {
            assert_eq!(workload.deviations(&wrong).len(), 1, "{}: {name}", workload.row);
        }
    }
}

#[test]
fn the_mmap_stress_rows_are_checked_to_the_layout() {
    let stress: Vec<_> = rows().into_iter().filter(|row| row.program == "mmap-stress").collect();
    let ops: Vec<u64> = stress.iter().map(|row| row.ops).collect();
    assert_eq!(ops, [50_000, 1_000_000]);
    for mut workload in stress {
        assert!(workload.signature.contains_key("layout-hash"), "{}", workload.row);
        // One call fewer is another layout: the hash sees it.
        workload.ops = 49_999;
        let deviations = workload.deviations(&answer(&workload).signature);
        assert!(deviations.iter().any(|text| text.starts_with("layout-hash ")), "{deviations:?}");
    }
}

#[test]
fn the_misbehaving_ones_refuse_outside_a_guest() {
    let bad: Vec<_> = definitions().unwrap().into_iter().filter(is_bad).collect();
    assert!(bad.len() >= 8, "{}", bad.len());
    // These two only say a number, or that they fail.
    let is_harmless = |program: &str| ["bad-sig", "bad-together"].contains(&program);
    for definition in bad.iter().filter(|definition| !is_harmless(&definition.program)) {
        let output = run_workload(&definition.rows().unwrap()[0]);
        assert_eq!(output.status.code(), Some(1), "{}", definition.name);
        let refused = Answer::Refused("misbehave: Operation not permitted".into());
        assert_eq!(parse_answer(&output.stdout, &definition.program), Ok(refused));
    }
}

#[test]
fn the_list_of_programs_is_that_of_the_definitions() {
    let output = guest().output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let listed: BTreeSet<&str> = text.lines().collect();
    assert_eq!(listed.len(), text.lines().count(), "{text}");
    let good: Vec<_> = definitions().unwrap().into_iter().filter(|d| !is_bad(d)).collect();
    let planned: BTreeSet<&str> = good.iter().map(|definition| &*definition.program).collect();
    // The symbols are not measured.
    let others: Vec<&&str> = listed.symmetric_difference(&planned).collect();
    assert_eq!(others, [&"symbols"]);
}

/// The table is longer than what the guest reads at once, and changes if code is loaded meanwhile.
#[test]
fn symbols_are_the_functions_and_nothing_else() {
    let functions = || {
        let table = std::fs::read_to_string("/proc/kallsyms").unwrap();
        let is_function = |line: &&str| "tTwW".contains(line.split(' ').nth(1).unwrap());
        let lines: String = table.lines().filter(is_function).map(|l| format!("{l}\n")).collect();
        assert!(lines.len() > 1 << 17 && lines.len() < table.len(), "{}", lines.len());
        format!("ktax 1\nstart symbols\n{lines}end\n")
    };
    until("the table is the same before and after", || {
        let (before, output) = (functions(), guest().arg("symbols").output().unwrap());
        let is_quiet = before == functions();
        // Not assert_eq: a megabyte would be printed.
        assert!(!is_quiet || output.stdout == before.as_bytes());
        is_quiet
    });
}

#[test]
fn what_is_no_order_is_refused() {
    let mut thirteen = vec!["p=1"; 14];
    thirteen[0] = "pipe";
    for arguments in [
        &["no-such-program"][..],
        &["Pipe"],
        &["pipe", "ops"],
        &["pipe", "ops="],
        &["pipe", "ops=-1"],
        &["pipe", "ops=18446744073709551616"],
        &["a-name-of-more-than-thirty-two-bytes"],
        &thirteen,
    ] {
        let output = guest().args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let answer = parse_answer(&output.stdout, "pipe").unwrap();
        assert!(
            matches!(&answer, Answer::Refused(text) if text.starts_with("order: ")),
            "{answer:?}"
        );
    }
}

#[test]
fn a_guest_whose_reader_is_gone_tidies_up() {
    let dir = scratch();
    let stat = rows().into_iter().find(|row| row.row == "stat").unwrap();
    let start = "ktax 1\nstart stat\n".len();
    // After these lines the pipe is full, so that the next one waits until the reader is gone.
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let room = fcntl_setpipe_size(&writer, 4096).unwrap();
    write(&writer, &vec![0; room - start]).unwrap();
    let mut command = guest();
    command.args(arguments(&stat)).env("TMPDIR", dir.path()).stdout(writer);
    let mut child = command.spawn().unwrap();
    drop(command);
    until("it has started", || ioctl_fionread(&reader).unwrap() == room as u64);
    drop(reader);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_goes(dir.path());
}
