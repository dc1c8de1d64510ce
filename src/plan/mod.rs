//! Request → ordered, seeded, paired list of Boots. No side effects.

mod bisect;
mod definitions;
mod document;
mod experiment;
mod guests;
mod layouts;
mod ledger;
mod native;
mod param;
mod quantity;
mod rows;
mod select;
mod timed;

use thiserror::Error;

use crate::model::{FORMAT, Identity, Key, Plan, Side, Sides, Step, Workload};

pub use bisect::{chain, elements, subject_after};
pub use definitions::{Definition, definitions};
pub use document::Document;
pub use experiment::Experiment;
pub use guests::{
    Feature, GuestExperiment, GuestFile, GuestSubject, GuestWork, RawSubject, RawWork,
};
pub use ledger::{Ledger, TOGETHER};
pub use native::native_rows;
pub use param::{Param, Value};
pub use select::{find, select};
pub use timed::{TimedExperiment, has_own_ops, with_ops};

/// Why there is no Plan. Each message ends with the next step.
#[derive(Debug, Error, PartialEq)]
pub enum PlanError {
    #[error("{path} is no experiment: {reason}; experiments/lsm.toml shows every key")]
    Experiment { path: String, reason: String },
    #[error("{path} is no experiment of times: {reason}; docs/timed.md shows every key")]
    TimedExperiment { path: String, reason: String },
    #[error("{path} is no ledger: {reason}; `ktax ledger --help` shows one")]
    Ledger { path: String, reason: String },
    #[error("{path}: {reason}")]
    Definition { path: String, reason: String },
    #[error("no workload is called {name:?}{}; `ktax workloads` lists them", hint(.near))]
    UnknownWorkload { name: String, near: Option<String> },
    #[error("{workload} has no parameter {name:?}; it has {known}")]
    UnknownParameter { workload: String, name: String, known: String },
    #[error("{text:?} is no parameter of {workload}; write it as NAME=VALUE")]
    BadParameter { workload: String, text: String },
    #[error("{text:?} is no work of such a guest; write raw:KIND=N with one of {kinds}")]
    NoWork { text: String, kinds: String },
    #[error("{name} of {workload} is given twice; give it once")]
    ParameterTwice { workload: String, name: String },
    #[error("{name} of {row} is for the running kernel; use `ktax workloads run`")]
    NativeOnly { row: String, name: String },
    #[error("ops of {workload} cannot be {value:?}; it takes numbers from 1")]
    Operations { workload: String, value: String },
    #[error("{name} of {workload} cannot be {value:?}; it takes {range}")]
    ParameterValue { workload: String, name: String, value: String, range: String },
    #[error("{workload}: {quantity} is beyond every machine; ask for less")]
    TooMuch { workload: String, quantity: String },
    #[error("{row} needs {needed_mib} MiB of memory and there are {there_mib}; ask for less")]
    TooLarge { row: String, needed_mib: u64, there_mib: u64 },
    #[error("no workload is in the group {group:?}; the groups are {known}")]
    UnknownGroup { group: String, known: String },
    #[error("{row} is named twice; name each row once")]
    Twice { row: String },
    #[error("no workload is named; leave `workloads` out for all of them")]
    NoWorkload,
    #[error(
        "no workload is named, and of times none is measured by itself; name rows with -w, or as \
         `workloads` in a file"
    )]
    NoTimedWorkload,
    #[error(
        "engine {engine:?} is none of this command's; write \"exact\", or for `ktax compare` \
         \"host\" or \"kvm\""
    )]
    Engine { engine: String },
    #[error("layouts must be 1 to 99, not {layouts}; 5 is the default")]
    Layouts { layouts: u32 },
    #[error("the threshold must be 0 to 100 percent, not {threshold_percent}; 0.1 is the default")]
    Threshold { threshold_percent: f64 },
    #[error(
        "the threshold must be above 0 and at most 100 percent, not {threshold_percent}; 1 is the \
         default of times"
    )]
    TimedThreshold { threshold_percent: f64 },
    #[error("{what} must be {least} to {most}, not {value}; leave it out for the default")]
    Range { what: &'static str, value: u32, least: u32, most: u32 },
    #[error("the {engine} engine has no {what}; take it out, or name another engine")]
    NotOfEngine { what: &'static str, engine: &'static str },
    #[error("{name:?} cannot be swept: {reason}")]
    Sweep { name: String, reason: String },
    #[error("the kvm engine needs a kernel for each side; write kernel = \"debian:cloud-amd64\"")]
    NoKernel,
    #[error("memory_mib must be 128 to 65536, not {memory_mib}; 512 is the default")]
    Memory { memory_mib: u32 },
    #[error("a boot line has {length} characters, 1800 is the most that fit; shorten it")]
    BootLine { length: usize },
    #[error("there is nothing to bisect: {reason}")]
    NoChain { reason: String },
    #[error("{what} must be one printable line of ASCII; take the rest out")]
    Unprintable { what: &'static str },
}

fn hint(near: &Option<String>) -> String {
    near.as_ref().map(|near| format!(" (did you mean {near:?}?)")).unwrap_or_default()
}

/// Refuses rows that cannot fit: a quarter is left for the kernel and everything else.
pub fn check_memory(workloads: &[Workload], there_bytes: u64) -> Result<(), PlanError> {
    let fits = |workload: &&Workload| workload.memory_bytes <= there_bytes / 4 * 3;
    match workloads.iter().find(|workload| !fits(workload)) {
        None => Ok(()),
        Some(workload) => Err(PlanError::TooLarge {
            row: workload.row.clone(),
            needed_mib: workload.memory_bytes >> 20,
            there_mib: there_bytes >> 20,
        }),
    }
}

/// Refuses parameters that no guest understands.
fn check_for_guest(definitions: &[Definition], workload: &Workload) -> Result<(), PlanError> {
    let name = workload.row.split(':').next().unwrap_or_default();
    let definition = find(definitions, name)?;
    for (name, param) in definition.params.iter().filter(|(_, param)| param.native_only) {
        let default = param.number(&definition.name, name, &param.default)?;
        if workload.params.get(name) != Some(&default) {
            return Err(PlanError::NativeOnly { row: workload.row.clone(), name: name.clone() });
        }
    }
    Ok(())
}

/// Orders the Boots of an Experiment: each Layout is a pair of adjacent Steps, its first Side
/// drawn.
pub fn plan(
    experiment: &Experiment,
    kernels: Sides<Identity>,
    key: Key,
) -> Result<Plan, PlanError> {
    let definitions = definitions()?;
    let workloads = select(&definitions, experiment.workloads.as_deref())?;
    for workload in &workloads {
        check_for_guest(&definitions, workload)?;
    }
    check_memory(&workloads, u64::from(experiment.machine.memory_mib) << 20)?;
    let (layouts, firsts) = layouts::draw(experiment.seed, experiment.layouts);
    let pairs = firsts.iter().enumerate().flat_map(|(layout, first)| match first {
        Side::Base => [(layout, Side::Base), (layout, Side::Change)],
        Side::Change => [(layout, Side::Change), (layout, Side::Base)],
    });
    let steps = (0..).zip(pairs).map(|(index, (layout, side))| Step { index, side, layout });
    Ok(Plan {
        format: FORMAT,
        title: experiment.title.clone(),
        key,
        seed: experiment.seed,
        threshold_percent: experiment.threshold_percent,
        machine: experiment.machine.clone(),
        subjects: Sides { base: experiment.base.clone(), change: experiment.change.clone() },
        kernels,
        workloads,
        steps: steps.collect(),
        layouts,
    })
}
