//! The kernel's part for the programs: maps and helpers, in rbpf.

use std::cell::RefCell;
use std::collections::BTreeMap;

use rbpf::EbpfVmRaw;

use crate::live::asm::Helper;
use crate::live::hook::Hook;
use crate::live::program::{Maps, assemble};
use crate::live::words::row;
use crate::recording::{Recording, Thread, Times};

const THREADS: i32 = 1;
const ROWS: i32 = 2;
const TAKEN: i32 = 3;
const STATE: i32 = 4;

/// Fewer places than a kernel's, so that threads and rows come to the same ones.
pub fn maps(rows: u32, probes: i32) -> Maps {
    let mut maps = Maps::new([THREADS, ROWS, TAKEN, STATE]);
    (maps.threads.room, maps.rows.room, maps.rows.probes) = (4, rows, probes);
    maps
}

/// Words of all maps: their addresses must not change while a program may use them.
const ROOM: usize = 128;

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
    if map == TAKEN as u64 { 8 } else { 4 }
}

fn bytes(address: u64, count: usize) -> Vec<u8> {
    // SAFETY: the address is what the program passed: its own stack or a map's value, which rbpf
    // and this file hold for the whole run, and the count is that map's.
    unsafe { std::slice::from_raw_parts(address as *const u8, count) }.to_vec()
}

/// All that is not the hash map is an array, of which every place is there.
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
        assert!(place < ROOM);
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

/// A kernel of its own for one test.
pub struct Interpreter {
    process: u32,
    maps: Maps,
    /// Does nothing: an instruction of the program of a hook, by its number.
    broken: Option<(Hook, usize)>,
}

impl Interpreter {
    pub fn new(process: u32, maps: Maps) -> Interpreter {
        let is_on = (STATE as u64, Maps::IS_ON.to_ne_bytes().to_vec());
        let places = BTreeMap::from([(is_on, 0)]);
        let mut values = vec![[0; row::BYTES]; ROOM];
        values[0][..8].copy_from_slice(&1u64.to_ne_bytes());
        let kernel = Kernel { now: 0, pid_tgid: 0, places, values };
        KERNEL.with(|cell| *cell.borrow_mut() = Some(kernel));
        Interpreter { process, maps, broken: None }
    }

    /// With one instruction that does nothing.
    pub fn broken(process: u32, maps: Maps, hook: Hook, instruction: usize) -> Interpreter {
        Interpreter { broken: Some((hook, instruction)), ..Interpreter::new(process, maps) }
    }

    /// The instructions that write what a program keeps in a map, by their numbers.
    pub fn writes(process: u32, maps: Maps, hook: Hook) -> Vec<usize> {
        let code = assemble(hook, process, maps);
        let is_write = |word: &[u8]| word[0] & 7 == 3 && matches!(word[1] & 15, 6 | 7);
        let numbered = code.chunks(8).enumerate();
        numbered.filter(|(_, word)| is_write(word)).map(|(number, _)| number).collect()
    }

    /// One event in a thread of the process.
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
        // A broken one may jump to where nothing is; its tables then tell.
        let ended = vm.execute_program(&mut record);
        assert!(self.broken.is_some() || ended.unwrap() == 1);
    }

    pub fn recording(&self) -> Recording {
        with(|kernel| {
            let mut recording = Recording::default();
            let lost = kernel.places.get(&(STATE as u64, Maps::LOST.to_ne_bytes().to_vec()));
            let words = lost.map_or([0; 8], |place| kernel.values[*place][..8].try_into().unwrap());
            recording.lost = u64::from_ne_bytes(words);
            for (map, key) in kernel.places.keys() {
                let value = |map: i32| {
                    let place = kernel.places[&(map as u64, key[..4].to_vec())];
                    &kernel.values[place]
                };
                let kind = i32::from_ne_bytes(key[key.len() - 4..].try_into().unwrap());
                if *map != TAKEN as u64 {
                } else if kind == Maps::KIND_OF_THREADS {
                    recording.threads.extend([Thread::from_words(value(THREADS))]);
                } else {
                    recording.rows.extend([Times::from_words(value(ROWS))]);
                }
            }
            recording
        })
    }
}
