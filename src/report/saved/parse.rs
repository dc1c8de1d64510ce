use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::kind::Saved;
use crate::model::{Bisection, Comparison, FORMAT};

/// The keys of an object, which tell what it is.
type Keys = BTreeMap<String, IgnoredAny>;

#[derive(Deserialize)]
struct Version {
    format: u32,
}

/// Reads every result of a file that ktax wrote.
///
/// # Errors
/// Why it has none, in words.
pub fn parse(text: &str) -> Result<Vec<Saved>, String> {
    let wrong = |error: serde_json::Error| format!("it is not a result of ktax ({error})");
    if !text.trim_start().starts_with('[') {
        let keys: Keys = serde_json::from_str(text).map_err(wrong)?;
        return Ok(vec![object(&keys, text)?]);
    }
    let all: Vec<Keys> = serde_json::from_str(text).map_err(wrong)?;
    let have = |key: &str| !all.is_empty() && all.iter().all(|keys| keys.contains_key(key));
    if !have("format") {
        return Err("it is not a result of ktax".to_owned());
    }
    check_version(read::<Vec<Version>>(text)?)?;
    match () {
        () if have("source") => Ok(vec![Saved::Exits(read(text)?)]),
        () if have("method") => {
            let all: Vec<Comparison> = read(text)?;
            Ok(all.into_iter().map(|one| Saved::Comparison(Box::new(one))).collect())
        }
        () => Err("an array of ktax has comparisons or exit tables, and it has neither".to_owned()),
    }
}

fn object(keys: &Keys, text: &str) -> Result<Saved, String> {
    let has = |key: &str| keys.contains_key(key);
    if has("base") && has("change") && keys.len() == 2 {
        return Ok(Saved::ExitDiff(read(text)?));
    }
    if has("format") {
        check_version(vec![read(text)?])?;
    }
    match () {
        () if has("method") && has("rows") => Ok(Saved::Comparison(read(text)?)),
        () if has("chain") => bisection(read(text)?),
        () if has("not_built") => Ok(Saved::Ledger(read(text)?)),
        () if has("commands") => Ok(Saved::Stat(read(text)?)),
        () if has("workload") => Ok(Saved::Native(read(text)?)),
        () if has("source") => Ok(Saved::Exits(vec![read(text)?])),
        () => Err("it is not a result of ktax".to_owned()),
    }
}

fn check_version(versions: Vec<Version>) -> Result<(), String> {
    match versions.iter().find(|version| version.format != FORMAT) {
        None => Ok(()),
        Some(Version { format }) => {
            Err(format!("it has format {format}, and this ktax reads format {FORMAT}"))
        }
    }
}

fn bisection(bisection: Bisection) -> Result<Saved, String> {
    match bisection.is_sound() {
        true => Ok(Saved::Bisection(Box::new(bisection))),
        false => Err("its search is damaged".to_owned()),
    }
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("it is damaged ({error})"))
}
