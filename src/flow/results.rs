//! Files that a user names, and results on disk.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::Error;
use crate::disk::{check_writable, read_limited, read_text, write_atomically};
use crate::model::{
    Comparison, ErrorContext, ErrorKind, METRICS, Row, RowPaths, Saved, SavedError, SavedResult,
    read_results,
};
use crate::plan::{self, BuiltIn, ModelKey};
use crate::report::{
    Document, ExplainedRow, FORMATS, JSON, Report, TextOptions, render, results_of_page,
};
use crate::rundir::AnyRunDir;
use crate::text::{did_you_mean_quoted, escape, escape_path, nearest, shell_path};
use crate::{analyse, exits};

/// Size limit of an experiment or a ledger, in bytes: special files such as `/dev/zero` have no
/// end.
pub(super) const FILE_MAX: u64 = 64 << 20;

/// Size limit of a result, in bytes: a hundred times the largest one so far.
pub(super) const RESULT_MAX: u64 = 256 << 20;

/// Text of a file; the error names the kind of file that is `wanted`.
pub fn read_named_text(path: &Path, wanted: &'static str) -> Result<String, Error> {
    read_text(path, FILE_MAX).map_err(|reason| unreadable(path, wanted, reason))
}

/// Refuses a file that cannot be written, before anything is measured.
pub fn check_output(path: &Path) -> Result<(), Error> {
    let is_special =
        fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir());
    if is_special {
        Ok(())
    } else {
        check_writable(path).map_err(|error| unwritable_error(path, error))
    }
}

/// Writes a result to a file that the user named.
pub fn write_output(path: &Path, text: &str) -> Result<(), Error> {
    // An atomic write would replace a device or a pipe by a file.
    let is_special = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    let write = if is_special {
        |path: &Path, text: &[u8]| fs::write(path, text)
    } else {
        write_atomically
    };
    write(path, text.as_bytes()).map_err(|error| unwritable_error(path, error))
}

fn unwritable_error(path: &Path, error: io::Error) -> Error {
    // Only use the system's message, because the error's text names a temporary file.
    let kind = error.kind();
    let reason = error.raw_os_error().map_or(kind.into(), io::Error::from_raw_os_error);
    Error::user(format!("cannot write {}: {reason}", escape_path(path)))
        .next("give the path of a file in a directory that you may write")
}

/// Text of an experiment file, or of the built-in experiment of that name.
pub fn experiment_text(named: &Path) -> Result<String, Error> {
    named_text(named, "an experiment file, or a name that `ktax experiments` lists")
}

/// Text of a ledger file, or of the built-in ledger of that name.
pub fn ledger_text(named: &Path) -> Result<String, Error> {
    named_text(named, "a ledger file, or a name that `ktax experiments` lists")
}

pub fn campaign_text(path: &Path) -> Result<String, Error> {
    read_named_text(path, "a campaign file")
}

/// Replaces a name that ends in `.toml` by the machine of that file.
pub fn model(key: ModelKey) -> Result<ModelKey, Error> {
    let ModelKey::Name(named) = &key else { return Ok(key) };
    let path = Path::new(named);
    match path.file_name().and_then(|name| name.to_str()) {
        Some(name) if name.ends_with(".toml") => machine(path),
        _ => Ok(key),
    }
}

pub(super) fn machine(path: &Path) -> Result<ModelKey, Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ModelKey::parse(
        &read_named_text(path, "a machine's file, as `ktax calibrate` writes one")?,
        &name,
    )
}

/// Text of a file, or of a built-in experiment or ledger. The caller refuses a file of the wrong
/// kind.
fn named_text(named: &Path, wanted: &'static str) -> Result<String, Error> {
    let files = plan::experiments().chain(plan::ledgers());
    built_in_named(named, files).map_or_else(|| read_named_text(named, wanted), Ok)
}

fn all_built_in() -> impl Iterator<Item = BuiltIn> {
    plan::experiments().chain(plan::ledgers()).chain(plan::machines())
}

/// Text of a built-in experiment, ledger or machine.
pub fn built_in_text(name: &str) -> Result<&'static str, Error> {
    let found = all_built_in().find(|file| file.name == name).map(|file| file.text);
    found.ok_or_else(|| {
        let near = did_you_mean_quoted(nearest(name, all_built_in().map(|file| file.name)));
        Error::user(format!("no experiment or ledger is called {name:?}{near}"))
            .next("`ktax experiments` lists them")
    })
}

/// Built-in text of this name, unless a file has the name, too. A directory may have it, because
/// runs are often named after their experiment.
fn built_in_named(named: &Path, mut files: impl Iterator<Item = BuiltIn>) -> Option<String> {
    let is_file = named.exists() && !named.is_dir();
    let found = files.find(|file| !is_file && named == Path::new(file.name))?;
    Some(found.text.to_owned())
}

/// Error for a file that cannot be read.
pub(super) fn unreadable(path: &Path, wanted: &'static str, reason: std::io::Error) -> Error {
    Error::user(format!("cannot read {}: {reason}", escape_path(path)))
        .next(format!("give the path of {wanted}"))
}

pub(super) const BISECTION: &str = "bisection.json";

pub(super) const LEDGER: &str = "ledger.json";

/// File name of the result of an experiment that was counted and timed.
pub(super) const VALIDATION: &str = "validation.json";

/// Reports of the formats that are written to a file, by file name.
pub(super) fn reports(report: &dyn Report) -> Result<Vec<(&'static str, String)>, Error> {
    let document = [Document::from(report)];
    let files = FORMATS.iter().filter_map(|format| Some((format.file?, format)));
    files
        .map(|(name, format)| Ok((name, (format.write)(&document, TextOptions::default())?)))
        .collect()
}

/// Writes a result to a directory: as JSON to the file `name`, and its reports.
pub(super) fn write_result(root: &Path, name: &str, report: &dyn Report) -> Result<(), Error> {
    let json = render(report, JSON, TextOptions::default())?;
    let files = [(name, json)].into_iter().chain(reports(report)?);
    files
        .map(|(name, text)| (root.join(name), text))
        .try_for_each(|(path, text)| write(&path, &text))
}

/// Writes a file in a directory of ktax.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Error> {
    write_atomically(path, text.as_bytes())
        .or_host(format!("cannot write {}", path.display()), "free some disk space")
}

/// Results of files, and of the directories of runs, searches and ledgers. If there are several
/// results, each has a name.
pub fn saved(paths: &[PathBuf]) -> Result<Vec<Saved>, Error> {
    let mut saved = Vec::new();
    for path in paths {
        let mut found =
            if path.is_dir() { results_of_directory(path)? } else { results_of_file(path)? };
        name_results(&mut found, path, paths.len() > 1);
        saved.extend(found);
    }
    Ok(saved)
}

/// Names results by their path, and by their number if the path has several.
fn name_results(results: &mut [Saved], path: &Path, has_other_paths: bool) {
    let path = path.display().to_string();
    let is_only = results.len() == 1;
    for (index, saved) in results.iter_mut().enumerate() {
        saved.name = match (saved.name.as_str(), has_other_paths) {
            ("", false) if is_only => String::new(),
            ("", true) if is_only => path.clone(),
            ("", _) => format!("{path}#{}", index + 1),
            (name, true) => format!("{path}, {name}"),
            (name, false) => name.to_owned(),
        };
    }
}

fn results_of_directory(path: &Path) -> Result<Vec<Saved>, Error> {
    let finished = [BISECTION, LEDGER, VALIDATION].map(|name| path.join(name));
    if let Some(finished) = finished.iter().find(|path| path.is_file()) {
        return results_of_file(finished);
    }
    let comparison = match AnyRunDir::open(path) {
        Err(error) if error.kind == ErrorKind::NoRunDirectory => return results_below(path, error),
        opened => opened?.comparison()?,
    };
    let saved = |comparison: Comparison| Saved { dir: Some(path.into()), ..comparison.saved() };
    comparison.map(|comparison| vec![saved(comparison)]).ok_or_else(|| no_comparison(path))
}

/// Finished runs of a sweep, a search or a ledger, named by their directories; `no_run` is the
/// error without a run directory.
fn results_below(path: &Path, no_run: Error) -> Result<Vec<Saved>, Error> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.join("plan.json").is_file());
    // Sort cpus=2 before cpus=16.
    alphanumeric_sort::sort_path_slice(&mut paths);
    if paths.is_empty() {
        return Err(no_run);
    }
    let mut comparisons = Vec::new();
    for run in paths {
        let Some(comparison) = AnyRunDir::open(&run)?.comparison()? else { continue };
        let name = run.file_name().unwrap_or_default().to_string_lossy().into_owned();
        comparisons.push(Saved { name, dir: Some(run.clone()), ..comparison.saved() });
    }
    if comparisons.is_empty() { Err(no_comparison(path)) } else { Ok(comparisons) }
}

fn no_comparison(path: &Path) -> Error {
    let next = match path.join("plan.json").is_file() {
        true => format!("finish it with `ktax run {}`", shell_path(path)),
        false => "resume it by the command that began it".to_owned(),
    };
    Error::user(format!("{} has no comparison yet", path.display()))
        .next(next)
        .kind(ErrorKind::NoComparison)
}

fn results_of_file(path: &Path) -> Result<Vec<Saved>, Error> {
    let wanted = "a run directory, or of a file that ktax wrote";
    let bytes = read_limited(path, RESULT_MAX).map_err(|error| unreadable(path, wanted, error))?;
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    let no_page = |error| {
        Error::user(format!("cannot read {}: {error}", escape_path(path)))
            .next("make the page again with `ktax report --html FILE DIR`")
    };
    let page_results = results_of_page(&text, RESULT_MAX).map_err(no_page)?;
    let mut results = read_results(page_results.as_deref().unwrap_or(&text)).map_err(|error| {
        let is_other = matches!(error, SavedError::NotAResult(_));
        match is_other && exits::files::detect_kind(&text).is_some() {
            true => {
                let (path, again) = (escape_path(path), escape(&shell_path(path)));
                Error::user(format!("{path} has exit tables that ktax did not write"))
                    .next(format!("print it with `ktax exits report {again}`"))
            }
            false => {
                let reason = escape(&error.to_string());
                Error::user(format!("cannot read {}: {reason}", path.display()))
                    .next(error.next_step())
            }
        }
    })?;
    for saved in &mut results {
        if let SavedResult::History(history) = &mut saved.result {
            analyse::add_previous_differences(history);
        }
    }
    Ok(results)
}

/// All call paths of a row of a run directory, in the Layout that the report shows. `is_compared`
/// selects the paths of the comparison instead of the recorded ones.
pub fn row_paths(path: &Path, row: &str, is_compared: bool) -> Result<RowPaths, Error> {
    let no_paths = || {
        Error::user(format!("{} has no call paths of that row", escape_path(path)))
            .next(
                "give the directory of a run of the exact engine in which the row was measured, \
                 and no row that boots",
            )
            .kind(ErrorKind::NoPaths)
    };
    if !path.is_dir() {
        return Err(no_paths());
    }
    let dir = AnyRunDir::open(path)?;
    let comparison = dir.comparison()?.ok_or_else(|| no_comparison(path))?;
    let AnyRunDir::Counts(dir) = dir else { return Err(no_paths()) };
    let found = comparison.rows.iter().find(|candidate| candidate.row == row);
    let row = found.ok_or_else(|| no_row(row, &comparison.rows))?;
    if row.computed_from().is_some() {
        // Computed rows are not measured.
        return Err(no_paths());
    }
    // Paths only count instructions and REP iterations.
    let [instructions, rep] = [&METRICS[0], &METRICS[1]].map(|metric| row.effect(metric.name));
    let is_by_rep =
        row.deciding_effect().zip(rep).is_some_and(|(deciding, rep)| deciding.metric == rep.metric);
    let effect = if is_by_rep { rep } else { instructions }.ok_or_else(no_paths)?;
    let paths = analyse::row_paths(&dir, row, effect, is_compared)?;
    if paths.contexts.is_empty() { Err(no_paths()) } else { Ok(paths) }
}

fn no_row<'a>(row: &str, rows: impl IntoIterator<Item = &'a Row>) -> Error {
    let names = rows.into_iter().map(|row| row.row.as_str());
    let near = did_you_mean_quoted(nearest(row, names));
    Error::user(format!("there is no row {row:?}{near}"))
        .next("the report's table has all rows' names")
}

/// Comparisons that have a row of this name: the name of each result, and this row alone. The row
/// has its call paths if the result is of a run directory.
pub fn explained<'a>(
    row: &str,
    results: &'a [Saved],
) -> Result<Vec<(&'a str, ExplainedRow)>, Error> {
    let comparisons = || {
        results.iter().filter_map(|saved| match &saved.result {
            SavedResult::Comparison(comparison) => Some((saved, &**comparison)),
            _ => None,
        })
    };
    if comparisons().next().is_none() {
        return Err(Error::user("--explain only applies to comparisons")
            .next("for a ledger or a search, give the directory of one of its runs: DIR/NAME"));
    }
    let mut found = Vec::new();
    for (saved, comparison) in comparisons() {
        let Some(explained) = ExplainedRow::new(comparison, row) else { continue };
        let paths = saved.dir.as_deref().map(|dir| paths_if_any(dir, row)).transpose()?;
        found.push((saved.name.as_str(), explained.with_paths(paths.flatten())));
    }
    if found.is_empty() {
        return Err(no_row(row, comparisons().flat_map(|(_, comparison)| &comparison.rows)));
    }
    Ok(found)
}

/// Call paths of a row; `None` if it failed or has none.
fn paths_if_any(dir: &Path, row: &str) -> Result<Option<RowPaths>, Error> {
    match row_paths(dir, row, true) {
        Err(error) if error.kind == ErrorKind::NoPaths => Ok(None),
        found => found.map(Some),
    }
}
