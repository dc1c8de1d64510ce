//! The kernel's part for the programs: maps and helpers, in rbpf.

use std::cell::RefCell;
use std::collections::BTreeMap;

use rbpf::EbpfVmRaw;

use crate::exits::live::asm::Helper;
use crate::exits::live::hook::Hook;
use crate::exits::live::program::{Maps, assemble};
use crate::exits::live::words::{row, thread};
use crate::exits::recording::Reason;
use crate::exits::recording::{Recording, Thread, Times};

const THREADS: i32 = 1;
const ROWS: i32 = 2;
const EMPTY: i32 = 3;
const LOST: i32 = 4;

const MAPS: Maps = Maps { threads: THREADS, rows: ROWS, empty: EMPTY, lost: LOST };

/// Words of all maps: their addresses must not change while a program may use them.
const ROOM: usize = 64;

struct Kernel {
    now: u64,
    pid_tgid: u64,
    /// By map and key: the place of the value.
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
    if map == ROWS as u64 { 16 } else { 4 }
}

fn bytes(address: u64, count: usize) -> Vec<u8> {
    // SAFETY: the address is what the program passed: its own stack or a map's value, which rbpf
    // and this file hold for the whole run, and the count is that map's.
    unsafe { std::slice::from_raw_parts(address as *const u8, count) }.to_vec()
}

fn look_up(map: u64, key: u64, _: u64, _: u64, _: u64) -> u64 {
    let key = bytes(key, key_bytes(map));
    with(|kernel| match kernel.places.get(&(map, key)) {
        Some(place) => kernel.values[*place].as_ptr() as u64,
        None => 0,
    })
}

fn update(map: u64, key: u64, value: u64, flags: u64, _: u64) -> u64 {
    assert_eq!(flags, 1);
    let size = if map == THREADS as u64 { thread::BYTES } else { row::BYTES };
    let (key, value) = (bytes(key, key_bytes(map)), bytes(value, size));
    with(|kernel| {
        let place = kernel.places.len();
        assert!(place < ROOM && kernel.places.insert((map, key), place).is_none());
        kernel.values[place][..size].copy_from_slice(&value);
        0
    })
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

/// A kernel of its own for one test.
pub struct Interpreter {
    process: u32,
}

impl Interpreter {
    pub fn new(process: u32) -> Interpreter {
        let mut places = BTreeMap::new();
        for (place, map) in [EMPTY, LOST].into_iter().enumerate() {
            places.insert((map as u64, vec![0; 4]), place);
        }
        let values = vec![[0; row::BYTES]; ROOM];
        let kernel = Kernel { now: 0, pid_tgid: 0, places, values };
        KERNEL.with(|cell| *cell.borrow_mut() = Some(kernel));
        Interpreter { process }
    }

    /// One event in a thread of the process.
    pub fn run(&mut self, hook: Hook, mut record: Vec<u8>, tid: u32, now: u64) {
        let code = assemble(hook, self.process, MAPS);
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
        assert_eq!(vm.execute_program(&mut record).unwrap(), 1);
    }

    pub fn recording(&self) -> Recording {
        with(|kernel| {
            let number = |bytes: &[u8]| u32::from_ne_bytes(bytes.try_into().unwrap());
            let mut recording = Recording::default();
            for ((map, key), place) in &kernel.places {
                let words = &kernel.values[*place];
                if *map == THREADS as u64 {
                    recording.threads.insert(number(key), Thread::from_words(words));
                } else if *map == ROWS as u64 {
                    let code = u64::from_ne_bytes(key[8..].try_into().unwrap());
                    let reason = Reason { code, detail: number(&key[4..8]) };
                    let key = (number(&key[..4]), reason);
                    recording.rows.insert(key, Times::from_words(words));
                }
            }
            recording
        })
    }
}
