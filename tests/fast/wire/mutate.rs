//! Valid input, damaged.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// One thing that goes wrong.
#[derive(Debug, Clone)]
pub enum Damage {
    Flip(Index, u8),
    Truncate(Index),
    Duplicate(Index, Index),
    Splice(Index, Vec<u8>),
    Swap(Index, Index),
}

/// What parsers trip over.
const TOKENS: &[&str] = &[
    "\n",
    "\r\n",
    "\0",
    " ",
    "\t",
    "\x1b]0;evil\x07",
    "\u{9b}31m",
    "\u{202e}",
    "end\n",
    "ready\n",
    "ktax 1\n",
    "fail ",
    "fail\n",
    "sig a 1\n",
    "tsc 1\n",
    "18446744073709551615",
    "region\t2\n",
    "18446744073709551616",
    "-1",
    "+1",
    "0",
    "total\t0\n",
    "fn\tprocess\t1\t1\tf\n",
    "split\ta\tb\n",
    "ffffffff81000000 T f\n",
    "Kernel panic - not syncing: ",
    "[",
    "{",
    "\"",
    "\"\"\"",
    "=",
    "a.",
    "[base]\n",
    "nan",
    "1e999",
    "'",
    "#",
    "\u{feff}",
];

fn damage() -> impl Strategy<Value = Damage> {
    let noise = vec(any::<u8>(), 1..20);
    let token = select(TOKENS).prop_map(|token| token.as_bytes().to_vec());
    prop_oneof![
        2 => (any::<Index>(), 0u8..8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        1 => any::<Index>().prop_map(Damage::Truncate),
        2 => any::<(Index, Index)>().prop_map(|(from, to)| Damage::Duplicate(from, to)),
        1 => (any::<Index>(), noise).prop_map(|(at, bytes)| Damage::Splice(at, bytes)),
        3 => (any::<Index>(), token).prop_map(|(at, bytes)| Damage::Splice(at, bytes)),
        2 => any::<(Index, Index)>().prop_map(|(one, other)| Damage::Swap(one, other)),
    ]
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match self {
            Damage::Flip(at, bit) => *at.get_mut(bytes.as_mut_slice()) ^= 1 << bit,
            Damage::Truncate(at) => bytes.truncate(at.index(bytes.len())),
            Damage::Duplicate(from, to) => {
                let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
                let piece = bytes[from.min(to)..from.max(to)].to_vec();
                bytes.splice(from..from, piece);
            }
            Damage::Splice(at, piece) => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, piece.iter().copied());
            }
            Damage::Swap(one, other) => {
                let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
                let count = lines.len();
                lines.swap(one.index(count), other.index(count));
                *bytes = lines.concat();
            }
        }
    }
}

/// One of `seeds`, damaged up to five times; sometimes it is noise from the beginning.
pub fn damaged(seeds: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let seed = select(seeds).prop_map(|seed| seed.as_bytes().to_vec());
    let seed = prop_oneof![9 => seed, 1 => vec(any::<u8>(), 0..300)];
    (seed, vec(damage(), 0..6)).prop_map(|(mut bytes, damages)| {
        damages.iter().for_each(|damage| damage.apply(&mut bytes));
        bytes
    })
}

/// Damaged seeds as text.
pub fn damaged_text(seeds: &'static [&'static str]) -> impl Strategy<Value = String> {
    damaged(seeds).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}
