//! Results as JSON, on disk and on stdout, with a version and a tag. This is the only module that
//! reads them.

use std::path::PathBuf;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    Bisection, CalibrationTable, Comparison, ExitPair, ExitTable, FORMAT, History, LedgerTable,
    NativeTable, StatTable, Validation, check_exits,
};

/// A result with its version, name and headline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    /// [`FORMAT`].
    pub format: u32,
    /// Name among several results; empty for a single one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Answer in one sentence, as in the first line of a report; empty for kinds of results without
    /// such a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub headline: String,
    /// Run directory from which the result was read, which has profiles as well.
    #[serde(skip)]
    pub dir: Option<PathBuf>,
    pub result: SavedResult,
}

/// Result of any kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SavedResult {
    /// `comparison.json`
    Comparison(Box<Comparison>),
    /// `bisection.json`
    Bisection(Box<Bisection>),
    /// `ledger.json`
    Ledger(Box<LedgerTable>),
    /// Output of `ktax stat --json`.
    Stat(Box<StatTable>),
    /// Output of `ktax workloads run --json`.
    Native(Box<NativeTable>),
    /// File that `ktax exits record --out` writes.
    Exits(Vec<ExitTable>),
    /// Output of `ktax exits diff --json`.
    ExitDiff(Box<ExitPair>),
    /// Output of `ktax history --json`.
    History(Box<History>),
    /// Output of `ktax calibrate --json`.
    Calibration(Box<CalibrationTable>),
    /// Output of `ktax validate --json`.
    Validation(Box<Validation>),
}

impl From<SavedResult> for Saved {
    /// Adds the version, with empty name and headline.
    fn from(result: SavedResult) -> Saved {
        Saved { format: FORMAT, name: String::new(), headline: String::new(), dir: None, result }
    }
}

/// Output of `--json`: one result, or an array.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[allow(dead_code)]
enum Printed {
    One(Saved),
    Several(Vec<Saved>),
}

/// JSON schema of the output of `--json`.
pub fn result_schema() -> serde_json::Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<Printed>().into()
}

/// Fields that all versions have. Other versions have additional fields.
#[derive(Deserialize)]
struct Head {
    format: u32,
    result: Option<IgnoredAny>,
}

/// Reads one result or an array of results. The returned list is not empty.
pub fn read_results(text: &str) -> Result<Vec<Saved>, SavedError> {
    let results: Vec<Saved> = parse_all(text).map_err(|error| not_parsed(text, &error))?;
    if results.is_empty() {
        return Err(SavedError::NotAResult("the array is empty".to_owned()));
    }
    check_formats(results.iter().map(|saved| saved.format))?;
    results.iter().try_for_each(|saved| check_result(&saved.result))?;
    Ok(results)
}

fn check_formats(mut formats: impl Iterator<Item = u32>) -> Result<(), SavedError> {
    match formats.find(|format| *format != FORMAT) {
        Some(found) => Err(SavedError::Format { found }),
        None => Ok(()),
    }
}

/// Error for a text that has no results of this version. The text is parsed a second time for its
/// [`Head`]s alone, which tell results of other versions from damaged ones.
fn not_parsed(text: &str, error: &serde_json::Error) -> SavedError {
    let heads: Vec<Head> = match parse_all(text) {
        Ok(heads) => heads,
        Err(error) => return no_head(&error),
    };
    match check_formats(heads.iter().map(|head| head.format)) {
        Err(other_format) => other_format,
        Ok(()) if heads.iter().any(|head| head.result.is_none()) => SavedError::Untagged,
        Ok(()) => SavedError::Damaged(error.to_string()),
    }
}

/// Error for a text without a [`Head`]. A text that ends early is a truncated file of ktax; others
/// may be from any program.
fn no_head(error: &serde_json::Error) -> SavedError {
    match error.is_eof() {
        true => SavedError::Damaged(error.to_string()),
        false => SavedError::NotAResult(error.to_string()),
    }
}

/// Parses one value, or an array.
fn parse_all<T: DeserializeOwned>(text: &str) -> serde_json::Result<Vec<T>> {
    match text.trim_start().starts_with('[') {
        true => serde_json::from_str(text),
        false => serde_json::from_str(text).map(|value| vec![value]),
    }
}

/// Refuses results that have the right form, but inconsistent values.
fn check_result(result: &SavedResult) -> Result<(), SavedError> {
    match result {
        SavedResult::Bisection(search) if !search.is_sound() => Err(SavedError::DamagedSearch),
        SavedResult::Exits(tables) => Ok(check_exits(tables)?),
        SavedResult::ExitDiff(both) => Ok(check_exits([&both.base, &both.change])?),
        _ => Ok(()),
    }
}

/// Reasons why a text has no valid result. Parts of the text in a message are not escaped.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SavedError {
    #[error("it is damaged, or ktax did not write it ({0})")]
    NotAResult(String),
    #[error("it has format {found}, and this ktax reads format {FORMAT}")]
    Format { found: u32 },
    #[error("it has no tag with the kind of the result, as results of this version of ktax have")]
    Untagged,
    #[error("it is damaged ({0})")]
    Damaged(String),
    #[error("its search is damaged")]
    DamagedSearch,
    #[error(transparent)]
    Exits(#[from] crate::Error),
}

impl SavedError {
    pub fn next_step(&self) -> &'static str {
        match self {
            SavedError::NotAResult(_) => "give a file that ktax wrote with --json",
            SavedError::Damaged(_) | SavedError::DamagedSearch | SavedError::Exits(_) => {
                "make it again"
            }
            SavedError::Format { .. } | SavedError::Untagged => {
                "make it again with this version of ktax"
            }
        }
    }
}
