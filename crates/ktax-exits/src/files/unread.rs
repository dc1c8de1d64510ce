//! What a file is that has no exit table, and what would give one.

use super::error::ExitsError;
use super::hint::no_kvm;
use super::line::{Line, line};

/// How a file begins, or a line that only one program writes; what it is; what to type.
const KNOWN: [(&str, &str, &str); 6] = [
    (
        "PERFILE2",
        "perf's binary recording",
        "type `perf script --ns -i FILE > trace.txt`, or, of `perf kvm stat record`, `perf kvm -i \
         FILE stat report > table.txt`, and give that text",
    ),
    (
        "\u{17}\u{8}Dtracing",
        "trace-cmd's binary recording",
        "type `trace-cmd report -t FILE > trace.txt`, and give that text",
    ),
    (
        "kvm statistics - summary",
        "the counters of `kvm_stat`, which have no times",
        "record the VM with `ktax exits record`",
    ),
    (
        "Performance counter stats for",
        "the counters of `perf stat`, which have no times",
        "record the VM with `ktax exits record`, or with `perf kvm stat record`",
    ),
    (
        "# Overhead",
        "a profile of `perf report`, which has no exits",
        "record the VM with `ktax exits record`, or with `perf kvm stat record`",
    ),
    (
        "Event                                         Total",
        "the counters of `kvm_stat`, which have no times",
        "record the VM with `ktax exits record`",
    ),
];

/// The error about a file without an exit table: what ktax recognised, and what would help.
pub(super) fn unread(text: &str) -> ExitsError {
    let lines: Vec<Line> = text.lines().filter_map(line).collect();
    if !lines.is_empty() {
        return no_kvm(&lines);
    }
    let begins = |sign: &str| text.lines().any(|line| line.trim_start().starts_with(sign));
    let known = KNOWN.iter().find(|(sign, _, _)| begins(sign));
    match known {
        Some((_, what, next)) => {
            ExitsError::Recognised { what: (*what).to_owned(), next: (*next).to_owned() }
        }
        None if text.trim().is_empty() => ExitsError::Empty,
        None => ExitsError::Unknown,
    }
}
