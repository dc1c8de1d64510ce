//! Boards whose kernels' tracepoints say every exit, as experiments: run as a user runs them.

use std::fs;
use std::path::PathBuf;

use ktax::kvmhost::Board;
use ktax::model::{ExitTable, Failure, Side, Verdict};

use super::boards::{compare, experiment, is_missing, table};
use super::{assert_whole, count};
use crate::common::scratch;

/// A kind of exit, and KVM's reason for it.
type Kind = (&'static str, &'static str);

/// The rounds of each row, and of the one that does all kinds in each round.
const ROUNDS: u64 = 1000;

/// Each kind of exit is there as often as the row says, and the guest's first page once. The last
/// store, to a device, says the end: the guest is not entered again.
fn assert_exact(board: &Board, kinds: &[Kind], [device, first]: [&str; 2]) {
    let (dir, file) = (scratch(), experiment(board));
    let outs = ["out", "again"].map(|name| dir.path().join(name));
    let names = kinds.iter().map(|(kind, _)| kind).chain([&"all"]);
    let works: Vec<String> = names.map(|kind| format!("raw:{kind}={ROUNDS}")).collect();
    let works: Vec<&str> = works.iter().map(String::as_str).collect();
    let (said, rows) = compare(&file, &outs[0], &works, 0);
    assert!(said.contains(&format!("host kvm-{} · 1 layout", board.name)), "{said}");
    let (all, each) = rows.split_last().unwrap();
    assert_eq!(each.len(), kinds.len());
    let all = table(all, Side::Base);
    assert_ended(all, device, first);
    for (_, reason) in kinds {
        let times = kinds.iter().filter(|(_, other)| other == reason).count() as u64;
        assert_eq!(count(all, reason), ROUNDS * times, "all: {all:?}");
    }
    for (row, (kind, reason)) in each.iter().zip(kinds) {
        assert_eq!(row.verdict, Verdict::OneSide);
        let table = table(row, Side::Base);
        assert_eq!(count(table, reason), ROUNDS, "{kind}: {table:?}");
        assert_ended(table, device, first);
        assert_parts(table, (kind, reason));
    }
    // In the row of all kinds, too, only a processor that waits sleeps.
    for (kind, reason) in kinds {
        let parts = all.row(reason).unwrap().parts.as_ref().unwrap();
        assert_eq!(parts.halted_ns > Some(0), *kind == "wfi", "{kind}: {all:?}");
    }
    // Each boot says the same, but for the last digit of a time.
    compare(&file, &outs[1], &works, 0);
    for work in works {
        let console = |out: &PathBuf| {
            let runs = out.join("boots/000-base/runs");
            fs::read_to_string(runs.join(format!("{work}.serial.log"))).unwrap()
        };
        let [first, second] = outs.each_ref().map(console);
        assert_eq!(same(&first, &second), Ok(()), "{work}: {first}\nagain:\n{second}");
    }
}

/// Compares two consoles: all lines have to be the same, and each event's time to 1 µs.
///
/// A host that is idle makes QEMU put the clock forward to the next timer. QEMU's main loop does
/// it, and where it looks just after the processor has halted, it does not know yet of the
/// instructions before the halt: the clock is then ahead by as many nanoseconds. On a busy machine
/// that was so in 6 of 48 boots, by less than 1 µs, which rounds some of the times up.
fn same(one: &str, other: &str) -> Result<(), String> {
    let (one, other): (Vec<&str>, Vec<&str>) = (one.lines().collect(), other.lines().collect());
    if one.len() != other.len() {
        return Err(format!("{} lines and {}", one.len(), other.len()));
    }
    let is_alike = |(one, other): &(&&str, &&str)| match (time_us(one), time_us(other)) {
        (Some((at, one)), Some((again, other))) => one == other && at.abs_diff(again) <= 1,
        _ => one == other,
    };
    let different = one.iter().zip(&other).find(|lines| !is_alike(lines));
    different.map_or(Ok(()), |(one, other)| Err(format!("{one} and {other}")))
}

/// The time of a line of ftrace, and the line without it.
fn time_us(line: &str) -> Option<(u64, String)> {
    let (before, event) = line.split_once(": ")?;
    let (before, time) = before.rsplit_once(' ')?;
    let (seconds, micros) = time.split_once('.').filter(|(_, micros)| micros.len() == 6)?;
    let time = seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?;
    Some((time, format!("{before} {event}")))
}

#[test]
fn consoles_that_differ_in_more_than_a_digit_are_seen() {
    let line = |time: &str, event: &str| format!("init-1 [000] d....  {time}: {event}");
    let first = [line("5.116999", "kvm_entry: PC: 0x1"), "==".to_owned()].join("\n");
    let again = |time, event| [line(time, event), "==".to_owned()].join("\n");
    assert_eq!(same(&first, &again("5.117000", "kvm_entry: PC: 0x1")), Ok(()));
    for (time, event) in [("5.117001", "kvm_entry: PC: 0x1"), ("5.116999", "kvm_entry: PC: 0x2")] {
        assert!(same(&first, &again(time, event)).is_err(), "{time} {event}");
    }
    assert!(same(&first, &first.replace("==", "=")).is_err());
    assert!(same(&first, first.trim_end_matches("\n==")).is_err());
}

/// What KVM's trace says of any guest that has come to its end.
fn assert_ended(table: &ExitTable, device: &str, first: &str) {
    assert_eq!(count(table, first), 1, "{table:?}");
    let account = table.account.as_ref().unwrap();
    let open: Vec<&str> = account.open.iter().map(|open| open.reason.as_str()).collect();
    assert_eq!((open, account.lost, account.unpaired), (vec![device], 0, 0), "{table:?}");
    assert_whole(table);
    assert_eq!(table.sum_ns() + account.open[0].ns, account.wall_ns, "{table:?}");
}

/// The monitor hears of the device alone; only a processor that waits sleeps.
fn assert_parts(table: &ExitTable, (kind, reason): Kind) {
    let parts = table.row(reason).unwrap().parts.as_ref().unwrap();
    assert_eq!(parts.user_ns > 0, ["mmio", "wfi"].contains(&kind), "{kind}: {table:?}");
    assert_eq!(parts.halted_ns > Some(100 * parts.kernel_ns), kind == "wfi", "{kind}: {table:?}");
    assert_eq!(parts.halted_ns > Some(0), kind == "wfi", "{kind}: {table:?}");
}

#[test]
fn arm64_says_every_exit_by_its_class() {
    if is_missing(&Board::ARM64) {
        return;
    }
    let device = "DABT_LOW";
    let kinds =
        [("hvc", "HVC64"), ("mrs", "SYS64"), ("mmio", device), ("fault", device), ("wfi", "WFx")];
    assert_exact(&Board::ARM64, &kinds, [device, "IABT_LOW"]);
}

#[test]
fn riscv64_says_every_exit_by_its_cause() {
    if is_missing(&Board::RISCV64) {
        return;
    }
    let (device, call) = ("store guest-page fault", "environment call from VS-mode");
    let kinds =
        [("ecall", call), ("mmio", device), ("fault", device), ("wfi", "virtual instruction")];
    assert_exact(&Board::RISCV64, &kinds, [device, "instruction guest-page fault"]);
}

/// A Side's boot line is that of its host: without KVM, that Side fails and says of what.
#[test]
fn a_side_of_a_board_has_its_own_host() {
    if is_missing(&Board::ARM64) {
        return;
    }
    let (dir, file) = (scratch(), scratch());
    let file = file.path().join("experiment.toml");
    let text = fs::read_to_string(experiment(&Board::ARM64)).unwrap();
    let text = text.split("# What ktax said").next().unwrap();
    fs::write(&file, format!("{text}\n[change]\nboot_line = \"kvm-arm.mode=none\"\n")).unwrap();
    let (said, rows) = compare(&file, &dir.path().join("out"), &["raw:hvc=10"], 69);
    assert!(said.contains("kvm-arm.mode=none"), "{said}");
    let [row] = &rows[..] else { panic!("{rows:?}") };
    let [failed] = &row.failures[..] else { panic!("{row:?}") };
    assert_eq!(failed.side, Side::Change);
    let Failure::Silent { console } = &failed.failure else { panic!("{failed:?}") };
    assert!(console.contains("/dev/kvm"), "{console}");
}
