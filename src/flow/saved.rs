//! Results that ktax wrote, to be printed again.

use std::path::{Path, PathBuf};

use super::error::Error;
use super::file::{RESULT_MAX, unreadable};
use super::kept::{BISECTION, LEDGER, VALIDATION};
use crate::analyse;
use crate::disk::read_limited;
use crate::exits;
use crate::model::{
    Comparison, METRICS, Row, RowPaths, Saved, SavedError, SavedResult, read_results,
};
use crate::report::{Explained, Report, results_of_page};
use crate::rundir::{AnyRunDir, RunDirError};
use crate::text::{nearest, shell_path};

/// The results of files, and those of directories: of a run, a search or a ledger. Of several each
/// has a name.
///
/// # Errors
/// There is none, or a file is none of ktax's.
pub fn saved(paths: &[PathBuf]) -> Result<Vec<Saved>, Error> {
    let mut all = Vec::new();
    for path in paths {
        let mut of_path = if path.is_dir() { directory(path)? } else { file(path)? };
        name(&mut of_path, path, paths.len() > 1);
        all.extend(of_path);
    }
    Ok(all)
}

/// Names results by their path and by their place in it, where one of these tells them apart.
fn name(results: &mut [Saved], path: &Path, has_others: bool) {
    let path = path.display().to_string();
    let is_one = results.len() == 1;
    for (at, saved) in results.iter_mut().enumerate() {
        saved.name = match (saved.name.as_str(), has_others) {
            ("", false) if is_one => String::new(),
            ("", true) if is_one => path.clone(),
            ("", _) => format!("{path}#{}", at + 1),
            (own, true) => format!("{path}, {own}"),
            (own, false) => own.to_owned(),
        };
    }
}

fn directory(path: &Path) -> Result<Vec<Saved>, Error> {
    let finished = [BISECTION, LEDGER, VALIDATION].map(|name| path.join(name));
    if let Some(finished) = finished.iter().find(|path| path.is_file()) {
        return file(finished);
    }
    let of_run = match AnyRunDir::open(path) {
        Err(error @ RunDirError::NoPlan { .. }) => return below(path, error),
        opened => opened?.comparison()?,
    };
    let saved = |comparison: Comparison| Saved { dir: Some(path.into()), ..comparison.saved() };
    of_run.map(|comparison| vec![saved(comparison)]).ok_or_else(|| none_in(path))
}

/// The runs of a sweep, a search or a ledger that are finished, by the names of their directories.
fn below(path: &Path, none: RunDirError) -> Result<Vec<Saved>, Error> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.join("plan.json").is_file());
    // cpus=2 comes before cpus=16.
    alphanumeric_sort::sort_path_slice(&mut paths);
    if paths.is_empty() {
        return Err(none.into());
    }
    let mut all = Vec::new();
    for run in paths {
        let Some(comparison) = AnyRunDir::open(&run)?.comparison()? else { continue };
        let name = run.file_name().unwrap_or_default().to_string_lossy().into_owned();
        all.push(Saved { name, dir: Some(run.clone()), ..comparison.saved() });
    }
    if all.is_empty() { Err(none_in(path)) } else { Ok(all) }
}

fn none_in(path: &Path) -> Error {
    let next = match path.join("plan.json").is_file() {
        true => format!("finish it with `ktax run {}`", shell_path(path)),
        false => "type the command that began it again, and it goes on".to_owned(),
    };
    Error::NoComparison { path: path.display().to_string(), next }
}

fn file(path: &Path) -> Result<Vec<Saved>, Error> {
    let wanted = "a run directory, or of a file that ktax wrote";
    let bytes = read_limited(path, RESULT_MAX).map_err(|error| unreadable(path, wanted, error))?;
    let text = String::from_utf8_lossy(&bytes);
    let no_page = |error| Error::NoPage { path: path.display().to_string(), error };
    let of_page = results_of_page(&text, RESULT_MAX).map_err(no_page)?;
    let mut all = read_results(of_page.as_deref().unwrap_or(&text)).map_err(|error| {
        let path = path.display().to_string();
        let is_other = matches!(error, SavedError::NotAResult(_));
        match is_other && exits::files::kind(&text).is_some() {
            true => Error::ExitText { path },
            false => Error::NoResult { path, error },
        }
    })?;
    for saved in &mut all {
        if let SavedResult::History(history) = &mut saved.result {
            analyse::complete(history);
        }
    }
    Ok(all)
}

/// All call paths of a row of a run directory, in the Layout that its report shows: as they were
/// called, or as they are compared.
///
/// # Errors
/// There is no such directory or row, or the row has no paths.
pub fn row_paths(path: &Path, row: &str, is_compared: bool) -> Result<RowPaths, Error> {
    let no_paths = || Error::NoPaths { path: path.display().to_string() };
    if !path.is_dir() {
        return Err(no_paths());
    }
    let dir = AnyRunDir::open(path)?;
    let comparison = dir.comparison()?.ok_or_else(|| none_in(path))?;
    let AnyRunDir::Counts(dir) = dir else { return Err(no_paths()) };
    let found = comparison.rows.iter().find(|one| one.row == row);
    let row = found.ok_or_else(|| no_row(row, &comparison.rows))?;
    if row.computed_from().is_some() {
        // The rows that it is computed from have them.
        return Err(no_paths());
    }
    // Paths count instructions and REP iterations.
    let [instructions, rep] = [&METRICS[0], &METRICS[1]].map(|metric| row.effect(metric.name));
    let is_by_rep = row.deciding().zip(rep).is_some_and(|(one, rep)| one.metric == rep.metric);
    let effect = if is_by_rep { rep } else { instructions }.ok_or_else(no_paths)?;
    let paths = analyse::row_paths(&dir, row, effect, is_compared)?;
    if paths.contexts.is_empty() { Err(no_paths()) } else { Ok(paths) }
}

fn no_row<'a>(row: &str, rows: impl IntoIterator<Item = &'a Row>) -> Error {
    let names = rows.into_iter().map(|one| one.row.as_str());
    Error::NoRow { row: row.to_owned(), near: nearest(row, names).map(str::to_owned) }
}

/// The results that have a row of that name, each with its own name and this row alone; those of
/// run directories with its call paths.
///
/// # Errors
/// None of them has, or a profile cannot be read.
pub fn explained<'a>(row: &str, results: &'a [Saved]) -> Result<Vec<(&'a str, Explained)>, Error> {
    let comparisons = || {
        results.iter().filter_map(|saved| match &saved.result {
            SavedResult::Comparison(comparison) => Some((saved, &**comparison)),
            _ => None,
        })
    };
    if comparisons().next().is_none() {
        return Err(Error::NothingToExplain);
    }
    let mut found = Vec::new();
    for (saved, comparison) in comparisons() {
        let Some(explained) = Explained::of(comparison, row) else { continue };
        let paths = saved.dir.as_deref().map(|dir| paths_if_any(dir, row)).transpose()?;
        found.push((saved.name.as_str(), explained.with_paths(paths.flatten())));
    }
    if found.is_empty() {
        return Err(no_row(row, comparisons().flat_map(|(_, it)| &it.rows)));
    }
    Ok(found)
}

/// `None` of a row that failed, and of one that has none.
fn paths_if_any(dir: &Path, row: &str) -> Result<Option<RowPaths>, Error> {
    match row_paths(dir, row, true) {
        Err(Error::NoPaths { .. }) => Ok(None),
        found => found.map(Some),
    }
}
