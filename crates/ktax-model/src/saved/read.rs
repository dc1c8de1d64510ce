use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::error::SavedError;
use super::exits::check_exits;
use super::result::{Saved, SavedResult};
use crate::FORMAT;

/// What is looked at first: another version has other keys, too.
#[derive(Deserialize)]
struct Head {
    format: u32,
    result: Option<IgnoredAny>,
}

/// Reads the results of a text: one, or an array of several; never none.
///
/// # Errors
/// It has none, or results of another version, or what ktax does not write.
pub fn read_results(text: &str) -> Result<Vec<Saved>, SavedError> {
    let heads: Vec<Head> = all_of(text).map_err(|error| no_head(&error))?;
    if heads.is_empty() {
        return Err(SavedError::NotAResult("the array is empty".to_owned()));
    }
    if let Some(Head { format, .. }) = heads.iter().find(|head| head.format != FORMAT) {
        return Err(SavedError::Format { found: *format });
    }
    if heads.iter().any(|head| head.result.is_none()) {
        return Err(SavedError::Untagged);
    }
    let all: Vec<Saved> = all_of(text).map_err(|error| SavedError::Damaged(error.to_string()))?;
    all.iter().try_for_each(|saved| check(&saved.result))?;
    Ok(all)
}

/// A text that ends early was begun by ktax; of any other nobody knows who wrote it.
fn no_head(error: &serde_json::Error) -> SavedError {
    match error.is_eof() {
        true => SavedError::Damaged(error.to_string()),
        false => SavedError::NotAResult(error.to_string()),
    }
}

/// One, or an array of several.
fn all_of<T: DeserializeOwned>(text: &str) -> serde_json::Result<Vec<T>> {
    match text.trim_start().starts_with('[') {
        true => serde_json::from_str(text),
        false => serde_json::from_str(text).map(|one| vec![one]),
    }
}

/// Refuses what has the right form and was not written by ktax.
fn check(result: &SavedResult) -> Result<(), SavedError> {
    match result {
        SavedResult::Bisection(search) if !search.is_sound() => Err(SavedError::Search),
        SavedResult::Exits(tables) => Ok(check_exits(tables)?),
        SavedResult::ExitDiff(both) => Ok(check_exits([&both.base, &both.change])?),
        _ => Ok(()),
    }
}
