//! What two runs of a program were given, call by call.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::TracedCall;

/// What two runs do not have in common, by the number of the system call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceDifference {
    /// How often it gave the two something else.
    pub given: BTreeMap<u16, u64>,
    /// Where a thread or process of the one went another way than its like in the other.
    pub apart: BTreeSet<u16>,
}

/// Compares each thread and process with that of the other run which began as the same one, up to
/// the call at which they go apart.
pub fn between_traces(one: &[TracedCall], other: &[TracedCall]) -> TraceDifference {
    let (one, other) = (by_task(one), by_task(other));
    let mut difference = TraceDifference::default();
    for (task, calls) in one {
        for (a, b) in calls.iter().zip(other.get(&task).into_iter().flatten()) {
            if a.number != b.number {
                difference.apart.insert(a.number);
                break;
            }
            if a.given != b.given {
                *difference.given.entry(a.number).or_default() += 1;
            }
        }
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
    fn a_run_that_is_shorter_is_compared_as_far_as_it_goes() {
        let one = calls(&[(0, 96, 1), (0, 96, 2)]);
        assert_eq!(between_traces(&one, &one[..1]), TraceDifference::default());
        assert_eq!(between_traces(&[], &one), TraceDifference::default());
    }
}
