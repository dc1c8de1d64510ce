//! The nouns of [the glossary](../../../docs/glossary.md) as plain data: kernels, rows, plans,
//! comparisons. This crate reads no files, starts no programs, and has JSON as its only format. All
//! other crates exchange these types, and each file that ktax writes has one of them. Results are
//! read by [`read_results`] alone. A new field appears in every file, report and schema.
//!
//! ```
//! let instructions = ktax_model::metric("instructions").expect("the first of METRICS");
//! assert_eq!(instructions.name, ktax_model::METRICS[0].name);
//! ```

/// Defines an enum whose variants have names. Files and the screen have the same names.
macro_rules! named_enum {
    (
        $(#[$meta:meta])*
        pub enum $Enum:ident {
            $($(#[$variant_meta:meta])* $Variant:ident = $name:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        pub enum $Enum {
            $($(#[$variant_meta])* #[serde(rename = $name)] $Variant,)+
        }

        impl $Enum {
            /// All variants, in print order.
            pub const ALL: [$Enum; [$($name),+].len()] = [$($Enum::$Variant),+];

            /// Name in files and on the screen.
            pub const fn name(self) -> &'static str {
                match self {
                    $($Enum::$Variant => $name,)+
                }
            }
        }
    };
}

mod comparison;
mod counters;
mod counts;
mod effect;
mod error;
mod exits;
pub mod fact;
mod failure;
mod guests;
mod history;
mod ledger;
mod machine_model;
mod plan;
mod program;
mod run;
mod saved;
mod subject;
mod times;

pub use comparison::{Comparison, ComparisonMethod, Evidence, Row, RowFailure, Verdict, Warning};
pub use counters::{
    AWAITED, Basic, COUNTERS, Costly, Counter, CounterRow, Counts, IDLE, MAKESPAN, METRICS, Metric,
    Modelled, Msr, SPIN_WAIT, TRANSFERS, metric, plugin_header,
};
pub use counts::{
    AskedCounts, AskedGuest, CountsComparison, CountsEvidence, CountsPlan, Growth, GrowthPower,
    SizePair,
};
pub use effect::{
    Effect, Fallback, FunctionDelta, MIN_DELTA_SHARE_PERCENT, OwnCounts, PathDelta, RowPaths,
    WaitStack, callers, is_one_sided, kept_paths, missing_feature, own_counts, path_names,
    prune_paths,
};
pub use error::{Context as ErrorContext, Error, ErrorKind, Result};
pub use exits::{
    ExitAccount, ExitCounter, ExitEvents, ExitPair, ExitParts, ExitRow, ExitRows, ExitRun,
    ExitTable, MAX_EXIT_REASONS, MissingEvents, OpenExit, RecorderCost, check_exits, exit_warnings,
};
pub use fact::FactDifference;
pub use failure::{Blame, FREE_DISK_GIB, Failure};
pub use guests::{
    AskedGuests, EXITS, GUEST_TIME, GuestRow, GuestSample, GuestSide, GuestSubject, GuestWork,
    GuestsComparison, GuestsEvidence, GuestsPlan, HostKind, RawKind, TIME,
};
pub use history::{
    AnchorDifference, Bisection, Carrier, Chain, Element, History, HistoryAsked, HistoryLine,
    HistoryPoint, Point, PreviousDifference, StepFunction,
};
pub use ledger::{
    AlreadyOn, LedgerCost, LedgerCosts, LedgerEntry, LedgerExits, LedgerInteraction, LedgerMethod,
    LedgerMetric, LedgerRow, LedgerTable, OpenEnd,
};
pub use machine_model::{
    Branches, CYCLES, CacheLine, CacheSize, Calibration, CalibrationFit, CalibrationRow,
    CalibrationTable, Estimate, Fitted, LowHigh, MachineModel, Memory, Model, Share, TlbSize,
    ValidatedRow, Validation, hull,
};
pub use plan::{
    ByMethod, CampaignPlan, CampaignSubject, CampaignUnit, Measurand, MeasuredLayout, Measurement,
    Method, Plan, PlanMethod, RUNNER, Region, Shard, Signature, Workload, family,
};
pub use program::{
    CountedOperations, NamedFiles, ProgramSize, ProgramWork, TracedCall, TransferredBytes,
    UserProgram, WorkDifference, WorkEvidence,
};
pub use run::{
    Boot, Context, CpuActivity, CpuPosition, CpuTime, ELAPSED, MedianInterval, MsrLine,
    NativeColumn, NativeRow, NativeSample, NativeTable, Outcome, ParallelWork, Path, PrintedEnd,
    Profile, ProfileLine, Repeats, Run, STAT_COUNTERS, Sample, StatChange, StatCommand, StatCount,
    StatCounter, StatCounts, StatRow, StatTable, Summary,
};
pub use saved::{Saved, SavedError, SavedResult, read_results, result_schema};
pub use subject::{
    Arch, BlockDevice, CONTENDED_QUANTUM, Disk, Identity, ImageFormat, Key, Layout, Machine,
    QUANTUM, Side, Sides, Step, Subject, boot_parameters, module_and_parameters,
    unquoted_parameter,
};
pub use times::{
    AaControl, Accelerator, AskedTimes, Crossing, Facts, NativeProgramsIdentity, Noise, PairRatio,
    Ratio, RunsOn, TimedBlock, TimedBoot, TimedMachine, TimedPair, TimedRun, TimedSubject,
    TimesComparison, TimesEvidence, TimesPlan,
};

/// Version of all file formats of ktax. Readers refuse other versions.
pub const FORMAT: u32 = 3;

/// True if the field has its default value and is left out of JSON.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
