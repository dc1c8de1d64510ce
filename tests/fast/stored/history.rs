//! Rows over kernels.

use ktax::model::{History, SavedResult, read_results};

use super::Asked;
use super::generated::{self, Made};
use crate::common::run;

fn history(asked: &Asked, words: &[&str]) -> History {
    let text = asked.said(&[&["history", "--json"], words].concat());
    match read_results(&text).unwrap().pop().unwrap().result {
        SavedResult::History(history) => *history,
        other => panic!("{other:?}"),
    }
}

/// Releases of one flavour, in no order of their texts.
fn releases(count: u64) -> Vec<&'static str> {
    (1..=count).map(|at| &*format!("6.1.{at}-1-cloud-amd64").leak()).collect()
}

fn steps(history: &History) -> Vec<&str> {
    let points = history.lines.iter().flat_map(|line| &line.points);
    points.filter(|point| point.is_step()).map(|point| point.kernel.as_str()).collect()
}

#[test]
fn a_creep_is_found_and_equals_never_step() {
    let asked = Asked::new();
    let all = releases(50);
    // 0.06 % of 10 000 each time, below the threshold of 0.1 %.
    let creep = (0..12).map(|at| Made::of("getppid", all[at], 10_000 + 6 * at as u64));
    let equal = all.iter().map(|release| Made::of("stat", release, 10_000));
    generated::fill(&asked.store, creep.chain(equal));
    let found = history(&asked, &["getppid"]);
    assert_eq!(found.lines[0].points.len(), 12);
    // By version: 6.1.10 comes after 6.1.9.
    let kernels: Vec<&str> =
        found.lines[0].points.iter().map(|point| point.kernel.as_str()).collect();
    assert_eq!(kernels, all[..12]);
    assert_eq!(steps(&found), [all[2], all[4], all[6], all[8], all[10]]);
    // A row is one row, however often it is asked for.
    assert_eq!(history(&asked, &["getppid", "getppid"]).lines, found.lines);
    let equal = history(&asked, &["stat"]);
    assert_eq!((equal.lines[0].points.len(), steps(&equal).len()), (50, 0));
    let text = asked.said(&["history", "getppid"]);
    assert!(text.contains("getppid over 12 kernels: 5 steps, the largest +0.12 % at"), "{text}");
    assert!(text.contains("; +0.66 % from 6.1.1-1 to 6.1.12-1"), "{text}");
    // What carries the step is one command away, for whoever has the packages.
    assert!(
        text.contains("To see all functions of this step:\n  ktax compare --base debian:"),
        "{text}"
    );
    let said = asked.said(&["diff", all[0], all[2], "-w", "getppid"]);
    assert!(said.contains("slower"), "{said}");
}

#[test]
fn another_qemu_flavour_or_boot_line_is_a_line_of_its_own() {
    let asked = Asked::new();
    let all = releases(4);
    let of = |release, cost| Made::of("getppid", release, cost);
    generated::fill(
        &asked.store,
        [
            of(all[0], 10_000),
            of(all[1], 10_000),
            // The same kernels cost something else on another QEMU.
            Made { qemu: "10.0.2", ..of(all[1], 20_000) },
            Made { qemu: "10.0.2", ..of(all[2], 20_000) },
            Made { boot_line: "quiet", ..of(all[2], 30_000) },
            of("6.1.2-1-amd64", 40_000),
        ],
    );
    let found = history(&asked, &["getppid"]);
    let shape: Vec<(&str, usize)> =
        found.lines.iter().map(|line| (line.lineage.as_str(), line.points.len())).collect();
    assert_eq!(
        shape,
        [("amd64", 1), ("cloud-amd64", 2), ("cloud-amd64", 2), ("cloud-amd64 quiet", 1)]
    );
    assert!(steps(&found).is_empty());
    assert!(found.lines[2].measured.contains("10.0.2"), "{}", found.lines[2].measured);
    // Places are those of the lineage: the lines stand one after the other in a picture.
    let places = |at: usize| -> Vec<usize> {
        found.lines[at].points.iter().map(|point| point.place).collect()
    };
    assert_eq!((places(1), places(2)), (vec![0, 1], vec![1, 2]));
    let page = asked.said(&["history", "getppid", "--format", "html"]);
    assert!(page.contains("the lines do not compare"));
    // A picture has no line from one QEMU to the other: two of one step each.
    assert_eq!(history(&asked, &["getppid", "--boot-line", "quiet"]).lines.len(), 1);
    let said = asked.refused(&["history", "getppid", "--boot-line", "loud"]);
    assert!(said.contains("give one of '', quiet"), "{said}");
}

#[test]
fn what_ran_on_a_disk_is_a_line_of_its_own_and_has_no_command() {
    let asked = Asked::new();
    for (release, cost) in releases(2).into_iter().zip([1_000, 1_010]) {
        let plain = generated::measurement(&Made::of("fs-rename", release, cost));
        let mut on_disk = plain.clone();
        on_disk.of.key.modules = vec!["brd rd_nr=1".into(), "ext4".into()];
        on_disk.of.key.programs = "ab".repeat(32);
        asked.store.put(&plain).unwrap();
        asked.store.put(&on_disk).unwrap();
    }
    let found = history(&asked, &["fs-rename"]);
    let [one, other] = &found.lines[..] else { panic!("{found:?}") };
    let (plain, on_disk) = if one.asked.is_some() { (one, other) } else { (other, one) };
    assert!(!plain.measured.contains("modules") && plain.asked.is_some(), "{plain:?}");
    assert!(on_disk.measured.ends_with("modules brd and ext4, programs abababababab"));
    assert!(on_disk.asked.is_none());
    assert_eq!([plain.points.len(), on_disk.points.len()], [2, 2]);
}

#[test]
fn candidates_come_before_their_release_and_ten_after_nine() {
    let asked = Asked::new();
    let all = ["6.9.0", "6.10.0-rc1", "6.10.0-rc2", "6.10.0-rc10", "6.10.0", "6.10.1"];
    // Not in this order.
    generated::fill(
        &asked.store,
        all.iter().rev().map(|release| Made::of("stat", release, 10_000)),
    );
    let found = history(&asked, &["stat"]);
    let kernels: Vec<&str> =
        found.lines[0].points.iter().map(|point| point.kernel.as_str()).collect();
    assert_eq!(kernels, all);
}

#[test]
fn subjects_are_followed_in_the_order_that_is_asked_for() {
    let asked = Asked::new();
    let all = releases(3);
    let quiet = Made { boot_line: "quiet", ..Made::of("getppid", all[2], 8_000) };
    let made = [Made::of("getppid", all[0], 10_000), Made::of("getppid", all[1], 9_000), quiet];
    generated::fill(&asked.store, made);
    asked.said(&["tag", "first", all[1]]);
    let along = format!("first,{},{}@quiet", all[0], all[2]);
    let found = history(&asked, &["getppid", "--along", &along]);
    let names: Vec<&str> =
        found.lines[0].points.iter().map(|point| point.kernel.as_str()).collect();
    assert_eq!(names, ["6.1.2-1-cloud-amd64", all[0], "6.1.3-1-cloud-amd64@quiet"]);
    assert_eq!(found.lines[0].points[0].tags, ["first"]);
    assert_eq!(steps(&found), [all[0], "6.1.3-1-cloud-amd64@quiet"]);
}

#[test]
fn a_function_is_followed_and_an_unknown_one_is_said() {
    let asked = Asked::new();
    let all = releases(2);
    generated::fill(
        &asked.store,
        [Made::of("getppid", all[0], 6_000), Made::of("getppid", all[1], 12_000)],
    );
    let found = history(&asked, &["getppid", "--function", "kernel_function_1"]);
    let values: Vec<u64> = found.lines[0].points.iter().map(|point| point.values[0]).collect();
    assert_eq!(values, [1_000_000, 2_000_000]);
    assert_eq!(steps(&found), [all[1]]);
    let said = asked.refused(&["history", "getppid", "--function", "no_such"]);
    assert!(said.contains("no profile of these rows has the function \"no_such\""), "{said}");
    let said = asked.refused(&["history", "getppit"]);
    assert!(said.contains("did you mean \"getppid\"?"), "{said}");
    let said = asked.refused(&["history", "--metric", "cycles"]);
    assert!(said.contains("give one of instructions, "), "{said}");
}

#[test]
fn a_history_of_every_row_fits_a_screen_and_is_read_back() {
    let asked = Asked::new();
    let all = releases(6);
    for (row, grown) in [("getppid", 0), ("stat", 500), ("pipe", 20)] {
        let of = |(at, release): (usize, &&'static str)| {
            Made::of(row, release, 10_000 + grown * at as u64)
        };
        generated::fill(&asked.store, all.iter().enumerate().map(of));
    }
    let text = asked.said(&["history"]);
    assert!(text.contains("2 of 3 rows step, most of all stat: +5.00 % at 6.1.2-1"), "{text}");
    assert!(text.contains("▁▂▄▅▇█") || text.contains("▁▂▄▅▆█"), "{text}");
    let page = asked.path().join("page.html");
    asked.said(&["history", "--html", page.to_str().unwrap()]);
    assert_eq!(asked.said(&["report", page.to_str().unwrap()]), text);
    let ascii = run(asked.command(&["history"]).env("LC_ALL", "C"));
    assert!(ascii.stdout.is_ascii() && ascii.stdout.contains('#'), "{}", ascii.stdout);
    let empty = Asked::new();
    assert!(empty.refused(&["history"]).contains("`ktax compare lsm` makes some"));
}

#[test]
fn a_workload_stands_for_its_rows_and_what_is_not_there_is_said() {
    let asked = Asked::new();
    let rows = ["fork-pages:pages=1", "fork-pages:pages=16", "fork-exit"];
    let of = |release| rows.map(|row| Made::of(row, release, 100));
    generated::fill(&asked.store, of("6.1.1").into_iter().chain(of("6.1.2")));
    generated::fill(&asked.store, [Made::of("stat", "6.1.3", 100)]);
    let found = history(&asked, &["fork-pages"]);
    let rows: Vec<&str> = found.lines.iter().map(|line| line.row.as_str()).collect();
    assert_eq!(rows, ["fork-pages:pages=1", "fork-pages:pages=16"]);
    let said = asked.refused(&["history", "fork-exit", "--along", "6.1.3"]);
    assert!(said.contains("none of these subjects was measured with these rows"), "{said}");
    let said = asked.refused(&["history", "fork"]);
    assert!(said.contains("the store has no row \"fork\""), "{said}");
}
