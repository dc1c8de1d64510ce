//! The nouns of [the glossary](../../../docs/glossary.md) as plain data: kernels, rows, plans,
//! comparisons. Nothing here reads a file, starts a program or knows a format but JSON. Every other
//! crate speaks in these types, and what ktax keeps on disk is one of them. [`read_results`] is the
//! only reader of results. A field that is added here is in every file, report and schema.
//!
//! ```
//! let instructions = ktax_model::metric("instructions").expect("the first of METRICS");
//! assert_eq!(instructions.name, ktax_model::METRICS[0].name);
//! ```

mod bisection;
mod blame;
pub mod boot_line;
mod calibration;
mod call_paths;
mod campaign;
mod coherence;
mod comparison;
mod costly;
mod counts;
mod disk;
mod effect;
mod exits;
pub mod fact;
mod failure;
mod fallback;
mod growth;
mod guests;
mod history;
mod kernel;
mod layout;
mod ledger;
mod machine_model;
mod measurement;
mod metric;
mod modelled;
mod msr;
mod named_files;
mod native;
mod next_step;
mod parallel;
mod plan;
mod program;
mod program_work;
mod run;
mod saved;
mod space;
mod stat;
mod subject;
mod tally;
mod times;
mod traced;
mod validation;
mod verdict;
mod warning;
mod workload;

pub use bisection::{Bisection, Carrier, Chain, Element, Point};
pub use blame::Blame;
pub use calibration::{
    CYCLES, Calibration, CalibrationFit, CalibrationRow, CalibrationTable, Estimate, Fitted,
    LowHigh, hull,
};
pub use call_paths::{
    LITTLE_OF_DELTA_PERCENT, Own, PathDelta, RowPaths, WaitStack, callers, kept, own, stack,
    without_below,
};
pub use campaign::{CampaignPlan, CampaignSubject, CampaignUnit, Shard};
pub use coherence::{CacheLine, Memory};
pub use comparison::{Comparison, ComparisonMethod, Evidence, Row, RowFailure};
pub use costly::{Costly, CostlyCounts};
pub use counts::{CountsComparison, CountsEvidence, CountsPlan, OfSizes, Subjects};
pub use disk::{BlockDevice, Disk};
pub use effect::{Effect, FunctionDelta};
pub use exits::{
    ExitAccount, ExitCounter, ExitEvents, ExitPair, ExitParts, ExitRow, ExitRows, ExitRun,
    ExitTable, MissingEvents, OpenExit, RecorderCost,
};
pub use fact::FactDifference;
pub use failure::Failure;
pub use fallback::{Fallback, has_one_side, lacking};
pub use growth::{Growth, GrowthPower};
pub use guests::{
    EXITS, GUEST_TIME, GuestRow, GuestSample, GuestSide, GuestSubject, GuestWork, GuestsComparison,
    GuestsEvidence, GuestsPlan, HostKind, RawKind, TIME,
};
pub use history::{
    AgainstAnchor, AgainstBefore, History, HistoryAsked, HistoryLine, HistoryPoint, StepFunction,
};
pub use kernel::{Arch, Identity, ImageFormat};
pub use layout::{Key, Layout, Step, module_and_parameters};
pub use ledger::{
    AlreadyOn, LedgerCost, LedgerCosts, LedgerEntry, LedgerExits, LedgerInteraction, LedgerMethod,
    LedgerMetric, LedgerRow, LedgerTable, OpenEnd,
};
pub use machine_model::{Branches, CacheSize, MachineModel, TlbSize};
pub use measurement::{AskedGuest, Measurand, MeasuredLayout, Measurement};
pub use metric::{AWAITED, IDLE, MAKESPAN, METRICS, Metric, SPIN_WAIT, TRANSFERS, metric};
pub use modelled::{Model, Modelled, ModelledCounts};
pub use msr::Msr;
pub use named_files::NamedFiles;
pub use native::{NativeColumn, NativeRow, NativeSample, NativeTable, Summary};
pub use parallel::{CpuPlace, CpuTime, Doing, Parallel};
pub use plan::{Plan, PlanMethod};
pub use program::{ProgramSize, UserProgram};
pub use program_work::{
    CountedOperations, ProgramWork, TransferredBytes, WorkDifference, WorkEvidence,
};
pub use run::{
    Boot, Context, Counts, MsrLine, Outcome, Path, PrintedEnd, Profile, ProfileLine, Run, Sample,
};
pub use saved::{
    EXIT_REASONS_MAX, ExitFault, Saved, SavedError, SavedResult, check_exits, read_results,
};
pub use space::FREE_DISK_GIB;
pub use stat::{
    COUNTERS, Count, Counted, Counter, ELAPSED, MedianInterval, Repeats, StatChange, StatCommand,
    StatRow, StatTable,
};
pub use subject::{CONTENDED_QUANTUM, Machine, QUANTUM, Side, Sides, Subject};
pub use tally::{Tallied, Tally};
pub use times::{
    AaControl, Accelerator, Crossing, Facts, Noise, PairRatio, ProgramsHere, Ratio, RunsOn,
    TimedBlock, TimedBoot, TimedMachine, TimedPair, TimedRun, TimedSubject, TimesComparison,
    TimesEvidence, TimesPlan,
};
pub use traced::TracedCall;
pub use validation::{Share, ValidatedRow, Validation};
pub use verdict::Verdict;
pub use warning::Warning;
pub use workload::{RUNNER, Region, Signature, Workload, family};

/// The version of every file format that ktax writes; a reader refuses any other.
pub const FORMAT: u32 = 3;
