//! The profile that the plugin writes and the run directory keeps: `docs/wire.md`, "Profile".

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use ktax_model::{
    Basic, CacheLine, Context, Costly, Counter, Counts, CpuActivity, CpuPosition, CpuTime, Machine,
    Memory, Msr, MsrLine, ParallelWork, Path, Profile, ProfileLine,
};

/// Reasons why there is no profile.
#[derive(Debug, PartialEq, Eq)]
pub enum ProfileError {
    /// The time of several CPUs was over, in these places.
    Over { limit: u64, cpus: Vec<CpuPosition> },
    /// The Region's markers are not one pair.
    Markers { begins: u64, ends: u64 },
    /// There are more Regions, or none.
    Regions { regions: u64 },
    /// The file is not of the format, or does not add up.
    Invalid(String),
}

impl Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProfileError::Over { limit, .. } => {
                write!(f, "its time of {limit} instructions was over")
            }
            ProfileError::Markers { begins, ends } => {
                let found = format!("{begins} markers that begin and {ends} that end");
                write!(f, "{found}, instead of one each")
            }
            ProfileError::Regions { regions } => {
                let rule = "the workload must begin and end exactly one";
                write!(f, "{regions} regions instead of one: {rule}")
            }
            ProfileError::Invalid(reason) => f.write_str(reason),
        }
    }
}

fn invalid(reason: impl Into<String>) -> ProfileError {
    ProfileError::Invalid(reason.into())
}

/// A profile that adds up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// Counts by Context and function.
    pub profile: Profile,
    /// All instructions and iterations dispatched in the Region, counted apart.
    pub total: u64,
    /// Counts that could not be kept apart, and why.
    pub notes: Vec<String>,
    /// Time of each CPU, if there are several.
    pub parallel: Option<ParallelWork>,
}

impl Parsed {
    /// Counts by Context.
    pub fn counts(&self) -> BTreeMap<Context, Counts> {
        let mut counts: BTreeMap<Context, Counts> = BTreeMap::new();
        for line in &self.profile.lines {
            *counts.entry(line.context).or_default() += &line.counts;
        }
        counts
    }
}

/// Parses one profile and checks that its functions add up to its total, and its CPUs' times to
/// theirs.
pub fn parse(text: &str) -> Result<Parsed, ProfileError> {
    let mut read = ProfileReader::default();
    let mut fields = Vec::new();
    for (number, line) in text.lines().enumerate() {
        fields.clear();
        fields.extend(line.split('\t'));
        let malformed = || invalid(format!("line {} is not of the format", number + 1));
        match (number, fields.as_slice()) {
            (0, ["ktax-profile", "1"]) => {}
            (0, _) => return Err(malformed()),
            _ if read.ended => return Err(malformed()),
            (_, ["markers", begins, ends]) => {
                let (Some(begins), Some(ends)) = (decimal(begins), decimal(ends)) else {
                    return Err(malformed());
                };
                return Err(ProfileError::Markers { begins, ends });
            }
            (_, fields) => read.line(fields).ok_or_else(malformed)?,
        }
    }
    match (read.ended, read.regions, read.total) {
        (false, ..) => Err(invalid("the file ends early")),
        (true, ..) if read.limit.is_some() => {
            let (limit, cpus) = (read.limit.unwrap_or_default(), read.places);
            Err(ProfileError::Over { limit, cpus })
        }
        (true, 1, None) => Err(invalid("it has no total")),
        (true, 1, Some(total)) => read.checked(total),
        (true, regions, _) => Err(ProfileError::Regions { regions }),
    }
}

#[derive(Default)]
struct ProfileReader {
    lines: Vec<ProfileLine>,
    notes: Vec<String>,
    regions: u64,
    total: Option<u64>,
    sum: u64,
    msrs: Vec<MsrLine>,
    cache_lines: Vec<CacheLine>,
    paths: Vec<Path>,
    parallel: ParallelWork,
    /// Limit that was reached, and the place of each CPU then.
    limit: Option<u64>,
    places: Vec<CpuPosition>,
    ended: bool,
}

impl ProfileReader {
    /// Parses a line; `None` if it is malformed.
    fn line(&mut self, fields: &[&str]) -> Option<()> {
        match fields {
            ["api", version] => decimal(version).map(drop)?,
            ["region", _] => {
                self.regions += 1;
                self.parallel = ParallelWork::default();
            }
            ["total", n] if self.total.is_none() || self.regions > 1 => {
                self.total = Some(decimal(n)?);
            }
            ["split", what, why] => self.notes.push(format!("{what}: {why}")),
            ["fn" | "wait" | "idle" | "transfer" | "costly" | "modelled", ..] => {
                let line = parse_function_fields(fields)?;
                self.sum = self.sum.checked_add(line.counts.executed())?;
                self.lines.push(line);
            }
            ["path-costly" | "path-wait" | "path-idle", ..] => {
                add_path_count(fields, self.paths.last_mut()?)?;
            }
            ["path", ..] => {
                let path = parse_path_line(fields, self.paths.last())?;
                self.paths.push(path);
            }
            ["msr", ..] => self.msrs.push(parse_msr_line(fields)?),
            ["line", ..] => self.cache_lines.push(parse_cache_line(fields)?),
            ["transfers", n] => self.parallel.transfers = Some(decimal(n)?),
            // An older plugin has no last number and adds it to `idle`.
            ["cpu", index, work, wait, idle, uneven @ ..] if uneven.len() <= 1 => {
                let cpus = &mut self.parallel.cpus;
                (decimal(index)? == cpus.len() as u64 && cpus.len() < Machine::MAX_CPUS as usize)
                    .then_some(())?;
                let [work, wait, idle] = [decimal(work)?, decimal(wait)?, decimal(idle)?];
                let uneven = uneven.first().map_or(Some(0), |uneven| decimal(uneven))?;
                cpus.push(CpuTime { work, wait, idle, uneven });
            }
            ["makespan", length, rounds, kicks] => {
                let [makespan, rounds, kicks] =
                    [decimal(length)?, decimal(rounds)?, decimal(kicks)?];
                self.parallel = ParallelWork { makespan, rounds, kicks, ..self.parallel.clone() };
            }
            ["trace", hash] => {
                let is_hash = hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit());
                is_hash.then(|| (*hash).clone_into(&mut self.parallel.trace))?;
            }
            ["limit", n] if self.limit.is_none() => self.limit = Some(decimal(n)?),
            ["at", cpu, doing, function] if self.limit.is_some() => {
                let cpu = u32::try_from(decimal(cpu)?).ok()?;
                let is_next = self.places.last().is_none_or(|last| last.cpu < cpu);
                (is_next && cpu < Machine::MAX_CPUS && is_function_name(function)).then_some(())?;
                let doing = CpuActivity::ALL.into_iter().find(|known| known.name() == *doing)?;
                self.places.push(CpuPosition {
                    cpu,
                    activity: doing,
                    function: (*function).to_owned(),
                });
            }
            ["end"] => self.ended = true,
            _ => return None,
        }
        Some(())
    }

    fn checked(self, total: u64) -> Result<Parsed, ProfileError> {
        let ProfileReader { lines, msrs, cache_lines, paths, mut notes, sum, parallel, .. } = self;
        if sum != total {
            let sums = format!("the functions add up to {sum}, the total is {total}");
            return Err(invalid(sums));
        }
        let mut counts = Counts::default();
        lines.iter().for_each(|line| counts += &line.counts);
        let CpuTime { work, wait, idle, .. } = parallel.sum();
        let is_alone = parallel == ParallelWork::default();
        let work = if is_alone { total } else { work };
        let found = [total, counts[Basic::Wait], counts[Basic::Idle]];
        if found != [work, wait, idle] || !parallel.is_consistent() {
            return Err(invalid("the times of its CPUs do not add up"));
        }
        let line_transfers =
            cache_lines.iter().fold(0_u64, |sum, line| sum.saturating_add(line.transfers));
        if [counts[Basic::Transfers], line_transfers] != [parallel.transfers.unwrap_or(0); 2] {
            let reason = "the transfers of its functions, or of its cache lines, are not all";
            return Err(invalid(reason));
        }
        if !msrs_fit_lines(&msrs, &lines) {
            let found = "registers were accessed more often than there were instructions";
            return Err(invalid(format!("{found} that do it")));
        }
        if !paths.is_empty() {
            // Paths that found no room have no costly instructions.
            let is_full = notes.iter().any(|note| note.starts_with("path: "));
            if !paths_add_up(&paths, &lines, is_full) {
                let reason = "what its functions executed where they were called is not all";
                return Err(invalid(reason));
            }
            notes.extend(displaced_note(&paths, &lines, total));
        }
        let parallel = (!is_alone).then_some(parallel);
        Ok(Parsed { profile: Profile { lines, msrs, cache_lines, paths }, total, notes, parallel })
    }
}

/// Parses a function line of a profile; `None` for other lines.
pub fn parse_function_line(line: &str) -> Option<ProfileLine> {
    parse_function_fields(&line.split('\t').collect::<Vec<_>>())
}

fn parse_function_fields(fields: &[&str]) -> Option<ProfileLine> {
    let (context, counts, function) = match *fields {
        ["fn", context, instructions, rep_iterations, function] => {
            let counts =
                Counts::from_instructions(decimal(instructions)?, decimal(rep_iterations)?);
            (context, counts, function)
        }
        ["wait", context, wait, function] => {
            (context, Counts::single(Basic::Wait, decimal(wait)?), function)
        }
        ["transfer", context, transfers, function] => {
            (context, Counts::single(Basic::Transfers, decimal(transfers)?), function)
        }
        [group @ ("costly" | "modelled"), context, counter, count, function] => {
            let counter = Counter::find(group, counter)?;
            (context, Counts::single(counter, decimal(count)?), function)
        }
        // Only the task of a CPU that has nothing to do halts it.
        ["idle", idle, function] => {
            (Context::Kthread.name(), Counts::single(Basic::Idle, decimal(idle)?), function)
        }
        _ => return None,
    };
    let context = parse_context(context)?;
    let function = is_function_name(function).then(|| function.to_owned())?;
    Some(ProfileLine { context, function, counts })
}

fn parse_cache_line(fields: &[&str]) -> Option<CacheLine> {
    let ["line", memory, transfers, lines, offset, name] = fields else { return None };
    let memory = Memory::ALL.into_iter().find(|known| known.name() == *memory)?;
    let is_name = |name: &str| is_function_name(name) && name.len() <= 127;
    // Two variables may share a line.
    let is_named = match name.split_once(',') {
        Some((first, second)) => memory.has_symbols() && is_name(first) && is_name(second),
        None => is_name(name),
    };
    let (transfers, lines) = (decimal(transfers)?, decimal(lines)?);
    (is_named && transfers >= lines && lines > 0).then_some(())?;
    let offset = hexadecimal(offset, 16)?;
    Some(CacheLine { memory, name: (*name).to_owned(), offset, transfers, lines })
}

/// Deepest path, as in `plugin/calls.c`, which counts the root, too.
const DEEPEST: u64 = 1000;

/// Parses a line `path`, which lies below the lines before it.
fn parse_path_line(fields: &[&str], last: Option<&Path>) -> Option<Path> {
    let ["path", context, depth, instructions, rep_iterations, calls, function] = fields else {
        return None;
    };
    let context = parse_context(context)?;
    let above = last.filter(|last| last.context == context).map_or(0, |last| last.depth + 1);
    let depth = decimal(depth).filter(|depth| *depth < DEEPEST)? as u32;
    (depth <= above && is_function_name(function)).then_some(())?;
    let counts = Counts::from_instructions(decimal(instructions)?, decimal(rep_iterations)?);
    Some(Path { context, depth, function: (*function).to_owned(), calls: decimal(calls)?, counts })
}

/// Adds a line `path-costly`, `path-wait` or `path-idle` to the path before it.
fn add_path_count(fields: &[&str], path: &mut Path) -> Option<()> {
    let (counter, count) = match *fields {
        ["path-costly", count, kind] => (Counter::find("costly", kind)?, count),
        ["path-wait", count] => (Basic::Wait.into(), count),
        ["path-idle", count] => (Basic::Idle.into(), count),
        _ => return None,
    };
    path.counts[counter] = path.counts[counter].checked_add(decimal(count)?)?;
    Some(())
}

/// Returns true if paths have the counts of the functions, in each Context. If they are full, only
/// instructions and their iterations must be there.
fn paths_add_up(paths: &[Path], lines: &[ProfileLine], is_full: bool) -> bool {
    let mut sums: BTreeMap<Context, [Counts; 2]> = BTreeMap::new();
    for path in paths {
        sums.entry(path.context).or_default()[0] += &path.counts;
    }
    for line in lines {
        sums.entry(line.context).or_default()[1] += &line.counts;
    }
    // An older plugin does not say where CPUs wait.
    let is_older = sums.values().all(|[in_paths, _]| in_paths[Basic::Wait] == 0);
    let idle = |which: usize| {
        sums.values().fold(0_u64, |sum, both| sum.saturating_add(both[which][Basic::Idle]))
    };
    // A CPU is also idle if no process has left it.
    let is_idle_there = idle(0) <= idle(1);
    sums.values().all(|[in_paths, in_lines]| {
        let is_waiting_there = is_older || in_paths[Basic::Wait] == in_lines[Basic::Wait];
        let is_costly_there = in_paths.group("costly").eq(in_lines.group("costly"));
        in_paths.executed() == in_lines.executed()
            && (is_full || is_waiting_there && is_costly_there && is_idle_there)
    })
}

/// A note, if more than one in a hundred instructions are below another function than they were
/// counted for.
fn displaced_note(paths: &[Path], lines: &[ProfileLine], total: u64) -> Option<String> {
    let mut left: BTreeMap<(Context, &str), [u64; 2]> = BTreeMap::new();
    let in_paths = paths.iter().map(|path| (0, path.context, &path.function, &path.counts));
    let in_lines = lines.iter().map(|line| (1, line.context, &line.function, &line.counts));
    for (which, context, function, counts) in in_paths.chain(in_lines) {
        let sum = &mut left.entry((context, function)).or_default()[which];
        *sum = sum.saturating_add(counts.executed());
    }
    // Functions of a program are below one place, that of user mode.
    let kernels = left.iter().filter(|((_, name), _)| !name.starts_with('['));
    let displaced: u64 = kernels.map(|(_, [paths, lines])| lines.saturating_sub(*paths)).sum();
    let note = "path: functions are below others than those that called them";
    (displaced > total / 100).then(|| note.to_owned())
}

/// Instructions that access registers.
const MSR_KINDS: [Costly; 2] = [Costly::Wrmsr, Costly::Rdmsr];

fn parse_msr_line(fields: &[&str]) -> Option<MsrLine> {
    let ["msr", context, kind, number, count, function] = fields else { return None };
    let context = parse_context(context)?;
    let kind = MSR_KINDS.into_iter().find(|known| known.name() == *kind)?;
    let msr = Msr(u32::try_from(hexadecimal(number, 8)?).ok()?);
    let count = decimal(count).filter(|count| *count > 0)?;
    let function = is_function_name(function).then(|| (*function).to_owned())?;
    Some(MsrLine { context, kind, msr, count, function })
}

/// Returns true if no function accessed registers more often than it executed such instructions.
fn msrs_fit_lines(msrs: &[MsrLine], lines: &[ProfileLine]) -> bool {
    if msrs.is_empty() {
        return true;
    }
    let mut left: BTreeMap<(Context, &str, Costly), u64> = BTreeMap::new();
    for line in lines {
        for kind in MSR_KINDS {
            let left = left.entry((line.context, &line.function, kind)).or_default();
            *left = left.saturating_add(line.counts[kind]);
        }
    }
    msrs.iter().all(|msr| {
        let left = left.entry((msr.context, &msr.function, msr.kind)).or_default();
        let rest = left.checked_sub(msr.count);
        *left = rest.unwrap_or_default();
        rest.is_some()
    })
}

/// Returns true if this is a symbol, `[user]`, `[kernel]`, or a function of a program or a library
/// such as `[git]cmd_status`.
fn is_function_name(name: &str) -> bool {
    let is_of = |text: &str, more: &[u8]| {
        (0..=127).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || more.contains(&b))
    };
    match name.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((file, function)) => {
            !file.is_empty() && is_of(file, b"_.$+-") && is_of(function, b"_.$+-")
        }
        None => !name.is_empty() && is_of(name, b"_.$"),
    }
}

/// Parses a number as the plugin writes it.
fn decimal(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn parse_context(text: &str) -> Option<Context> {
    Context::ALL.into_iter().find(|known| known.name() == text)
}

/// Parses a number of at most `most_digits` hexadecimal digits, without a prefix.
fn hexadecimal(text: &str, most_digits: usize) -> Option<u64> {
    let is_one = text.len() <= most_digits && text.bytes().all(|b| b.is_ascii_hexdigit());
    is_one.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
