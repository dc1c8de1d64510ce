//! Tables on pages of every width.

use super::{ExitDiff, ExitTables};
use crate::view::Report;
use crate::{TEXT, TextOptions, render};
use ktax_model::{ExitPair, ExitParts, ExitRow, ExitTable};

/// The longest of VMX, SVM, KVM_RUN and riscv.
const LONG: [&str; 5] = [
    "EXTERNAL_INTERRUPT",
    "TPR_BELOW_THRESHOLD",
    "avic_unaccelerated_access",
    "KVM_EXIT_INTERNAL_ERROR",
    "environment call from VS-mode",
];

/// A minute of four vCPUs.
fn table(reasons: &[&str], has_quantiles: bool) -> ExitTable {
    let row = |reason: &str, number: u64| {
        let quantile = |ns| has_quantiles.then_some(ns);
        let part = |share: u64| 1_234_567_000 * share * number;
        ExitRow {
            reason: reason.to_owned(),
            is_guest: reason == "TIMEINGUEST",
            count: 1_000_585 * number,
            least_ns: Some(1_240),
            most_ns: Some(264_827_000),
            sum_ns: Some(part(10)),
            squares_ns2: Some(1 << 80),
            p50_ns: quantile(2_694),
            p99_ns: quantile(2_115_000),
            parts: Some(ExitParts {
                kernel_ns: part(4),
                user_ns: part(3),
                halted_ns: Some(part(2)),
                preempted_ns: Some(part(1)),
                unknown_ns: 0,
            }),
            counter: None,
        }
    };
    let rows = reasons.iter().chain(&["TIMEINGUEST"]).zip(1..).map(|(name, at)| row(name, at));
    let (of, source, rows) = (String::new(), "a test".to_owned(), rows.collect());
    let elapsed_ns = Some(60_000_000_000);
    ExitTable { of, source, rows, elapsed_ns, ..ExitTable::default() }
}

fn text(report: &dyn Report, width: u16) -> String {
    render(report, TEXT, TextOptions { width, ..TextOptions::default() }).unwrap()
}

fn exits(table: &ExitTable, width: u16) -> String {
    text(&ExitTables(std::slice::from_ref(table)), width)
}

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap()
}

#[test]
fn a_reason_is_on_one_line_at_any_width() {
    for width in 60..=100 {
        for reason in LONG {
            let table = table(&[reason], true);
            let pair = ExitPair { base: table.clone(), change: table.clone(), totals: false };
            for text in [exits(&table, width), text(&ExitDiff(&pair), width)] {
                let line = format!("\n{reason}  ");
                let there = text.matches(&line).count();
                assert_eq!(there, text.matches("\nTIMEINGUEST  ").count(), "{width}\n{text}");
                assert!(there > 0, "{width}\n{text}");
                assert!(width < 80 || widest(&text) <= width.into(), "{width}\n{text}");
            }
        }
    }
}

#[test]
fn columns_go_in_their_order_and_are_named() {
    for has_quantiles in [true, false] {
        let all = ["stddev", "min", "p50", "max", "avg"];
        let of_source = |name: &&&str| has_quantiles || **name != "p50";
        let may_go: Vec<&str> = all.iter().filter(of_source).copied().collect();
        let mut seen = Vec::new();
        for width in 60..=100 {
            let text = exits(&table(&LONG[2..3], has_quantiles), width);
            // Units stand on the lower of two lines.
            let (header, _) = text.split_once("\nreason").unwrap();
            let header = header.lines().next_back().unwrap();
            let is_shown = |name: &&&str| header.contains(**name);
            let gone: Vec<&str> = may_go.iter().filter(|name| !is_shown(name)).copied().collect();
            assert_eq!(gone, may_go[..gone.len()], "{width}\n{text}");
            let words: Vec<&str> = text.split_whitespace().collect();
            let notes = words.join(" ");
            let note = format!("Omitted to fit {width} columns: ");
            let first = notes.split_once(&note).map(|(_, rest)| rest.split_once(';').unwrap().0);
            assert_eq!(first.is_some(), !gone.is_empty() || !text.contains(" guest "), "{text}");
            for name in &gone {
                assert!(first.is_some_and(|note| note.contains(name)), "{width} {name}\n{text}");
            }
            assert_eq!(notes.matches("--json has all.").count(), notes.matches(&note).count());
            seen.push(gone.len());
        }
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() > 2, "{seen:?}");
    }
}

#[test]
fn what_fits_is_whole() {
    let text = exits(&table(&["npf"], true), 120);
    assert!(!text.contains("Omitted") && text.contains(" p50 "), "{text}");
}

/// Files come from anywhere: a line is at most twice as long as it should be.
#[test]
fn a_name_without_an_end_wraps() {
    let endless = "x".repeat(10_000);
    let text = exits(&table(&[&endless], true), 80);
    assert!(widest(&text) <= 160, "{}", widest(&text));
}
