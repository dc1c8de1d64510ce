//! The profile that the plugin writes and the run directory keeps: `docs/wire.md`, "Profile".

// The messages of errors say what their fields are.
#![allow(missing_docs)]

use std::collections::BTreeMap;

use thiserror::Error;

use crate::model::{Context, Counts, Profile, ProfileLine};

/// Why a profile is refused. `line` counts from 1.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ProfileError {
    #[error("line {line} is not of the format")]
    Line { line: usize },
    #[error("{regions} regions instead of one: the workload must begin and end exactly one")]
    Regions { regions: u64 },
    #[error("{begins} markers that begin and {ends} that end, instead of one each")]
    Markers { begins: u64, ends: u64 },
    #[error("it has no total")]
    NoTotal,
    #[error("the file ends early")]
    Truncated,
    #[error("the functions add up to {sum}, the total is {total}")]
    Sum { sum: u64, total: u64 },
}

/// A profile that adds up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// Counts by Context and function.
    pub profile: Profile,
    /// Everything dispatched in the Region, counted apart.
    pub total: u64,
    /// What could not be kept apart, and why.
    pub notes: Vec<String>,
}

impl Parsed {
    /// Counts by Context.
    pub fn counts(&self) -> BTreeMap<Context, Counts> {
        let mut counts: BTreeMap<Context, Counts> = BTreeMap::new();
        for line in &self.profile.lines {
            let sum = counts.entry(line.context).or_default();
            sum.instructions += line.counts.instructions;
            sum.rep_iterations += line.counts.rep_iterations;
        }
        counts
    }
}

/// Parses one profile and checks that its functions add up to its total.
pub fn parse(text: &str) -> Result<Parsed, ProfileError> {
    let mut parsed = Parsed { profile: Profile::default(), total: 0, notes: Vec::new() };
    let (mut regions, mut sum, mut total, mut ended) = (0u64, 0u64, None, false);
    let mut fields = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let malformed = || ProfileError::Line { line: number + 1 };
        fields.clear();
        fields.extend(line.split('\t'));
        match (number, fields.as_slice()) {
            (0, ["ktax-profile", "1"]) => {}
            (0, _) => return Err(malformed()),
            _ if ended => return Err(malformed()),
            (_, ["api", version]) => drop(decimal(version).ok_or_else(malformed)?),
            (_, ["markers", begins, ends]) => {
                let [Some(begins), Some(ends)] = [begins, ends].map(|n| decimal(n)) else {
                    return Err(malformed());
                };
                return Err(ProfileError::Markers { begins, ends });
            }
            (_, ["region", _]) => regions += 1,
            (_, ["total", n]) if total.is_none() || regions > 1 => {
                total = Some(decimal(n).ok_or_else(malformed)?);
            }
            (_, ["split", what, why]) => parsed.notes.push(format!("{what}: {why}")),
            (_, ["fn", rest @ ..]) => {
                let line = function(rest).ok_or_else(malformed)?;
                sum = [line.counts.instructions, line.counts.rep_iterations]
                    .iter()
                    .try_fold(sum, |sum, n| sum.checked_add(*n))
                    .ok_or_else(malformed)?;
                parsed.profile.lines.push(line);
            }
            (_, ["end"]) => ended = true,
            _ => return Err(malformed()),
        }
    }
    match (ended, regions, total) {
        (false, ..) => Err(ProfileError::Truncated),
        (true, 1, None) => Err(ProfileError::NoTotal),
        (true, 1, Some(total)) if sum == total => Ok(Parsed { total, ..parsed }),
        (true, 1, Some(total)) => Err(ProfileError::Sum { sum, total }),
        (true, regions, _) => Err(ProfileError::Regions { regions }),
    }
}

/// What a line of a profile says of a function, if it is of one.
pub fn of_function(line: &str) -> Option<ProfileLine> {
    function(&line.strip_prefix("fn\t")?.split('\t').collect::<Vec<_>>())
}

fn function(fields: &[&str]) -> Option<ProfileLine> {
    let [context, instructions, rep_iterations, function] = fields else { return None };
    let context = Context::ALL.into_iter().find(|known| known.name() == *context)?;
    let counts =
        Counts { instructions: decimal(instructions)?, rep_iterations: decimal(rep_iterations)? };
    is_function_name(function).then(|| ProfileLine {
        context,
        function: (*function).to_owned(),
        counts,
    })
}

fn is_function_name(name: &str) -> bool {
    let is_of = |text: &str, more: &[u8]| {
        (0..=127).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || more.contains(&b))
    };
    // `[user]` and `[kernel]`, or of a program or a library: `[git]cmd_status`.
    match name.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((file, function)) => {
            !file.is_empty() && is_of(file, b"_.$+-") && is_of(function, b"_.$+-")
        }
        None => !name.is_empty() && is_of(name, b"_.$"),
    }
}

fn decimal(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}
