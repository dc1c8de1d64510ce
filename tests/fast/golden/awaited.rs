//! Kernel threads that a row waits for decide; those in the background do not.

use ktax::analyse::counts;
use ktax::model::{AWAITED, Comparison, Failure, Side, Signature, Verdict};

use super::fixtures::{Line, Made, run_dir};
use super::text;

type Measured = Result<(Vec<Line>, Signature), Failure>;

fn lines(side: Side, context: &'static str) -> Measured {
    let base = [("process", "ksys_fsync", 300, 0), (context, "jbd2_commit", 27_000, 0)];
    let more = (context, "crc32_body", 5_400, 0);
    let change = (side == Side::Change).then_some(more);
    Ok((base.into_iter().chain(change).collect(), Signature::new()))
}

fn fsync(side: Side, _: usize) -> Measured {
    lines(side, "awaited")
}

fn tick(side: Side, _: usize) -> Measured {
    lines(side, "kthread")
}

/// Two rows of which the process executes the same, and a kernel thread more.
fn comparison() -> Comparison {
    let rows: [Made; 2] = [("fsync", "one fsync", fsync), ("tick", "one second", tick)];
    let root = tempfile::tempdir().unwrap();
    counts(&run_dir(&root.path().join("run"), "Checksums in the journal", 5, &rows)).unwrap()
}

#[test]
fn a_row_is_slower_by_the_kernel_threads_that_it_waits_for() {
    let comparison = comparison();
    let [fsync, tick] = &comparison.rows[..] else { panic!("{comparison:?}") };
    let decided_by = &fsync.counts().unwrap().decided_by;
    assert_eq!((fsync.verdict, decided_by.as_str()), (Verdict::Slower, AWAITED));
    let carried = &fsync.deciding().unwrap().functions[0];
    assert_eq!((carried.function.as_str(), carried.delta), ("crc32_body", 5_400.0));
    // What runs in the background is no part of the row.
    assert_eq!(tick.verdict, Verdict::NoDetectedChange);
    assert!(tick.effect(AWAITED).is_none(), "{tick:?}");
    let page = text(&comparison, 100);
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for shown in [
        "fsync 300.01 300.01 0 0 0 0.10 crc32_body 100 % slower (kernel threads)",
        "tick 300.01 300.01 0 0 0 0.10 no detected change",
        "fsync 27 000.00 32 400.00 +20.00 +20.0 slower",
        "in percent of the row's base (no verdict rests on them)",
        "tick kthread 27 000.00 → 32 400.00 +5 400.00 +1 800 more",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
}
