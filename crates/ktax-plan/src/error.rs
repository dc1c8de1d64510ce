// The messages say what the fields are.
#![allow(missing_docs)]

use std::ops::RangeInclusive;

use thiserror::Error;

use super::bounds::{self, LAYOUTS, MEMORY_MIB};
use crate::keys::with_flag;
use ktax_host::text::shell_path;
use ktax_model::{Blame, MachineModel};

/// Errors of experiments and plans. Each message ends with the next step.
#[derive(Debug, Error, PartialEq)]
pub enum PlanError {
    #[error("{path} is not an experiment file: {reason}. `ktax compare --help` shows one")]
    Experiment { path: String, reason: String },
    #[error("{path} is not a ledger file: {reason}. `ktax ledger --help` shows one")]
    Ledger { path: String, reason: String },
    #[error("{path} is not a campaign file: {reason}. `ktax campaign plan --help` shows one")]
    Campaign { path: String, reason: String },
    #[error(
        "{path} is a campaign: it has subjects. Plan it with `ktax campaign plan {}`",
        shell_path(.path)
    )]
    IsCampaign { path: String },
    #[error(
        "{path} is a ledger: it has additions. Run it with `ktax ledger {}`",
        shell_path(.path)
    )]
    IsLedger { path: String },
    #[error(
        "{path} is an experiment: it has no additions. Run it with `ktax compare {}`",
        shell_path(.path)
    )]
    IsExperiment { path: String },
    #[error(
        "{} only applies to {applies_to}, and this experiment uses {uses}; remove it",
        with_flag(.key)
    )]
    Misplaced { key: String, applies_to: String, uses: String },
    #[error("{key} is missing; {next}")]
    Missing { key: &'static str, next: &'static str },
    #[error("{path}: {reason}")]
    Definition { path: String, reason: String },
    #[error("no workload is called {name:?}{}; `ktax workloads` lists them", hint(.near))]
    UnknownWorkload { name: String, near: Option<String> },
    #[error("{workload} has no parameter {name:?}; it has {known}")]
    UnknownParameter { workload: String, name: String, known: String },
    #[error("{text:?} is not a parameter of {workload}; write NAME=VALUE")]
    BadParameter { workload: String, text: String },
    #[error("{text:?} is not work for a guest of this host; write raw:KIND=N with one of {kinds}")]
    NoWork { text: String, kinds: String },
    #[error(
        "{text:?} has a number that no guest of this host can do; write raw:{kind}=N with N from \
         {} to {}",
        .range.start(), .range.end()
    )]
    RawTimes { text: String, kind: String, range: RangeInclusive<u32> },
    #[error("the workload {name} is defined twice, or ktax has one; give yours another name")]
    DefinedTwice { name: String },
    #[error("{name} of {workload} is given twice; give it once")]
    ParameterTwice { workload: String, name: String },
    #[error("{name} of {row} is for the running kernel; use `ktax workloads run`")]
    NativeOnly { row: String, name: String },
    #[error(
        "{workload} runs a program of this machine, which only `ktax compare` with the exact \
         engine does; choose another workload, or write the program behind --"
    )]
    OnlyCounted { workload: String },
    #[error("ops of {workload} cannot be {value:?}; it takes numbers from 1")]
    Operations { workload: String, value: String },
    #[error("{name} of {workload} cannot be {value:?}; it takes {range}")]
    ParameterValue { workload: String, name: String, value: String, range: String },
    #[error("{workload}: {quantity} is more than any machine has; ask for less")]
    TooMuch { workload: String, quantity: String },
    #[error(
        "{row} needs {needed_mib} MiB of memory, but a row can use at most {} MiB of the \
         {there_mib} MiB that are available (three quarters); choose a smaller row, or provide \
         more memory",
        there_mib / 4 * 3
    )]
    TooLarge { row: String, needed_mib: u64, there_mib: u64 },
    #[error("no workload is in the group {group:?}; the groups are {known}")]
    UnknownGroup { group: String, known: String },
    #[error(
        "{row} is named twice; name each row once, and give a program another name with --name"
    )]
    Twice { row: String },
    #[error("the list of workloads is empty; remove `workloads` to measure all default rows")]
    NoWorkload,
    #[error(
        "no workload is named, and timed engines have no default; name rows with -w ROW, or with \
         `workloads` in the file"
    )]
    NoTimedWorkload,
    #[error(
        "{} must be {} to {}, not {layouts}; remove it to use the default of 5",
        with_flag("layouts"), LAYOUTS.start(), LAYOUTS.end()
    )]
    Layouts { layouts: u32 },
    #[error(
        "{} must be 0 to 100 percent, not {threshold_percent}; remove it to use the default of \
         0.1",
        with_flag("threshold_percent")
    )]
    Threshold { threshold_percent: f64 },
    #[error(
        "{} must be above 0 and at most 100 percent, not {threshold_percent}; remove it to use \
         the default of timed engines, 1",
        with_flag("threshold_percent")
    )]
    TimedThreshold { threshold_percent: f64 },
    #[error(
        "{} must be {least} to {most}, not {value}; remove it to use the default",
        with_flag(.key)
    )]
    Range { key: &'static str, value: u32, least: u32, most: u32 },
    #[error(
        "{} must be {}, not {value}; remove it to use the default of 1",
        with_flag("machine.cpus"),
        bounds::cpus()
    )]
    Cpus { value: u32 },
    #[error("{what} cannot be used with the {engine} engine; remove it, or choose another engine")]
    NotOfEngine { what: &'static str, engine: &'static str },
    #[error(
        "{} cannot be used: only the base can be bare metal, and only if the change is a guest; \
         remove it",
        with_flag(.key)
    )]
    BareMetal { key: &'static str },
    #[error(
        "the base is bare metal, which boots no kernel; remove the base's kernel and \
         --base-boot-line (base.boot_line)"
    )]
    BareMetalBoots,
    #[error(
        "base and change are the same, so there is nothing to compare; change one of them, such as \
         with --change-boot-line or --change-set, or measure noise with {}",
        with_flag("same")
    )]
    Same,
    #[error("cannot sweep {name:?}: {reason}")]
    Sweep { name: String, reason: String },
    #[error(
        "the {engine} engine needs a kernel for each side; write kernel = \"debian:cloud-amd64\""
    )]
    NoKernel { engine: &'static str },
    #[error(
        "{} must be {} to {} MiB, not {memory_mib}; remove it to use the default of 512 MiB",
        with_flag("machine.memory_mib"), MEMORY_MIB.start(), MEMORY_MIB.end()
    )]
    Memory { memory_mib: u32 },
    #[error(
        "--{key} (machine.{key}) only applies to several CPUs; write --cpus 4 (machine.cpus), or \
         remove it"
    )]
    OneCpu { key: &'static str },
    #[error(
        "{name} (--model, machine.model) models one CPU; remove --cpus \
         (machine.cpus), or write --model coherence"
    )]
    OneCpuModelled { name: String },
    #[error(
        "there is no model {name:?}{}; there are {known}, and files, which end in .toml",
        hint(.near)
    )]
    UnknownModel { name: String, near: Option<String>, known: String },
    #[error(
        "a guest whose machine is modelled has at most {} MiB, not {memory_mib}; lower {}",
        MachineModel::MOST_MEMORY_MIB,
        with_flag("machine.memory_mib")
    )]
    ModelledMemory { memory_mib: u32 },
    #[error("cannot model the machine {file:?}: {reason}")]
    Machine { file: String, reason: String },
    #[error(
        "{row} is a whole boot, which only the first of several CPUs executes; remove --cpus \
         (machine.cpus), or leave {row} out"
    )]
    BootOfSeveral { row: String },
    #[error("{row} runs on {wanted} CPUs; write --cpus {wanted} (machine.cpus)")]
    TooFewCpus { row: String, wanted: u64 },
    #[error("a boot line has {length} characters, but at most 1800 fit; shorten it")]
    BootLine { length: usize },
    #[error("KVM has no feature {name:?}{}; it has {known}", hint(.near))]
    UnknownFeature { name: String, near: Option<String>, known: String },
    #[error(
        "the sides differ only in {name}, which no guest of host = \"kvm\" finds, because QEMU's \
         translator would deliver interrupts twice; compare another feature"
    )]
    NeverFound { name: &'static str },
    #[error(
        "a guest cannot have the file system {fs:?}; choose ext4, xfs, btrfs, f2fs, overlay or \
         tmpfs"
    )]
    FileSystem { fs: String },
    #[error(
        "the disk {text:?} cannot be made: {reason}; write it like --disk 'ext4 options=noatime'"
    )]
    Disk { text: String, reason: String },
    #[error("{key} cannot be used: {reason}")]
    Settings { key: String, reason: String },
    #[error("disk.latency_us is of null_blk alone; write device = \"null_blk\"")]
    Latency,
    #[error("the program cannot be run: {reason}")]
    Program { reason: String },
    #[error("cannot bisect: {reason}")]
    NoChain { reason: String },
    #[error("{what} must be one printable line of ASCII; remove all other characters")]
    Unprintable { what: &'static str },
}

impl From<PlanError> for ktax_model::Error {
    fn from(error: PlanError) -> ktax_model::Error {
        ktax_model::Error::blamed(error.blame(), error.to_string())
    }
}

impl PlanError {
    /// Blames the user, who wrote what cannot be planned.
    pub fn blame(&self) -> Blame {
        Blame::User
    }
}

fn hint(near: &Option<String>) -> String {
    near.as_ref().map(|near| format!(" (did you mean {near:?}?)")).unwrap_or_default()
}

/// Refuses a text that is not one line of printable ASCII; `what` names it.
pub(super) fn printable_line(what: &'static str, text: &str) -> Result<(), PlanError> {
    match text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        true => Ok(()),
        false => Err(PlanError::Unprintable { what }),
    }
}

/// Refuses a number that is out of bounds; `key` is its name in a file.
pub(super) fn range(
    key: &'static str,
    value: u32,
    bounds: RangeInclusive<u32>,
) -> Result<(), PlanError> {
    let (least, most) = bounds.into_inner();
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => Err(PlanError::Range { key, value, least, most }),
    }
}
