//! The programs in an interpreter, held against `fold.rs`: the same records, the same tables.

mod interpreter;
mod lost;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::decode::decode;
use super::hook::{Field, Hook, Only};
use crate::Per;
use crate::fold::{Fold, VcpuEvent};
use crate::recording::Recording;
use crate::recording::{Reason, Stage};
use crate::table::{CountedExits, Recorded};
use interpreter::{Interpreter, maps};

const PROCESS: u32 = 77;

const fn field(offset: u16, size: u8) -> Field {
    Field { offset, size }
}

const RUN: Only = Only { field: field(24, 8), value: 0xae80 };

/// Every hook, at the offsets of a real kernel.
const HOOKS: [Hook; 8] = [
    Hook::Enter { only: None },
    Hook::Enter { only: Some(RUN) },
    Hook::Exit { reason: field(8, 4), detail: Some(field(24, 4)) },
    Hook::Return { reason: field(8, 4), errno: field(12, 4) },
    Hook::ToUser,
    Hook::ToKernel { only: RUN },
    Hook::Switch { from: field(24, 4), state: field(32, 8), to: field(56, 4) },
    Hook::Wakeup { thread: field(24, 4) },
];

/// How the scheduler says what a thread that loses its CPU is: running, asleep, idle, preempted.
const STATES: [u64; 4] = [0, 1, 0x80, 0x100];

/// A record, when, and in which thread.
#[derive(Debug, Clone)]
struct Record {
    hook: usize,
    /// What passes between it and the last.
    after: u64,
    tid: u32,
    other: u32,
    reason: u32,
    word: u32,
}

impl Record {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        let mut put = |at: usize, value: &[u8]| {
            bytes[at..at + value.len()].copy_from_slice(value);
        };
        put(8, &self.reason.to_ne_bytes());
        put(12, &self.word.wrapping_sub(2).to_ne_bytes());
        match HOOKS[self.hook] {
            Hook::Switch { .. } => {
                put(24, &self.tid.to_ne_bytes());
                put(32, &STATES[self.word as usize % 4].to_ne_bytes());
                put(56, &self.other.to_ne_bytes());
            }
            Hook::Wakeup { .. } => put(24, &self.other.to_ne_bytes()),
            Hook::Exit { .. } => put(24, &(self.word % 3).to_ne_bytes()),
            _ => {
                let is_run = !self.word.is_multiple_of(5);
                put(24, &if is_run { 0xae80u64 } else { 0xae81 }.to_ne_bytes());
            }
        }
        bytes
    }
}

/// What both make of the same.
fn both(records: &[Record]) -> (Recording, Recording) {
    both_with(Interpreter::new(PROCESS, maps(64, 16)), records)
}

fn both_with(mut interpreter: Interpreter, records: &[Record]) -> (Recording, Recording) {
    let mut fold = Fold::default();
    let mut now = 1000u64;
    for record in records {
        now = now.saturating_add(record.after);
        let bytes = record.bytes();
        interpreter.run(HOOKS[record.hook], bytes.clone(), record.tid, now);
        for (tid, event) in decode(HOOKS[record.hook], &bytes, record.tid) {
            fold.add(tid, "vcpu", now, event);
        }
    }
    (interpreter.recording(), fold.recording())
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    let after = prop_oneof![0u64..10, 0u64..100_000, 0u64..1 << 40];
    // All of them come to one place first.
    let thread = |number: u32| 1 + 4 * number;
    let record = (0..HOOKS.len(), after, 0u32..4, 0u32..6, 0u32..4, 0u32..8).prop_map(
        move |(hook, after, tid, other, reason, word)| {
            let (tid, other) = (thread(tid), thread(other));
            Record { hook, after, tid, other, reason, word }
        },
    );
    vec(record, 0..60)
}

proptest! {
    #[test]
    fn the_kernels_programs_and_rust_agree(records in records()) {
        let (kernel, rust) = both(&records);
        prop_assert_eq!(kernel, rust);
    }

    #[test]
    fn no_time_is_lost_or_counted_twice(records in records()) {
        let (recording, _) = both(&records);
        for (tid, thread) in &recording.threads {
            let rows = || recording.rows.iter().filter(|((of, _), _)| of == tid);
            let sum: u64 = rows().map(|(_, times)| times.sum).sum();
            let began = thread.open.map_or(thread.first, |(_, began)| began);
            prop_assert_eq!(sum, began - thread.first);
            for (_, times) in rows() {
                prop_assert_eq!(times.parts.iter().sum::<u64>(), times.sum);
                prop_assert_eq!(times.buckets.iter().sum::<u64>(), times.count);
            }
        }
    }
}

#[test]
fn a_program_that_forgets_to_write_something_is_noticed() {
    let mut runner = TestRunner::deterministic();
    let streams: Vec<Vec<Record>> =
        (0..60).map(|_| records().new_tree(&mut runner).unwrap().current()).collect();
    // So small that there is no room for all.
    let maps = maps(8, 3);
    let made = |interpreter, stream: &[Record]| both_with(interpreter, stream).0;
    let whole: Vec<Recording> =
        streams.iter().map(|stream| made(Interpreter::new(PROCESS, maps), stream)).collect();
    assert!(whole.iter().any(|recording| recording.lost > 0));
    for hook in HOOKS {
        for number in Interpreter::writes(PROCESS, maps, hook) {
            let broken = |stream| made(Interpreter::broken(PROCESS, maps, hook, number), stream);
            let is_noticed = streams.iter().zip(&whole).any(|(s, whole)| broken(s) != *whole);
            assert!(is_noticed, "instruction {number} of {hook:?}");
        }
    }
}

/// include/linux/sched.h: TASK_RUNNING, and TASK_REPORT_MAX of one that was preempted, which
/// tracefs prints as R and R+; S, D, T, t, X, Z, P and I.
#[test]
fn who_was_preempted_does_not_sleep() {
    let switch = HOOKS.into_iter().find(|hook| matches!(hook, Hook::Switch { .. })).unwrap();
    let could_run = |state: u64| {
        let mut record = vec![0; 64];
        record[32..40].copy_from_slice(&state.to_ne_bytes());
        match decode(switch, &record, 1)[0].1 {
            VcpuEvent::Off { could_run } => could_run,
            other => panic!("{other:?}"),
        }
    };
    assert!(could_run(0) && could_run(0x100));
    assert!([1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80].iter().all(|state| !could_run(*state)));
}

/// So many that places are shared: neither half of a reason alone tells them apart.
#[test]
fn reasons_that_come_to_one_place_are_not_merged() {
    let exit = HOOKS.into_iter().find(|hook| matches!(hook, Hook::Exit { .. })).unwrap();
    for of_detail in [true, false] {
        let (mut interpreter, mut fold) =
            (Interpreter::new(PROCESS, maps(64, 64)), Fold::default());
        for number in 0..50u32 {
            let (code, detail) = if of_detail { (7, number * 977) } else { (number * 977, 7) };
            let mut record = vec![0; 64];
            record[8..12].copy_from_slice(&code.to_ne_bytes());
            record[24..28].copy_from_slice(&detail.to_ne_bytes());
            for (hook, now) in [(exit, 10), (Hook::Enter { only: None }, 15)] {
                let now = u64::from(number) * 100 + now;
                interpreter.run(hook, record.clone(), 1, now);
                for (tid, event) in decode(hook, &record, 1) {
                    fold.add(tid, "vcpu", now, event);
                }
            }
        }
        let (kernel, rust) = (interpreter.recording(), fold.recording());
        assert_eq!(rust.rows.len(), 51, "50 reasons and the guest");
        assert_eq!(kernel, rust);
    }
}

#[test]
fn an_exit_is_split_into_where_its_time_went() {
    let (mut fold, exit) = (Fold::default(), Reason { code: 0x78, detail: 2 });
    let events = [
        (100, VcpuEvent::Enter),
        (150, VcpuEvent::Left(exit, Stage::Kernel)),
        (160, VcpuEvent::Off { could_run: false }),
        (200, VcpuEvent::Wakeup),
        (205, VcpuEvent::On),
        (215, VcpuEvent::Moves(Stage::User)),
        (245, VcpuEvent::Off { could_run: false }),
        (255, VcpuEvent::On),
        (300, VcpuEvent::Off { could_run: true }),
        (400, VcpuEvent::On),
        (410, VcpuEvent::Moves(Stage::Kernel)),
        (420, VcpuEvent::Enter),
    ];
    events.into_iter().for_each(|(now, event)| fold.add(1, "vcpu", now, event));
    let recording = fold.recording();
    let times = &recording.rows[&(1, exit)];
    // Kernel 10 + 10 + 10; the VMM 30 + 10 asleep + 45 + 10; halted 40; ready 5 + 100.
    assert_eq!((times.count, times.sum, times.parts), (1, 270, [30, 95, 40, 105]));
    assert_eq!(recording.rows[&(1, Reason::GUEST)].sum, 50);
    let recorded = Recorded {
        recording: &recording,
        of: "a test",
        source: "a test",
        name: &|reason| if reason == exit { "hlt".into() } else { "TIMEINGUEST".into() },
        began: None,
        end: &|_, thread| thread.last,
        counted: &CountedExits::default(),
        has_switches: true,
        may_sleep: &|_| false,
    };
    let parts = recorded.tables(Per::Vm)[0].row("hlt").unwrap().parts.clone().unwrap();
    assert_eq!((parts.kernel_ns, parts.user_ns), (30, 95));
    assert_eq!((parts.halted_ns, parts.preempted_ns), (Some(40), Some(105)));
}
