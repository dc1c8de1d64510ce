//! Experiment → Plan: an ordered, seeded, paired list of Boots. A file or flags become an
//! [`Experiment`], which has one of three [methods](ktax_model::Method). The Plan says everything
//! that a run will do, and the same Experiment gives the same Plan. Experiments, ledgers, machines
//! and workloads that ship are part of this crate. Nothing here has a side effect.
//!
//! ```
//! use ktax_plan::{Experiment, experiments};
//!
//! let audit = experiments().find(|file| file.name == "audit").expect("it ships");
//! assert!(Experiment::parse(audit.text, "audit.toml").is_ok());
//! ```

mod again;
mod campaign;
mod counts;
mod defaults;
mod experiment;
mod file;
mod guests;
mod keys;
mod ledger;
mod models;
mod program;
mod times;
mod workloads;

pub use again::{HistorySteps, again, history_again, search_again};
pub use campaign::{Campaign, Costs, SHARDS, divide};
pub use counts::CountsExperiment;
pub use experiment::{
    Experiment, ExperimentMethod, built_subjects, check_keys, definition_error, layouts_of,
    method_of, steps_of, title, title_of, unknown_feature,
};
pub use file::{DiskKeys, ExperimentFile, SubjectKeys, mkfs};
pub use guests::GuestsExperiment;
pub use keys::{
    ExperimentKey, KEYS, LONGEST_BOOT_LINE, MachineFlag, MachineKeys, THRESHOLD_PERCENT,
    TIMED_THRESHOLD_PERCENT, bounds, help, keys_table,
};
#[doc(inline)]
pub use ktax_engine::{ENGINES, EngineEntry};
pub use ledger::{Ledger, TOGETHER, chain, elements, subject_after};
pub use models::{
    BuiltIn, ModelKey, experiments, ledgers, machine_title, machines, measured_machine, model_names,
};
pub use program::{ProgramKeys, own_setup, program_rows, sysctl_file};
pub use times::{TimesExperiment, has_own_ops, with_ops};
pub use workloads::{
    Definition, Document, Param, ParamValue, TouchedTable, TouchingRow, check_memory, definition,
    definitions, each_once, find, names, native_names, native_rows, select, with_definitions,
};
