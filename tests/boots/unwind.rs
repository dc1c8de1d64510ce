//! At instructions that are drawn at random the plugin's stack of calls is what the kernel's own
//! tables say of registers and memory.

mod image;
mod orc;

use std::fs;

use crate::common::require::newer_qemu;
use crate::common::{Need, cache, require, scratch};
use crate::exact::{engine, order, request};
use ktax::analyse::plain;
use ktax::engine::exact::Paths;
use orc::{Orc, State};

/// System calls, page faults, new tasks, sockets, signals and files.
const ROWS: [&str; 6] = [
    "fork-exec:ops=20",
    "page-fault:ops=500",
    "signal-handle:ops=500",
    "tcp:ops=100",
    "create-delete:bytes=4096,ops=50",
    "select-tcp:ops=100",
];

const WANTED: usize = 1000;

/// What the plugin wrote at an instruction.
#[derive(Default)]
struct Draw {
    state: State,
    /// Where return addresses lie, and the functions that return there, the last one first.
    frames: Vec<(u64, String)>,
}

fn draws(text: &str) -> Vec<Draw> {
    let hex = |word: &str| u64::from_str_radix(word, 16).unwrap();
    let mut draws: Vec<Draw> = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[0] {
            "draw" => {
                let [ip, sp, bp, dx, di, r10, r13] =
                    fields[1..].iter().map(|word| hex(word)).collect::<Vec<_>>()[..]
                else {
                    panic!("{line}")
                };
                let state = State { ip, sp, bp, dx, di, r10, r13, stack: Vec::new() };
                draws.push(Draw { state, frames: Vec::new() });
            }
            "frame" => {
                let frame = (hex(fields[1]), fields[2].to_owned());
                draws.last_mut().unwrap().frames.push(frame);
            }
            _ => {
                let words = fields[1..].iter().map(|word| hex(word)).collect();
                draws.last_mut().unwrap().state.stack = words;
            }
        }
    }
    draws
}

/// The function that holds an address.
fn function(symbols: &[(u64, String)], address: u64) -> &str {
    let after = symbols.partition_point(|(from, _)| *from <= address);
    symbols.get(after.wrapping_sub(1)).map_or("", |(_, name)| name)
}

/// How the plugin's stack is another one than the kernel's.
fn difference(draw: &Draw, orc: &Orc, symbols: &[(u64, String)]) -> Option<String> {
    let here = function(symbols, draw.state.ip);
    let Some(unwound) = orc.unwind(&draw.state) else {
        return Some(format!("in {here}: the tables end, {:x?}", draw.frames));
    };
    let places: Vec<u64> = unwound.iter().map(|(place, _)| *place).collect();
    // While it saves registers, the tables describe these and not its own frame.
    let is_own = |(_, name): &&(u64, String)| name != "error_entry";
    let own: Vec<u64> = draw.frames.iter().filter(is_own).map(|(place, _)| *place).collect();
    // Each returns into the function of the next.
    let callers = unwound.iter().map(|(_, to)| plain(function(symbols, to - 1)));
    let is_caller = |(to, (_, own)): (&str, &(u64, String))| to == plain(own);
    let is_same = places == own && callers.zip(&draw.frames[1..]).all(is_caller);
    let named: Vec<&str> = unwound.iter().map(|(_, to)| function(symbols, to - 1)).collect();
    (!is_same).then(|| format!("in {here}: {:x?}, the kernel: {places:x?} {named:?}", draw.frames))
}

#[test]
fn the_stack_of_calls_is_what_the_kernel_itself_unwinds() {
    let Some(qemu) = newer_qemu() else { return };
    let request = request();
    let vmlinux = image::vmlinux(&fs::read(&request.image).unwrap());
    let why = "this kernel's image is not compressed by LZ4";
    if !require(Need::Versions, vmlinux.is_some(), why) {
        return;
    }
    let orc = Orc::of(&vmlinux.unwrap());

    let dir = scratch();
    let engine = engine(Some(&qemu));
    let mut all = Vec::new();
    for (number, row) in ROWS.into_iter().enumerate() {
        let file = dir.path().join(number.to_string());
        let boot = engine.boot_with(&request, Paths::Drawn(file.clone())).unwrap();
        boot.run(&order(row, &request)).unwrap();
        all.extend(draws(&fs::read_to_string(file).unwrap()));
    }
    let symbols = fs::read_to_string(cache().join("symbols").join(&request.image_sha256)).unwrap();
    let symbol = |line: &str| {
        let (address, name) = line.split_once(' ').unwrap();
        (u64::from_str_radix(address, 16).unwrap(), name.to_owned())
    };
    let symbols: Vec<(u64, String)> = symbols.lines().map(symbol).collect();
    let differences: Vec<String> =
        all.iter().filter_map(|draw| difference(draw, &orc, &symbols)).collect();
    assert!(all.len() >= WANTED, "{}", all.len());
    // A frame that is lost, and one of another function.
    let deep = all.iter_mut().find(|draw| draw.frames.len() > 8).unwrap();
    assert_eq!(difference(deep, &orc, &symbols), None);
    let lost = deep.frames.remove(4);
    assert!(difference(deep, &orc, &symbols).is_some());
    deep.frames.insert(4, (lost.0, "another".to_owned()));
    assert!(difference(deep, &orc, &symbols).is_some());
    let (drawn, differ) = (all.len(), differences.len());
    assert!(differ * 1000 <= drawn, "{differ} of {drawn}:\n{}", differences.join("\n"));
}
