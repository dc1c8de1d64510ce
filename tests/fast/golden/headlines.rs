//! The answer stands first, in every format that people read and in JSON.

use ktax::model::{Comparison, CountsEvidence, Evidence, GuestsEvidence, Side, Signature, Verdict};
use ktax::report::{FORMATS, JSON, MARKDOWN, Report};

use super::fixtures::Measure;
use super::{at, cases, every, guests, show, timed};

/// Without blanks, whatever the lines.
fn letters(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn every_page_begins_with_its_answer() {
    for (name, result) in every() {
        let headline = result.headline.clone();
        assert!(!headline.is_empty(), "{name}");
        let json: serde_json::Value = serde_json::from_str(&show(&result, JSON)).unwrap();
        assert_eq!(json["headline"], headline, "{name}");
        let text = at(&result, 100, false);
        let [_title, second] = text.split("\n\n").take(2).collect::<Vec<_>>()[..] else {
            panic!("{name}: {text}")
        };
        assert_eq!(letters(second), letters(&ktax::text::escape(&headline)), "{name}");
        let markdown = show(&result, MARKDOWN);
        assert!(markdown.lines().nth(2).is_some_and(|line| line.starts_with("**")), "{markdown}");
    }
}

#[test]
fn an_answer_counts_every_row_once() {
    let of = |comparison: &Comparison| comparison.saved().headline;
    let named = |wanted: &str| {
        let found = cases::all().iter().find(|(name, _)| *name == wanted);
        of(&found.unwrap().1)
    };
    assert_eq!(
        named("changes"),
        "2 of 5 rows slower (worst stat +1.77 %), 1 faster \
         (context-switch:pages=4,procs=2 -8.75 %), 2 unchanged (would have seen 0.10 to 1.08 %)"
    );
    // Fewer layouts than a verdict needs would have seen nothing.
    assert_eq!(named("troubles"), "3 of 5 rows failed, 1 different work, 1 unchanged");
    assert_eq!(
        named("rep"),
        "1 of 3 rows slower (pipe +100.00 % REP iterations), 1 faster (create-delete -20.00 %, \
         REP slower), 1 unchanged (would have seen 0.10 %)"
    );
    assert_eq!(
        timed::all().into_iter().find(|(name, _)| *name == "timed").unwrap().1.headline,
        "1 of 3 rows slower (messaging:groups=16 +7.32 %), 1 faster (messaging:groups=1 -6.10 %), \
         1 unchanged (would have seen 0.69 %); 1 of 2 secondary rows failed, 1 unchanged \
         (would have seen 0.63 %)"
    );
    assert!(guests::alone().saved().headline.contains("92.7 % of bare metal's speed"));
    let mut one = cases::changes();
    one.rows.truncate(2);
    one.rows.remove(0);
    assert_eq!(of(&one), "stat: slower (+1.77 %)");
    one.rows.clear();
    assert_eq!(of(&one), "");
}

/// A percentage of REP iterations is no larger and no smaller than one of instructions.
#[test]
fn instructions_and_rep_iterations_are_not_ranked_together() {
    let mut mixed = cases::changes();
    let found = cases::all().iter().find(|(name, _)| *name == "rep").unwrap();
    let by_rep = found.1.rows.iter().find(|row| row.row == "pipe").unwrap();
    mixed.rows.insert(0, by_rep.clone());
    assert_eq!(
        mixed.saved().headline,
        "3 of 6 rows slower (worst stat +1.77 %, pipe +100.00 % REP iterations), 1 faster \
         (context-switch:pages=4,procs=2 -8.75 %), 2 unchanged (would have seen 0.10 to 1.08 %)"
    );
    let page = at(&mixed.saved(), 100, false);
    let (_, functions) = page.split_once("Functions that carry most").unwrap();
    let lines: Vec<&str> = functions.split("mean %:").next().unwrap().lines().collect();
    let last_of_instructions = lines.iter().rposition(|line| line.contains(" stat")).unwrap();
    let first_of_rep = lines.iter().position(|line| line.contains("(REP)")).unwrap();
    assert!(last_of_instructions < first_of_rep, "{page}");
}

#[test]
fn a_table_without_numbers_has_no_explanations_below() {
    let mut counts = cases::changes();
    let mut of_guests = guests::compared();
    let pages = |comparison: &Comparison| -> String {
        FORMATS.iter().map(|format| show(comparison, *format)).collect()
    };
    let is_explained = |pages: &str| {
        ["instructions per operation in process context", "are the time of all vCPUs"]
            .map(|words| letters(pages).contains(&letters(words)))
    };
    assert_eq!(
        [&counts, &of_guests].map(|comparison| is_explained(&pages(comparison))),
        [[true, false], [false, true]]
    );
    for (comparison, nothing) in [
        (&mut counts, Evidence::Counts(CountsEvidence::default())),
        (&mut of_guests, Evidence::Guests(GuestsEvidence::default())),
    ] {
        for row in &mut comparison.rows {
            (row.verdict, row.evidence) = (Verdict::Failed, nothing.clone());
        }
        assert_eq!(is_explained(&pages(comparison)), [false; 2], "{}", pages(comparison));
    }
}

/// Of 100 000 instructions four are 0.00 %, in either row.
#[test]
fn what_is_nothing_in_percent_is_not_among_what_carries_most() {
    let measure: Measure = |side, _| {
        let more = u64::from(side == Side::Change);
        let lines = vec![
            ("process", "schedule", 98_000 + 900 * more, 0),
            ("process", "pipe_read", 1000 + 6 * more, 0),
            ("process", "pipe_write", 1000 + 4 * more, 0),
        ];
        Ok((lines, Signature::from([("round trips".to_owned(), 400)])))
    };
    let rows = ["pipe", "stat"].map(|row| (row, "one round trip", measure));
    let page = at(&cases::made("Dust", 5, &rows).saved(), 100, false);
    let (_, functions) = page.split_once("Functions that carry most").unwrap();
    let functions = functions.split("mean %:").next().unwrap();
    let is_there = |name: &&str| functions.contains(name);
    let named = ["schedule", "pipe_read", "pipe_write"].into_iter().filter(is_there);
    assert_eq!(named.collect::<Vec<_>>(), ["schedule", "pipe_read"], "{functions}");
}
