//! The profile that the plugin writes and the run directory keeps: `docs/wire.md`, "Profile".

// The messages of errors say what their fields are.
#![allow(missing_docs)]

use std::collections::BTreeMap;

use thiserror::Error;

use super::fields::{self, decimal, hexadecimal, is_function_name};
use super::msrs;
use super::paths::{self, Sums};
use ktax_model::{
    CacheLine, Context, Costly, CostlyCounts, Counts, CpuPlace, CpuTime, Doing, Machine, Memory,
    Modelled, ModelledCounts, MsrLine, Parallel, Path, Profile, ProfileLine, Tallied,
};

/// Why a profile is refused. `line` counts from 1.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ProfileError {
    #[error("line {line} is not of the format")]
    Line { line: usize },
    #[error("{regions} regions instead of one: the workload must begin and end exactly one")]
    Regions { regions: u64 },
    #[error("{begins} markers that begin and {ends} that end, instead of one each")]
    Markers { begins: u64, ends: u64 },
    #[error("its time of {limit} instructions was over")]
    Over { limit: u64, cpus: Vec<CpuPlace> },
    #[error("it has no total")]
    NoTotal,
    #[error("the file ends early")]
    Truncated,
    #[error("the functions add up to {sum}, the total is {total}")]
    Sum { sum: u64, total: u64 },
    #[error("the times of its CPUs do not add up")]
    Time,
    #[error("what its functions executed where they were called is not all")]
    Paths,
    #[error("registers were accessed more often than there were instructions that do it")]
    Registers,
    #[error("the transfers of its functions, or of its cache lines, are not all")]
    Transfers,
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
    /// Of several CPUs: where their time went.
    pub parallel: Option<Parallel>,
}

impl Parsed {
    /// Counts by Context.
    pub fn counts(&self) -> BTreeMap<Context, Counts> {
        let mut counts: BTreeMap<Context, Counts> = BTreeMap::new();
        for line in &self.profile.lines {
            *counts.entry(line.context).or_default() += line.counts;
        }
        counts
    }
}

/// Parses one profile and checks that its functions add up to its total, and its CPUs' times to
/// theirs.
pub fn parse(text: &str) -> Result<Parsed, ProfileError> {
    let mut read = Read::default();
    let mut fields = Vec::new();
    for (number, line) in text.lines().enumerate() {
        fields.clear();
        fields.extend(line.split('\t'));
        let malformed = ProfileError::Line { line: number + 1 };
        match (number, fields.as_slice()) {
            (0, ["ktax-profile", "1"]) => {}
            (0, _) => return Err(malformed),
            _ if read.ended => return Err(malformed),
            (_, ["markers", begins, ends]) => {
                let (Some(begins), Some(ends)) = (decimal(begins), decimal(ends)) else {
                    return Err(malformed);
                };
                return Err(ProfileError::Markers { begins, ends });
            }
            (_, fields) => read.line(fields).ok_or(malformed)?,
        }
    }
    match (read.ended, read.regions, read.total) {
        (false, ..) => Err(ProfileError::Truncated),
        (true, ..) if read.limit.is_some() => {
            let (limit, cpus) = (read.limit.unwrap_or_default(), read.places);
            Err(ProfileError::Over { limit, cpus })
        }
        (true, 1, None) => Err(ProfileError::NoTotal),
        (true, 1, Some(total)) => read.checked(total),
        (true, regions, _) => Err(ProfileError::Regions { regions }),
    }
}

/// What was read so far.
#[derive(Default)]
struct Read {
    lines: Vec<ProfileLine>,
    notes: Vec<String>,
    regions: u64,
    total: Option<u64>,
    sum: u64,
    msrs: Vec<MsrLine>,
    cache_lines: Vec<CacheLine>,
    paths: Vec<Path>,
    parallel: Parallel,
    /// The limit that was reached, and where each CPU was.
    limit: Option<u64>,
    places: Vec<CpuPlace>,
    ended: bool,
}

impl Read {
    /// `None` where it is not of the format.
    fn line(&mut self, fields: &[&str]) -> Option<()> {
        match fields {
            ["api", version] => decimal(version).map(drop)?,
            ["region", _] => {
                self.regions += 1;
                self.parallel = Parallel::default();
            }
            ["total", n] if self.total.is_none() || self.regions > 1 => {
                self.total = Some(decimal(n)?);
            }
            ["split", what, why] => self.notes.push(format!("{what}: {why}")),
            ["fn" | "wait" | "idle" | "transfer" | "costly" | "modelled", ..] => {
                let line = function(fields)?;
                let Counts { instructions, rep_iterations, .. } = line.counts;
                self.sum = self.sum.checked_add(instructions)?.checked_add(rep_iterations)?;
                self.lines.push(line);
            }
            ["path-costly" | "path-wait" | "path-idle", ..] => {
                paths::counted(fields, self.paths.last_mut()?)?;
            }
            ["path", ..] => {
                let path = paths::path(fields, self.paths.last())?;
                self.paths.push(path);
            }
            ["msr", ..] => self.msrs.push(msrs::msr(fields)?),
            ["line", ..] => self.cache_lines.push(cache_line(fields)?),
            ["transfers", n] => self.parallel.transfers = Some(decimal(n)?),
            // An older plugin has no last number: it gives both to `idle`.
            ["cpu", index, work, wait, idle, uneven @ ..] if uneven.len() <= 1 => {
                let cpus = &mut self.parallel.cpus;
                (decimal(index)? == cpus.len() as u64 && cpus.len() < Machine::MOST_CPUS as usize)
                    .then_some(())?;
                let [work, wait, idle] = [decimal(work)?, decimal(wait)?, decimal(idle)?];
                let uneven = uneven.first().map_or(Some(0), |uneven| decimal(uneven))?;
                cpus.push(CpuTime { work, wait, idle, uneven });
            }
            ["makespan", length, rounds, kicks] => {
                let [makespan, rounds, kicks] =
                    [decimal(length)?, decimal(rounds)?, decimal(kicks)?];
                self.parallel = Parallel { makespan, rounds, kicks, ..self.parallel.clone() };
            }
            ["trace", hash] => {
                let is_hash = hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit());
                is_hash.then(|| (*hash).clone_into(&mut self.parallel.trace))?;
            }
            ["limit", n] if self.limit.is_none() => self.limit = Some(decimal(n)?),
            ["at", cpu, doing, function] if self.limit.is_some() => {
                let cpu = u32::try_from(decimal(cpu)?).ok()?;
                let is_next = self.places.last().is_none_or(|last| last.cpu < cpu);
                (is_next && cpu < Machine::MOST_CPUS && is_function_name(function)).then_some(())?;
                let doing = Doing::ALL.into_iter().find(|known| known.name() == *doing)?;
                self.places.push(CpuPlace { cpu, doing, function: (*function).to_owned() });
            }
            ["end"] => self.ended = true,
            _ => return None,
        }
        Some(())
    }

    fn checked(self, total: u64) -> Result<Parsed, ProfileError> {
        let Read { lines, msrs, cache_lines, paths, mut notes, sum, parallel, .. } = self;
        if sum != total {
            return Err(ProfileError::Sum { sum, total });
        }
        let of_lines = |of: fn(&Counts) -> u64| {
            lines.iter().fold(0_u64, |sum, line| sum.saturating_add(of(&line.counts)))
        };
        let CpuTime { work, wait, idle, .. } = parallel.sum();
        let found = [of_lines(|counts| counts.wait), of_lines(|counts| counts.idle)];
        let is_alone = parallel == Parallel::default();
        let work = if is_alone { total } else { work };
        if [total, found[0], found[1]] != [work, wait, idle] || !parallel.adds_up() {
            return Err(ProfileError::Time);
        }
        let of_functions = of_lines(|counts| counts.transfers);
        let of_cache_lines =
            cache_lines.iter().fold(0_u64, |sum, line| sum.saturating_add(line.transfers));
        if [of_functions, of_cache_lines] != [parallel.transfers.unwrap_or(0); 2] {
            return Err(ProfileError::Transfers);
        }
        msrs::are_of(&msrs, &lines).then_some(()).ok_or(ProfileError::Registers)?;
        if let Some(sums) = Sums::of(&paths, &lines) {
            // Those that found no room have no costly instructions.
            let is_full = notes.iter().any(|note| note.starts_with("path: "));
            let are_all = sums.costly_add_up() && sums.waits_add_up();
            let add_up = sums.add_up() && (is_full || are_all);
            add_up.then_some(()).ok_or(ProfileError::Paths)?;
            notes.extend(sums.note(total));
        }
        let parallel = (!is_alone).then_some(parallel);
        Ok(Parsed { profile: Profile { lines, msrs, cache_lines, paths }, total, notes, parallel })
    }
}

/// What a line of a profile says of a function, if it is of one.
pub fn of_function(line: &str) -> Option<ProfileLine> {
    function(&line.split('\t').collect::<Vec<_>>())
}

fn function(fields: &[&str]) -> Option<ProfileLine> {
    let none = Counts::default();
    let (context, counts, function) = match fields {
        ["fn", context, instructions, rep_iterations, function] => {
            let [instructions, rep_iterations] = [decimal(instructions)?, decimal(rep_iterations)?];
            (*context, Counts { instructions, rep_iterations, ..none }, function)
        }
        ["wait", context, wait, function] => {
            (*context, Counts { wait: decimal(wait)?, ..none }, function)
        }
        ["transfer", context, transfers, function] => {
            (*context, Counts { transfers: decimal(transfers)?, ..none }, function)
        }
        ["costly", context, kind, count, function] => {
            let costly = CostlyCounts::of(Costly::named(kind)?, decimal(count)?);
            (*context, Counts { costly, ..none }, function)
        }
        ["modelled", context, counter, count, function] => {
            let modelled = ModelledCounts::of(Modelled::named(counter)?, decimal(count)?);
            (*context, Counts { modelled, ..none }, function)
        }
        // Only the task of a CPU that has nothing to do halts it.
        ["idle", idle, function] => {
            (Context::Kthread.name(), Counts { idle: decimal(idle)?, ..none }, function)
        }
        _ => return None,
    };
    let context = fields::context(context)?;
    let name = is_function_name(function).then(|| (*function).to_owned())?;
    Some(ProfileLine { context, function: name, counts })
}

fn cache_line(fields: &[&str]) -> Option<CacheLine> {
    let ["line", memory, transfers, lines, offset, name] = fields else { return None };
    let memory = Memory::ALL.into_iter().find(|known| known.name() == *memory)?;
    let is_name = |name: &str| is_function_name(name) && name.len() <= 127;
    // Two variables may share a line.
    let is_named = match name.split_once(',') {
        Some((one, other)) => memory.has_symbols() && is_name(one) && is_name(other),
        None => is_name(name),
    };
    let (transfers, lines) = (decimal(transfers)?, decimal(lines)?);
    (is_named && transfers >= lines && lines > 0).then_some(())?;
    let offset = hexadecimal(offset, 16)?;
    Some(CacheLine { memory, name: (*name).to_owned(), offset, transfers, lines })
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
