//! Files that a user names, and results on disk.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::error::{Error, OrHost};
use crate::disk::{check_writable, read_limited, read_text, write_atomically};
use crate::model::{
    Comparison, METRICS, Row, RowPaths, Saved, SavedError, SavedResult, read_results,
};
use crate::plan::{self, BuiltIn, ModelKey};
use crate::report::{Explained, FORMATS, JSON, Report, TextOptions, render, results_of_page};
use crate::rundir::{AnyRunDir, RunDirError};
use crate::text::{nearest, shell_path};
use crate::{analyse, exits};

/// More than an experiment or a ledger has. Some files have no end, such as `/dev/zero`.
pub(super) const FILE_MAX: u64 = 64 << 20;

/// A result has never been a hundredth of this.
pub(super) const RESULT_MAX: u64 = 256 << 20;

/// The text of a file; `wanted` says what it should be.
///
/// # Errors
/// The file cannot be read, is too large, or is no text.
pub fn text(path: &Path, wanted: &'static str) -> Result<String, Error> {
    read_text(path, FILE_MAX).map_err(|reason| unreadable(path, wanted, reason))
}

/// Refuses a file for a result that could not be written, before anything is measured.
///
/// # Errors
/// It is a directory, or its directory cannot be written.
pub fn check_output(path: &Path) -> Result<(), Error> {
    let is_special = fs::metadata(path).is_ok_and(|it| !it.is_file() && !it.is_dir());
    if is_special { Ok(()) } else { check_writable(path).map_err(|error| unwritable(path, error)) }
}

/// Writes a result to a file that the user named.
///
/// # Errors
/// Those of [`check_output`], or the disk is full.
pub fn write_output(path: &Path, text: &str) -> Result<(), Error> {
    // A file that is renamed would take the place of a device or a pipe.
    let is_special = fs::metadata(path).is_ok_and(|it| !it.is_file());
    let write = if is_special {
        |path: &Path, text: &[u8]| fs::write(path, text)
    } else {
        write_atomically
    };
    write(path, text.as_bytes()).map_err(|error| unwritable(path, error))
}

fn unwritable(path: &Path, error: io::Error) -> Error {
    // The system's words alone: what else there is names a file that nobody asked for.
    let kind = error.kind();
    let reason = error.raw_os_error().map_or(kind.into(), io::Error::from_raw_os_error);
    Error::Unwritable { path: path.display().to_string(), reason }
}

/// The text of an experiment: of the file of that name, else of one that is built in.
///
/// # Errors
/// There is neither, or the file cannot be read.
pub fn experiment_text(named: &Path) -> Result<String, Error> {
    named_text(named, "an experiment file, or a name that `ktax experiments` lists")
}

/// The text of a ledger, likewise.
///
/// # Errors
/// There is neither, or the file cannot be read.
pub fn ledger_text(named: &Path) -> Result<String, Error> {
    named_text(named, "a ledger file, or a name that `ktax experiments` lists")
}

/// The text of a campaign file.
///
/// # Errors
/// It cannot be read.
pub fn campaign_text(path: &Path) -> Result<String, Error> {
    text(path, "a campaign file")
}

/// What is modelled, with the machine of a file, whose name ends in `.toml`.
///
/// # Errors
/// The file cannot be read, or is no machine.
pub fn model(key: ModelKey) -> Result<ModelKey, Error> {
    let ModelKey::Name(named) = &key else { return Ok(key) };
    let path = Path::new(named);
    match path.file_name().and_then(|name| name.to_str()) {
        Some(name) if name.ends_with(".toml") => machine(path),
        _ => Ok(key),
    }
}

/// The machine of a file.
///
/// # Errors
/// The file cannot be read, or is no machine.
pub(super) fn machine(path: &Path) -> Result<ModelKey, Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(ModelKey::parse(&text(path, "a machine's file, as `ktax calibrate` writes one")?, &name)?)
}

/// Of either: who reads the text says which command is for the other.
fn named_text(named: &Path, wanted: &'static str) -> Result<String, Error> {
    let all = plan::experiments().chain(plan::ledgers());
    built_in(named, all).map_or_else(|| text(named, wanted), Ok)
}

fn all_built_in() -> impl Iterator<Item = BuiltIn> {
    plan::experiments().chain(plan::ledgers()).chain(plan::machines())
}

/// The text of what is built in.
///
/// # Errors
/// Nothing of that name is.
pub fn built_in_text(name: &str) -> Result<&'static str, Error> {
    let found = all_built_in().find(|it| it.name == name).map(|it| it.text);
    found.ok_or_else(|| {
        let near = nearest(name, all_built_in().map(|it| it.name)).map(str::to_owned);
        Error::NotBuiltIn { name: name.to_owned(), near }
    })
}

/// A file wins; a directory is no experiment, and often has the name of the one that made it.
fn built_in(named: &Path, mut all: impl Iterator<Item = BuiltIn>) -> Option<String> {
    let is_file = named.exists() && !named.is_dir();
    let found = all.find(|it| !is_file && named == Path::new(it.name))?;
    Some(found.text.to_owned())
}

/// Why such a file is not read.
pub(super) fn unreadable(path: &Path, wanted: &'static str, reason: std::io::Error) -> Error {
    Error::Unreadable { path: path.display().to_string(), reason, wanted }
}

/// What is kept of a search.
pub(super) const BISECTION: &str = "bisection.json";

/// What is kept of a ledger.
pub(super) const LEDGER: &str = "ledger.json";

/// What is kept of an experiment that was counted and timed.
pub(super) const VALIDATION: &str = "validation.json";

/// The report of each format that has a file beside the result, with the name of that file.
pub(super) fn reports(of: &dyn Report) -> Result<Vec<(&'static str, String)>, Error> {
    let files = FORMATS.iter().filter_map(|format| Some((format.file?, *format)));
    files.map(|(name, format)| Ok((name, render(of, format, TextOptions::default())?))).collect()
}

/// Keeps a result in a directory: as JSON under its name, and the reports.
pub(super) fn keep(root: &Path, name: &str, of: &dyn Report) -> Result<(), Error> {
    let json = render(of, JSON, TextOptions::default())?;
    for (name, text) in [(name, json)].into_iter().chain(reports(of)?) {
        let path = root.join(name);
        write_atomically(&path, text.as_bytes())
            .context(format!("cannot write {}", path.display()), "free some disk space")?;
    }
    Ok(())
}

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
