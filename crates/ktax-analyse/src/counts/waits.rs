//! Where the time of several CPUs went, and for what they waited.

use std::collections::BTreeMap;

use super::gather::Pair;
use super::plain::plain;
use super::source::CountsRuns;
use crate::error::Result;
use ktax_model::{
    Counts, CountsEvidence, Path, Profile, ProfileLine, Side, Sides, WaitStack, Workload,
};

/// So many stacks are kept, those with the longest waits.
const MOST_STACKS: usize = 40;

/// What of the evidence is of several CPUs, of one pair of Runs.
pub(super) fn waits(
    runs: &dyn CountsRuns,
    workload: &Workload,
    pair: &Pair,
) -> Result<CountsEvidence> {
    let profile =
        |side| -> Result<Profile> { Ok(runs.profile(pair.steps.get(side), &workload.row)?) };
    let profiles = Sides::try_from_fn(profile)?;
    let lines = |side| profiles.get(side).lines.as_slice();
    let waits = Sides::of(|side| by_function(lines(side), |counts| counts.wait));
    let executed = Sides::of(|side| {
        let mut executed = by_function(lines(side), |counts| {
            counts.instructions.saturating_add(counts.rep_iterations)
        });
        executed.retain(|function, _| {
            Side::BOTH.iter().any(|side| waits.get(*side).contains_key(function))
        });
        executed
    });
    let cpu_time = Sides::of(|side| {
        let parallel = pair.samples.get(side).parallel.as_ref();
        parallel.map(|parallel| parallel.sum()).unwrap_or_default()
    });
    Ok(CountsEvidence {
        waits: Some(waits),
        executed_there: Some(executed),
        cpu_time: Some(cpu_time),
        wait_stacks: stacks(&profiles, |path| path.wait),
        idle_stacks: stacks(&profiles, |path| path.idle),
        ..CountsEvidence::default()
    })
}

/// In all Contexts; nothing of functions without it.
fn by_function(lines: &[ProfileLine], of: impl Fn(&Counts) -> u64) -> BTreeMap<String, u64> {
    let mut functions: BTreeMap<String, u64> = BTreeMap::new();
    for line in lines.iter().filter(|line| of(&line.counts) > 0) {
        *functions.entry(plain(&line.function).to_owned()).or_default() += of(&line.counts);
    }
    functions
}

/// The stacks with most of it on either Side, the largest first.
fn stacks(profiles: &Sides<Profile>, count: impl Fn(&Path) -> u64) -> Vec<WaitStack> {
    let mut found: BTreeMap<Vec<&str>, Sides<u64>> = BTreeMap::new();
    for side in Side::BOTH {
        let mut callers: Vec<&str> = Vec::new();
        for path in &profiles.get(side).paths {
            callers.truncate(path.depth as usize);
            callers.push(plain(&path.function));
            if count(path) > 0 {
                let sum = found.entry(callers.iter().rev().copied().collect()).or_default();
                let sum = sum.get_mut(side);
                *sum = sum.saturating_add(count(path));
            }
        }
    }
    let mut found: Vec<(Vec<&str>, Sides<u64>)> = found.into_iter().collect();
    // Stable: equal ones stay in the order of their names.
    found.sort_by_key(|(_, wait)| std::cmp::Reverse(wait.base.max(wait.change)));
    found.truncate(MOST_STACKS);
    let stack = |(functions, wait): (Vec<&str>, Sides<u64>)| WaitStack {
        functions: functions.into_iter().map(str::to_owned).collect(),
        wait,
    };
    found.into_iter().map(stack).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_model::{Context, CostlyCounts};

    fn path(depth: u32, function: &str, wait: u64) -> Path {
        Path {
            context: Context::Process,
            depth,
            function: function.to_owned(),
            calls: 1,
            instructions: 1,
            rep_iterations: 0,
            costly: CostlyCounts::default(),
            wait,
            idle: 0,
        }
    }

    #[test]
    fn waits_have_their_callers_and_clones_of_a_function_are_one() {
        let paths = vec![
            path(0, "entry", 0),
            path(1, "alloc_fd", 0),
            path(2, "slowpath", 70),
            path(1, "close_fd", 0),
            path(2, "slowpath.isra.0", 20),
            path(2, "slowpath", 5),
        ];
        let base = Profile { paths, ..Profile::default() };
        let found = stacks(&Sides { base, change: Profile::default() }, |path| path.wait);
        let said: Vec<(String, u64)> =
            found.iter().map(|it| (it.functions.join(" < "), it.wait.base)).collect();
        let expected = [("slowpath < alloc_fd < entry", 70), ("slowpath < close_fd < entry", 25)];
        assert_eq!(said, expected.map(|(stack, wait)| (stack.to_owned(), wait)));
    }
}
