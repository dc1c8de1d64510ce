//! What two runs of a program were given, call by call.

use std::collections::{BTreeMap, BTreeSet};

use ktax_model::TracedCall;

/// What two runs do not have in common, by the number of the system call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceDifference {
    /// How often it gave the two something else.
    pub given: BTreeMap<u16, u64>,
    /// Where a thread or process of the one went another way than its like in the other.
    pub apart: BTreeSet<u16>,
    /// Whether one of them was ended, so that what came after is not known.
    pub is_cut: bool,
}

/// Compares each thread and process with that of the other run which began as the same one, up to
/// the call at which they go apart. Where a trace that was cut ends says nothing.
pub fn between_traces(one: &[TracedCall], other: &[TracedCall]) -> TraceDifference {
    let is_cut = one.len().max(other.len()) >= TracedCall::MOST;
    let (one, other) = (by_task(one), by_task(other));
    let mut difference = TraceDifference { is_cut, ..TraceDifference::default() };
    let tasks: BTreeSet<u16> = one.keys().chain(other.keys()).copied().collect();
    for task in tasks {
        let [one, other] = [&one, &other].map(|of| of.get(&task).map_or(&[][..], Vec::as_slice));
        let together = one.iter().zip(other).take_while(|(a, b)| a.number == b.number);
        for (call, _) in together.clone().filter(|(a, b)| a.given != b.given) {
            *difference.given.entry(call.number).or_default() += 1;
        }
        let after = together.count();
        let has_gone_apart = !is_cut || (one.len() > after && other.len() > after);
        let next = one.get(after).or(other.get(after)).filter(|_| has_gone_apart);
        difference.apart.extend(next.map(|call| call.number));
    }
    difference
}

fn by_task(calls: &[TracedCall]) -> BTreeMap<u16, Vec<TracedCall>> {
    let mut tasks: BTreeMap<u16, Vec<TracedCall>> = BTreeMap::new();
    for call in calls {
        tasks.entry(call.task).or_default().push(*call);
    }
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(of: &[(u16, u16, u32)]) -> Vec<TracedCall> {
        of.iter().map(|&(task, number, given)| TracedCall { task, number, given }).collect()
    }

    #[test]
    fn tasks_are_compared_one_by_one_up_to_where_they_go_apart() {
        let one = calls(&[(0, 96, 1), (1, 39, 5), (0, 96, 2), (0, 1, 9), (0, 96, 3)]);
        let other = calls(&[(0, 96, 1), (0, 96, 7), (0, 0, 9), (0, 96, 4), (1, 39, 6)]);
        let difference = between_traces(&one, &other);
        assert_eq!(difference.given, [(96, 1), (39, 1)].into());
        assert_eq!(difference.apart, [1].into());
        assert_eq!(between_traces(&one, &one), TraceDifference::default());
    }

    #[test]
    fn a_run_that_ends_earlier_went_apart_there() {
        let one = calls(&[(0, 96, 1), (0, 24, 2), (1, 39, 1)]);
        assert_eq!(between_traces(&one, &one[..1]).apart, [24, 39].into());
        assert_eq!(between_traces(&[], &one[..2]).apart, [96].into());
        let cut = calls(&[(0, 96, 1); TracedCall::MOST]);
        let nothing = TraceDifference { is_cut: true, ..TraceDifference::default() };
        assert_eq!(between_traces(&cut, &cut[1..]), nothing);
    }
}
