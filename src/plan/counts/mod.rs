//! Experiments that count instructions.

use super::asked::Experiment;
use super::bounds::MEMORY_MIB;
use super::disk;
use super::error::{PlanError, printable_line};
use super::file::ExperimentFile;
use super::layouts;
use super::program::hooks;
use super::programs;
use super::workloads::{
    Definition, check_for_guest, check_memory, each_once, select, with_definitions,
};
use crate::engine::{ENGINES, EngineEntry};
use crate::model::{
    CountsPlan, Disk, Identity, Key, Machine, Plan, Sides, Subject, UserProgram, Workload,
};

/// The kernel takes 2047 characters (COMMAND_LINE_SIZE of arch/x86), and some are ktax's own.
const LONGEST_BOOT_LINE: usize = 1800;

/// What only such an Experiment has.
#[derive(Debug, Clone, PartialEq)]
pub struct CountsExperiment {
    /// The engine that counts.
    pub engine: &'static EngineEntry,
    /// Layouts per Side.
    pub layouts: u32,
    /// Rows by name; where absent the programs, else all default rows.
    pub workloads: Option<Vec<String>>,
    /// The directory of the user's workloads.
    pub workloads_from: Option<String>,
    /// What it defines.
    pub definitions: Vec<Definition>,
    /// The kernel's modules that each guest loads, each with its parameters.
    pub modules: Vec<String>,
    /// The file system of the guest's files.
    pub disk: Option<Disk>,
    /// Programs of the user's and of workload files, of which each is a row.
    pub programs: Vec<UserProgram>,
    /// What runs beside rows that are no programs.
    pub hooks: Option<Box<UserProgram>>,
    /// The shape of the computer, the same for both Sides.
    pub machine: Machine,
    /// What the change is measured against.
    pub base: Subject,
    /// What is measured.
    pub change: Subject,
}

impl CountsExperiment {
    /// Two Subjects, with the defaults of a file that says no more.
    pub fn between(base: Subject, change: Subject) -> CountsExperiment {
        CountsExperiment {
            engine: &ENGINES[0],
            layouts: layouts::DEFAULT,
            workloads: None,
            workloads_from: None,
            definitions: Vec::new(),
            modules: Vec::new(),
            disk: None,
            programs: Vec::new(),
            hooks: None,
            machine: Machine::default(),
            base,
            change,
        }
    }

    pub(super) fn of(file: &ExperimentFile) -> Result<CountsExperiment, PlanError> {
        let missing =
            |key| PlanError::Missing { key, next: "write kernel = \"debian:cloud-amd64\"" };
        let base = file.base.subject().ok_or_else(|| missing("base.kernel"))?;
        let change = file.change.as_ref().and_then(|keys| keys.subject());
        let change = change.ok_or_else(|| missing("change.kernel"))?;
        let usual = Machine::default();
        let machine = Machine {
            cpu: file.machine.cpu.clone().unwrap_or(usual.cpu),
            memory_mib: file.machine.memory_mib.unwrap_or(usual.memory_mib),
        };
        let (defined, workloads) =
            programs::named(&with_definitions(&file.definitions)?, file.workloads.as_deref())?;
        let disk = file.disk.as_ref().map(disk::disk).transpose()?;
        let experiment = CountsExperiment {
            modules: disk::modules(disk.as_ref(), &file.modules),
            disk,
            engine: file.engine.unwrap_or(&ENGINES[0]),
            layouts: file.layouts.unwrap_or(layouts::DEFAULT),
            workloads,
            workloads_from: file.workloads_from.clone(),
            definitions: file.definitions.clone(),
            programs: [programs::programs(&file.program)?, defined].concat(),
            hooks: file.hooks.as_ref().map(hooks).transpose()?.map(Box::new),
            machine,
            base,
            change,
        };
        experiment.check()?;
        Ok(experiment)
    }

    /// Refuses what cannot be planned; call it again after changing a field.
    pub fn check(&self) -> Result<(), PlanError> {
        layouts::check(self.layouts)?;
        if self.hooks.is_some() && self.workloads.is_none() && !self.programs.is_empty() {
            let reason = "hooks run beside rows that are no programs, and there is none: write \
                          setup and prepare into its [[program]] or [run]";
            return Err(PlanError::Program { reason: reason.into() });
        }
        if !MEMORY_MIB.contains(&self.machine.memory_mib) {
            return Err(PlanError::Memory { memory_mib: self.machine.memory_mib });
        }
        for subject in [&self.base, &self.change] {
            if subject.boot_line.len() > LONGEST_BOOT_LINE {
                return Err(PlanError::BootLine { length: subject.boot_line.len() });
            }
        }
        for (what, text) in [
            ("--base-boot-line (base.boot_line)", &self.base.boot_line),
            ("--change-boot-line (change.boot_line)", &self.change.boot_line),
            ("--cpu (machine.cpu)", &self.machine.cpu),
            ("--module (modules)", &self.modules.join(" ")),
            ("the base's options and patches", &self.base.beside_kernel()),
            ("the change's options and patches", &self.change.beside_kernel()),
        ] {
            printable_line(what, text)?;
        }
        Ok(())
    }

    /// The rows, of which each can be run in such a guest: the programs, then those of ktax.
    ///
    /// # Errors
    /// A row is unknown, needs another engine, or does not fit in the memory.
    pub fn rows(&self) -> Result<Vec<Workload>, PlanError> {
        let definitions = with_definitions(&self.definitions)?;
        let CountsExperiment { workloads, programs, machine, .. } = self;
        let mut rows = programs::rows(programs, &definitions);
        if workloads.is_some() || programs.is_empty() {
            let selected = select(&definitions, workloads.as_deref())?;
            selected.iter().try_for_each(|row| check_for_guest(&definitions, row))?;
            rows.extend(selected);
        }
        check_memory(&rows, u64::from(machine.memory_mib) << 20)?;
        each_once(rows)
    }
}

impl Experiment<CountsExperiment> {
    /// Orders the Boots: each Layout is a pair of adjacent Steps, whose first Side is drawn.
    ///
    /// # Errors
    /// A row is unknown, needs another engine, or does not fit in the memory.
    pub fn plan(&self, kernels: Sides<Identity>, key: Key) -> Result<Plan<CountsPlan>, PlanError> {
        let CountsExperiment { layouts, machine, base, change, programs, disk, .. } = &self.method;
        let hooks = self.method.hooks.as_deref().cloned();
        let workloads_from = self.method.workloads_from.clone();
        let workloads = self.method.rows()?;
        let (layouts, steps) = layouts::steps(self.seed, *layouts);
        let method = CountsPlan {
            key,
            machine: machine.clone(),
            subjects: Sides { base: base.clone(), change: change.clone() },
            kernels,
            disk: disk.clone(),
            programs: programs.clone(),
            hooks,
            workloads_from,
            workloads,
            layouts,
            steps,
        };
        Ok(self.plan_of(method))
    }
}
