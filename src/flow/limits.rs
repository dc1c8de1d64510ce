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
    [measuring(), timing(), files()].concat()
}

fn limit(what: &'static str, bounds: String, usual: impl ToString) -> Limit {
    Limit { what, bounds, usual: usual.to_string() }
}

fn between<T: std::fmt::Display>(range: std::ops::RangeInclusive<T>) -> String {
    format!("{} to {}", range.start(), range.end())
}

fn measuring() -> Vec<Limit> {
    let machine = Machine::default();
    let several = Machine::with_cpus(4).default_layouts();
    vec![
        limit(
            "CPUs of a counted guest (`--cpus`)",
            between(bounds("machine.cpus", Method::Counts)),
            machine.cpus,
        ),
        limit(
            "CPUs of a timed guest (`--cpus --engine kvm`)",
            between(bounds("machine.cpus", Method::Times)),
            machine.cpus,
        ),
        limit("CPUs of a guest of a KVM host (`cpus`)", between(GuestSubject::CPUS), 1),
        limit(
            "memory of a guest in MiB (`--memory`)",
            between(bounds("machine.memory_mib", Method::Counts)),
            machine.memory_mib,
        ),
        limit(
            "layouts of a side (`--layouts`)",
            between(bounds("layouts", Method::Counts)),
            format!("{}; {several} with several CPUs", machine.default_layouts()),
        ),
        limit(
            "instructions of a slice of several CPUs (`--quantum`)",
            between(bounds("machine.quantum", Method::Counts)),
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
        limit("shards of a campaign (`--shards`)", between(SHARD_COUNTS), "ten minutes each"),
    ]
}

fn timing() -> Vec<Limit> {
    vec![
        limit(
            "pairs (`--pairs`)",
            between(bounds("pairs", Method::Times)),
            "as many as a verdict needs",
        ),
        limit("most pairs (`--most-pairs`)", between(bounds("most_pairs", Method::Times)), ""),
        limit(
            "loops of a row in a timed boot (`--loops`)",
            between(bounds("loops", Method::Times)),
            "",
        ),
        limit(
            "CPUs that timed guests run on (`--cores`)",
            between(bounds("machine.cores", Method::Times)),
            "",
        ),
    ]
}

fn files() -> Vec<Limit> {
    let most = |bytes: u64| format!("at most {}", binary_size(bytes));
    vec![
        limit("size of the cache (`--cache-size`)", "from 0".to_owned(), Budget::default()),
        limit("experiment, ledger or campaign file", most(FILE_MAX), ""),
        limit("page or file of `--json` that is read", most(RESULT_MAX), ""),
        limit("file of a run directory", most(rundir::FILE_MAX), ""),
        limit("file of a store", most(store::FILE_MAX), ""),
        limit("measurement of a store, unpacked", most(store::MEASUREMENT_MAX), ""),
        limit("profiles of a measurement, of all layouts", most(store::PROFILES_MAX), ""),
        limit("result of a store, unpacked", most(store::RESULT_MAX), ""),
        limit("characters of a tag", format!("at most {}", store::MAX_TAG_LENGTH), ""),
        limit("trace or timing file of `ktax exits report`", most(files::FILE_MAX), ""),
    ]
}
