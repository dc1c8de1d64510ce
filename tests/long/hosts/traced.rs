//! Boards whose kernels' tracepoints say every exit, as experiments: run as a user runs them.

use std::fs;

use ktax::kvmhost::Board;
use ktax::model::{Failure, Side, Verdict};

use super::boards::{compare, experiment, is_missing, table};
use super::{assert_whole, count};
use crate::common::scratch;

/// A kind of exit, and KVM's reason for it.
type Kind = (&'static str, &'static str);

/// Each kind of exit is there as often as the row says, and the guest's first page once. The last
/// store, to a device, says the end: the guest is not entered again.
fn assert_exact(board: &Board, kinds: &[Kind], [device, first]: [&str; 2]) {
    let (dir, file) = (scratch(), experiment(board));
    let (out, again) = (dir.path().join("out"), dir.path().join("again"));
    let names = kinds.iter().map(|(kind, _)| kind).chain([&"all"]);
    let works: Vec<String> = names.map(|kind| format!("raw:{kind}=100")).collect();
    let works: Vec<&str> = works.iter().map(String::as_str).collect();
    let (said, rows) = compare(&file, &out, &works, 0);
    assert!(said.contains(&format!("host kvm-{} · 1 layout", board.name)), "{said}");
    let (all, each) = rows.split_last().unwrap();
    assert_eq!(each.len(), kinds.len());
    for (_, reason) in kinds {
        let times = 100 * kinds.iter().filter(|(_, other)| other == reason).count() as u64;
        assert_eq!(count(table(all, Side::Base), reason), times, "all: {all:?}");
    }
    for (row, (kind, reason)) in each.iter().zip(kinds) {
        assert_eq!(row.verdict, Verdict::OneSide);
        let table = table(row, Side::Base);
        assert_eq!([count(table, reason), count(table, first)], [100, 1], "{kind}: {table:?}");
        let account = table.account.as_ref().unwrap();
        let open: Vec<&str> = account.open.iter().map(|open| open.reason.as_str()).collect();
        assert_eq!((open, account.lost, account.unpaired), (vec![device], 0, 0), "{table:?}");
        assert_whole(table);
        assert_eq!(table.sum_ns() + account.open[0].ns, account.wall_ns, "{table:?}");
        // The monitor hears of the device alone; only a processor that waits sleeps.
        let parts = table.row(reason).unwrap().parts.as_ref().unwrap();
        assert_eq!(parts.user_ns > 0, ["mmio", "wfi"].contains(kind), "{kind}: {table:?}");
        assert_eq!(parts.halted_ns > 100 * parts.kernel_ns, *kind == "wfi", "{kind}: {table:?}");
    }
    // Each boot says the same, to the byte.
    let (_, second) = compare(&file, &again, &works[..1], 0);
    assert_eq!(table(&rows[0], Side::Base), table(&second[0], Side::Base));
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
