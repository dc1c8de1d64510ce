//! Operations that a program counts itself. The Sides may do other numbers of them, as programs of
//! a fixed time do: then all counts are scaled to as many operations, so that they compare.

use super::gather::Pair;
use super::program_work::Operations;
use super::scale::Scale;
use ktax_model::{CountedOperations, Sample, Side, Sides, UserProgram, Workload};

/// What an operation of such a row is.
const OPERATION: &str = "one of the operations that it prints";

/// Who says how many operations a row does, and which suite it is if that is known by what it
/// printed in every Run.
pub(super) fn known(
    workload: &Workload,
    programs: &[UserProgram],
    pairs: &[Pair],
) -> (Operations, Option<String>) {
    if workload.params.contains_key(Workload::PRINTS_OPS) {
        return (Operations::Printed, None);
    }
    if programs.iter().any(|program| program.row() == workload.row && program.ops.is_some()) {
        return (Operations::Given, None);
    }
    let samples = || pairs.iter().flat_map(|pair| [&pair.samples.base, &pair.samples.change]);
    let suite = |sample: &Sample| sample.suite_operations().map(|(suite, _)| suite.to_owned());
    let first = samples().next().and_then(suite).filter(|_| workload.is_users());
    match first.filter(|first| samples().all(|sample| suite(sample).as_ref() == Some(first))) {
        Some(suite) => (Operations::Printed, Some(suite)),
        None => (Operations::Unknown, None),
    }
}

/// Scales what was measured to as many operations as the base did in the first Layout, which
/// become those of the row.
pub(super) fn settle(workload: &mut Workload, pairs: &mut [Pair], suite: Option<&str>) {
    let ops = |sample: &Sample| match (suite, sample.suite_operations()) {
        (Some(_), Some((_, operations))) => operations,
        _ => sample.ops,
    };
    let Some(to) = pairs.first().map(|pair| ops(&pair.samples.base)) else { return };
    workload.ops = to;
    if suite.is_some() {
        OPERATION.clone_into(&mut workload.operation);
    }
    for pair in pairs {
        pair.scales = Sides::of(|side| Scale { from: ops(pair.samples.get(side)), to });
        pair.measured = pair.samples.clone();
        pair.samples =
            Sides::of(|side: Side| pair.scales.get(side).sample(pair.measured.get(side)));
    }
}

/// The operations of a pair, where the program counts them.
pub(super) fn counted(
    pair: &Pair,
    known: Operations,
    suite: Option<&str>,
) -> Option<CountedOperations> {
    (known == Operations::Printed).then(|| CountedOperations {
        count: Sides::of(|side| pair.scales.get(side).from),
        suite: suite.map(str::to_owned),
    })
}
