//! Two versions of the kernel, of which one asks for features of the CPU that the other does not.

use ktax::model::FunctionDelta;

use crate::common::{ktax, run, scratch};

/// QEMU 7.2 has no fast short REP MOVS and STOS, for want of which 6.12 calls `memset_orig`.
#[test]
fn no_row_of_6_1_against_6_12_begins_with_what_a_cpu_lacks() {
    let dir = scratch();
    let comparison = run(ktax()
        .current_dir(dir.path())
        .args(["compare", "--base", "debian:cloud-amd64", "--out", "out", "--json"])
        .args(["--change", "debian:6.12-cloud-amd64", "-w", "@lmbench"]))
    .comparison();
    let mut hidden = Vec::new();
    for row in &comparison.rows {
        let effect = &row.effects()[0];
        let size = |function: &&FunctionDelta| function.delta.abs();
        let Some(first) = effect.functions.first() else { continue };
        assert_eq!(
            effect.missing_feature(&first.function),
            None,
            "{}: {}",
            row.row,
            first.function
        );
        let largest =
            effect.functions.iter().max_by(|first, two| size(first).total_cmp(&size(two)));
        hidden.extend(largest.filter(|most| effect.missing_feature(&most.function).is_some()));
    }
    // Sorted by size alone, these would be first in some.
    let names: Vec<&str> = hidden.iter().map(|most| most.function.as_str()).collect();
    assert!(names.contains(&"memset_orig"), "{names:?}");
    let report = |format: &str| {
        let words = ["report", "out", "--format", format];
        run(ktax().current_dir(dir.path()).args(words)).stdout
    };
    let markdown = report("markdown").replace('\\', "");
    let paths = markdown.lines().filter(|line| line.contains("Call paths that carry most"));
    let mut slow = paths.filter(|line| line.contains("memset_orig")).peekable();
    assert!(slow.peek().is_some(), "{markdown}");
    assert!(slow.all(|line| line.contains("as the CPU lacks FSRS")), "{markdown}");
    // No function carries what a connection repeats less.
    assert!(report("html").contains("lack of FSRM"));
}
