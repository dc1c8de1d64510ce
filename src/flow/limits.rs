//! The limits of ktax, as the table of docs/limits.md shows them.

use super::results::{FILE_MAX, RESULT_MAX};
use crate::cache::Budget;
use crate::engine::Limits;
use crate::exits::files;
use crate::model::{CONTENDED_QUANTUM, GuestSubject, Machine, Method, QUANTUM};
use crate::plan::{
    MAX_BOOT_LINE, SHARD_COUNTS, THRESHOLD_PERCENT, TIMED_THRESHOLD_PERCENT, bounds,
};
use crate::text::binary_size;
use crate::{rundir, store};

/// Limit, its bounds and its default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// Limited quantity, with the option or key that sets it.
    pub what: &'static str,
    /// Minimum and maximum, or the maximum alone.
    pub bounds: String,
    /// Default; empty if it cannot be set.
    pub usual: String,
}

/// All limits of the table, from the constants that enforce them.
pub fn limits() -> Vec<Limit> {
    [counting_limits(), timing_limits(), file_limits()].concat()
}

fn limit(what: &'static str, bounds: String, usual: impl ToString) -> Limit {
    Limit { what, bounds, usual: usual.to_string() }
}

fn range_text<T: std::fmt::Display>(range: std::ops::RangeInclusive<T>) -> String {
    format!("{} to {}", range.start(), range.end())
}

fn counting_limits() -> Vec<Limit> {
    let machine = Machine::default();
    let layouts_of_several_cpus = Machine::with_cpus(4).default_layouts();
    vec![
        limit(
            "CPUs of a counted guest (`--cpus`)",
            range_text(bounds("machine.cpus", Method::Counts)),
            machine.cpus,
        ),
        limit(
            "CPUs of a timed guest (`--cpus --engine kvm`)",
            range_text(bounds("machine.cpus", Method::Times)),
            machine.cpus,
        ),
        limit("CPUs of a guest of a KVM host (`cpus`)", range_text(GuestSubject::CPUS), 1),
        limit(
            "memory of a guest in MiB (`--memory`)",
            range_text(bounds("machine.memory_mib", Method::Counts)),
            machine.memory_mib,
        ),
        limit(
            "layouts of a side (`--layouts`)",
            range_text(bounds("layouts", Method::Counts)),
            format!("{}; {layouts_of_several_cpus} with several CPUs", machine.default_layouts()),
        ),
        limit(
            "instructions of a slice of several CPUs (`--quantum`)",
            range_text(bounds("machine.quantum", Method::Counts)),
            format!("{QUANTUM}; {CONTENDED_QUANTUM} while CPUs wait for each other"),
        ),
        limit(
            "smallest change that gets a verdict in percent (`--threshold`)",
            "0 to 100".to_owned(),
            format!("{}; timed: {}", THRESHOLD_PERCENT, TIMED_THRESHOLD_PERCENT),
        ),
        limit("characters of a boot line", format!("at most {}", MAX_BOOT_LINE), ""),
        limit(
            "CPU time of a boot or a run in seconds (`--time-limit`)",
            "from 1".to_owned(),
            Limits::default().time.as_secs(),
        ),
        limit("shards of a campaign (`--shards`)", range_text(SHARD_COUNTS), "ten minutes each"),
    ]
}

fn timing_limits() -> Vec<Limit> {
    vec![
        limit(
            "pairs (`--pairs`)",
            range_text(bounds("pairs", Method::Times)),
            "as many as a verdict needs",
        ),
        limit("most pairs (`--most-pairs`)", range_text(bounds("most_pairs", Method::Times)), ""),
        limit(
            "loops of a row in a timed boot (`--loops`)",
            range_text(bounds("loops", Method::Times)),
            "",
        ),
        limit(
            "CPUs that timed guests run on (`--cores`)",
            range_text(bounds("machine.cores", Method::Times)),
            "",
        ),
    ]
}

fn file_limits() -> Vec<Limit> {
    let at_most = |bytes: u64| format!("at most {}", binary_size(bytes));
    vec![
        limit("size of the cache (`--cache-size`)", "from 0".to_owned(), Budget::default()),
        limit("experiment, ledger or campaign file", at_most(FILE_MAX), ""),
        limit("page or file of `--json` that is read", at_most(RESULT_MAX), ""),
        limit("file of a run directory", at_most(rundir::FILE_MAX), ""),
        limit("file of a store", at_most(store::FILE_MAX), ""),
        limit("measurement of a store, unpacked", at_most(store::MEASUREMENT_MAX), ""),
        limit("profiles of a measurement, of all layouts", at_most(store::PROFILES_MAX), ""),
        limit("result of a store, unpacked", at_most(store::RESULT_MAX), ""),
        limit("characters of a tag", format!("at most {}", store::MAX_TAG_LENGTH), ""),
        limit("trace or timing file of `ktax exits report`", at_most(files::FILE_MAX), ""),
    ]
}
