use std::collections::BTreeMap;

use super::rows::rows;
use crate::asked::Experiment;
use crate::error::PlanError;
use crate::file::{ExperimentFile, SubjectKeys};
use crate::programs;
use crate::workloads::{ParamValue, each_once};
use ktax_engine::{EngineEntry, host};
use ktax_model::{Plan, Sides, TimedMachine, TimedSubject, TimesPlan, UserProgram, Workload};

/// What only such an Experiment has.
#[derive(Debug, Clone, PartialEq)]
pub struct TimesExperiment {
    /// How the Subjects run.
    pub engine: &'static EngineEntry,
    /// The number of pairs, with one look, instead of a pilot and five looks.
    pub pairs: Option<u32>,
    /// No more pairs than this.
    pub most_pairs: u32,
    /// How often each row runs in a Boot.
    pub loops: u32,
    /// Whether to go on, with a warning, where the Sides differ in more than was declared.
    pub allow_differences: bool,
    /// Programs of the user's, of which each is a row that decides.
    pub programs: Vec<UserProgram>,
    /// The rows that decide, by name.
    pub workloads: Vec<String>,
    /// The rows that are measured and do not decide.
    pub secondary: Vec<String>,
    /// Values by name: of a parameter of the workloads, a row for each value; of a setting, a run
    /// for each value, the same on both Sides.
    pub sweep: BTreeMap<String, Vec<ParamValue>>,
    /// Of guests: their shape.
    pub machine: TimedMachine,
    /// What the change is measured against.
    pub base: TimedSubject,
    /// What is measured.
    pub change: TimedSubject,
}

impl TimesExperiment {
    /// What a file that says no more than its engine would get.
    pub fn new(engine: &'static EngineEntry) -> TimesExperiment {
        TimesExperiment {
            engine,
            pairs: None,
            most_pairs: 200,
            loops: 5,
            allow_differences: false,
            programs: Vec::new(),
            workloads: Vec::new(),
            secondary: Vec::new(),
            sweep: BTreeMap::new(),
            machine: TimedMachine::default(),
            base: TimedSubject::default(),
            change: TimedSubject::default(),
        }
    }

    pub(crate) fn of(file: &ExperimentFile) -> Result<TimesExperiment, PlanError> {
        let mut experiment = TimesExperiment::new(file.engine.unwrap_or(&host::ENGINE));
        experiment.pairs = file.pairs;
        set(&mut experiment.most_pairs, &file.most_pairs);
        set(&mut experiment.loops, &file.loops);
        set(&mut experiment.allow_differences, &file.allow_differences);
        set(&mut experiment.workloads, &file.workloads);
        experiment.programs = programs::programs(&file.program)?;
        experiment.secondary.clone_from(&file.secondary);
        experiment.sweep.clone_from(&file.sweep);
        let (machine, keys) = (&mut experiment.machine, &file.machine);
        set(&mut machine.memory_mib, &keys.memory_mib);
        set(&mut machine.cpus, &keys.cpus);
        machine.cores = keys.cores;
        set(&mut machine.accelerator, &keys.accelerator);
        machine.cpu = keys.cpu.clone().unwrap_or_else(|| machine.accelerator.cpu().to_owned());
        experiment.base = subject(&file.base);
        experiment.change = file.change.as_ref().map(subject).unwrap_or_default();
        experiment.check()?;
        Ok(experiment)
    }
}

impl TimesExperiment {
    /// The rows that decide, of which those of programs are the first.
    fn headline(&self, names: &[String]) -> Result<Vec<Workload>, PlanError> {
        let mut headline = programs::rows(&self.programs, &[]);
        if !names.is_empty() || headline.is_empty() {
            headline.extend(rows(self.engine.runs_on, names)?);
        }
        each_once(headline)
    }
}

fn set<T: Clone>(place: &mut T, value: &Option<T>) {
    if let Some(value) = value {
        place.clone_from(value);
    }
}

fn subject(keys: &SubjectKeys) -> TimedSubject {
    TimedSubject {
        kernel: keys.kernel.clone(),
        bare_metal: keys.bare_metal,
        boot_line: keys.boot_line.clone().unwrap_or_default(),
        sysctl: keys.sysctl.clone(),
        thp: keys.thp.clone(),
        governor: keys.governor.clone(),
        prefix: keys.prefix.clone(),
    }
}

impl Experiment<TimesExperiment> {
    /// The Plan, after what cannot be planned is refused; it has no Kernels yet.
    ///
    /// # Errors
    /// A row is unknown or given twice, or a value is out of bounds.
    pub fn plan(&self) -> Result<Plan<TimesPlan>, PlanError> {
        let of = &self.method;
        of.check()?;
        let (points, swept) = of.points();
        let headline = of.headline(&points)?;
        let secondary = match of.secondary.is_empty() {
            true => Vec::new(),
            false => rows(of.engine.runs_on, &of.secondary)?,
        };
        let twice = secondary.iter().find(|row| headline.iter().any(|it| it.row == row.row));
        if let Some(twice) = twice {
            return Err(PlanError::Twice { row: twice.row.clone() });
        }
        let method = TimesPlan {
            engine: of.engine.name.into(),
            runs_on: of.engine.runs_on,
            pairs: of.pairs,
            most_pairs: of.most_pairs,
            loops: of.loops,
            allow_differences: of.allow_differences,
            machine: of.machine.clone(),
            subjects: Sides { base: of.base.clone(), change: of.change.clone() },
            kernels: BTreeMap::new(),
            programs: of.programs.clone(),
            packed: String::new(),
            programs_here: None,
            swept,
            headline,
            secondary,
        };
        Ok(self.plan_of(method))
    }
}
