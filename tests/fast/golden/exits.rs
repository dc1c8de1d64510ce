//! Exit tables: of a recording with quantiles, parts and an account, and of the same later.

use ktax::model::{ExitAccount, ExitParts, ExitRow, ExitTable, OpenExit, RecorderCost, Warning};

/// Reason, count, µs in the kernel, in the VMM, halted and preempted.
type Row = (&'static str, u64, [u64; 4]);

const BASE: [Row; 5] = [
    ("HLT", 2_115, [2_440, 0, 18_702_113, 13_207]),
    ("EXTERNAL_INTERRUPT", 4_203, [9_120, 0, 0, 801]),
    ("IO_INSTRUCTION", 17_053, [11_830, 15_750, 0, 6]),
    ("EPT_VIOLATION", 23_873, [86_807, 0, 0, 0]),
    ("TIMEINGUEST", 47_244, [1_423_187, 0, 0, 99_102]),
];

const CHANGE: [Row; 5] = [
    ("HLT", 2_090, [2_300, 0, 18_690_020, 11_007]),
    ("EXTERNAL_INTERRUPT", 4_190, [9_001, 0, 0, 702]),
    ("IO_INSTRUCTION", 552, [930, 1_607, 0, 0]),
    ("EPT_VIOLATION", 23_873, [86_874, 0, 0, 0]),
    ("TIMEINGUEST", 30_705, [1_402_071, 0, 0, 98_015]),
];

fn row(&(reason, count, us): &Row) -> ExitRow {
    let [kernel_ns, user_ns, halted_ns, preempted_ns] = us.map(|us| us * 1000);
    let sum_ns = us.iter().sum::<u64>() * 1000;
    let mean = sum_ns / count;
    ExitRow {
        reason: reason.to_owned(),
        is_guest: reason == "TIMEINGUEST",
        count,
        least_ns: Some(mean / 3),
        most_ns: Some(mean * 40),
        sum_ns: Some(sum_ns),
        squares_ns2: Some(u128::from(mean) * u128::from(mean) * u128::from(count) * 2),
        p50_ns: Some(mean * 7 / 8),
        p99_ns: Some(mean * 9),
        parts: Some(ExitParts {
            kernel_ns,
            user_ns,
            halted_ns: Some(halted_ns),
            preempted_ns: Some(preempted_ns),
            unknown_ns: 0,
        }),
        counter: None,
    }
}

fn table(of: &str, rows: &[Row]) -> ExitTable {
    let rows: Vec<ExitRow> = rows.iter().map(row).collect();
    let wall_ns = rows.iter().map(ExitRow::time_ns).sum::<u64>() + 61_000;
    ExitTable {
        of: of.to_owned(),
        source: "kvm_exit and kvm_entry, added up in the kernel".to_owned(),
        rows,
        elapsed_ns: Some(wall_ns),
        account: Some(ExitAccount {
            wall_ns,
            open: vec![OpenExit { reason: "HLT".to_owned(), ns: 57_000 }],
            lost: 0,
            unpaired: 0,
            missed_switches: 0,
            recorder: Some(RecorderCost { exit_ns: 411, switch_ns: 96 }),
        }),
        ..ExitTable::default()
    }
}

pub fn base() -> ExitTable {
    let mut table = table("qemu-system-x86 (PID 4711)", &BASE);
    table.warnings.push(Warning {
        fact: "3 vCPUs were there before the recording\u{1b}[2J".to_owned(),
        next_step: "start the recording before the VM".to_owned(),
    });
    table
}

pub fn change() -> ExitTable {
    table("qemu-system-x86 (PID 4742)", &CHANGE)
}

/// As a timing file of 2008 has it: sums and extremes, and nobody who kept account.
pub fn plain(of: &str, is_change: bool) -> ExitTable {
    let mut table = table(of, if is_change { &CHANGE } else { &BASE });
    (table.source, table.account) = ("e500 timing".to_owned(), None);
    table.elapsed_ns = None;
    for row in &mut table.rows {
        (row.p50_ns, row.p99_ns, row.parts) = (None, None, None);
    }
    table
}
