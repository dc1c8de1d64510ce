//! Ranks additions to one base by their costs.

use std::path::{Path, PathBuf};

use super::Error;
use super::phases::{self, compare_with_base_of};
use super::remaining::Part;
use super::results::{LEDGER, write_result};
use super::session::{Session, why_unbuilt};
use super::store::keep_result;
use crate::analyse;
use crate::disk::read_text;
use crate::model::{AlreadyOn, Comparison, LedgerTable, Row, Warning};
use crate::plan::{ALL_ADDITIONS, ExperimentMethod, Ledger, ranking_machine};

/// Result of a ledger.
#[derive(Debug)]
pub struct RankedLedger {
    /// Additions, ranked by cost.
    pub table: LedgerTable,
    /// Comparisons of each addition with the base, then of all together.
    pub comparisons: Vec<Comparison>,
}

/// Compares each addition with the base, in a run directory of its own below `out`, and writes the
/// table and its reports there. `None` if the user stopped it.
pub fn rank(
    ledger: &Ledger,
    out: &Path,
    session: &Session<'_>,
) -> Result<Option<RankedLedger>, Error> {
    check_names(ledger, session)?;
    let CheckedLedger { ledger, already_on, without_effect } =
        match remove_additions_from_base(ledger.clone(), session) {
            Err(error) if error.is_cancelled() => return Ok(None),
            checked => checked?,
        };
    // The base may have other options now.
    check_names(&ledger, session)?;
    let (mut compared, mut not_built) = (Vec::new(), Vec::new());
    let mut first_dir: Option<PathBuf> = None;
    let count = ledger.experiments.len();
    for (index, (name, experiment)) in ledger.experiments.iter().enumerate() {
        session.observer.part(Part { index, count, shares_base: true });
        session.observer.note(name);
        let plan = match phases::plan(experiment, session) {
            Ok(plan) => plan,
            Err(error) if error.is_cancelled() => return Ok(None),
            Err(error) => {
                let why = why_unbuilt(error)?;
                session.observer.note(&why);
                not_built.push((name.clone(), why));
                continue;
            }
        };
        let dir = out.join(name);
        // The first run measures the base, and the others take its results from there.
        let first_dir = first_dir.get_or_insert(dir.clone());
        match compare_with_base_of(first_dir, &dir, plan, session)? {
            Some(comparison) => compared.push((name.clone(), with_estimates(comparison)?)),
            None => return Ok(None),
        }
    }
    let has_total = compared.last().is_some_and(|(name, _)| name == ALL_ADDITIONS);
    let total = has_total.then(|| compared.pop()).flatten().map(|(_, comparison)| comparison);
    // If an addition was not built, the total would be incomplete.
    let total = total.filter(|_| not_built.is_empty());
    let table = analyse::ledger(&ledger.title, &compared, total.as_ref(), not_built, already_on);
    let mut table = table.ok_or_else(|| {
        Error::user("no addition could be built, for the reasons above").next(
            "correct the kernel, `config` or `patches` in the ledger file, then run `ktax ledger \
             FILE` again",
        )
    })?;
    table.again.clone_from(&ledger.again);
    table.warnings.extend(without_effect);
    write_result(out, LEDGER, &table)?;
    keep_result(&table, session);
    let comparisons = compared.into_iter().map(|(_, comparison)| comparison).chain(total).collect();
    Ok(Some(RankedLedger { table, comparisons }))
}

/// Checks the names of all kernels, options and patches before a kernel is downloaded or built.
fn check_names(ledger: &Ledger, session: &Session<'_>) -> Result<(), Error> {
    let mut experiments = ledger.experiments.iter();
    experiments.try_for_each(|(_, experiment)| session.check_names(&experiment.method))
}

/// Adds estimates for the built-in machine, unless the user named another machine. A ledger ranks
/// by cycles, because instructions and iterations have no common unit.
fn with_estimates(mut comparison: Comparison) -> Result<Comparison, Error> {
    let is_estimated = |row: &Row| row.counts().is_some_and(|counts| counts.estimate.is_some());
    if !comparison.rows.iter().any(is_estimated) {
        let (name, calibration) = ranking_machine()?;
        analyse::estimate(&mut comparison.rows, name, &calibration);
    }
    Ok(comparison)
}

/// Ledger whose base has none of the additions.
struct CheckedLedger {
    ledger: Ledger,
    /// Parts of additions that the base had.
    already_on: Vec<AlreadyOn>,
    /// Parameters without effect, by addition.
    without_effect: Vec<(String, Warning)>,
}

/// Size limit of a kernel's configuration, in bytes.
const CONFIG_MAX: u64 = 4 << 20;

/// Removes the ledger's additions from the base. An addition that is in the base, too, would cost
/// nothing.
fn remove_additions_from_base(
    ledger: Ledger,
    session: &Session<'_>,
) -> Result<CheckedLedger, Error> {
    let Some(config) = base_config(&ledger, session)? else {
        return Ok(CheckedLedger { ledger, already_on: Vec::new(), without_effect: Vec::new() });
    };
    let already_on = ledger.already_on(&config);
    let without_effect = ledger.ineffective_parameters(&config);
    for entry in &already_on {
        session.observer.note(&format!("{}: {}", entry.addition, entry.text()));
    }
    Ok(CheckedLedger { ledger: ledger.without_parts(&already_on)?, already_on, without_effect })
}

/// Configuration of the base's kernel; `None` if it is unknown or the kernel cannot be built, which
/// the first comparison reports.
fn base_config(ledger: &Ledger, session: &Session<'_>) -> Result<Option<String>, Error> {
    let Some((_, experiment)) = ledger.experiments.first() else { return Ok(None) };
    let ExperimentMethod::Counts(counts) = &experiment.method else { return Ok(None) };
    match session.obtain(&counts.asked.subjects.base) {
        Ok(kernel) => Ok(kernel.config.and_then(|path| read_text(&path, CONFIG_MAX).ok())),
        Err(error) if error.is_cancelled() => Err(error),
        Err(error) => why_unbuilt(error).map(|_| None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::SilentObserver;

    #[test]
    fn names_are_checked_before_a_kernel_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let session =
            Session { cache: dir.path().into(), ..Session::new(&SilentObserver).unwrap() };
        let tree = dir.path().join("no-tree").display().to_string();
        let text = format!(
            r#"
            title = "a ledger"
            workloads = ["getppid"]
            base = {{ kernel = "src:{tree}" }}

            [[add]]
            name = "mistyped"
            patches = ["no-such.patch"]
            "#
        );
        let ledger = Ledger::parse(&text, "ledger.toml").unwrap();
        let error = rank(&ledger, &dir.path().join("out"), &session).unwrap_err().to_string();
        assert!(error.contains("no-such.patch"), "{error}");
    }
}
