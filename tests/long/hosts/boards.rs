//! What hosts on boards have in common: whether one can be had, and an experiment with it, run as a
//! user runs it.

use std::path::{Path, PathBuf};

use ktax::kvmhost::Board;
use ktax::model::{ExitTable, Row, Side};
use ktax::rundir::AnyRunDir;

use crate::common::{Need, ktax, require, run};

/// Whether a host of it can be had; a test that needs it says so and is not run.
#[track_caller]
pub fn is_missing(board: &Board) -> bool {
    let looked = board.look(None);
    let why = looked.as_ref().err().map(|error| format!("{error}, or `sh scripts/setup-hosts.sh`"));
    !require(Need::Hosts, looked.is_ok(), why.unwrap_or_default())
}

/// Compares once, in one layout. Returns the report and the rows.
pub fn compare(file: &Path, out: &Path, works: &[&str], status: i32) -> (String, Vec<Row>) {
    let mut ktax = ktax();
    ktax.arg("compare").arg(file).arg("--out").arg(out).args(["--layouts", "1"]);
    ktax.args(works.iter().flat_map(|work| ["-w", work]));
    let ran = run(&mut ktax);
    assert_eq!(ran.status, status, "{}\n{}", ran.stdout, ran.stderr);
    (ran.stdout, AnyRunDir::open(out).unwrap().comparison().unwrap().unwrap().rows)
}

pub fn table(row: &Row, side: Side) -> &ExitTable {
    let run = row.guests().unwrap().runs.get(side);
    &run.as_ref().unwrap_or_else(|| panic!("{row:?}")).table
}

pub fn experiment(board: &Board) -> PathBuf {
    let name = format!("experiments/exit-cost-{}.toml", board.name.to_lowercase());
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}
