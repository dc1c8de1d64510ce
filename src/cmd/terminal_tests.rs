use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::{MIN_TICK_INTERVAL, Terminal, lock, longest_runs};
use crate::flow::remaining::{Part, Work};
use crate::flow::{Event, KernelTask, Observer, Progress, TaskKind, Timing};
use crate::model::{Side, Step};

fn earlier() -> Instant {
    let hour = Duration::from_secs(3600);
    Instant::now().checked_sub(hour).unwrap_or_else(Instant::now)
}

#[test]
fn the_time_of_a_part_begins_with_the_part() {
    let earlier = earlier();
    let terminal =
        Terminal { started: earlier, part_started: Mutex::new(earlier), ..Terminal::new() };
    terminal.begin(&Work::default());
    assert!(terminal.part_elapsed() < Duration::from_secs(3600), "{:?}", terminal.part_elapsed());
}

#[test]
fn longest_runs_are_sorted_by_their_mean_time() {
    let mut timing = Timing::default();
    for (row, count, seconds) in [("many", 100, 50), ("slow", 2, 20), ("b", 1, 1), ("c", 1, 0)] {
        timing.runs.insert(row.to_owned(), (count, Duration::from_secs(seconds)));
    }
    assert_eq!(longest_runs(&timing), "slow 10.00 s, b 1.00 s, many 0.50 s");
}

/// Message of the bar.
fn bar_message(terminal: &Terminal) -> String {
    lock(&terminal.bar).as_ref().map(ProgressBar::message).unwrap_or_default()
}

fn pairs(terminal: &Terminal, pairs: usize) -> String {
    terminal.pairs(&Progress { pairs, controls: 0, cap: Some(10) }, None);
    bar_message(terminal)
}

/// The time left only counts pairs of this run.
#[test]
fn each_run_of_a_timed_sweep_has_a_number_and_its_own_pace() {
    let terminal = Terminal::new();
    let part = |index| terminal.part(Part { index, count: 3, shares_base: false });
    part(0);
    assert_eq!(pairs(&terminal, 0), "run 1 of 3; pairs: 0 of at most 10; A/A pairs: 0");
    let line = pairs(&terminal, 1);
    assert!(line.ends_with(" left for 3 runs"), "{line}");
    part(1);
    // The time of pairs before a resume is unknown.
    assert_eq!(pairs(&terminal, 5), "run 2 of 3; pairs: 5 of at most 10; A/A pairs: 0");
    let line = pairs(&terminal, 6);
    assert!(line.starts_with("run 2 of 3; pairs: 6 ") && line.contains("at most "), "{line}");
    let single = Terminal::new();
    pairs(&single, 0);
    let line = pairs(&single, 1);
    assert!(line.starts_with("pairs: 1 of at most 10; ") && line.ends_with(" left"), "{line}");
}

/// Terminal without a screen, and its log. `is_due` means that the last line is long ago.
fn logging(is_due: bool) -> (Terminal, Arc<Mutex<Vec<String>>>) {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&lines);
    let log_line = Box::new(move |text: &str| lock(&log).push(text.to_owned()));
    let last_line = Mutex::new(if is_due { earlier() } else { Instant::now() });
    (Terminal { last_line, log_line, ..Terminal::new() }, lines)
}

/// Begins two boots with one row.
fn begin(terminal: &Terminal) {
    let rows = vec!["getppid".to_owned()];
    terminal.begin(&Work { engine: "exact".into(), boots: 2, rows, jobs: 1 });
    *lock(&terminal.bar) = Some(ProgressBar::hidden());
}

#[test]
fn a_log_has_a_line_of_progress_each_minute() {
    let step = Step { index: 0, side: Side::Base, layout: 0 };
    let events = [Event::Booting(&step), Event::Running(&step, "getppid"), Event::Done(&step, 1)];
    let (terminal, lines) = logging(false);
    begin(&terminal);
    events.iter().for_each(|event| terminal.event(event));
    assert_eq!(*lock(&lines), [""; 0]);
    let (terminal, lines) = logging(true);
    begin(&terminal);
    events[..2].iter().for_each(|event| terminal.event(event));
    *lock(&terminal.last_line) = earlier();
    terminal.event(&events[2]);
    let logged = lock(&lines).clone();
    let [first, second] = logged.as_slice() else { panic!("{logged:?}") };
    assert!(first.starts_with("0 of 2 runs; about "), "{first}");
    assert!(second.starts_with("1 of 2 runs; about ") && second.ends_with(" left"), "{second}");
}

#[test]
fn a_log_has_lines_of_pairs_and_of_status() {
    let (terminal, lines) = logging(true);
    *lock(&terminal.bar) = Some(ProgressBar::hidden());
    pairs(&terminal, 3);
    pairs(&terminal, 4);
    assert_eq!(*lock(&lines), ["pairs: 3 of at most 10; A/A pairs: 0"]);
    let (terminal, lines) = logging(true);
    *lock(&terminal.bar) = Some(ProgressBar::hidden());
    terminal.status("building linux: vmlinux, 3 of at most 9 files compiled");
    assert_eq!(*lock(&lines), ["building linux: vmlinux, 3 of at most 9 files compiled"]);
}

#[test]
fn a_build_has_a_line_of_progress_each_minute() {
    let task = |done, is_over| {
        let (kind, what) = (TaskKind::Compile, "src:linux".to_owned());
        KernelTask { kind, what, done, total: Some(1000), is_over }
    };
    let (terminal, lines) = logging(false);
    terminal.task(&task(0, false));
    assert_eq!(*lock(&lines), [""; 0]);
    *lock(&terminal.last_line) = earlier();
    terminal.task(&task(3, false));
    let logged = lock(&lines).clone();
    assert!(logged[0].starts_with("compiling src:linux: 3 of 1000 files, about "), "{logged:?}");
    terminal.task(&task(4, true));
    assert!(lock(&terminal.bar).is_none() && lock(&lines).len() == 1);
}

#[test]
fn a_clock_moves_at_most_once_a_second() {
    let terminal = Terminal { last_tick: Mutex::new(earlier()), ..Terminal::new() };
    terminal.tick();
    let first = *lock(&terminal.last_tick);
    assert!(first.elapsed() < MIN_TICK_INTERVAL, "it moved");
    terminal.tick();
    assert_eq!(*lock(&terminal.last_tick), first);
}
