//! `ktax stat` of the mail of 2009: its two columns, its ten runs, and what another machine may
//! make of them: parts that may not be counted, no TLB counter, a cache counter that is shared.

use ktax::analyse;
use ktax::model::{Count, Counted, StatCommand, StatTable};
use ktax::report::{Report, StatPage};

use super::{at, check};

/// Native kernel and paravirt_ops.
const PUBLISHED: [(&str, [f64; 2]); 9] = [
    ("task-clock", [1_311_554_526.0, 1_360_624_932.0]),
    ("cpu-migrations", [1.0, 1.0]),
    ("context-switches", [91.0, 79.0]),
    ("page-faults", [55945.0, 55943.0]),
    ("cycles", [3_781_392_474.0, 3_918_777_174.0]),
    ("instructions", [1_957_153_827.0, 2_161_280_486.0]),
    ("cache-references", [50_234_816.0, 51_303_520.0]),
    ("cache-misses", [5_428_258.0, 5_583_728.0]),
    ("elapsed", [1_314_782_469.0, 1_363_694_447.0]),
];

/// Sorted, as the mail has them; the run that its table shows is the eighth.
const CYCLES: [f64; 10] = [
    3_906_920_196.0,
    3_907_556_124.0,
    3_907_902_335.0,
    3_914_423_870.0,
    3_915_642_464.0,
    3_916_134_988.0,
    3_916_840_093.0,
    3_918_777_174.0,
    3_918_993_251.0,
    3_919_907_192.0,
];

fn counted(side: usize, cycles: f64) -> Counted {
    let seen = |value, counted_percent| Count::Seen { value, counted_percent };
    let mut counted: Counted =
        PUBLISHED.iter().map(|(name, values)| (*name, seen(values[side], 100.0))).collect();
    counted.insert("cycles", seen(cycles, 100.0));
    counted.insert("cache-misses", seen(PUBLISHED[7].1[side], 74.26));
    for (name, value) in [("minor-faults", 55000.0), ("major-faults", 0.0)] {
        counted.insert(name, seen(value, 100.0));
    }
    let refused = "not permitted: kernel.perf_event_paranoid is 2; run ktax as root";
    for name in ["cycles-user", "cycles-kernel", "instructions-user", "instructions-kernel"] {
        counted.insert(name, Count::Not(refused.to_owned()));
    }
    counted.insert("dtlb-misses", Count::Not("no PMU\u{1b}[2J; use another".to_owned()));
    counted
}

fn table(commands: &[&[&str]], runs: &[Vec<Counted>]) -> StatTable {
    let command = |words: &&[&str]| StatCommand {
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        failures: Vec::new(),
    };
    StatTable {
        release: "2.6.29".to_owned(),
        cpus: 2,
        commands: commands.iter().map(command).collect(),
        runs: runs[0].len(),
        seed: (commands.len() == 2).then_some(1),
        rows: analyse::counters(runs),
    }
}

/// Ten runs of one command, two of which failed.
fn one() -> StatTable {
    let ten = CYCLES.map(|cycles| counted(1, cycles)).to_vec();
    let mut one = table(&[&["taskset", "2", "./mmap-perf", "1"]], &[ten]);
    one.commands[0].failures = vec!["exit status 1".to_owned(), "signal 9".to_owned()];
    one
}

/// One pair, as the mail has it.
pub fn two() -> StatTable {
    let [base, change] = [0, 1].map(|side| vec![counted(side, PUBLISHED[4].1[side])]);
    table(&[&["./mmap-perf", "a b"], &["./mmap-perf", "\u{1b}[2J"]], &[base, change])
}

/// Six pairs that drift with both, as a machine does that gets slower: the pairs' ratios are closer
/// together.
pub fn pairs() -> StatTable {
    let drifting = |side: usize, cycles: f64| {
        let run =
            |n: u32| counted(side, cycles * (1.0 + f64::from(n * n + n * side as u32 / 3) / 100.0));
        (0..6).map(run).collect::<Vec<_>>()
    };
    let pairs = [drifting(0, PUBLISHED[4].1[0]), drifting(1, PUBLISHED[4].1[1])];
    table(&[&["./before"], &["./after"]], &pairs)
}

#[test]
fn all_values_stand_below_the_table() {
    let shown = |table: &StatTable, width: u16| {
        let shown = at(&StatPage { table, values: true }, width, false);
        let is_wide = |line: &&str| line.chars().count() > usize::from(width);
        assert_eq!(shown.lines().find(is_wide), None, "{shown}");
        shown
    };
    let mut all = shown(&one(), 100);
    all.retain(|c| !c.is_whitespace());
    let cycles: String = CYCLES.iter().map(f64::to_string).collect();
    assert!(all.contains(&format!("CPUcycles:{cycles};spread0.33%")), "{all}");
    check("stat-pairs-values.80.txt", &shown(&pairs(), 80));
}

/// The mail's own last column; its cache references are cut, not rounded.
#[test]
fn changes_are_those_that_were_published() {
    let shown = at(&two(), 100, false);
    for published in ["+3.74", "+3.63", "+10.43", "+2.13", "+2.86", "+3.72"] {
        assert!(shown.contains(published), "{published}: {shown}");
    }
}

/// Equal commands, whose means differ by one slow run: the answer is that of the pairs, and says
/// that it is none.
#[test]
fn the_answer_has_its_interval_and_no_means_that_contradict_it() {
    let mut table = pairs();
    let row = table.rows.iter_mut().find(|row| row.counter == "elapsed").unwrap();
    let change = row.change.as_mut().unwrap();
    (change.percent, change.interval_percent) = (-0.85, Some([-60.0, 40.0]));
    let headline = table.saved().headline;
    let said = "time elapsed -0.85 % (interval -60.0…+40.0: no change detected), task clock +3.74";
    assert!(headline.starts_with(said), "{headline}");
}
