//! Raw guests that get interrupts from their local APIC, which KVM has in the kernel.

use super::record;
use crate::common::kvm::{assert_whole, count};
use ktax::model::ExitTable;
use serde_json::Value;

/// Records in an exact host; only the guest's end gets to the VMM.
fn recorded(guest: &[&str]) -> (ExitTable, Value) {
    let (table, account) = record(&["--exact"], &[], guest);
    assert_whole(&table);
    assert_eq!(account["vcpus"][0]["exits"].to_string(), r#"{"KVM_EXIT_IO":1}"#);
    // The pages of the code, of its tables, and of the stacks.
    assert!((5..15).contains(&count(&table, "npf")), "{table:?}");
    (table, account)
}

/// Whether it is that number, or at most 1 % more or less: the host's own timers interrupt too.
fn is_about(found: u64, ordered: u64) -> bool {
    found.abs_diff(ordered) * 100 <= ordered
}

#[test]
fn a_timer_interrupts_a_guest_that_runs_and_wakes_one_that_halts() {
    let (table, _) = recorded(&["--interrupt", "1000", "--wake", "300"]);
    assert!(is_about(count(&table, "interrupt"), 1000), "{table:?}");
    assert_eq!(count(&table, "hlt"), 300, "{table:?}");
    // Each is requested, and ended.
    assert!(is_about(count(&table, "msr"), 2 * 1300), "{table:?}");
    let halts = table.row("hlt").unwrap().parts.as_ref().unwrap();
    // KVM would poll for less than 200 µs.
    assert!(halts.halted_ns > Some(300 * 200_000) && halts.user_ns == 0, "{table:?}");
}

#[test]
fn interrupts_between_vcpus_wake_each_of_them() {
    let (table, account) = recorded(&["--self-ipi", "700", "--ipi", "500"]);
    assert!(is_about(count(&table, "msr"), 2 * 700 + 4 * 500), "{table:?}");
    assert!(is_about(count(&table, "hlt"), 2 * 500), "{table:?}");
    assert!(count(&table, "interrupt") < 20, "{table:?}");
    // The second vCPU halts until the monitor stops it.
    assert_eq!(account["vcpus"][1]["exits"].to_string(), r#"{"KVM_EXIT_INTR":1}"#);
    let halts = table.row("hlt").unwrap().parts.as_ref().unwrap();
    assert!(halts.halted_ns > Some(0) && halts.user_ns == 0, "{table:?}");
}
