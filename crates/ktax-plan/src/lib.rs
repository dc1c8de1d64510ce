//! Makes a Plan of an Experiment: an ordered, seeded, paired list of Boots. A file or flags become
//! an [`Experiment`], which has one of three [methods](ktax_model::Method). The Plan determines
//! everything that a run does, and the same Experiment gives the same Plan. The built-in
//! experiments, ledgers, machines and workloads are part of this crate. No function has a side
//! effect.
//!
//! ```
//! use ktax_plan::{Experiment, experiments};
//!
//! let audit = experiments().find(|file| file.name == "audit").expect("audit is built in");
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

pub use again::{HistorySteps, history_command, repeat_command, search_command};
pub use campaign::{Campaign, SHARD_COUNTS, SubjectCosts, divide};
pub use counts::CountsExperiment;
pub use experiment::{
    Experiment, ExperimentMethod, built_subjects, check_keys, comparison_title, definition_error,
    experiment_title, layouts_from_seed, method_of, steps_from_seed, unknown_feature_error,
};
pub use file::{DiskKeys, ExperimentFile, SubjectKeys, mkfs_program};
pub use guests::GuestsExperiment;
pub use keys::{
    ExperimentKey, KEYS, MAX_BOOT_LINE, MachineFlag, MachineKeys, THRESHOLD_PERCENT,
    TIMED_THRESHOLD_PERCENT, bounds, help, keys_table,
};
#[doc(inline)]
pub use ktax_engine::{ENGINES, EngineEntry};
pub use ledger::{ALL_ADDITIONS, Ledger, chain, elements, subject_after};
pub use models::{
    BuiltIn, ModelKey, experiments, ledgers, machine_title, machines, model_names, ranking_machine,
};
pub use program::{ProgramKeys, own_setup, program_rows, sysctl_file};
pub use times::{TimesExperiment, has_own_ops, with_ops};
pub use workloads::{
    Definition, Document, Param, ParamValue, TouchedTable, TouchingRow, check_memory, definitions,
    find_definition, native_names, native_rows, parse_user_definition, select_rows, unique_rows,
    with_definitions, workload_names,
};
