//! A thread and a row in the kernel's maps: 64-bit words, written by `program/` and read here.

use crate::recording::{Reason, Thread, Times};
use ktax_stats::histogram::BUCKETS;

/// One thread, in the kernel's words.
pub mod thread {
    pub const SINCE: i16 = 0;
    pub const EXIT_AT: i16 = 8;
    pub const ENTRY_AT: i16 = 16;
    pub const REASON: i16 = 24;
    pub const DETAIL: i16 = 32;
    pub const STAGE: i16 = 40;
    pub const SAVED: i16 = 48;
    pub const PARTS: i16 = 56;
    pub const FIRST: i16 = 88;
    pub const UNPAIRED: i16 = 96;
    /// Its id; 0 where the place is free.
    pub const TID: i16 = 104;
    pub const COMM: i16 = 112;
    pub const BYTES: usize = 128;
}

/// One reason of one thread, in the kernel's words.
pub mod row {
    pub const COUNT: i16 = 0;
    pub const SUM: i16 = 8;
    pub const LEAST: i16 = 16;
    pub const MOST: i16 = 24;
    pub const SQUARES_LOW: i16 = 32;
    pub const SQUARES_HIGH: i16 = 40;
    pub const PARTS: i16 = 48;
    /// The thread's id; 0 where the place is free.
    pub const TID: i16 = 80;
    pub const DETAIL: i16 = 88;
    pub const CODE: i16 = 96;
    pub const BUCKETS: i16 = 104;
    pub const BYTES: usize = 104 + 8 * ktax_stats::histogram::BUCKETS;
}

fn word(bytes: &[u8], at: i16) -> u64 {
    let at = at as usize;
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("it is eight bytes"))
}

impl Thread {
    /// Its id and what is known of it, from the kernel's words, of which there are
    /// [`thread::BYTES`].
    pub fn from_words(bytes: &[u8]) -> (u32, Thread) {
        let name = &bytes[thread::COMM as usize..];
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let reason = Reason {
            code: word(bytes, thread::REASON),
            detail: word(bytes, thread::DETAIL) as u32,
        };
        let open = match (word(bytes, thread::EXIT_AT), word(bytes, thread::ENTRY_AT)) {
            (0, 0) => None,
            (0, entry) => Some((Reason::GUEST, entry)),
            (exit, _) => Some((reason, exit)),
        };
        let known = Thread {
            name: String::from_utf8_lossy(name).into_owned(),
            first: word(bytes, thread::FIRST),
            last: word(bytes, thread::SINCE),
            open,
            unpaired: word(bytes, thread::UNPAIRED),
        };
        (word(bytes, thread::TID) as u32, known)
    }
}

impl Times {
    /// Whose they are, by thread id and reason, and what they came to; from the kernel's words, of
    /// which there are [`row::BYTES`].
    pub fn from_words(bytes: &[u8]) -> ((u32, Reason), Times) {
        let at = |at: i16| word(bytes, at);
        let low = u128::from(at(row::SQUARES_LOW));
        let reason = Reason { code: at(row::CODE), detail: at(row::DETAIL) as u32 };
        let times = Times {
            count: at(row::COUNT),
            sum: at(row::SUM),
            least: at(row::LEAST),
            most: at(row::MOST),
            squares: u128::from(at(row::SQUARES_HIGH)) << 64 | low,
            parts: std::array::from_fn(|part| at(row::PARTS + 8 * part as i16)),
            buckets: (0..BUCKETS).map(|index| at(row::BUCKETS + 8 * index as i16)).collect(),
        };
        ((at(row::TID) as u32, reason), times)
    }
}
