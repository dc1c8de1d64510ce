//! The table behind `ktax workloads --touching` is what its rows execute: `make test-long` counts a
//! few rows again, and `make functions` counts all of them and writes the table.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::{Compression, GzBuilder};
use ktax::model::Side;
use ktax::plan::{TouchedTable, definitions, select_rows};
use ktax::rundir::AnyRunDir;

use crate::common::{KERNEL, ktax, run, scratch_path};

const TABLE: &str = "workloads/functions.gz";

/// Functions that the rows of a run's base executed.
fn counted(out: &Path) -> TouchedTable {
    let AnyRunDir::Counts(dir) = AnyRunDir::open(out).unwrap() else { panic!("no counts") };
    let plan = &dir.plan().method;
    let kernel = plan.kernels.base.release.clone().unwrap();
    let mut table = TouchedTable { kernel, ..TouchedTable::default() };
    let step = plan.steps.iter().find(|step| step.side == Side::Base).unwrap();
    for workload in &plan.workloads {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for line in &dir.profile(step, &workload.row).unwrap().lines {
            let executed = line.counts.executed();
            *counts.entry(line.function.clone()).or_default() += executed;
        }
        table.add(&workload.row, &counts);
    }
    table
}

#[test]
fn the_rows_execute_the_functions_of_the_shipped_table() {
    let (shipped, is_blessed) = (TouchedTable::built_in(), std::env::var_os("BLESS").is_some());
    let usual = select_rows(&definitions().unwrap(), None).unwrap().into_iter().map(|row| row.row);
    let rows: BTreeSet<String> = match is_blessed {
        true => shipped.rows.keys().cloned().chain(usual).collect(),
        false => ["getppid", "page-fault", "pipe"].map(str::to_owned).into(),
    };
    let (_dir, out) = scratch_path("out");
    let mut compare = ktax();
    compare.args(["compare", "--kernel", KERNEL, "--change-boot-line", "quiet", "--no-store"]);
    compare.args(["--layouts", "1", "--out"]).arg(&out);
    let ran = run(compare.args(rows.iter().flat_map(|row| ["-w", row])));
    let table = counted(&out);
    assert!(!table.rows.is_empty(), "{}", ran.stderr);
    if is_blessed {
        let mut gz = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
        gz.write_all(table.text().as_bytes()).unwrap();
        return fs::write(TABLE, gz.finish().unwrap()).unwrap();
    }
    // A function with a thousandth of a row's instructions runs on any kernel of this version.
    let large = |table: &TouchedTable, row: &String| -> BTreeSet<String> {
        let touched = table.rows[row].iter().filter(|(_, share)| **share >= 1000);
        touched.map(|(name, _)| name.clone()).collect()
    };
    for row in &rows {
        assert_eq!(large(&table, row), large(&shipped, row), "{row}");
    }
}
