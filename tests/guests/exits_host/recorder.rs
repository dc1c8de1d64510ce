//! What the recorder takes is in the times that it records.

use super::record;
use crate::common::kvm::kvm_host;
use serde_json::Value;

fn wall_ns(account: &Value) -> u64 {
    account["vcpus"][0]["wall_ns"].as_u64().unwrap()
}

#[test]
fn the_times_include_what_the_recorder_takes() {
    let guest = ["--cpuid", "2000"];
    let (table, _) = record(&["--exact"], &[], &guest);
    let ran = kvm_host(&["--exact"], &[&["/ktax", "vmm", "raw"], &guest[..]].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let alone_ns = wall_ns(&serde_json::from_str(ran.stderr.lines().last().unwrap()).unwrap());
    let exit_ns = table.account.as_ref().unwrap().recorder.as_ref().unwrap().exit_ns;
    let recorder_ns = exit_ns * table.exits();
    assert!(recorder_ns > 0, "{table:?}");
    // What the kernel takes to call the recorder's programs is not in what it says of them.
    let added_ns = table.sum_ns().saturating_sub(alone_ns);
    let expected = recorder_ns..recorder_ns * 2;
    assert!(expected.contains(&added_ns), "{added_ns} for {recorder_ns} ns, {alone_ns} alone");
}
