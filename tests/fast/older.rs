//! Files of older releases are read: `tests/data/older` has what they wrote.

use std::fs;

use ktax::model::{AskedGuest, SavedResult, read_results};
use ktax::rundir::AnyRunDir;

use crate::common::{ktax, run, scratch};

fn older(name: &str) -> String {
    let path = format!("{}/tests/data/older/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(path).unwrap()
}

/// The kernels were in the subjects, and the machine in the key alone.
#[test]
fn a_comparison_is_read() {
    let text = older("comparison.json");
    let SavedResult::Comparison(comparison) = read_results(&text).unwrap().remove(0).result else {
        panic!("a comparison")
    };
    let counts = comparison.counts().unwrap();
    assert_eq!(counts.asked.subjects.base.boot_line, "lsm=capability");
    assert_eq!(counts.kernels.change.release.as_deref(), Some("6.1.0-56-cloud-amd64"));
    assert_eq!((&counts.asked.machine, counts.layouts), (&counts.key.machine, 4));
    let dir = scratch();
    let path = dir.path().join("older.json");
    fs::write(&path, &text).unwrap();
    let mail = run(ktax().arg("report").arg(&path).args(["--format", "mail"])).stdout;
    let again = mail.split_once("To measure it again:").unwrap().1;
    assert!(again.contains("--base-boot-line lsm=capability"), "{mail}");
}

/// Older plans have the guests' resources beside the key, and the modules only in the key.
#[test]
fn a_plan_is_read() {
    let dir = scratch();
    fs::write(dir.path().join("plan.json"), older("plan.json")).unwrap();
    let AnyRunDir::Counts(opened) = AnyRunDir::open(dir.path()).unwrap() else { panic!("counts") };
    let asked = &opened.plan().method.asked;
    assert_eq!((asked.machine.cpus, asked.machine.quantum), (4, Some(500)));
    assert_eq!(asked.subjects.change.sysctl["vm.swappiness"], "10");
    let AskedGuest { modules, disk, hooks, .. } = &asked.guest;
    assert_eq!(*modules, ["nf_tables"]);
    assert_eq!(disk.as_ref().unwrap().to_string(), "ext4 mib=64 options=noatime");
    assert_eq!(hooks.as_ref().unwrap().setup.as_deref(), Some("nft -f rules.nft"));
    assert_eq!(asked.guest.all_modules(), opened.plan().method.key.modules);
}
