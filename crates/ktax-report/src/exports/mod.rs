//! Call paths of a row for other programs: a file for each form, whose names and numbers are what
//! those programs read. Names of functions have letters, digits and `_.$[]+-` alone.
//!
//! A new form is a file with an `EXPORT` in it, and a line in the list below.

mod callgrind;
mod export;
mod folded;
mod lkp;
mod pprof;
mod stacks;
mod svg;

pub use export::Export;

/// All forms.
pub const EXPORTS: [Export; 5] =
    [folded::EXPORT, pprof::EXPORT, callgrind::EXPORT, lkp::EXPORT, svg::EXPORT];

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_model::{Context, METRICS, PathDelta, RowPaths, Side, Sides};

    /// Two functions wait for a lock, and a process leaves its CPU idle in the first.
    fn waits() -> RowPaths {
        let both = |count: u64| Sides { base: count, change: 2 * count };
        let path = |depth: u32, function: &str, wait: u64, idle: u64| PathDelta {
            wait: both(wait),
            idle: both(idle),
            ..PathDelta::with_instructions(depth, function, 100 - u64::from(depth), 90)
        };
        let paths =
            vec![path(0, "entry", 50, 7), path(1, "alloc_fd", 30, 7), path(1, "close_fd", 20, 0)];
        RowPaths {
            row: "dup".to_owned(),
            ops: 1,
            operation: "one".to_owned(),
            metric: METRICS[0].name.to_owned(),
            spread: 0.0,
            contexts: [(Context::Process, paths)].into(),
        }
    }

    #[test]
    fn what_cpus_wait_is_below_who_takes_the_lock() {
        let folded = String::from_utf8(folded::EXPORT.of(&waits(), None)).unwrap();
        for line in [
            "[process];entry;alloc_fd;[spin-wait] 30 60",
            "[process];entry;alloc_fd;[idle] 7 14",
            "[process];entry;close_fd;[spin-wait] 20 40",
        ] {
            assert!(folded.lines().any(|found| found == line), "{line}: {folded}");
        }
        // A caller waits only in what it calls.
        assert_eq!(folded.matches("[spin-wait]").count(), 2, "{folded}");
        let callgrind =
            String::from_utf8(callgrind::EXPORT.of(&waits(), Some(Side::Base))).unwrap();
        assert!(callgrind.contains("events: Instructions RepIterations SpinWait Idle\n"));
        assert!(callgrind.contains("cfn=alloc_fd\ncalls=1 0\n0 99 0 30 7\n"), "{callgrind}");
    }

    #[test]
    fn a_form_without_what_decides_the_row_says_so() {
        let of = |metric: &str| {
            let paths = RowPaths {
                row: "stat".to_owned(),
                ops: 1,
                operation: "one".to_owned(),
                metric: metric.to_owned(),
                spread: 0.0,
                contexts: Default::default(),
            };
            EXPORTS.map(|form| (form.name, form.remark(&paths).is_some()))
        };
        assert!(of(METRICS[0].name).iter().all(|(_, is_said)| !is_said));
        let said: Vec<&str> =
            of("rep-iterations").iter().filter(|it| it.1).map(|it| it.0).collect();
        assert_eq!(said, ["folded", "lkp"]);
    }
}
