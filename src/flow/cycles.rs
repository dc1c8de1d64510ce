//! Estimates of cycles: calibrates a machine, estimates results, and compares estimates with times.

use std::path::{Path, PathBuf};

use super::Error;
use super::phases::{compare, plan};
use super::results::{self, VALIDATION, saved, write_result};
use super::session::{RunEvent, Session};
use crate::engine::{self, Cancel, kvm, noise};
use crate::model::{
    Calibration, CalibrationFit, CalibrationRow, CalibrationTable, Comparison, Costly,
    CountsComparison, MachineModel, Model, NativeTable, Saved, SavedResult, Validation, fact,
};
use crate::plan::{Experiment, ExperimentFile, ModelKey};
use crate::{analyse, vmm};

/// Input of a calibration.
#[derive(Debug, Default)]
pub struct CalibrationRequest {
    /// Name or file of the modelled machine; not used if the counts were made with a model.
    pub model: Option<String>,
    /// Counts of the running kernel compared with itself, and times of the same rows.
    pub counts_and_times: Option<(PathBuf, Vec<PathBuf>)>,
    /// True if the counted kernel may differ from the timed ones. The estimate's error then
    /// includes the difference.
    pub allows_other_kernel: bool,
    /// File to write.
    pub out: PathBuf,
}

/// Measures costs on this machine, and writes the machine's file. `None` if the user stopped it.
pub fn calibrate(
    request: &CalibrationRequest,
    cancel: &Cancel,
    observe: &dyn Fn(RunEvent<'_>),
) -> Result<Option<CalibrationTable>, Error> {
    let facts = noise::facts();
    let fact_or_empty = |name| facts.get(name).cloned().unwrap_or_default();
    // Check the files before anything is measured.
    let input = request
        .counts_and_times
        .as_ref()
        .map(|(counts, times)| CalibrationInput::read(counts, times, request.allows_other_kernel));
    let input = input.transpose()?;
    let model = match (&input, &request.model) {
        (Some(CalibrationInput { model: Some(model), .. }), _) => model.clone(),
        (_, model) => {
            machine_named(model.as_deref().unwrap_or(similar_model(&fact_or_empty(fact::CPU))))?
        }
    };
    if let Some(input) = &input {
        input.check_machine(&fact_or_empty(fact::CPU))?;
    }
    check_name(&request.out, &model)?;
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
    let can_time_in_kernel = can_time_in_kernel(&mut missing);
    for kind in Costly::ALL {
        if cancel.is_cancelled() {
            return Ok(None);
        }
        observe(RunEvent::Started(kind.name()));
        let mut interval = engine::operations::cycles(kind);
        if interval.is_none() && can_time_in_kernel {
            interval = vmm::operations::cycles(kind)?;
        }
        match interval {
            Some(interval) => drop(calibration.operations.insert(kind, interval)),
            None => not_measured.push(kind),
        }
        observe(RunEvent::Ended);
    }
    let rows = match input {
        Some(input) => input.fit(&mut calibration)?,
        None => {
            missing.push(NO_ROWS.to_owned());
            Vec::new()
        }
    };
    write_machine(&request.out, &model, &calibration)?;
    let machine = request.out.display().to_string();
    let model = model.name;
    Ok(Some(CalibrationTable { machine, model, calibration, not_measured, missing, rows }))
}

/// Refuses a file whose name `--model` would refuse.
fn check_name(path: &Path, model: &MachineModel) -> Result<(), Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_file = name.ends_with(".toml");
    let reason = MachineModel { name, ..model.clone() }.wire().err();
    match reason {
        None if is_file => results::check_output(path),
        reason => {
            let reason = reason.unwrap_or_else(|| "a machine's file ends in .toml".to_owned());
            Err(Error::user(format!("{} cannot be a machine's file: {reason}", path.display()))
                .next("write --out machine.toml"))
        }
    }
}

/// Maximum cycles of an instruction that does nothing, if the processor executes guests itself. A
/// hypervisor that emulates instructions needs far more.
const MAX_NOP_CYCLES: f64 = 20.0;

/// Returns true if a raw guest can time instructions that only a kernel may execute; otherwise adds
/// the reason to `missing`.
fn can_time_in_kernel(missing: &mut Vec<String>) -> bool {
    let privileged = "instructions that only a kernel may execute were not timed";
    match vmm::operations::nop_cycles() {
        Ok(Some(cycles)) if cycles <= MAX_NOP_CYCLES => return true,
        Ok(_) => missing.push(format!(
            "{privileged}: the hypervisor of this machine emulates the instructions of guests; \
             calibrate on bare metal, or on a machine whose processor executes guests"
        )),
        Err(error) => missing.push(format!("{privileged}: {error}")),
    }
    false
}

const NO_ROWS: &str = "no rows were given, so only costly instructions can be estimated; \
                       count and time the running kernel as `ktax calibrate --help` says";

/// Built-in model that is most similar to a CPU of this name.
fn similar_model(cpu: &str) -> &'static str {
    if cpu.contains("AMD") { "zen3" } else { "skylake" }
}

fn machine_named(name: &str) -> Result<MachineModel, Error> {
    match results::model(ModelKey::Name(name.to_owned()))?.model()? {
        Model::Machine(machine) => Ok(*machine),
        Model::Coherence => Err(Error::user(format!("{name} models no machine"))
            .next("write --model skylake, zen3 or a file")),
    }
}

/// Rows that were counted and timed.
struct CalibrationInput {
    counted: Comparison,
    timed: Vec<NativeTable>,
    /// Modelled machine; without a model only instructions are fitted.
    model: Option<MachineModel>,
}

impl CalibrationInput {
    fn read(
        counts: &Path,
        times: &[PathBuf],
        allows_other_kernel: bool,
    ) -> Result<CalibrationInput, Error> {
        let counted =
            saved(&[counts.to_owned()])?.into_iter().find_map(|saved| match saved.result {
                SavedResult::Comparison(comparison) if comparison.counts().is_some() => {
                    Some(*comparison)
                }
                _ => None,
            });
        let counted = counted.ok_or_else(|| {
            Error::user(format!("{} has no result with counts", counts.display()))
                .next("give the directory of `ktax compare --same`")
        })?;
        let key = counted.counts().map(|counts| &counts.key);
        let model = key.and_then(|key| key.machine.model.as_ref()?.machine().cloned());
        let timed = saved(times)?.into_iter().filter_map(|saved| match saved.result {
            SavedResult::Native(table) => Some(*table),
            _ => None,
        });
        let timed: Vec<NativeTable> = timed.collect();
        let input = CalibrationInput { counted, timed, model };
        input.check_kernels(times, allows_other_kernel)?;
        Ok(input)
    }

    /// Refuses times of another kernel than the counted one, unless they are allowed.
    fn check_kernels(&self, times: &[PathBuf], allows_other_kernel: bool) -> Result<(), Error> {
        if self.timed.is_empty() {
            let paths = times.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
            return Err(Error::user(format!(
                "{} has no result with times of workloads",
                paths.join(", ")
            ))
            .next("give what `ktax workloads run --json NAME…` prints"));
        }
        let counted = self.counted_release();
        match self.other_release() {
            Some(timed) if !allows_other_kernel => Err(Error::user(format!(
                "the rows were counted with Linux {counted} and timed with {timed}"
            ))
            .next(format!(
                "count the kernel that this machine runs (--kernel /boot/vmlinuz-{timed}), or \
                     add --other-kernel: the estimates are then wider"
            ))),
            _ => Ok(()),
        }
    }

    /// Release of the counted kernel; empty if it is unknown.
    fn counted_release(&self) -> String {
        let kernel = self.counted.counts().map(|counts| &counts.kernels.base);
        kernel.and_then(|kernel| kernel.release.clone()).unwrap_or_default()
    }

    /// First release that was timed and is not the counted one; `None` if all times are of the
    /// counted kernel.
    fn other_release(&self) -> Option<&str> {
        let counted = self.counted_release();
        self.timed.iter().map(|table| table.release.as_str()).find(|release| *release != counted)
    }

    /// Refuses times of another machine.
    fn check_machine(&self, cpu: &str) -> Result<(), Error> {
        let other = self.timed.iter().find(|table| table.cpu != cpu);
        other.map_or(Ok(()), |table| {
            let message = format!("the rows were timed on {:?} and this is {cpu:?}", table.cpu);
            Err(Error::user(message).next("time them here, with this ktax"))
        })
    }

    /// Fits the costs of the rows, and adds them to the calibration. Returns the rows.
    fn fit(self, calibration: &mut Calibration) -> Result<Vec<CalibrationRow>, Error> {
        if let Some(timed) = self.other_release() {
            calibration.timed_kernel = timed.to_owned();
            calibration.counted_kernel = self.counted_release();
        }
        let CalibrationInput { counted, timed, .. } = self;
        let mut rows = analyse::calibration_rows(&counted, &timed, calibration.cycles_per_ns);
        let fit = analyse::fit(&mut rows, calibration);
        calibration.fit = Some(fit.map_err(|why| {
            Error::user(format!("the rows cannot be fitted, and nothing was written: {why}"))
        })?);
        Ok(rows)
    }
}

fn not_toml(error: toml::ser::Error) -> Error {
    Error::user(format!("the machine cannot be written as TOML: {error}; report this"))
}

/// Writes the machine's file: its sizes and its calibration.
fn write_machine(
    path: &Path,
    model: &MachineModel,
    calibration: &Calibration,
) -> Result<(), Error> {
    let machine = toml::Table::try_from(model).map_err(not_toml)?;
    let sizes = machine.into_iter().filter(|(key, _)| key != "name");
    let title = format!("{}, calibrated with the sizes of {}", calibration.cpu, model.name);
    let calibration = toml::Value::try_from(calibration).map_err(not_toml)?;
    let mut table: toml::Table = sizes.collect();
    table.insert("title".to_owned(), title.into());
    table.insert("calibration".to_owned(), calibration);
    let text = toml::to_string(&table).map_err(not_toml)?;
    results::write_output(path, &text)
}

/// Reads a machine's file, and requires a calibration.
pub fn calibrated(path: &Path) -> Result<ModelKey, Error> {
    let machine = results::machine(path)?;
    match machine.calibration() {
        Some(_) => Ok(machine),
        None => Err(Error::user(format!("{} has no [calibration]", path.display()))
            .next("write one with `ktax calibrate` on the machine")),
    }
}

/// Adds to each comparison the estimate for the machine of a file.
pub fn estimate(results: &mut [Saved], machine: &Path) -> Result<(), Error> {
    let ModelKey::Machine(model, Some(calibration)) = calibrated(machine)? else {
        unreachable!("a calibrated machine has both");
    };
    let not_counted = || {
        Error::user("--model only applies to comparisons of the exact engine")
            .next("name such a comparison, or remove --model")
    };
    for result in results {
        let SavedResult::Comparison(comparison) = &mut result.result else {
            return Err(not_counted());
        };
        let counts = comparison.counts().ok_or_else(not_counted)?;
        if calibration.fit.as_ref().is_some_and(CalibrationFit::needs_model)
            && !was_counted_with(&model, counts)
        {
            let file = machine.display();
            return Err(Error::user(format!(
                "{file} was fitted to the counters of its own model, which these counts do not have"
            ))
            .next(format!("count again with --model {file}")));
        }
        analyse::estimate(&mut comparison.rows, &model.name, &calibration);
    }
    Ok(())
}

/// Returns true if the counts were made with this model. Its name, title and sources may differ.
fn was_counted_with(model: &MachineModel, counts: &CountsComparison) -> bool {
    let without_names = |machine: &MachineModel| MachineModel {
        name: String::new(),
        title: String::new(),
        sources: Vec::new(),
        ..machine.clone()
    };
    let counted = counts.key.machine.model.as_ref().and_then(Model::machine);
    counted.is_some_and(|counted| without_names(counted) == without_names(model))
}

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
    analyse::validate(&counted, &timed)
}

fn only_comparison(
    results: Vec<Saved>,
    is_wanted: fn(&Comparison) -> bool,
) -> Result<Comparison, Error> {
    let found = results.into_iter().find_map(|saved| match saved.result {
        SavedResult::Comparison(comparison) if is_wanted(&comparison) => Some(*comparison),
        _ => None,
    });
    found.ok_or_else(|| {
        let message = "`ktax validate` needs a comparison of the exact engine and one of a timed \
                       engine, in this order";
        Error::user(message).next("name the directories of both")
    })
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
        return Err(Error::user(format!(
            "{} has no fitted rows, so the relative cost of a change cannot be estimated",
            machine.display()
        ))
        .next("add them with `ktax calibrate --counts DIR --times FILE`"));
    }
    let files = [counted_experiment(file, key), timed_experiment(file)];
    let [counted, timed] = files.map(|file| Experiment::from_file(&file));
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
    file.engine = Some(&kvm::ENGINE);
    (file.layouts, file.machine.model, file.machine.cpu) = (None, None, None);
    file.threshold_percent = None;
    file
}
