//! Estimates of cycles: calibrates a machine, estimates results, and compares estimates with times.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::error::Error;
use super::phases::{compare, plan};
use super::results::{self, VALIDATION, saved, write_result};
use super::session::{RunEvent, Session};
use crate::engine::{self, Cancel, ENGINES, noise};
use crate::model::{
    Calibration, CalibrationFit, CalibrationRow, CalibrationTable, Comparison, Costly,
    CountsComparison, MachineModel, Model, NativeTable, Saved, SavedResult, Validation, fact,
};
use crate::plan::{Experiment, ExperimentFile, ModelKey};
use crate::{analyse, vmm};

/// Reasons why a machine was not calibrated. The message ends with the next step.
#[derive(Debug, Error)]
pub enum CalibrateError {
    /// The file has another result.
    #[error("{path} has {wanted} in no result; {next}")]
    Other {
        /// The file or directory.
        path: String,
        /// Kind of result that is needed.
        wanted: &'static str,
        /// Command that makes one.
        next: &'static str,
    },
    /// Times of one kernel say nothing of another one.
    #[error(
        "the rows were counted with Linux {counted} and timed with {timed}; count the kernel that \
         this machine runs (--kernel /boot/vmlinuz-{timed}), or add --other-kernel: the estimates \
         are then wider"
    )]
    OtherKernel {
        /// The release of the counts.
        counted: String,
        /// The release of the times.
        timed: String,
    },
    /// Times of one machine say nothing of another one.
    #[error(
        "the rows were timed on {timed:?} and this is {here:?}; time them here, with this ktax"
    )]
    OtherMachine {
        /// The CPU of the times; empty of an older ktax.
        timed: String,
        /// CPU of this machine.
        here: String,
    },
    /// The rows are not enough to fit the constants.
    #[error("the rows cannot be fitted, and nothing was written: {why}")]
    NotFitted {
        /// Reason, and the next step.
        why: String,
    },
    /// No model has such a name.
    #[error("{path} cannot be a machine's file: {reason}; write --out machine.toml")]
    Name {
        /// The file.
        path: String,
        /// Reason.
        reason: String,
    },
    /// A model that is no machine.
    #[error("{name} models no machine; write --model skylake, zen3 or a file")]
    NoMachine {
        /// Name of the model.
        name: String,
    },
    /// The machine cannot be written as TOML.
    #[error("the machine has no form that a file can have: {0}; report this")]
    Toml(#[from] toml::ser::Error),
}

/// Reasons why there is no estimate. The message ends with the next step.
#[derive(Debug, Error)]
pub enum EstimateError {
    /// The machine was never calibrated.
    #[error("{file} has no [calibration]; write one with `ktax calibrate` on the machine")]
    NotCalibrated {
        /// The file.
        file: String,
    },
    /// The constants are for the counters of another model.
    #[error(
        "{file} was fitted to the counters of its own model, which these counts do not have; \
         count again with --model {file}"
    )]
    OtherModel {
        /// The file.
        file: String,
    },
    /// Only costly instructions are known.
    #[error(
        "{file} has no fitted rows, so that nothing in percent can be estimated; add them with \
         `ktax calibrate --counts DIR --times FILE`"
    )]
    NotFitted {
        /// The file.
        file: String,
    },
    /// Counts, or times, are not there.
    #[error(
        "validate joins a comparison of the exact engine with one of a timed engine, in this \
         order; name a directory of each"
    )]
    NotBoth,
    /// The result has no counts.
    #[error("--machine only applies to comparisons of the exact engine; name one, or remove it")]
    NotCounted,
}

/// Input of a calibration.
#[derive(Debug, Default)]
pub struct CalibrateOrder {
    /// Name or file of the modelled machine. Counts bring their own.
    pub model: Option<String>,
    /// Comparison of the running kernel with itself, counted with a model; and times of the same
    /// rows.
    pub rows: Option<(PathBuf, Vec<PathBuf>)>,
    /// Whether the counts may come from another kernel than the times. The estimate's error then
    /// includes the difference.
    pub may_be_other_kernel: bool,
    /// The file that is written.
    pub out: PathBuf,
}

/// Calibrates, and writes the machine's file; `None` where the user stopped it.
pub fn calibrate(
    order: &CalibrateOrder,
    cancel: &Cancel,
    observe: &dyn Fn(RunEvent<'_>),
) -> Result<Option<CalibrationTable>, Error> {
    let facts = noise::facts();
    let fact_or_empty = |name| facts.get(name).cloned().unwrap_or_default();
    // Check the files before anything is measured.
    let rows = order
        .rows
        .as_ref()
        .map(|(counts, times)| CalibrationInput::read(counts, times, order.may_be_other_kernel));
    let rows = rows.transpose()?;
    let model = match (&rows, &order.model) {
        (Some(CalibrationInput { model: Some(model), .. }), _) => model.clone(),
        (_, model) => {
            machine_named(model.as_deref().unwrap_or(similar_model(&fact_or_empty(fact::CPU))))?
        }
    };
    if let Some(rows) = &rows {
        rows.check_machine(&fact_or_empty(fact::CPU))?;
    }
    check_name(&order.out, &model)?;
    let mut missing = Vec::new();
    let mut not_measured = Vec::new();
    let strings = Costly::STRINGS.into_iter();
    let iterations = strings.filter_map(|kind| Some((kind, engine::operations::iterations(kind)?)));
    let mut calibration = Calibration {
        cpu: fact_or_empty(fact::CPU),
        microcode: fact_or_empty(fact::MICROCODE),
        is_virtual: !fact_or_empty(fact::HYPERVISOR).is_empty(),
        cycles_per_ns: engine::operations::cycles_per_ns(),
        iterations: iterations.collect(),
        ..Calibration::default()
    };
    let has_guests = can_time_guests(&mut missing);
    for kind in Costly::ALL {
        if cancel.is_cancelled() {
            return Ok(None);
        }
        observe(RunEvent::Started(kind.name()));
        let mut interval = engine::operations::cycles(kind);
        if interval.is_none() && has_guests {
            interval = vmm::operations::cycles(kind)?;
        }
        match interval {
            Some(interval) => drop(calibration.operations.insert(kind, interval)),
            None => not_measured.push(kind),
        }
        observe(RunEvent::Ended);
    }
    let rows = match rows {
        Some(rows) => rows.fit(&mut calibration)?,
        None => {
            missing.push(NO_ROWS.to_owned());
            Vec::new()
        }
    };
    write_machine(&order.out, &model, &calibration)?;
    let machine = order.out.display().to_string();
    let model = model.name;
    Ok(Some(CalibrationTable { machine, model, calibration, not_measured, missing, rows }))
}

/// Refuses a file whose name `--machine` would refuse.
fn check_name(path: &Path, model: &MachineModel) -> Result<(), Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_file = name.ends_with(".toml");
    let reason = MachineModel { name, ..model.clone() }.wire().err();
    match reason {
        None if is_file => results::check_output(path),
        reason => {
            let reason = reason.unwrap_or_else(|| "a machine's file ends in .toml".to_owned());
            Err(CalibrateError::Name { path: path.display().to_string(), reason }.into())
        }
    }
}

/// More cycles than an instruction takes that does nothing, by far.
const MOST_OF_NOTHING: f64 = 20.0;

/// Whether instructions can be timed that only a kernel executes; what is in the way is missing.
fn can_time_guests(missing: &mut Vec<String>) -> bool {
    let privileged = "instructions that only a kernel may execute were not timed";
    match vmm::operations::cycles_of_nothing() {
        Ok(Some(cycles)) if cycles <= MOST_OF_NOTHING => return true,
        Ok(_) => missing.push(format!(
            "{privileged}: the hypervisor below this machine executes guests' instructions one by \
             one; calibrate on bare metal, or where a guest is executed by the processor"
        )),
        Err(error) => missing.push(format!("{privileged}: {error}")),
    }
    false
}

const NO_ROWS: &str = "no rows were given, so that only costly instructions can be estimated; \
                       count and time the running kernel as `ktax calibrate --help` says";

/// What is most like a CPU of that name.
fn similar_model(cpu: &str) -> &'static str {
    if cpu.contains("AMD") { "zen3" } else { "skylake" }
}

fn machine_named(name: &str) -> Result<MachineModel, Error> {
    match results::model(ModelKey::Name(name.to_owned()))?.model()? {
        Model::Machine(machine) => Ok(*machine),
        Model::Coherence => Err(CalibrateError::NoMachine { name: name.to_owned() }.into()),
    }
}

/// Rows that were counted and timed.
struct CalibrationInput {
    counted: Comparison,
    timed: Vec<NativeTable>,
    /// What was modelled; without a model only instructions are fitted.
    model: Option<MachineModel>,
}

impl CalibrationInput {
    fn read(
        counts: &Path,
        times: &[PathBuf],
        may_be_other: bool,
    ) -> Result<CalibrationInput, Error> {
        let path = counts.display().to_string();
        let counted = saved(&[counts.to_owned()])?.into_iter().find_map(|one| match one.result {
            SavedResult::Comparison(comparison) if comparison.counts().is_some() => {
                Some(*comparison)
            }
            _ => None,
        });
        let counted = counted.ok_or(CalibrateError::Other {
            path,
            wanted: "counts",
            next: "give the directory of `ktax compare --same`",
        })?;
        let key = counted.counts().map(|counts| &counts.key);
        let model = key.and_then(|key| key.model.as_ref()?.machine().cloned());
        let timed = saved(times)?.into_iter().filter_map(|one| match one.result {
            SavedResult::Native(table) => Some(*table),
            _ => None,
        });
        let timed: Vec<NativeTable> = timed.collect();
        let rows = CalibrationInput { counted, timed, model };
        rows.check(times, may_be_other)?;
        Ok(rows)
    }

    /// Refuses times of another kernel than that of the counts.
    fn check(&self, times: &[PathBuf], may_be_other: bool) -> Result<(), Error> {
        if self.timed.is_empty() {
            let path = times.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
            return Err(CalibrateError::Other {
                path: path.join(", "),
                wanted: "times of workloads",
                next: "give what `ktax workloads run --json NAME…` prints",
            }
            .into());
        }
        let (counted, _) = self.releases();
        match self.timed.iter().find(|table| table.release != counted) {
            Some(other) if !may_be_other => {
                let timed = other.release.clone();
                Err(CalibrateError::OtherKernel { counted, timed }.into())
            }
            _ => Ok(()),
        }
    }

    /// The kernels that were counted, and timed.
    fn releases(&self) -> (String, String) {
        let kernels = self.counted.counts().map(|counts| &counts.subjects.base.kernel);
        let counted = kernels.and_then(|kernel| kernel.release.clone()).unwrap_or_default();
        let timed = self.timed.first().map(|table| table.release.clone()).unwrap_or_default();
        (counted, timed)
    }

    /// Refuses times of another machine.
    fn check_machine(&self, here: &str) -> Result<(), Error> {
        let other = self.timed.iter().find(|table| table.cpu != here);
        other.map_or(Ok(()), |table| {
            let (timed, here) = (table.cpu.clone(), here.to_owned());
            Err(CalibrateError::OtherMachine { timed, here }.into())
        })
    }

    fn fit(self, to: &mut Calibration) -> Result<Vec<CalibrationRow>, Error> {
        let (counted_kernel, timed_kernel) = self.releases();
        if counted_kernel != timed_kernel {
            (to.counted_kernel, to.timed_kernel) = (counted_kernel, timed_kernel);
        }
        let CalibrationInput { counted, timed, .. } = self;
        let mut rows = analyse::calibration_rows(&counted, &timed, to.cycles_per_ns);
        let fit = analyse::fit(&mut rows, to);
        to.fit = Some(fit.map_err(|why| CalibrateError::NotFitted { why })?);
        Ok(rows)
    }
}

/// Writes the machine's file: its sizes and its calibration.
fn write_machine(
    path: &Path,
    model: &MachineModel,
    calibration: &Calibration,
) -> Result<(), Error> {
    let machine = toml::Table::try_from(model).map_err(CalibrateError::Toml)?;
    let sizes = machine.into_iter().filter(|(key, _)| key != "name");
    let title = format!("{}, calibrated with the sizes of {}", calibration.cpu, model.name);
    let calibration = toml::Value::try_from(calibration).map_err(CalibrateError::Toml)?;
    let mut all: toml::Table = sizes.collect();
    all.insert("title".to_owned(), title.into());
    all.insert("calibration".to_owned(), calibration);
    let text = toml::to_string(&all).map_err(CalibrateError::Toml)?;
    results::write_output(path, &text)
}

/// Reads a machine's file, and requires a calibration.
pub fn calibrated(path: &Path) -> Result<ModelKey, Error> {
    let machine = results::machine(path)?;
    match machine.calibration() {
        Some(_) => Ok(machine),
        None => Err(EstimateError::NotCalibrated { file: path.display().to_string() }.into()),
    }
}

/// Adds to each comparison the estimate for the machine of a file.
pub fn estimate(results: &mut [Saved], machine: &Path) -> Result<(), Error> {
    let file = machine.display().to_string();
    let ModelKey::Machine(model, Some(calibration)) = calibrated(machine)? else {
        return Err(EstimateError::NotCalibrated { file }.into());
    };
    for result in results {
        let SavedResult::Comparison(comparison) = &mut result.result else {
            return Err(EstimateError::NotCounted.into());
        };
        let Some(counts) = comparison.counts() else {
            return Err(EstimateError::NotCounted.into());
        };
        if calibration.fit.as_ref().is_some_and(CalibrationFit::needs_model)
            && !is_of_model(&model, counts)
        {
            return Err(EstimateError::OtherModel { file }.into());
        }
        analyse::estimate(&mut comparison.rows, &model.name, &calibration);
    }
    Ok(())
}

/// Whether the counts were made with this model, whatever its file was called.
fn is_of_model(model: &MachineModel, counts: &CountsComparison) -> bool {
    let nameless = |machine: &MachineModel| MachineModel {
        name: String::new(),
        title: String::new(),
        sources: Vec::new(),
        ..machine.clone()
    };
    let counted = counts.key.model.as_ref().and_then(Model::machine);
    counted.is_some_and(|counted| nameless(counted) == nameless(model))
}

/// Engine that times both kernels.
const TIMED: &str = "kvm";

/// Compares the estimates of a counted result with the times of a timed one. `machine` is needed if
/// the counts were made without a calibrated machine.
pub fn validate_results(
    counted: &Path,
    timed: &Path,
    machine: Option<&Path>,
) -> Result<Validation, Error> {
    let mut counted = saved(&[counted.to_owned()])?;
    if let Some(machine) = machine {
        estimate(&mut counted, machine)?;
    }
    let counted = only_comparison(counted, |comparison| comparison.counts().is_some())?;
    let timed =
        only_comparison(saved(&[timed.to_owned()])?, |comparison| comparison.times().is_some())?;
    Ok(analyse::validate(&counted, &timed)?)
}

fn only_comparison(
    results: Vec<Saved>,
    is_wanted: fn(&Comparison) -> bool,
) -> Result<Comparison, Error> {
    let found = results.into_iter().find_map(|one| match one.result {
        SavedResult::Comparison(comparison) if is_wanted(&comparison) => Some(*comparison),
        _ => None,
    });
    found.ok_or_else(|| EstimateError::NotBoth.into())
}

/// Counts an experiment with a machine's model, times it, and compares both. `None` if the user
/// stopped it; the same call continues.
pub fn validate(
    file: &ExperimentFile,
    machine: &Path,
    out: &Path,
    session: &Session<'_>,
) -> Result<Option<Validation>, Error> {
    let key = results::machine(machine)?;
    if key.calibration().is_none_or(|calibration| calibration.fit.is_none()) {
        return Err(EstimateError::NotFitted { file: machine.display().to_string() }.into());
    }
    let both = [counted_experiment(file, key), timed_experiment(file)];
    let [counted, timed] = both.map(|file| Experiment::from_file(&file));
    let (counted, timed) = (plan(&counted?, session)?, plan(&timed?, session)?);
    let dirs: [PathBuf; 2] = ["counted", "timed"].map(|name| out.join(name));
    let Some(counted) = compare(&dirs[0], counted, session)? else { return Ok(None) };
    let Some(timed) = compare(&dirs[1], timed, session)? else { return Ok(None) };
    let validation = analyse::validate(&counted, &timed)?;
    write_result(out, VALIDATION, &validation)?;
    Ok(Some(validation))
}

/// Experiment without the keys of timed engines.
fn counted_experiment(file: &ExperimentFile, machine: ModelKey) -> ExperimentFile {
    let mut file = file.clone();
    (file.engine, file.threshold_percent) = (None, None);
    (file.pairs, file.most_pairs, file.loops, file.allow_differences) = (None, None, None, None);
    (file.machine.cores, file.machine.accelerator) = (None, None);
    file.secondary.clear();
    file.machine.model = Some(machine);
    file
}

/// Experiment without the keys of the exact engine.
fn timed_experiment(file: &ExperimentFile) -> ExperimentFile {
    let mut file = file.clone();
    file.engine = ENGINES.iter().find(|engine| engine.name == TIMED);
    (file.layouts, file.machine.model, file.machine.cpu) = (None, None, None);
    file.threshold_percent = None;
    file
}
