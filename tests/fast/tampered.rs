//! Files of a run directory that somebody cut short are refused with what is wrong.

use std::fs;

use ktax::rundir::{AnyRunDir, RunDirError};

use crate::common::{ktax, run, scratch};
use crate::rundirs::plans;

#[test]
fn a_plan_that_was_cut_short_is_damaged_and_of_no_other_version() {
    let dir = scratch();
    for (name, plan) in plans() {
        let root = dir.path().join(name);
        AnyRunDir::create(&root, plan).unwrap();
        let path = root.join("plan.json");
        let whole = fs::read(&path).unwrap();
        for left in [0, 1, whole.len() / 2, whole.len() - 3] {
            fs::write(&path, &whole[..left]).unwrap();
            let error = AnyRunDir::open(&root).unwrap_err();
            assert!(matches!(error, RunDirError::Damaged { .. }), "{error}");
            let ran = run(ktax().arg("run").arg(&root));
            assert_eq!(ran.status, 2, "{}", ran.stderr);
            let said = format!("ktax: {} is damaged", path.display());
            assert!(ran.stderr.starts_with(&said), "{}", ran.stderr);
            assert!(!ran.stderr.contains("version"), "{}", ran.stderr);
            assert!(ran.stderr.contains("measure again in a new directory"), "{}", ran.stderr);
        }
    }
}

#[test]
fn a_comparison_that_was_cut_short_is_damaged_and_of_no_other_version() {
    let dir = scratch();
    let (name, plan) = plans().into_iter().next().unwrap();
    let root = dir.path().join(name);
    AnyRunDir::create(&root, plan).unwrap();
    let path = root.join("comparison.json");
    for cut in ["", "{", "{\n  \"format\": 3,\n  \"headline\": \"none"] {
        fs::write(&path, cut).unwrap();
        let ran = run(ktax().arg("report").arg(&root));
        assert_eq!(ran.status, 2, "{}", ran.stderr);
        let said = format!("ktax: cannot read {}: it is damaged (EOF while", path.display());
        assert!(ran.stderr.starts_with(&said), "{}", ran.stderr);
        assert!(!ran.stderr.contains("version"), "{}", ran.stderr);
        let again = format!("; make it again with `ktax analyse {}`\n", root.display());
        assert!(ran.stderr.ends_with(&again), "{}", ran.stderr);
    }
}
