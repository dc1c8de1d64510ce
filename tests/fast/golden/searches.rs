//! A search that found two commits and a pair, and a ledger of which one addition is not built.

use ktax::analyse;
use ktax::flow::bisect::Search;
use ktax::model::{
    AlreadyOn, Bisection, Carrier, Chain, Comparison, Element, Evidence, LedgerTable, METRICS,
    Point, Verdict,
};
use ktax::report::view::Section;
use ktax::report::{FORMATS, NothingToSearch, Report, TEXT};

use super::{cases, estimates, rendered, results, show};

pub fn bisection() -> Bisection {
    let (base, change) = (206.0, 231.5);
    let element = |n: usize| Element {
        name: format!("{n:x}{}", "0".repeat(39)),
        title: format!(
            "sys: commit \u{1b}[1m{n} with a subject that is as long as some people's are"
        ),
        is_merge: n == 7,
    };
    let carrier = |after, to, delta: f64| Carrier {
        count_before: after,
        count_with: to,
        delta,
        share_percent: delta / (change - base) * 100.0,
    };
    let skipped = |why: &str| Point::Skipped(why.to_owned());
    Bisection {
        title: "git:v1 against git:v2".into(),
        chain: Chain::Commits,
        elements: (1..=16).map(element).collect(),
        likely_elements: vec![],
        row: "getppid".into(),
        metric: METRICS[0].name.into(),
        negligible: 0.255,
        points: [
            (0, Point::Cost(base)),
            (6, Point::Cost(base)),
            (7, Point::Cost(226.0)),
            (9, Point::Cost(226.0)),
            (10, skipped("it does not build: sys.c:3:1: error: \u{1b}[2J")),
            (11, Point::Cost(231.0)),
            (16, Point::Cost(change)),
        ]
        .into(),
        again: words("ktax bisect start --base git:v1 --change git:v2 -w getppid"),
        carriers: Some(vec![carrier(6, 7, 20.0), carrier(9, 11, 5.0)]),
    }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

pub fn ledger() -> LedgerTable {
    let mut changes = cases::changes();
    let mut half = changes.clone();
    for effect in half.rows.iter_mut().flat_map(cases::effects) {
        effect.delta /= 2.0;
        effect.percent = effect.percent.map(|percent| percent / 2.0);
        let base = effect.samples.base.clone();
        let halved = |(change, base): (&mut u64, u64)| *change = (*change + base) / 2;
        effect.samples.change.iter_mut().zip(base).for_each(halved);
    }
    [&mut half, &mut changes].into_iter().for_each(estimates::ranking);
    // An addition that was not timed is in one row, and is saved in another.
    for (row, delta) in [(1, 2.0), (4, -1.0)] {
        let Evidence::Counts(counts) = &mut changes.rows[row].evidence else { unreachable!() };
        counts.estimate.as_mut().unwrap().left_out.insert("cr3-write".to_owned(), delta);
    }
    let each = [("half".to_owned(), half), ("whole".to_owned(), changes.clone())];
    // All at once cost what the dearer one does, and not the sum.
    let not_built =
        vec![("third".to_owned(), "it does not build: a.c:1: error: \u{1b}[2J".to_owned())];
    let already_on = vec![AlreadyOn {
        addition: "half".to_owned(),
        setting: "a=1".to_owned(),
        reason: "CONFIG_A_DEFAULT_ON=y".to_owned(),
        replacement: "a=0".to_owned(),
    }];
    let again = words("ktax ledger hardening -w @lmbench --layouts 5");
    let together = Some(&changes);
    let ledger = analyse::ledger("Two of a kind", &each, together, not_built, already_on).unwrap();
    LedgerTable { again, ..ledger }
}

/// Features of a guest: what each does to its exits and to their time.
pub fn guests_ledger() -> LedgerTable {
    let compared = results::guests_compared();
    let mut other = compared.clone();
    // The effects of the other addition on the first row cancel out.
    other.rows[0].verdict = Verdict::NoDetectedChange;
    for effect in other.rows[..1].iter_mut().flat_map(cases::effects) {
        let base = effect.samples.base.clone();
        effect.samples.change.clone_from(&base);
        (effect.delta, effect.percent, effect.verdict) =
            (0.0, Some(0.0), Verdict::NoDetectedChange);
        (effect.change, effect.delta_range) = (effect.base, (0.0, 0.0));
    }
    let each = [("clock".to_owned(), compared.clone()), ("eoi".to_owned(), other)];
    let ledger =
        analyse::ledger("Features of a guest", &each, Some(&compared), Vec::new(), Vec::new())
            .unwrap();
    LedgerTable { again: words("ktax ledger features"), ..ledger }
}

/// Without an element that carries enough, the answer says what to do next.
#[test]
fn a_search_without_a_result_names_the_next_step() {
    let none = Bisection { carriers: Some(Vec::new()), ..bisection() };
    let page = rendered(&none, 100, false);
    assert!(
        page.contains("None of 16 commits carries at least 0.26 of +25.50 instructions"),
        "{page}"
    );
    assert!(page.contains("All commits together: +25.50."), "{page}");
    assert!(page.contains("start again with fewer commits between base and change"), "{page}");
    assert!(!rendered(&bisection(), 100, false).contains("start again with fewer"));
}

/// Without a difference the answer is the comparison, and how to go on.
#[test]
fn every_search_that_ended_has_something_to_print() {
    let mut comparison = cases::changes();
    comparison.rows.drain(1..);
    let nothing = |comparison: &Comparison| {
        let between = "3 parameters".to_owned();
        Search::Nothing(Box::new(NothingToSearch::new(comparison.clone(), between)))
    };
    let page = show(nothing(&comparison).result().unwrap(), TEXT);
    let sentence = "There is nothing to search for. getppid: unchanged (would have seen 0.10 %).";
    assert!(page.contains(sentence) && page.contains("differ in 3 parameters. "), "{page}");
    assert!(page.contains("run `ktax compare`"), "{page}");
    assert_eq!(nothing(&comparison).result().unwrap().result(), comparison.result());
    comparison.rows[0].verdict = Verdict::DifferentWork;
    let page = show(nothing(&comparison).result().unwrap(), TEXT);
    assert!(page.contains("Nothing was searched, because base and change did different"), "{page}");
    assert!(page.contains("run the same command with a new --out"), "{page}");
    let found = Search::Found(Box::new(bisection()));
    for format in FORMATS {
        assert_eq!(show(found.result().unwrap(), *format), show(&bisection(), *format));
    }
    assert!(Search::Stopped { next: "x".into() }.result().is_none());
}

/// A narrow terminal gets all columns of the matrix, in parts that each name the additions.
#[test]
fn a_matrix_that_is_too_wide_is_split_and_loses_nothing() {
    let matrix = |width| {
        let text = rendered(&ledger(), width, false);
        let matrix =
            text.split_once("estimated cycles %\n").unwrap().1.split_once("\ngetppid, ").unwrap().0;
        matrix.to_owned()
    };
    let parts = |text: &str| text.lines().filter(|line| line.starts_with("whole ")).count();
    assert_eq!((parts(&matrix(100)), parts(&matrix(60))), (1, 2));
    let words = |text: &str| {
        let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        words.retain(|word| !word.starts_with('─'));
        words.sort();
        words.dedup();
        words
    };
    assert_eq!(words(&matrix(60)), words(&matrix(100)));
}

/// Under four layouts nothing gets a verdict: neither "no change" nor "no interaction" was found.
#[test]
fn the_headline_without_verdicts_claims_no_change() {
    let (_, few) = &cases::all()[2];
    let each = [("one".to_owned(), few.clone()), ("other".to_owned(), few.clone())];
    let ledger = analyse::ledger("Few", &each, Some(few), Vec::new(), Vec::new()).unwrap();
    let text = rendered(&ledger, 100, false);
    assert!(
        text.contains("A verdict needs 5 layouts; this ledger has 4. one costs most: "),
        "{text}"
    );
    let claims = ["detected with", "No interaction", "slower in", "do not add up", "independent"];
    assert!(claims.iter().all(|claim| !text.contains(claim)), "{text}");
}

/// Each word that is explained stands above, and each head of a column that a newcomer would not
/// guess is explained.
#[test]
fn the_legend_of_a_ledger_explains_only_printed_columns() {
    let one_row = |mut ledger: LedgerTable| {
        ledger.rows.truncate(1);
        ledger
    };
    let ledgers = [ledger(), guests_ledger(), one_row(ledger()), one_row(guests_ledger())];
    for ledger in ledgers {
        let text = rendered(&ledger, 200, false);
        let (tables, legend) = text.split_once("Each addition is added").unwrap();
        let tables = tables.replace('\n', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        let terms = [
            "estimated cycles %",
            "cycles %",
            "instructions %",
            "time %",
            "delta %",
            "MDE %",
            "verdict",
            "exits",
            "REP",
            "(REP)",
        ];
        for term in terms {
            let explained = legend.lines().any(|line| {
                line.strip_prefix(term).is_some_and(|meaning| meaning.starts_with("  "))
            });
            let is_there = match term {
                // The words of a head are on two lines.
                term if term.ends_with(" %") => {
                    ledger.view().sections.iter().any(|section| match section {
                        Section::Table { title, table, .. } => {
                            title == term || table.columns.iter().any(|column| column.head == term)
                        }
                        _ => false,
                    })
                }
                word => tables.split(' ').any(|shown| shown == word),
            };
            assert_eq!(explained, is_there, "{term}: {text}");
        }
        assert!(legend.contains("slower or faster: by at least 0.1 %"), "{text}");
    }
}

/// The base was measured without it, so nobody needs to be asked whether it was on.
#[test]
fn an_addition_that_is_off_in_the_base_is_not_asked_about() {
    let mut still = cases::changes();
    still.warnings.clear();
    for row in &mut still.rows {
        row.verdict = Verdict::NoDetectedChange;
        for effect in cases::effects(row) {
            effect.samples.change.clone_from(&effect.samples.base);
            (effect.delta, effect.verdict) = (0.0, Verdict::NoDetectedChange);
        }
    }
    let each = [("one".to_owned(), still.clone()), ("two".to_owned(), still)];
    let on = |added: &str, instead: &str| AlreadyOn {
        addition: added.to_owned(),
        setting: "a=1".to_owned(),
        reason: "CONFIG_A_DEFAULT_ON=y".to_owned(),
        replacement: instead.to_owned(),
    };
    let asked = |already_on| {
        let ledger = analyse::ledger("Still", &each, None, Vec::new(), already_on).unwrap();
        ledger.warnings.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(asked(Vec::new()), ["one", "two"]);
    assert_eq!(asked(vec![on("one", "a=0")]), ["two"]);
    // Nothing turns it off: it stays on in the base.
    assert_eq!(asked(vec![on("one", "")]), ["one", "two"]);
}
