//! Runs the eBPF programs in an interpreter and compares them with `recording.rs`: the same records
//! must give the same recording.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use rbpf::EbpfVmRaw;
use rustix::io::Errno;

use super::kernel::row;
use super::program::{Helper, Maps, assemble};
use super::ring::decode;
use super::tracepoints::{FieldFilter, Hook, RecordField};
use super::{Process, command_line_names, find_vm_by_name, is_alive, open_error, thread_end_ns};
use crate::TableScope;
use crate::recording::{Fold, Reason, ReasonTimes, Recording, STAGES, Stage, Thread, VcpuEvent};
use crate::table::{CountedExits, TableInput};
use ktax_model::Error;

const PROCESS: u32 = 77;

const fn field(offset: u16, size: u8) -> RecordField {
    RecordField { offset, size }
}

const RUN: FieldFilter = FieldFilter { field: field(24, 8), value: 0xae80 };

/// Every hook, with field offsets of a real kernel.
const HOOKS: [Hook; 8] = [
    Hook::Enter { filter: None },
    Hook::Enter { filter: Some(RUN) },
    Hook::Exit { reason: field(8, 4), detail: Some(field(24, 4)) },
    Hook::Return { reason: field(8, 4), errno: field(12, 4) },
    Hook::ToUser,
    Hook::ToKernel { filter: RUN },
    Hook::Switch { prev_pid: field(24, 4), prev_state: field(32, 8), next_pid: field(56, 4) },
    Hook::Wakeup { pid: field(24, 4) },
];

/// Scheduler states of a thread that loses its CPU: running, asleep, idle, preempted.
const STATES: [u64; 4] = [0, 1, 0x80, 0x100];

/// A record of a tracepoint, with its time and thread.
#[derive(Debug, Clone)]
struct Record {
    hook: usize,
    /// Time since the previous record, ns.
    after: u64,
    tid: u32,
    other: u32,
    reason: u32,
    word: u32,
}

impl Record {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        let mut put = |start: usize, value: &[u8]| {
            bytes[start..start + value.len()].copy_from_slice(value);
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

/// Returns the recordings of the eBPF programs and of [`Fold`] for the same records.
fn record_both_ways(records: &[Record]) -> (Recording, Recording) {
    record_both_ways_with(Interpreter::new(PROCESS, maps(64, 16)), records)
}

fn record_both_ways_with(
    mut interpreter: Interpreter,
    records: &[Record],
) -> (Recording, Recording) {
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
    // All thread ids have the same first slot.
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
        let (kernel, rust) = record_both_ways(&records);
        prop_assert_eq!(kernel, rust);
    }

    #[test]
    fn no_time_is_lost_or_counted_twice(records in records()) {
        let (recording, _) = record_both_ways(&records);
        for (tid, thread) in &recording.threads {
            let rows = || recording.rows.iter().filter(|((owner, _), _)| owner == tid);
            let sum: u64 = rows().map(|(_, times)| times.sum).sum();
            let end_ns = thread.open.map_or(thread.first_ns, |(_, start_ns)| start_ns);
            prop_assert_eq!(sum, end_ns - thread.first_ns);
            for (_, times) in rows() {
                prop_assert_eq!(times.parts.iter().sum::<u64>(), times.sum);
                prop_assert_eq!(times.buckets.iter().sum::<u64>(), times.count);
            }
        }
    }
}

#[test]
fn a_missing_write_of_a_program_is_noticed() {
    let mut runner = TestRunner::deterministic();
    let streams: Vec<Vec<Record>> =
        (0..60).map(|_| records().new_tree(&mut runner).unwrap().current()).collect();
    // The map is too small for all rows.
    let maps = maps(8, 3);
    let record = |interpreter, stream: &[Record]| record_both_ways_with(interpreter, stream).0;
    let expected: Vec<Recording> =
        streams.iter().map(|stream| record(Interpreter::new(PROCESS, maps), stream)).collect();
    assert!(expected.iter().any(|recording| recording.lost_events > 0));
    for hook in HOOKS {
        for number in Interpreter::writes(PROCESS, maps, hook) {
            let broken = |stream| record(Interpreter::broken(PROCESS, maps, hook, number), stream);
            let is_noticed =
                streams.iter().zip(&expected).any(|(s, expected)| broken(s) != *expected);
            assert!(is_noticed, "instruction {number} of {hook:?}");
        }
    }
}

/// include/linux/sched.h: TASK_RUNNING, and TASK_REPORT_MAX for a preempted thread, which tracefs
/// prints as R and R+. The other states are printed as S, D, T, t, X, Z, P and I.
#[test]
fn a_preempted_thread_does_not_sleep() {
    let switch = HOOKS.into_iter().find(|hook| matches!(hook, Hook::Switch { .. })).unwrap();
    let is_runnable = |state: u64| {
        let mut record = vec![0; 64];
        record[32..40].copy_from_slice(&state.to_ne_bytes());
        match decode(switch, &record, 1)[0].1 {
            VcpuEvent::SwitchOut { is_runnable } => is_runnable,
            other => panic!("{other:?}"),
        }
    };
    assert!(is_runnable(0) && is_runnable(0x100));
    assert!([1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80].iter().all(|state| !is_runnable(*state)));
}

/// Many reasons that share slots, and differ only in the detail or only in the code.
#[test]
fn reasons_in_colliding_slots_are_not_merged() {
    let exit = HOOKS.into_iter().find(|hook| matches!(hook, Hook::Exit { .. })).unwrap();
    for differs_in_detail in [true, false] {
        let (mut interpreter, mut fold) =
            (Interpreter::new(PROCESS, maps(64, 64)), Fold::default());
        for number in 0..50u32 {
            let (code, detail) =
                if differs_in_detail { (7, number * 977) } else { (number * 977, 7) };
            let mut record = vec![0; 64];
            record[8..12].copy_from_slice(&code.to_ne_bytes());
            record[24..28].copy_from_slice(&detail.to_ne_bytes());
            for (hook, now) in [(exit, 10), (Hook::Enter { filter: None }, 15)] {
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
fn an_exits_time_is_split_by_stage() {
    let (mut fold, exit) = (Fold::default(), Reason { code: 0x78, detail: 2 });
    let events = [
        (100, VcpuEvent::Enter),
        (150, VcpuEvent::Exit(exit, Stage::Kernel)),
        (160, VcpuEvent::SwitchOut { is_runnable: false }),
        (200, VcpuEvent::Wakeup),
        (205, VcpuEvent::SwitchIn),
        (215, VcpuEvent::SetStage(Stage::User)),
        (245, VcpuEvent::SwitchOut { is_runnable: false }),
        (255, VcpuEvent::SwitchIn),
        (300, VcpuEvent::SwitchOut { is_runnable: true }),
        (400, VcpuEvent::SwitchIn),
        (410, VcpuEvent::SetStage(Stage::Kernel)),
        (420, VcpuEvent::Enter),
    ];
    events.into_iter().for_each(|(now, event)| fold.add(1, "vcpu", now, event));
    let recording = fold.recording();
    let times = &recording.rows[&(1, exit)];
    // Kernel 10 + 10 + 10; VMM 30 + 10 asleep + 45 + 10; halted 40; preempted 5 + 100.
    assert_eq!((times.count, times.sum, times.parts), (1, 270, [30, 95, 40, 105]));
    assert_eq!(recording.rows[&(1, Reason::GUEST)].sum, 50);
    let input = TableInput {
        recording: &recording,
        vm_name: "a test",
        source: "a test",
        reason_name: &|reason| if reason == exit { "hlt".into() } else { "TIMEINGUEST".into() },
        start_ns: None,
        end_ns: &|_, thread| thread.last_ns,
        counted: &CountedExits::default(),
        has_switches: true,
        may_sleep: &|_| false,
    };
    let parts = input.tables(TableScope::Vm)[0].row("hlt").unwrap().parts.clone().unwrap();
    assert_eq!((parts.kernel_ns, parts.user_ns), (30, 95));
    assert_eq!((parts.halted_ns, parts.preempted_ns), (Some(40), Some(105)));
}

const THREADS: i32 = 1;
const ROWS: i32 = 2;
const TAKEN: i32 = 3;
const STATE: i32 = 4;

/// Makes maps with fewer slots than in production, so that threads and rows collide.
pub fn maps(rows: u32, probes: i32) -> Maps {
    let mut maps = Maps::new([THREADS, ROWS, TAKEN, STATE]);
    (maps.threads.capacity, maps.rows.capacity, maps.rows.probes) = (4, rows, probes);
    maps
}

/// Number of values of all maps. They are allocated at once, because programs keep their addresses.
const VALUES: usize = 128;

struct Kernel {
    now: u64,
    pid_tgid: u64,
    /// Index of the value, by map and key.
    places: BTreeMap<(u64, Vec<u8>), usize>,
    /// Values of any map, each as large as the largest.
    values: Vec<[u8; row::BYTES]>,
}

thread_local! {
    static KERNEL: RefCell<Option<Kernel>> = const { RefCell::new(None) };
}

fn with<T>(work: impl FnOnce(&mut Kernel) -> T) -> T {
    KERNEL.with(|kernel| work(kernel.borrow_mut().as_mut().expect("an interpreter runs")))
}

fn key_bytes(map: u64) -> usize {
    if map == TAKEN as u64 { 8 } else { 4 }
}

fn bytes(address: u64, count: usize) -> Vec<u8> {
    // SAFETY: the address is what the program passed: its own stack or a map's value, which rbpf
    // and this file hold for the whole run, and the count is that map's.
    unsafe { std::slice::from_raw_parts(address as *const u8, count) }.to_vec()
}

/// Looks up a value. All maps but the hash map are arrays, in which every key exists.
fn look_up(map: u64, key: u64, _: u64, _: u64, _: u64) -> u64 {
    let key = bytes(key, key_bytes(map));
    with(|kernel| kernel.place(map, key).as_ptr() as u64)
}

fn update(map: u64, key: u64, _: u64, flags: u64, _: u64) -> u64 {
    assert_eq!((map, flags), (TAKEN as u64, 1));
    let key = bytes(key, key_bytes(map));
    with(|kernel| match kernel.places.contains_key(&(map, key.clone())) {
        true => -17i64 as u64,
        false => {
            kernel.place(map, key);
            0
        }
    })
}

impl Kernel {
    fn place(&mut self, map: u64, key: Vec<u8>) -> &[u8] {
        let next = self.places.len();
        let place = *self.places.entry((map, key)).or_insert(next);
        assert!(place < VALUES);
        &self.values[place]
    }
}

fn ktime(_: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    with(|kernel| kernel.now)
}

fn pid_tgid(_: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    with(|kernel| kernel.pid_tgid)
}

fn comm(to: u64, size: u64, _: u64, _: u64, _: u64) -> u64 {
    assert_eq!(size, 16);
    // SAFETY: the program passes 16 bytes of its own stack.
    unsafe { std::slice::from_raw_parts_mut(to as *mut u8, 4) }.copy_from_slice(b"vcpu");
    0
}

/// Interpreter of the programs, with the kernel state of one test.
pub struct Interpreter {
    process: u32,
    maps: Maps,
    /// Hook and number of the instruction that is skipped.
    broken: Option<(Hook, usize)>,
}

impl Interpreter {
    pub fn new(process: u32, maps: Maps) -> Interpreter {
        let is_on = (STATE as u64, Maps::IS_COUNTING.to_ne_bytes().to_vec());
        let places = BTreeMap::from([(is_on, 0)]);
        let mut values = vec![[0; row::BYTES]; VALUES];
        values[0][..8].copy_from_slice(&1u64.to_ne_bytes());
        let kernel = Kernel { now: 0, pid_tgid: 0, places, values };
        KERNEL.with(|cell| *cell.borrow_mut() = Some(kernel));
        Interpreter { process, maps, broken: None }
    }

    /// Makes an interpreter that skips one instruction.
    pub fn broken(process: u32, maps: Maps, hook: Hook, instruction: usize) -> Interpreter {
        Interpreter { broken: Some((hook, instruction)), ..Interpreter::new(process, maps) }
    }

    /// Returns the numbers of the instructions that write to a map value.
    pub fn writes(process: u32, maps: Maps, hook: Hook) -> Vec<usize> {
        let code = assemble(hook, process, maps);
        let is_write = |word: &[u8]| word[0] & 7 == 3 && matches!(word[1] & 15, 6 | 7);
        let numbered = code.chunks(8).enumerate();
        numbered.filter(|(_, word)| is_write(word)).map(|(number, _)| number).collect()
    }

    /// Runs the program of a hook for one event of a thread of the process.
    pub fn run(&mut self, hook: Hook, mut record: Vec<u8>, tid: u32, now: u64) {
        let mut code = assemble(hook, self.process, self.maps);
        if let Some((_, number)) = self.broken.filter(|(broken, _)| *broken == hook) {
            // A jump to the next instruction.
            code[8 * number..][..8].copy_from_slice(&[5, 0, 0, 0, 0, 0, 0, 0]);
        }
        let values = with(|kernel| {
            kernel.now = now;
            kernel.pid_tgid = u64::from(self.process) << 32 | u64::from(tid);
            kernel.values.as_ptr_range()
        });
        let mut vm = EbpfVmRaw::new(Some(&code)).unwrap();
        vm.register_allowed_memory(values.start as u64..values.end as u64);
        let helpers: [(Helper, rbpf::ebpf::Helper); 5] = [
            (Helper::MapLookup, look_up),
            (Helper::MapUpdate, update),
            (Helper::KtimeGetNs, ktime),
            (Helper::CurrentPidTgid, pid_tgid),
            (Helper::CurrentComm, comm),
        ];
        for (number, function) in helpers {
            vm.register_helper(number as u32, function).unwrap();
        }
        // A broken program may jump out of its code: then its recording differs.
        let status = vm.execute_program(&mut record);
        assert!(self.broken.is_some() || status.unwrap() == 1);
    }

    pub fn recording(&self) -> Recording {
        with(|kernel| {
            let mut recording = Recording::default();
            let lost = kernel.places.get(&(STATE as u64, Maps::LOST.to_ne_bytes().to_vec()));
            let words = lost.map_or([0; 8], |place| kernel.values[*place][..8].try_into().unwrap());
            recording.lost_events = u64::from_ne_bytes(words);
            for (map, key) in kernel.places.keys() {
                let value = |map: i32| {
                    let place = kernel.places[&(map as u64, key[..4].to_vec())];
                    &kernel.values[place]
                };
                let kind = i32::from_ne_bytes(key[key.len() - 4..].try_into().unwrap());
                if *map != TAKEN as u64 {
                } else if kind == Maps::THREADS_KIND {
                    recording.threads.extend([Thread::from_words(value(THREADS))]);
                } else {
                    recording.rows.extend([ReasonTimes::from_words(value(ROWS))]);
                }
            }
            recording
        })
    }
}

const VCPU: u32 = 1;
const OTHER: u32 = 99;

/// Code that a vCPU's thread executes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Guest,
    Kernel,
    User,
}

fn hook(is_match: impl Fn(&Hook) -> bool) -> usize {
    HOOKS.iter().position(is_match).unwrap()
}

/// Makes records of a consistent history: a thread has a CPU or not, and sleeps until it is woken.
fn consistent_records(choices: &[(u32, u64)]) -> Vec<Record> {
    let (mut mode, mut is_off_cpu, mut is_asleep, mut records) =
        (Mode::Kernel, false, false, vec![]);
    let switch = hook(|hook| matches!(hook, Hook::Switch { .. }));
    for (number, (choice, after)) in choices.iter().enumerate() {
        let record = |hook, tid, other, word| {
            let reason = number as u32 % 4;
            Record { hook, after: *after, tid, other, reason, word }
        };
        let own = |hook| record(hook, VCPU, OTHER, 1);
        records.push(match (is_off_cpu, mode) {
            (true, _) if is_asleep => {
                is_asleep = false;
                record(hook(|hook| matches!(hook, Hook::Wakeup { .. })), OTHER, VCPU, 0)
            }
            (true, _) => {
                is_off_cpu = false;
                record(switch, OTHER, VCPU, 0)
            }
            (false, _) if choice % 3 == 0 => {
                is_off_cpu = true;
                is_asleep = choice % 2 == 0 && mode != Mode::Guest;
                record(switch, VCPU, OTHER, u32::from(is_asleep))
            }
            (false, Mode::Guest) => {
                mode = Mode::Kernel;
                own(hook(|hook| matches!(hook, Hook::Exit { .. })))
            }
            (false, Mode::User) => {
                mode = Mode::Kernel;
                own(hook(|hook| matches!(hook, Hook::ToKernel { .. })))
            }
            (false, Mode::Kernel) if choice % 2 == 0 => {
                mode = Mode::User;
                own(hook(|hook| matches!(hook, Hook::ToUser)))
            }
            (false, Mode::Kernel) => {
                mode = Mode::Guest;
                own(hook(|hook| matches!(hook, Hook::Enter { filter: None })))
            }
        });
    }
    records
}

/// Returns the time that is in another stage in `other` than in `one`; nothing else may differ.
fn moved_ns(one: &Recording, other: &Recording) -> u64 {
    assert!(one.rows.keys().eq(other.rows.keys()));
    let mut moved = [0; STAGES];
    for (times, other) in one.rows.values().zip(other.rows.values()) {
        assert_eq!((times.count, times.sum), (other.count, other.sum));
        let parts = times.parts.iter().zip(other.parts);
        moved.iter_mut().zip(parts).for_each(|(sum, (a, b))| *sum += a.abs_diff(b));
    }
    moved.iter().sum::<u64>() / 2
}

proptest! {
    #[test]
    fn a_lost_switch_moves_only_the_time_until_the_next_event(
        choices in vec((0u32..6, 1u64..100_000), 6..60),
        lost_one in any::<Index>(),
    ) {
        let records = consistent_records(&choices);
        let is_wakeup = |record: &Record| matches!(HOOKS[record.hook], Hook::Wakeup { .. });
        let can_be_lost = |index: &usize| HOOKS[records[*index].hook].is_scheduler_event();
        let candidates: Vec<usize> = (0..records.len() - 1).filter(can_be_lost).collect();
        prop_assume!(!candidates.is_empty());
        let index = candidates[lost_one.index(candidates.len())];
        let mut without = records.clone();
        let removed = without.remove(index);
        without[index].after += removed.after;
        // A wakeup of a thread that does not sleep is ignored.
        let ends = records[index + 1..].iter().position(|record| !is_wakeup(record));
        let last = ends.map_or(records.len() - 1, |more| index + 1 + more);
        let time: u64 = records[index + 1..=last].iter().map(|record| record.after).sum();
        let (complete, (kernel, rust)) = (record_both_ways(&records).0, record_both_ways(&without));
        prop_assert_eq!(&kernel, &rust);
        let moved = moved_ns(&complete, &kernel);
        prop_assert!(moved <= time, "{moved} ns instead of {time}: {records:?} without {index}");
    }
}

#[test]
fn unpaired_switches_are_attributed_by_the_threads_stage() {
    let hooks = [
        hook(|hook| matches!(hook, Hook::Return { .. })),
        hook(|hook| matches!(hook, Hook::Enter { filter: None })),
        hook(|hook| matches!(hook, Hook::ToKernel { .. })),
    ];
    let switch = hook(|hook| matches!(hook, Hook::Switch { .. }));
    let own = |number: usize| (hooks[number], VCPU, OTHER, 1);
    let (asleep, preempted) = ((switch, VCPU, OTHER, 1), (switch, VCPU, OTHER, 0));
    let on = (switch, OTHER, VCPU, 0);
    // Expected times: kernel, VMM, halted, preempted.
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
        let (kernel, rust) = record_both_ways(&records);
        assert_eq!(kernel, rust);
        let recorded_parts: Vec<_> = rust.rows.values().map(|times| times.parts).collect();
        assert_eq!(recorded_parts, [parts], "{records:?}");
    }
}

#[test]
fn a_dead_thread_is_recorded_up_to_its_last_exit() {
    let name = String::new;
    let thread = |open| Thread { name: name(), first_ns: 50, last_ns: 100, open, unpaired: 0 };
    let (open, closed) = (thread(Some((Reason::GUEST, 100))), thread(None));
    assert_eq!([false, true].map(|is_over| thread_end_ns(&open, is_over, 900)), [900, 100]);
    assert_eq!(thread_end_ns(&closed, false, 900), 900);
    // The main thread has the process's id; no thread has an id above the kernel's maximum.
    let process = std::process::id();
    assert!(is_alive(process, process) && !is_alive(process, 1 << 30));
}

fn names_in_line(line: &str) -> Vec<String> {
    command_line_names(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
}

#[test]
fn vm_names_are_parsed_as_qemu_parses_them() {
    assert_eq!(names_in_line("qemu-system-x86_64 -name web -m 512"), ["web"]);
    for (options, name) in [
        ("db", "db"),
        ("guest=db", "db"),
        ("db,debug-threads=on", "db"),
        ("guest=db,debug-threads=on", "db"),
        ("debug-threads=on,guest=db", "db"),
        ("process=q,debug-threads=on,guest=db,process=r", "db"),
        ("guest=a,guest=db", "db"),
        ("a,,b", "a,b"),
        ("a,,b=c,process=q", "a,b=c"),
        ("process=guest=no,guest=a=b", "a=b"),
        ("process=q,,guest=no,guest=a,,,,b,,,debug-threads=on", "a,,b,"),
    ] {
        assert_eq!(names_in_line(&format!("qemu -name {options}")), [name], "{options}");
    }
    for unnamed in ["debug-threads=on", "process=db", "debug-threads=on,db", "guest="] {
        assert!(names_in_line(&format!("qemu -name {unnamed}")).is_empty(), "{unnamed}");
    }
    assert_eq!(names_in_line("firecracker --id 7f --api-sock x"), ["7f"]);
    assert!(names_in_line("qemu -m 512 -name").is_empty());
}

#[test]
fn processes_without_a_vm_are_refused() {
    let this = Process::open(std::process::id()).unwrap();
    let message = |error: Error| error.message().to_owned();
    assert!(message(this.require_vm().unwrap_err()).ends_with(") runs no KVM guest"));
    assert!(!this.ended_within(Duration::ZERO).unwrap());
    assert_eq!(message(Process::open(0).unwrap_err()), "there is no process 0");
    let not_found = message(find_vm_by_name("no such machine").unwrap_err());
    assert!(not_found.starts_with("no VM is named no such machine"), "{not_found}");
}

#[test]
fn an_error_of_pidfd_open_has_its_own_step() {
    for (reason, message, next_step) in [
        (Errno::SRCH, "there is no process 7; ", "qemu-system-x86_64"),
        (Errno::INVAL, "there is no process 7; ", "qemu-system-x86_64"),
        (Errno::MFILE, "cannot open process 7: ", "`ulimit -n`"),
        (Errno::NOSYS, "cannot open process 7: ", "Linux 5.3"),
        (Errno::PERM, "cannot open process 7: ", "run ktax as root"),
    ] {
        let error = open_error(7, reason).to_string();
        assert!(error.starts_with(message) && error.contains(next_step), "{error}");
    }
}
