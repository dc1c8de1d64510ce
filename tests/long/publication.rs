//! The project's publication: the commands that stand beside the points of a row, typed again.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use ktax::engine::payload::guest_sha256;
use ktax::model::{History, HistoryPoint};
use ktax::report::results_of_page;

use crate::common::{Need, isolate, printed, require, run, scratch};

const MOST_BYTES: u64 = 64 << 20;
/// A row that takes a second of a run.
const ROW: &str = "open-close";

fn history_of_page(text: &str) -> History {
    printed::history(&results_of_page(text, MOST_BYTES).unwrap().unwrap())
}

/// The points of the row, whatever ktax measured them.
fn points(history: &History) -> Vec<HistoryPoint> {
    let lines = history.lines.iter().filter(|line| line.row == ROW);
    lines.flat_map(|line| line.points.clone()).collect()
}

#[test]
fn the_commands_beside_a_row_print_its_numbers_again() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/published/debian-12.html");
    let missing = "docs/published/debian-12.html is not measured yet";
    if !require(Need::Publication, page.exists(), missing) {
        return;
    }
    let page = fs::read_to_string(page).unwrap();
    // Counts are of one guest: a later ktax publishes its own.
    let measured = &history_of_page(&page).lines[0].measured;
    let guest = format!("guest {}", &guest_sha256()[..12]);
    let why = format!("the page was measured with {measured}, and this ktax has {guest}");
    if !require(Need::Versions, measured.contains(&guest), why) {
        return;
    }
    let dir = scratch();
    let path = Path::new(env!("CARGO_BIN_EXE_ktax")).parent().unwrap();
    let path = format!("{}:{}", path.display(), std::env::var("PATH").unwrap());
    let store = dir.path().join("store");
    let typed = |command: &str| {
        let mut shell = Command::new("bash");
        isolate(&mut shell).current_dir(dir.path()).env("PATH", &path).env("KTAX_STORE", &store);
        run(shell.args(["-c", command]))
    };
    // A line of the page may break here.
    let shown = page.replace("<wbr>", "");
    let commands = shown.split("ktax compare ").skip(1).map(|rest| rest.split('<').next().unwrap());
    let of_row = commands.filter(|words| words.ends_with(&format!("-w {ROW}")));
    // A step has its command a second time.
    let of_row: BTreeSet<&str> = of_row.collect();
    let kernels = points(&history_of_page(&page)).len();
    assert!(of_row.len() >= kernels - 1, "one for each but the first: {of_row:?}");
    for words in of_row {
        let ran = typed(&format!("ktax compare {words}"));
        assert!([0, 3].contains(&ran.status), "{words}: {}", ran.stderr);
    }
    typed(&format!("ktax history {ROW} --html again.html")).exits(0);
    let again = history_of_page(&fs::read_to_string(dir.path().join("again.html")).unwrap());
    let (again, page) = (points(&again), points(&history_of_page(&page)));
    let numbers = |points: &[HistoryPoint]| {
        points.iter().map(|point| (point.package.clone(), point.values.clone())).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&again), numbers(&page));
}
