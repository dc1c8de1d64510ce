//! The lines of a profile that say from where functions were called.

use std::collections::BTreeMap;

use super::fields::{self, decimal, is_function_name};
use ktax_model::{Context, Costly, CostlyCounts, Counts, Path, ProfileLine, Tallied};

/// As in `plugin/paths.c`, which counts the root, too.
const DEEPEST: u64 = 1000;

/// A line `path`, which is below those before it.
pub(super) fn path(fields: &[&str], last: Option<&Path>) -> Option<Path> {
    let ["path", context, depth, instructions, rep_iterations, calls, function] = fields else {
        return None;
    };
    let context = fields::context(context)?;
    let above = last.filter(|last| last.context == context).map_or(0, |last| last.depth + 1);
    let depth = decimal(depth).filter(|depth| *depth < DEEPEST)? as u32;
    (depth <= above && is_function_name(function)).then_some(())?;
    let [instructions, rep_iterations, calls] =
        [decimal(instructions)?, decimal(rep_iterations)?, decimal(calls)?];
    let function = (*function).to_owned();
    let (costly, wait, idle) = (CostlyCounts::default(), 0, 0);
    Some(Path { context, depth, function, calls, instructions, rep_iterations, costly, wait, idle })
}

/// A line `path-costly`, `path-wait` or `path-idle`, which is of the path before it.
pub(super) fn counted(fields: &[&str], path: &mut Path) -> Option<()> {
    match fields {
        ["path-costly", count, kind] => {
            path.costly += CostlyCounts::of(Costly::named(kind)?, decimal(count)?);
        }
        ["path-wait", count] => path.wait = path.wait.checked_add(decimal(count)?)?,
        ["path-idle", count] => path.idle = path.idle.checked_add(decimal(count)?)?,
        _ => return None,
    }
    Some(())
}

/// What each function executed, by its paths and by its lines.
pub(super) struct Sums<'a> {
    functions: BTreeMap<(Context, &'a str), [u64; 2]>,
    costly: [BTreeMap<Context, CostlyCounts>; 2],
    waits: [BTreeMap<Context, u64>; 2],
    idle: [u64; 2],
}

impl<'a> Sums<'a> {
    /// `None` of a profile without paths.
    pub(super) fn of(paths: &'a [Path], lines: &'a [ProfileLine]) -> Option<Sums<'a>> {
        if paths.is_empty() {
            return None;
        }
        let mut sums: BTreeMap<(Context, &str), [u64; 2]> = BTreeMap::new();
        let of_paths = paths
            .iter()
            .map(|it| (0, it.context, &it.function, [it.instructions, it.rep_iterations]));
        let of_lines = lines.iter().map(|it| {
            let Counts { instructions, rep_iterations, .. } = it.counts;
            (1, it.context, &it.function, [instructions, rep_iterations])
        });
        for (which, context, function, counts) in of_paths.chain(of_lines) {
            let sum = &mut sums.entry((context, function)).or_default()[which];
            *sum = counts.into_iter().fold(*sum, u64::saturating_add);
        }
        let mut costly = [BTreeMap::new(), BTreeMap::new()];
        let costly_of_paths = paths.iter().map(|it| (0, it.context, it.costly));
        let costly_of_lines = lines.iter().map(|it| (1, it.context, it.counts.costly));
        let all = costly_of_paths.chain(costly_of_lines);
        for (which, context, more) in all.filter(|(.., more)| !more.is_zero()) {
            *costly[which].entry(context).or_insert_with(CostlyCounts::default) += more;
        }
        let mut waits = [BTreeMap::new(), BTreeMap::new()];
        let waits_of_paths = paths.iter().map(|path| (0, path.context, path.wait));
        let waits_of_lines = lines.iter().map(|line| (1, line.context, line.counts.wait));
        for (which, context, wait) in waits_of_paths.chain(waits_of_lines) {
            let sum: &mut u64 = waits[which].entry(context).or_default();
            *sum = sum.saturating_add(wait);
        }
        let add = |sum: u64, more: u64| sum.saturating_add(more);
        let idle = [
            paths.iter().map(|path| path.idle).fold(0, add),
            lines.iter().map(|line| line.counts.idle).fold(0, add),
        ];
        Some(Sums { functions: sums, costly, waits, idle })
    }

    /// Whether paths are all that the functions executed, in each Context.
    pub(super) fn add_up(&self) -> bool {
        let all = |context: Context, which: usize| {
            let of_context = self.functions.iter().filter(|((of, _), _)| *of == context);
            of_context.fold(0_u64, |sum, (_, sums)| sum.saturating_add(sums[which]))
        };
        Context::ALL.into_iter().all(|context| all(context, 0) == all(context, 1))
    }

    /// Whether paths have all costly instructions, in each Context.
    pub(super) fn costly_add_up(&self) -> bool {
        let [of_paths, of_lines] = &self.costly;
        of_paths == of_lines
    }

    /// Whether paths have all that CPUs waited, in each Context, and no more than they were idle: a
    /// CPU is also idle where no process has left it. An older plugin does not say where they wait.
    pub(super) fn waits_add_up(&self) -> bool {
        let [of_paths, of_lines] = &self.waits;
        let is_older = of_paths.values().all(|wait| *wait == 0);
        let wait = |waits: &BTreeMap<Context, u64>, context| {
            waits.get(&context).copied().unwrap_or_default()
        };
        let is_same = |context| wait(of_paths, context) == wait(of_lines, context);
        (is_older || Context::ALL.into_iter().all(is_same)) && self.idle[0] <= self.idle[1]
    }

    /// What is below another function than it was counted for, if that is more than one in a
    /// hundred.
    pub(super) fn note(&self, total: u64) -> Option<String> {
        // What a program's functions executed is below one place: that of user mode.
        let is_kernels = |name: &str| !name.starts_with('[');
        let kernels = self.functions.iter().filter(|((_, name), _)| is_kernels(name));
        let apart: u64 = kernels.map(|(_, [paths, lines])| lines.saturating_sub(*paths)).sum();
        let note = "path: functions are below others than those that called them";
        (apart > total / 100).then(|| note.to_owned())
    }
}
