//! Parses profiles, which the plugin writes and run directories keep: `docs/wire.md`, "Profile".

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use ktax_model::{
    Basic, CacheLine, Context, Costly, Counter, Counts, CpuActivity, CpuPosition, CpuTime, Machine,
    Memory, Msr, MsrLine, ParallelWork, Path, Profile, ProfileLine,
};

/// Reasons why a file is not a profile of one Region.
#[derive(Debug, PartialEq, Eq)]
pub enum ProfileError {
    /// Several CPUs reached the limit of instructions, at these places.
    LimitReached { limit: u64, cpus: Vec<CpuPosition> },
    /// The Region does not have one begin marker and one end marker.
    Markers { begins: u64, ends: u64 },
    /// There is no Region, or more than one.
    Regions { regions: u64 },
    /// The file is malformed, or its counts do not add up.
    Invalid(String),
}

impl Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProfileError::LimitReached { limit, .. } => {
                write!(f, "the limit of {limit} instructions was reached")
            }
            ProfileError::Markers { begins, ends } => {
                write!(f, "{begins} begin markers and {ends} end markers, instead of one each")
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

/// A profile whose counts add up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedProfile {
    /// Counts by Context and function.
    pub profile: Profile,
    /// Instructions and REP iterations dispatched in the Region, counted separately from the
    /// functions.
    pub total: u64,
    /// Notes of the plugin about counts that could not be separated, with the reason.
    pub notes: Vec<String>,
    /// Times of the CPUs, with several CPUs.
    pub parallel: Option<ParallelWork>,
}

impl ParsedProfile {
    /// Counts by Context.
    pub fn counts(&self) -> BTreeMap<Context, Counts> {
        let mut counts: BTreeMap<Context, Counts> = BTreeMap::new();
        for line in &self.profile.lines {
            *counts.entry(line.context).or_default() += &line.counts;
        }
        counts
    }
}

/// Parses a profile, and checks that the functions add up to the total and to the times of the
/// CPUs.
pub fn parse(text: &str) -> Result<ParsedProfile, ProfileError> {
    let mut reader = ProfileReader::default();
    let mut fields = Vec::new();
    for (number, line) in text.lines().enumerate() {
        fields.clear();
        fields.extend(line.split('\t'));
        let malformed = || invalid(format!("line {} is not of the format", number + 1));
        match (number, fields.as_slice()) {
            (0, ["ktax-profile", "1"]) => {}
            (0, _) => return Err(malformed()),
            _ if reader.has_ended => return Err(malformed()),
            (_, ["markers", begins, ends]) => {
                let (Some(begins), Some(ends)) = (decimal(begins), decimal(ends)) else {
                    return Err(malformed());
                };
                return Err(ProfileError::Markers { begins, ends });
            }
            (_, fields) => reader.parse_line(fields).ok_or_else(malformed)?,
        }
    }
    match (reader.has_ended, reader.regions, reader.total) {
        (false, ..) => Err(invalid("the file ends early")),
        (true, ..) if reader.limit.is_some() => {
            let (limit, cpus) = (reader.limit.unwrap_or_default(), reader.places);
            Err(ProfileError::LimitReached { limit, cpus })
        }
        (true, 1, None) => Err(invalid("it has no total")),
        (true, 1, Some(total)) => reader.checked_profile(total),
        (true, regions, _) => Err(ProfileError::Regions { regions }),
    }
}

/// Lines of a profile that were parsed so far.
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
    /// Limit that was reached.
    limit: Option<u64>,
    /// Place of each CPU when the limit was reached.
    places: Vec<CpuPosition>,
    has_ended: bool,
}

impl ProfileReader {
    /// Parses a line; `None` if it is malformed.
    fn parse_line(&mut self, fields: &[&str]) -> Option<()> {
        match fields {
            ["api", version] => decimal(version).map(drop)?,
            ["region", _] => {
                self.regions += 1;
                self.parallel = ParallelWork::default();
            }
            ["total", n] if self.total.is_none() || self.regions > 1 => {
                self.total = Some(decimal(n)?);
            }
            ["split", counts, reason] => self.notes.push(format!("{counts}: {reason}")),
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
            // An older plugin adds `uneven` to `idle`.
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
            ["end"] => self.has_ended = true,
            _ => return None,
        }
        Some(())
    }

    /// Checks all sums.
    fn checked_profile(self, total: u64) -> Result<ParsedProfile, ProfileError> {
        let ProfileReader { lines, msrs, cache_lines, paths, mut notes, sum, parallel, .. } = self;
        if sum != total {
            let sums = format!("the functions add up to {sum}, the total is {total}");
            return Err(invalid(sums));
        }
        let mut counts = Counts::default();
        lines.iter().for_each(|line| counts += &line.counts);
        let CpuTime { work, wait, idle, .. } = parallel.sum();
        let is_one_cpu = parallel == ParallelWork::default();
        let work = if is_one_cpu { total } else { work };
        let sums = [total, counts[Basic::Wait], counts[Basic::Idle]];
        if sums != [work, wait, idle] || !parallel.is_consistent() {
            return Err(invalid("the times of its CPUs do not add up"));
        }
        let line_transfers =
            cache_lines.iter().fold(0_u64, |sum, line| sum.saturating_add(line.transfers));
        if [counts[Basic::Transfers], line_transfers] != [parallel.transfers.unwrap_or(0); 2] {
            let reason =
                "the transfers of its functions or cache lines do not add up to their total";
            return Err(invalid(reason));
        }
        if !msrs_fit_lines(&msrs, &lines) {
            let reason = "a function accessed MSRs more often than it executed rdmsr or wrmsr";
            return Err(invalid(reason));
        }
        if !paths.is_empty() {
            // The plugin's table of paths may be full; then some counts of paths are missing.
            let is_full = notes.iter().any(|note| note.starts_with("path: "));
            if !paths_add_up(&paths, &lines, is_full) {
                let reason = "the counts of its call paths do not add up to those of its functions";
                return Err(invalid(reason));
            }
            notes.extend(displaced_note(&paths, &lines, total));
        }
        let parallel = (!is_one_cpu).then_some(parallel);
        Ok(ParsedProfile {
            profile: Profile { lines, msrs, cache_lines, paths },
            total,
            notes,
            parallel,
        })
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
        // Only the idle task, a kernel thread, halts a CPU.
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
    // A cache line may be named by two variables that share it.
    let is_named = match name.split_once(',') {
        Some((first, second)) => memory.has_symbols() && is_name(first) && is_name(second),
        None => is_name(name),
    };
    let (transfers, lines) = (decimal(transfers)?, decimal(lines)?);
    (is_named && transfers >= lines && lines > 0).then_some(())?;
    let offset = hexadecimal(offset, 16)?;
    Some(CacheLine { memory, name: (*name).to_owned(), offset, transfers, lines })
}

/// Limit of the depth of call paths. `plugin/calls.c` has the same limit with the root as one
/// level.
const DEPTH_LIMIT: u64 = 1000;

/// Parses a `path` line. Its depth is at most one more than that of the previous path.
fn parse_path_line(fields: &[&str], last: Option<&Path>) -> Option<Path> {
    let ["path", context, depth, instructions, rep_iterations, calls, function] = fields else {
        return None;
    };
    let context = parse_context(context)?;
    let max_depth = last.filter(|last| last.context == context).map_or(0, |last| last.depth + 1);
    let depth = decimal(depth).filter(|depth| *depth < DEPTH_LIMIT)? as u32;
    (depth <= max_depth && is_function_name(function)).then_some(())?;
    let counts = Counts::from_instructions(decimal(instructions)?, decimal(rep_iterations)?);
    Some(Path { context, depth, function: (*function).to_owned(), calls: decimal(calls)?, counts })
}

/// Adds the count of a `path-costly`, `path-wait` or `path-idle` line to the previous path.
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

/// Returns true if the counts of paths and functions have the same sums in each Context. If the
/// table of paths was full, only executed instructions and REP iterations are compared.
fn paths_add_up(paths: &[Path], lines: &[ProfileLine], is_full: bool) -> bool {
    let mut sums: BTreeMap<Context, [Counts; 2]> = BTreeMap::new();
    for path in paths {
        sums.entry(path.context).or_default()[0] += &path.counts;
    }
    for line in lines {
        sums.entry(line.context).or_default()[1] += &line.counts;
    }
    // An older plugin does not count waits by path.
    let has_no_waits = sums.values().all(|[in_paths, _]| in_paths[Basic::Wait] == 0);
    let idle = |index: usize| {
        sums.values().fold(0_u64, |sum, both| sum.saturating_add(both[index][Basic::Idle]))
    };
    // Idle time before the first process of a CPU has no path.
    let has_idle_sum = idle(0) <= idle(1);
    sums.values().all(|[in_paths, in_lines]| {
        let has_wait_sum = has_no_waits || in_paths[Basic::Wait] == in_lines[Basic::Wait];
        let has_costly_sum = in_paths.group("costly").eq(in_lines.group("costly"));
        in_paths.executed() == in_lines.executed()
            && (is_full || has_wait_sum && has_costly_sum && has_idle_sum)
    })
}

/// Note if the paths attribute more than 1 % of the instructions to another function than the
/// function lines do.
fn displaced_note(paths: &[Path], lines: &[ProfileLine], total: u64) -> Option<String> {
    let mut sums: BTreeMap<(Context, &str), [u64; 2]> = BTreeMap::new();
    let in_paths = paths.iter().map(|path| (0, path.context, &path.function, &path.counts));
    let in_lines = lines.iter().map(|line| (1, line.context, &line.function, &line.counts));
    for (index, context, function, counts) in in_paths.chain(in_lines) {
        let sum = &mut sums.entry((context, function)).or_default()[index];
        *sum = sum.saturating_add(counts.executed());
    }
    // Functions of programs have no paths of their own: user mode is one place.
    let kernel_functions = sums.iter().filter(|((_, name), _)| !name.starts_with('['));
    let displaced: u64 =
        kernel_functions.map(|(_, [paths, lines])| lines.saturating_sub(*paths)).sum();
    let note = "path: functions are below others than those that called them";
    (displaced > total / 100).then(|| note.to_owned())
}

/// Instructions that access MSRs.
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

/// Returns true if no function accessed MSRs more often than it executed `rdmsr` or `wrmsr`.
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

/// Returns true if a name is a symbol, `[user]`, `[kernel]`, or a function of a program or a
/// library such as `[git]cmd_status`.
fn is_function_name(name: &str) -> bool {
    let has_allowed_bytes = |text: &str, more: &[u8]| {
        (0..=127).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || more.contains(&b))
    };
    match name.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((file, function)) => {
            !file.is_empty()
                && has_allowed_bytes(file, b"_.$+-")
                && has_allowed_bytes(function, b"_.$+-")
        }
        None => !name.is_empty() && has_allowed_bytes(name, b"_.$"),
    }
}

/// Parses a number of decimal digits alone, as the plugin writes it.
fn decimal(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn parse_context(text: &str) -> Option<Context> {
    Context::ALL.into_iter().find(|known| known.name() == text)
}

/// Parses a number of at most `max_digits` hexadecimal digits, without a prefix.
fn hexadecimal(text: &str, max_digits: usize) -> Option<u64> {
    let is_number = text.len() <= max_digits && text.bytes().all(|b| b.is_ascii_hexdigit());
    is_number.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
