//! Costly instructions: what a mitigation adds to a system call, exactly.

use std::collections::BTreeMap;

use crate::common::rows::costly_of;
use crate::common::{QUICK_BOOT, compare, row, scratch};
use ktax::model::{Comparison, Costly, Sides};

const GETPPID: &str = "getppid:ops=500";

/// A CPU that has the faults whose mitigations are asked about.
const CPU: [&str; 2] = ["--cpu", "Skylake-Client"];

fn cr3(costly: &BTreeMap<Costly, Sides<u64>>) -> Sides<u64> {
    costly[&Costly::Cr3Write].clone()
}

fn compared(lines: [&str; 2], cpu: &[&str]) -> Comparison {
    let dir = scratch();
    let lines = lines.map(|line| format!("{QUICK_BOOT} {line}"));
    let lines = [lines[0].trim(), lines[1].trim()];
    let (ran, comparison) =
        compare(&dir.path().join("out"), lines, &[&["-w", GETPPID], cpu].concat());
    assert!(matches!(ran.status, 0 | 3 | 4), "{}", ran.stderr);
    comparison
}

#[test]
fn page_table_isolation_loads_cr3_twice_in_each_call_in_the_functions_that_do() {
    let comparison = compared(["pti=off", "pti=on"], &CPU);
    let row = row(&comparison, GETPPID);
    assert_eq!(costly_of(row, |effect| effect.verdict.is_change()), [(Costly::Cr3Write, 2.0)]);
    let effect = row.effect(Costly::Cr3Write.name()).unwrap();
    assert_eq!((effect.base, effect.change), (0.0, 2.0));
    // One where the call enters the kernel, and one where it leaves.
    let mut functions: Vec<(&str, u64)> =
        effect.functions.iter().map(|it| (it.function.as_str(), cr3(&it.costly).change)).collect();
    functions.sort();
    assert_eq!(functions, [("entry_SYSCALL_64", 500), ("syscall_return_via_sysret", 500)]);
    let deepest = effect.paths.iter().filter(|path| cr3(&path.costly).change == 500).count();
    assert!(deepest >= 2, "{:?}", effect.paths);
    // It decides nothing: the instructions do.
    assert_eq!(row.counts().unwrap().decided_by, "instructions");
}

/// The kinds that differ under the only layout, each with its delta per operation.
fn differing(cpu: &str) -> Vec<(Costly, f64)> {
    let comparison = compared(["mitigations=off", ""], &["--cpu", cpu, "--layouts", "1"]);
    // Without a timer tick more or less.
    costly_of(row(&comparison, GETPPID), |effect| effect.delta.abs() > 0.5)
}

#[test]
fn which_mitigations_are_counted_depends_on_the_cpu() {
    assert_eq!(differing("max"), []);
    let [cr3, verw, thunks] = differing("Skylake-Client")[..] else { panic!("three kinds") };
    assert_eq!([cr3, verw], [(Costly::Cr3Write, 2.0), (Costly::Verw, 1.0)]);
    assert!(thunks.0 == Costly::ReturnThunk && thunks.1 > 1.0, "{thunks:?}");
}
