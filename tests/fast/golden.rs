//! Comparisons as they are shown; `BLESS=1 cargo test --test fast golden::` rewrites what is
//! expected.

mod again;
mod awaited;
mod cases;
mod cpus;
mod elsewhere;
mod estimates;
mod exits;
pub mod fixtures;
mod guests;
mod headlines;
pub mod history;
mod mail;
mod native;
mod page;
pub mod paths;
mod runs;
mod searches;
mod shapes;
mod stat;
mod terminals;
mod timed;
mod versions;

use std::path::Path;

use ktax::model::{Comparison, ExitPair, Saved, SavedResult};
use ktax::report::{CSV, FORMATS, Format, HTML, JSON, MARKDOWN, Report, TEXT, TextOptions, render};

const EXPECTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/expected");

fn text(comparison: &Comparison, width: u16) -> String {
    at(comparison, width, false)
}

fn at(report: &dyn Report, width: u16, colour: bool) -> String {
    render(report, TEXT, TextOptions { width, colour, ascii: false }).unwrap()
}

fn show(report: &dyn Report, format: Format) -> String {
    render(report, format, TextOptions::default()).unwrap()
}

fn check(name: &str, shown: &str) {
    let path = Path::new(EXPECTED).join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(EXPECTED).unwrap();
        std::fs::write(&path, shown).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == shown, "{name} differs; is now:\n{shown}\nBLESS=1 accepts it");
}

#[test]
fn every_format_looks_as_expected() {
    for (name, comparison) in cases::all() {
        check(&format!("{name}.100.txt"), &text(comparison, 100));
        check(&format!("{name}.80.txt"), &text(comparison, 80));
        for (format, extension) in [(MARKDOWN, "md"), (CSV, "csv"), (JSON, "json")] {
            let shown = show(comparison, format);
            check(&format!("{name}.{extension}"), &shown);
        }
    }
}

const UNFIT: &str = "the same side twice gave 1.19 instead of 1";

/// Results that are no comparison of counts.
fn others() -> Vec<(&'static str, Saved)> {
    let diff = ExitPair { base: exits::base(), change: exits::change(), totals: false };
    let (base, vcpu) = (exits::base(), exits::plain("vCPU 1", true));
    vec![
        ("bisection", searches::bisection().saved()),
        ("ledger", searches::ledger().saved()),
        ("ledger-guests", searches::guests_ledger().saved()),
        ("guests", guests::compared().saved()),
        ("guests-alone", guests::alone().saved()),
        ("native-one", native::one().saved()),
        ("native-many", native::many().saved()),
        ("exits", Saved::from(SavedResult::Exits(vec![exits::base()])).saved()),
        ("exits-two", Saved::from(SavedResult::Exits(vec![base, vcpu])).saved()),
        ("exits-diff", Saved::from(SavedResult::ExitDiff(Box::new(diff))).saved()),
        ("stat-two", stat::two().saved()),
        ("stat-pairs", stat::pairs().saved()),
        ("calibration", Saved::from(estimates::calibrated(true)).saved()),
        ("calibration-alone", Saved::from(estimates::calibrated(false)).saved()),
        ("validation", Saved::from(estimates::validated(None)).saved()),
        ("validation-unfit", Saved::from(estimates::validated(Some(UNFIT))).saved()),
        ("history-one", history::one().saved()),
        ("history-many", history::many().saved()),
    ]
}

#[test]
fn every_result_looks_as_expected_in_every_format() {
    for (name, result) in others() {
        for width in [80, 100] {
            check(&format!("{name}.{width}.txt"), &at(&result, width, false));
        }
        check(&format!("{name}.md"), &show(&result, MARKDOWN));
        check(&format!("{name}.csv"), &show(&result, CSV));
    }
}

/// Every result by the name of its files.
pub fn every() -> impl Iterator<Item = (&'static str, Saved)> {
    let counted = cases::all().iter().map(|(name, it)| (*name, it.saved()));
    counted.chain(others()).chain(timed::all())
}

/// Its page.
pub fn page_of(result: &Saved) -> String {
    show(result, HTML)
}

/// As wide as a page is: nothing is left out.
pub fn shown_wide(result: &Saved, format: Format) -> String {
    render(result, format, TextOptions { width: 200, colour: false, ascii: false }).unwrap()
}

#[test]
fn no_control_character_gets_through() {
    for (name, result) in every() {
        for format in FORMATS {
            let shown = show(&result, *format);
            let bad =
                |c: char| c != '\n' && c.is_control() || ('\u{202a}'..='\u{2069}').contains(&c);
            assert!(!shown.contains(bad), "{name} as {format:?}");
        }
    }
}

#[test]
fn colour_adds_escapes_to_verdicts_and_nothing_else() {
    let comparison = &cases::all()[0].1;
    let coloured = at(comparison, 100, true);
    assert!(coloured.contains("  \x1b[31mslower\x1b[0m\n"));
    assert!(coloured.contains("  \x1b[32mfaster\x1b[0m\n"));
    let plain = |coloured: String| {
        ["31", "32", "33", "0"]
            .iter()
            .fold(coloured, |text, code| text.replace(&format!("\x1b[{code}m"), ""))
    };
    assert_eq!(plain(coloured), text(comparison, 100));
    // Of a verdict that says more, the first word.
    let comparison = &cases::all()[4].1;
    let coloured = at(comparison, 100, true);
    assert!(coloured.contains("  \x1b[31mslower\x1b[0m (REP)\n"));
    assert!(coloured.contains("  \x1b[32mfaster\x1b[0m, REP slower\n"));
    assert_eq!(plain(coloured), text(comparison, 100));
}
