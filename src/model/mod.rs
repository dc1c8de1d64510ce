//! The nouns of [the glossary](../../docs/glossary.md): plain data, no I/O, nothing of ours beneath
//! them.

mod bisection;
mod blame;
mod comparison;
mod exits;
pub mod fact;
mod failure;
mod kernel;
mod ledger;
mod metric;
mod native;
mod plan;
mod run;
mod stat;
mod subject;
mod timed;
mod timed_comparison;
mod warning;
mod workload;

pub use bisection::{Bisection, Carrier, Chain, Element, Point};
pub use blame::Blame;
pub use comparison::{
    Comparison, Effect, FunctionDelta, Growth, Row, RowFailure, Subjects, Verdict,
};
pub use exits::{ExitAccount, ExitParts, ExitRow, ExitRun, ExitTable, OpenExit, RecorderCost};
pub use fact::FactDifference;
pub use failure::Failure;
pub use kernel::{Arch, Format, Identity};
pub use ledger::{LedgerEntry, LedgerRow, LedgerTable};
pub use metric::{Assumption, Better, METRICS, Metric, metric};
pub use native::{NativeColumn, NativeRow, NativeSample, NativeTable, Summary};
pub use plan::{Key, Layout, Plan, Step};
pub use run::{Boot, Context, Counts, Outcome, Profile, ProfileLine, Run, Sample};
pub use stat::{
    COUNTERS, Count, Counted, Counter, ELAPSED, MedianInterval, Repeats, StatChange, StatCommand,
    StatRow, StatTable,
};
pub use subject::{Machine, Side, Sides, Subject};
pub use timed::{
    Accelerator, Facts, Noise, TimedBlock, TimedBoot, TimedEngine, TimedMachine, TimedPair,
    TimedPlan, TimedRun, TimedSubject,
};
pub use timed_comparison::{
    AaControl, Crossing, Ratio, TimedComparison, TimedFailure, TimedRow, TimedVerdict,
};
pub use warning::Warning;
pub use workload::{Region, Signature, Workload, family};

/// The version of every file format that ktax writes; a reader refuses any other.
pub const FORMAT: u32 = 1;
