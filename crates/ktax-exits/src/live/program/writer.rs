use crate::live::asm::Assembler;
use crate::live::words::{row, thread};

/// An array of places. A place is free where the word of the thread's id is 0.
#[derive(Debug, Clone, Copy)]
pub struct Places {
    pub map: i32,
    /// A power of two.
    pub room: u32,
    /// How many are looked at before there is no room.
    pub probes: i32,
    /// In the keys of what is taken.
    pub kind: i32,
    /// Which word of a value is the thread's id.
    pub tid: i16,
}

/// The maps, as file descriptors of this process.
#[derive(Debug, Clone, Copy)]
pub struct Maps {
    /// Of [`thread`], by thread id.
    pub threads: Places,
    /// Of [`row`], by thread id, detail and code.
    pub rows: Places,
    /// The places that are taken: their number and kind, of four bytes each.
    pub taken: i32,
    /// Two words: events that found no room, and whether events count.
    pub state: i32,
}

impl Maps {
    /// Threads that enter a guest, and reasons of all of them together.
    pub const THREADS: u32 = 4096;
    pub const ROWS: u32 = 8192;
    pub const KIND_OF_THREADS: i32 = 0;
    pub const KIND_OF_ROWS: i32 = 1;
    pub const LOST: u32 = 0;
    pub const IS_ON: u32 = 1;

    /// From the descriptors.
    pub fn new([threads, rows, taken, state]: [i32; 4]) -> Maps {
        let threads = Places {
            map: threads,
            room: Maps::THREADS,
            probes: 4,
            kind: Maps::KIND_OF_THREADS,
            tid: thread::TID,
        };
        let rows = Places {
            map: rows,
            room: Maps::ROWS,
            probes: 16,
            kind: Maps::KIND_OF_ROWS,
            tid: row::TID,
        };
        Maps { threads, rows, taken, state }
    }
}

/// Writes one program.
pub struct Writer {
    pub asm: Assembler,
    pub maps: Maps,
}
