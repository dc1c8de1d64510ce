//! Workloads that only compute: no refused system call keeps them from a number, so what they
//! answer must prove the work itself.

use ktax::model::Workload;
use ktax::plan::{Definition, definitions};
use ktax::wire::{Answer, Done, parse_answer};

use super::guest::run;

/// These programs, and the entry of each that only counts its loop: it proves nothing. Of the
/// copies `kib` counts what arrived, of mem-read there is nothing but the sum.
pub const COMPUTES: [(&str, &str); 7] = [
    ("bcopy-hand", ""),
    ("bcopy-libc", ""),
    ("connect4", "solved"),
    ("fp-stream", "frames"),
    ("hashes", "rounds"),
    ("mem-read", ""),
    ("mem-write", "kib"),
];

pub fn only_computes(program: &str) -> bool {
    COMPUTES.iter().any(|(name, _)| *name == program)
}

/// All rows but the one that takes a minute.
fn rows() -> Vec<Workload> {
    let is_wanted = |definition: &Definition| {
        only_computes(&definition.program) && definition.name != "connect4-long"
    };
    let wanted = definitions().unwrap().into_iter().filter(is_wanted);
    wanted.flat_map(|definition| definition.rows().unwrap()).collect()
}

fn answer(workload: &Workload) -> (Vec<u8>, Done) {
    let wire = run(workload).stdout;
    match parse_answer(&wire, &workload.program) {
        Ok(Answer::Done(done)) => (wire, done),
        other => panic!("{}: {other:?}", workload.row),
    }
}

/// Whether the answer is taken for this row's.
fn is_a_number(workload: &Workload, wire: &[u8]) -> bool {
    match parse_answer(wire, &workload.program) {
        Ok(Answer::Done(done)) => workload.deviations(&done.signature).is_empty(),
        Ok(Answer::Refused(_)) | Err(_) => false,
    }
}

/// Another order for the same program: one operation more, or of one search another position.
fn other_work(workload: &Workload) -> Workload {
    let mut other = workload.clone();
    match other.params.get_mut("position") {
        Some(position) if *position == 45461667 => *position = 124315432644,
        Some(position) => *position = 45461667,
        None => other.ops += 1,
    }
    other
}

#[test]
fn the_result_of_other_work_is_no_number_whatever_its_loop_says() {
    let rows = rows();
    assert!(rows.len() >= 10, "{}", rows.len());
    for workload in rows {
        let (_, count) = COMPUTES.iter().find(|(name, _)| *name == workload.program).unwrap();
        let (_, mut done) = answer(&other_work(&workload));
        if let Some(said) = done.signature.get_mut(*count) {
            *said = workload.signature[*count];
        }
        let deviations = workload.deviations(&done.signature);
        assert!(!deviations.is_empty(), "{}: {:?} is a number", workload.row, done.signature);
    }
}

#[test]
fn a_result_that_is_cut_or_altered_is_no_number() {
    for workload in rows() {
        let (whole, _) = answer(&workload);
        assert!(is_a_number(&workload, &whole), "{}", workload.row);
        for length in 0..whole.len() - 1 {
            assert!(!is_a_number(&workload, &whole[..length]), "{}: {length}", workload.row);
        }
        let text = String::from_utf8(whole).unwrap();
        for name in workload.signature.keys() {
            let value = workload.signature[name];
            let line = format!("sig {name} {value}\n");
            assert!(text.contains(&line), "{}: {text}", workload.row);
            // Each bit of a number that a program can print.
            for bit in 0..63 {
                let altered = text.replace(&line, &format!("sig {name} {}\n", value ^ 1 << bit));
                assert!(!is_a_number(&workload, altered.as_bytes()), "{altered}");
            }
        }
    }
}
