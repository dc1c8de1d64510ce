//! A task switch or a wakeup that was not seen moves little, and nothing once the next is.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::{HOOKS, Hook, Record, both};
use crate::recording::{Recording, STAGES};

const VCPU: u32 = 1;
const OTHER: u32 = 99;

/// Where a vCPU's thread is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Guest,
    Kernel,
    User,
}

fn hook(is_it: impl Fn(&Hook) -> bool) -> usize {
    HOOKS.iter().position(is_it).unwrap()
}

/// What a thread can do: it is on a CPU or off, and asleep until it is woken.
fn possible(choices: &[(u32, u64)]) -> Vec<Record> {
    let (mut place, mut is_off, mut sleeps, mut records) = (Place::Kernel, false, false, vec![]);
    let switch = hook(|hook| matches!(hook, Hook::Switch { .. }));
    for (number, (choice, after)) in choices.iter().enumerate() {
        let record = |hook, tid, other, word| {
            let reason = number as u32 % 4;
            Record { hook, after: *after, tid, other, reason, word }
        };
        let own = |hook| record(hook, VCPU, OTHER, 1);
        records.push(match (is_off, place) {
            (true, _) if sleeps => {
                sleeps = false;
                record(hook(|hook| matches!(hook, Hook::Wakeup { .. })), OTHER, VCPU, 0)
            }
            (true, _) => {
                is_off = false;
                record(switch, OTHER, VCPU, 0)
            }
            (false, _) if choice % 3 == 0 => {
                is_off = true;
                sleeps = choice % 2 == 0 && place != Place::Guest;
                record(switch, VCPU, OTHER, u32::from(sleeps))
            }
            (false, Place::Guest) => {
                place = Place::Kernel;
                own(hook(|hook| matches!(hook, Hook::Exit { .. })))
            }
            (false, Place::User) => {
                place = Place::Kernel;
                own(hook(|hook| matches!(hook, Hook::ToKernel { .. })))
            }
            (false, Place::Kernel) if choice % 2 == 0 => {
                place = Place::User;
                own(hook(|hook| matches!(hook, Hook::ToUser)))
            }
            (false, Place::Kernel) => {
                place = Place::Guest;
                own(hook(|hook| matches!(hook, Hook::Enter { only: None })))
            }
        });
    }
    records
}

/// How much time is in other parts in the one than in the other; nothing else may differ.
fn moved(one: &Recording, other: &Recording) -> u64 {
    assert!(one.rows.keys().eq(other.rows.keys()));
    let mut moved = [0; STAGES];
    for (mine, its) in one.rows.values().zip(other.rows.values()) {
        assert_eq!((mine.count, mine.sum), (its.count, its.sum));
        let parts = mine.parts.iter().zip(its.parts);
        moved.iter_mut().zip(parts).for_each(|(sum, (a, b))| *sum += a.abs_diff(b));
    }
    moved.iter().sum::<u64>() / 2
}

proptest! {
    #[test]
    fn one_that_is_lost_moves_time_until_the_next_event_and_no_more(
        choices in vec((0u32..6, 1u64..100_000), 6..60),
        at in any::<Index>(),
    ) {
        let records = possible(&choices);
        let is_wakeup = |record: &Record| matches!(HOOKS[record.hook], Hook::Wakeup { .. });
        let can_be_lost = |at: &usize| HOOKS[records[*at].hook].is_of_the_scheduler();
        let candidates: Vec<usize> = (0..records.len() - 1).filter(can_be_lost).collect();
        prop_assume!(!candidates.is_empty());
        let at = candidates[at.index(candidates.len())];
        let mut without = records.clone();
        let lost = without.remove(at);
        without[at].after += lost.after;
        // A wakeup of one that is not known to sleep says nothing.
        let ends = records[at + 1..].iter().position(|record| !is_wakeup(record));
        let last = ends.map_or(records.len() - 1, |more| at + 1 + more);
        let time: u64 = records[at + 1..=last].iter().map(|record| record.after).sum();
        let (whole, (kernel, rust)) = (both(&records).0, both(&without));
        prop_assert_eq!(&kernel, &rust);
        let moved = moved(&whole, &kernel);
        prop_assert!(moved <= time, "{moved} ns instead of {time}: {records:?} without {at}");
    }
}

#[test]
fn switches_without_each_other_are_told_by_where_the_thread_is() {
    let hooks = [
        hook(|hook| matches!(hook, Hook::Return { .. })),
        hook(|hook| matches!(hook, Hook::Enter { only: None })),
        hook(|hook| matches!(hook, Hook::ToKernel { .. })),
    ];
    let switch = hook(|hook| matches!(hook, Hook::Switch { .. }));
    let own = |number: usize| (hooks[number], VCPU, OTHER, 1);
    let (asleep, preempted) = ((switch, VCPU, OTHER, 1), (switch, VCPU, OTHER, 0));
    let on = (switch, OTHER, VCPU, 0);
    // Kernel, VMM, halted, preempted.
    for (between, parts) in [
        (vec![preempted, asleep], [0, 20, 0, 10]),
        (vec![preempted, asleep, on], [0, 30, 0, 10]),
        (vec![own(2), preempted, asleep, on], [20, 10, 10, 10]),
        (vec![asleep, on, own(2), on], [20, 30, 0, 0]),
        (vec![preempted, on, own(2), on, preempted], [20, 20, 0, 20]),
    ] {
        let all = [vec![own(0)], between, vec![own(1)]].concat();
        let record =
            |(hook, tid, other, word)| Record { hook, after: 10, tid, other, reason: 3, word };
        let records: Vec<Record> = all.into_iter().map(record).collect();
        let (kernel, rust) = both(&records);
        assert_eq!(kernel, rust);
        let found: Vec<_> = rust.rows.values().map(|times| times.parts).collect();
        assert_eq!(found, [parts], "{records:?}");
    }
}
