//! What this machine takes: its costly instructions, timed in guests, and rows that it ran.

use std::path::{Path, PathBuf};

use super::error::CalibrateError;
use crate::analyse;
use crate::engine::{self, Cancel, noise};
use crate::flow::error::Error;
use crate::flow::file;
use crate::flow::moment::Moment;
use crate::flow::saved::saved;
use crate::model::{
    Calibration, CalibrationRow, CalibrationTable, Comparison, Costly, MachineModel, Model,
    NativeTable, SavedResult, fact,
};
use crate::plan::ModelKey;
use crate::vmm;

/// What to calibrate by.
#[derive(Debug, Default)]
pub struct CalibrateOrder {
    /// The machine that is modelled: a name or a file. Of counts it is theirs.
    pub model: Option<String>,
    /// A comparison of the running kernel with itself, counted with a model; and the same rows,
    /// timed.
    pub rows: Option<(PathBuf, Vec<PathBuf>)>,
    /// Whether the counts may be of another kernel than the times: the error has the difference.
    pub may_be_other_kernel: bool,
    /// The file that is written.
    pub out: PathBuf,
}

/// Calibrates, and writes the machine's file; `None` where the user stopped it.
///
/// # Errors
/// The rows are of another kernel or machine, or cannot be fitted; or a file cannot be read or
/// written.
pub fn calibrate(
    order: &CalibrateOrder,
    cancel: &Cancel,
    observe: &dyn Fn(Moment<'_>),
) -> Result<Option<CalibrationTable>, Error> {
    let facts = noise::facts();
    let said = |name| facts.get(name).cloned().unwrap_or_default();
    // What is wrong with files is said before anything is measured.
    let rows = order
        .rows
        .as_ref()
        .map(|(counts, times)| Rows::read(counts, times, order.may_be_other_kernel));
    let rows = rows.transpose()?;
    let model = match (&rows, &order.model) {
        (Some(Rows { model: Some(model), .. }), _) => model.clone(),
        (_, model) => named(model.as_deref().unwrap_or(like(&said(fact::CPU))))?,
    };
    if let Some(rows) = &rows {
        rows.check_machine(&said(fact::CPU))?;
    }
    check_name(&order.out, &model)?;
    let mut missing = Vec::new();
    let mut not_measured = Vec::new();
    let strings = Costly::STRINGS.into_iter();
    let iterations = strings.filter_map(|kind| Some((kind, engine::operations::iterations(kind)?)));
    let mut calibration = Calibration {
        cpu: said(fact::CPU),
        microcode: said(fact::MICROCODE),
        is_virtual: !said(fact::HYPERVISOR).is_empty(),
        cycles_per_ns: engine::operations::cycles_per_ns(),
        iterations: iterations.collect(),
        ..Calibration::default()
    };
    let has_guests = can_time_guests(&mut missing);
    for kind in Costly::ALL {
        if cancel.is_cancelled() {
            return Ok(None);
        }
        observe(Moment::Runs(kind.name()));
        let mut interval = engine::operations::cycles(kind);
        if interval.is_none() && has_guests {
            interval = vmm::operations::cycles(kind)?;
        }
        match interval {
            Some(interval) => drop(calibration.operations.insert(kind, interval)),
            None => not_measured.push(kind),
        }
        observe(Moment::Done);
    }
    let rows = match rows {
        Some(rows) => rows.fit(&mut calibration)?,
        None => {
            missing.push(NO_ROWS.to_owned());
            Vec::new()
        }
    };
    write(&order.out, &model, &calibration)?;
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
        None if is_file => file::check_output(path),
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
fn like(cpu: &str) -> &'static str {
    if cpu.contains("AMD") { "zen3" } else { "skylake" }
}

fn named(name: &str) -> Result<MachineModel, Error> {
    match file::model(ModelKey::Name(name.to_owned()))?.model()? {
        Model::Machine(machine) => Ok(*machine),
        Model::Coherence => Err(CalibrateError::NoMachine { name: name.to_owned() }.into()),
    }
}

/// Rows that were counted and timed.
struct Rows {
    counted: Comparison,
    timed: Vec<NativeTable>,
    /// What was modelled; without a model only instructions are fitted.
    model: Option<MachineModel>,
}

impl Rows {
    fn read(counts: &Path, times: &[PathBuf], may_be_other: bool) -> Result<Rows, Error> {
        let path = counts.display().to_string();
        let counted = saved(&[counts.to_owned()])?.into_iter().find_map(|one| match one.result {
            SavedResult::Comparison(it) if it.counts().is_some() => Some(*it),
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
        let rows = Rows { counted, timed, model };
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
        let Rows { counted, timed, .. } = self;
        let mut rows = analyse::calibration_rows(&counted, &timed, to.cycles_per_ns);
        let fit = analyse::fit(&mut rows, to);
        to.fit = Some(fit.map_err(|why| CalibrateError::NotFitted { why })?);
        Ok(rows)
    }
}

/// The machine's file: its sizes, and what it takes.
fn write(path: &Path, model: &MachineModel, calibration: &Calibration) -> Result<(), Error> {
    let machine = toml::Table::try_from(model).map_err(CalibrateError::Toml)?;
    let of_machine = machine.into_iter().filter(|(key, _)| key != "name");
    let title = format!("{}, calibrated with the sizes of {}", calibration.cpu, model.name);
    let calibration = toml::Value::try_from(calibration).map_err(CalibrateError::Toml)?;
    let mut all: toml::Table = of_machine.collect();
    all.insert("title".to_owned(), title.into());
    all.insert("calibration".to_owned(), calibration);
    let text = toml::to_string(&all).map_err(CalibrateError::Toml)?;
    file::write_output(path, &text)
}
