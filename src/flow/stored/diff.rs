//! Compares two subjects of the store, like `ktax compare`.

use std::collections::BTreeMap;

use super::{
    Stored, SubjectNames, empty_store, kernel_to_compare, split_name, unknown_subject_step,
};
use crate::analyse::{self, CountsRuns};
use crate::flow::Error;
use crate::index::{StoredMeasurement, StoredSubject};
use crate::model::{
    AskedCounts, Boot, Comparison, CountsPlan, ErrorKind, FORMAT, Key, MeasuredLayout, Measurement,
    Outcome, Plan, Profile, Run, Side, Sides, Step,
};
use crate::plan;
use crate::rundir::damaged;
use crate::rundir::profile::parse;
use crate::store::Store;
use crate::text::{counted, shell_line};

/// Measurements of one row for both subjects.
type RowOfBoth<'a> = Sides<&'a StoredMeasurement>;

impl Stored {
    /// Compares the measurements of two subjects, each given by any of its names. `asked_rows` are
    /// workloads, rows or groups; `None` selects all common rows. Also returns the asked rows that
    /// were not measured under common conditions. `note` receives messages about further rows.
    pub fn diff(
        &self,
        subjects: Sides<&str>,
        asked_rows: Option<&[String]>,
        threshold_percent: f64,
        note: &dyn Fn(&str),
    ) -> Result<(Comparison, Vec<String>), Error> {
        let names = SubjectNames::read(self)?;
        let found = Sides::try_from_fn(|side| {
            let found = names.find(subjects.get(side));
            found.map_err(|error| with_compare_command(&names, &subjects, asked_rows, error))
        })?;
        let Sides { base, change } = subjects;
        if found.base == found.change {
            let message = format!("{base:?} and {change:?} are the same subject");
            return Err(Error::user(message).next("give two different subjects"));
        }
        let measurements = |subject: &StoredSubject| {
            self.index.measurements(&subject.kernel_sha256, &subject.boot_line)
        };
        let measured =
            Sides { base: measurements(found.base)?, change: measurements(found.change)? };
        let wanted = wanted_rows(asked_rows)?;
        let by_conditions = common_rows(&measured, wanted.as_deref());
        let largest = by_conditions.iter().max_by_key(|(_, rows)| (rows.len(), newest(rows)));
        let Some((conditions, rows)) = largest else {
            let command = shell_line(compare_command(&found, asked_rows));
            let message = "the store has no row of both that was measured in the same way";
            return Err(Error::user(message).next(format!("`{command}` measures what is missing")));
        };
        let other_conditions = by_conditions.iter().filter(|(other, _)| *other != conditions);
        let other_rows: usize = other_conditions.map(|(_, rows)| rows.len()).sum();
        if other_rows > 0 {
            let rows = counted(other_rows, "row");
            note(&format!(
                "{rows} more in common, measured with another QEMU, guest, machine or layouts"
            ));
        }
        let is_common = |row: &String| rows.iter().any(|both| both.base.row == *row);
        let mut missing = wanted.unwrap_or_default();
        missing.retain(|row| !is_common(row));
        if !missing.is_empty() {
            let command = shell_line(compare_command(&found, Some(&missing)));
            let missing = missing.join(", ");
            note(&format!(
                "not measured of both in the same way: {missing}; `{command}` does that"
            ));
        }
        let rows = self.read_rows(rows)?;
        Ok((compare(rows, threshold_percent, &self.store)?, missing))
    }

    /// Reads the measurements of these rows.
    fn read_rows(&self, rows: &[RowOfBoth<'_>]) -> Result<Vec<Sides<Measurement>>, Error> {
        let read = |measurement: &StoredMeasurement| self.measurement(&measurement.object);
        let read_both = |both: &RowOfBoth<'_>| -> Result<Sides<Measurement>, Error> {
            Ok(Sides { base: read(both.base)?, change: read(both.change)? })
        };
        rows.iter().map(read_both).collect()
    }
}

/// Adds the command that measures both subjects to the error for an unknown name.
fn with_compare_command(
    names: &SubjectNames,
    subjects: &Sides<&str>,
    rows: Option<&[String]>,
    error: Error,
) -> Error {
    if error.kind != ErrorKind::Unknown {
        return error;
    }
    let known = Side::BOTH.map(|side| names.find(subjects.get(side)).ok());
    let like = known.iter().flatten().next().map_or("", |subject| subject.kernel.as_str());
    let both = Sides::from_fn(|side| {
        let named = subjects.get(side);
        names.find(named).map(kernel_and_boot_line).unwrap_or_else(|_| {
            let (kernel, boot_line) = split_name(named);
            (kernel_to_compare(kernel, like), boot_line.unwrap_or_default().to_owned())
        })
    });
    error.next(unknown_subject_step(&shell_line(compare_words(&both, rows))))
}

/// Kernel and boot line of a subject, as `ktax compare` accepts them.
fn kernel_and_boot_line(subject: &StoredSubject) -> (String, String) {
    let names = subject.sources.iter().chain(&subject.requested_names).next();
    (names.cloned().unwrap_or_default(), subject.boot_line.clone())
}

/// Words of the command that measures two subjects.
fn compare_command(subjects: &Sides<&StoredSubject>, rows: Option<&[String]>) -> Vec<String> {
    compare_words(&Sides::from_fn(|side| kernel_and_boot_line(subjects.get(side))), rows)
}

fn compare_words(both: &Sides<(String, String)>, rows: Option<&[String]>) -> Vec<String> {
    let mut words = vec!["ktax".to_owned(), "compare".to_owned()];
    for side in Side::BOTH {
        let (kernel, boot_line) = both.get(side);
        words.extend([format!("--{}", side.name()), kernel.clone()]);
        if !boot_line.is_empty() {
            words.extend([format!("--{}-boot-line", side.name()), boot_line.clone()]);
        }
    }
    words.extend(rows.into_iter().flatten().flat_map(|row| ["-w".to_owned(), row.clone()]));
    words
}

/// Names of the wanted rows, in the order of the request.
fn wanted_rows(rows: Option<&[String]>) -> Result<Option<Vec<String>>, Error> {
    let Some(rows) = rows else { return Ok(None) };
    let selected = plan::select_rows(&plan::definitions()?, Some(rows))?;
    Ok(Some(selected.into_iter().map(|workload| workload.row).collect()))
}

/// Common rows by the ID of their conditions. Counts only compare under the same conditions.
fn common_rows<'a>(
    measured: &'a Sides<Vec<StoredMeasurement>>,
    wanted: Option<&[String]>,
) -> BTreeMap<i64, Vec<RowOfBoth<'a>>> {
    let key = |measurement: &StoredMeasurement| (measurement.conditions, measurement.workload);
    let change_measurements: BTreeMap<_, _> =
        measured.change.iter().map(|measurement| (key(measurement), measurement)).collect();
    let mut by_conditions: BTreeMap<i64, Vec<RowOfBoth<'a>>> = BTreeMap::new();
    for base in &measured.base {
        let is_wanted = wanted.is_none_or(|rows| rows.contains(&base.row));
        if let Some(change) = change_measurements.get(&key(base)).filter(|_| is_wanted) {
            by_conditions.entry(base.conditions).or_default().push(Sides { base, change });
        }
    }
    let default_order = default_row_order();
    let position = |row: &str| match wanted {
        Some(rows) => rows.iter().position(|name| name == row),
        None => default_order.iter().position(|name| name == row),
    };
    for rows in by_conditions.values_mut() {
        // Rows that ktax no longer has come last.
        rows.sort_by_key(|both| {
            (position(&both.base.row).unwrap_or(usize::MAX), both.base.row.clone())
        });
    }
    by_conditions
}

/// Names of the rows in the order of `ktax compare`.
fn default_row_order() -> Vec<String> {
    let workloads =
        plan::definitions().and_then(|definitions| plan::select_rows(&definitions, None));
    workloads.unwrap_or_default().into_iter().map(|workload| workload.row).collect()
}

/// Time at which the newest measurement was kept.
fn newest(rows: &[RowOfBoth<'_>]) -> i64 {
    rows.iter().map(|both| both.base.kept_at.max(both.change.kept_at)).max().unwrap_or(0)
}

/// Compares rows of two Subjects that were measured under the same conditions.
pub(in crate::flow) fn compare(
    rows: Vec<Sides<Measurement>>,
    threshold_percent: f64,
    store: &Store,
) -> Result<Comparison, Error> {
    let plan = stored_plan(&rows, threshold_percent).ok_or_else(empty_store)?;
    let place = store.root().display().to_string();
    analyse::counts(&StoredRuns { plan, rows, place })
}

/// Plan of a run that would measure these rows; `None` without a row.
pub(crate) fn stored_plan(
    rows: &[Sides<Measurement>],
    threshold_percent: f64,
) -> Option<Plan<CountsPlan>> {
    let first = rows.first()?;
    let Measurement { measurand, guest, seed, .. } = &first.base;
    let count = u32::try_from(measurand.layouts.len()).unwrap_or(u32::MAX);
    let asked = AskedCounts {
        machine: measurand.machine.clone(),
        subjects: Sides::from_fn(|side| first.get(side).subject.clone()),
        guest: guest.clone(),
        calibration: None,
    };
    let method = CountsPlan {
        // A measurement's Key only has the modules of its own Side.
        key: Key { modules: asked.guest.all_modules(), ..measurand.key.clone() },
        kernels: Sides::from_fn(|side| first.get(side).kernel.clone()),
        archives: None,
        workloads: rows.iter().map(|row| row.base.measurand.workload.clone()).collect(),
        layouts: measurand.layouts.clone(),
        steps: plan::steps_from_seed(*seed, count),
        asked,
    };
    let title = plan::comparison_title(&first.base.subject, &first.change.subject);
    Some(Plan { format: FORMAT, title, seed: *seed, threshold_percent, method })
}

/// Measurements of rows for both Sides, analysed like a run directory with this Plan.
struct StoredRuns {
    plan: Plan<CountsPlan>,
    /// Measurements in the order of the Plan's rows.
    rows: Vec<Sides<Measurement>>,
    /// Directory of the store.
    place: String,
}

impl StoredRuns {
    fn layout(&self, step: &Step, row: &str) -> Option<&MeasuredLayout> {
        let is_row =
            |row_of_both: &&Sides<Measurement>| row_of_both.base.measurand.workload.row == row;
        self.rows.iter().find(is_row)?.get(step.side).layouts.get(step.layout)
    }
}

impl CountsRuns for StoredRuns {
    fn plan(&self) -> &Plan<CountsPlan> {
        &self.plan
    }

    fn location(&self) -> String {
        self.place.clone()
    }

    fn boot(&self, step: &Step) -> Result<Option<Boot>, Error> {
        let boot_of = |row: &Sides<Measurement>| {
            Some(row.get(step.side).layouts.get(step.layout)?.boot.clone())
        };
        Ok(self.rows.first().and_then(boot_of))
    }

    fn run(&self, step: &Step, row: &str) -> Result<Option<Run>, Error> {
        let outcome = self.layout(step, row).map(|layout| Outcome::Measured(layout.sample.clone()));
        Ok(outcome.map(|outcome| Run { row: row.to_owned(), outcome }))
    }

    fn profile(&self, step: &Step, row: &str) -> Result<Profile, Error> {
        let text = self.layout(step, row).map_or("", |layout| &layout.profile);
        let parsed = parse(text);
        parsed
            .map(|parsed| parsed.profile)
            .map_err(|error| damaged(self.place.as_ref(), &error.to_string()))
    }
}
