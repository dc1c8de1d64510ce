//! `ktax calibrate` where it is known what everything takes: in a KVM host within QEMU that counts
//! time in instructions, one cycle of the time-stamp counter is one instruction.

use ktax::model::{CalibrationTable, Costly, Saved, SavedResult};

use crate::common::kvm::kvm_host;
use crate::common::printed::lone_cycles;
use crate::common::{Ran, ktax, run, scratch};

fn table(ran: &Ran) -> CalibrationTable {
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let saved: Saved = serde_json::from_str(&ran.stdout).unwrap();
    match saved.result {
        SavedResult::Calibration(table) => *table,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_chain_has_as_many_instructions_as_it_says() {
    let calibrate = ["/ktax", "calibrate", "--json", "--out", "/here.toml"];
    let table = table(&kvm_host(&["--exact"], &calibrate));
    let operations = &table.calibration.operations;
    // In user mode a call of the chain and its return are five more of 64.
    let by_call = 1.0 + 5.0 / 64.0;
    for (kind, takes) in [
        (Costly::Cr3Write, [1.0, 1.0]),
        (Costly::Invlpg, [1.0, 1.0]),
        (Costly::Wrmsr, [1.0, 1.0]),
        (Costly::Rdmsr, [1.0, 1.0]),
        (Costly::Swapgs, [1.0, 1.0]),
        (Costly::Syscall, [1.0, 1.0]),
        (Costly::Sysret, [1.0, 1.0]),
        // With what it takes from the stack.
        (Costly::Iret, [8.0, 8.0]),
        // cli and sti; or pushfq and popfq.
        (Costly::InterruptFlag, [1.0, 2.0]),
    ] {
        assert_eq!(operations[&kind], takes, "{kind:?}");
    }
    for kind in [Costly::Locked, Costly::Fence, Costly::Pause, Costly::Xsave, Costly::Rdtsc] {
        let [low, high] = operations[&kind];
        assert!(1.0 <= low && high <= by_call + 0.1, "{kind:?}: {operations:?}");
    }
    // In user mode, too, and each with the store of the selector that it reads.
    let [low, high] = operations[&Costly::Verw];
    assert!(2.0 <= low && high <= 1.0 + by_call + 0.1, "{operations:?}");
    assert!(!operations.contains_key(&Costly::Port), "{operations:?}");
    assert!((table.calibration.cycles_per_ns - 1.0).abs() < 0.01, "{:?}", table.calibration);
    assert!(table.calibration.is_virtual && table.calibration.fit.is_none());
}

#[test]
fn what_was_written_is_read_again_and_without_rows_that_is_said() {
    let dir = scratch();
    let path = dir.path().join("here.toml");
    let path = path.to_str().unwrap();
    let ran = run(ktax().args(["calibrate", "--model", "skylake", "--json", "--out", path]));
    let table = table(&ran);
    assert!(
        table.missing.iter().any(|reason| reason.starts_with("no rows were given")),
        "{table:?}"
    );
    assert!(table.calibration.operations.contains_key(&Costly::Locked));
    assert_eq!(table.model, "skylake");
    assert_eq!(lone_cycles(&format!("{}{}", ran.stdout, ran.stderr)), None);
    let plan = ["plan", "lsm", "--machine", path, "--kernel", "/nowhere"];
    let ran = run(ktax().args(plan));
    assert!(ran.stderr.contains("/nowhere"), "the machine is one: {}", ran.stderr);
}
