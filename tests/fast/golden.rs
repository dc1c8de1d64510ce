//! Comparisons as they are shown; `BLESS=1 cargo test --test fast golden::` rewrites what is
//! expected.

mod cases;
mod exits;
mod fixtures;
mod guests;
mod native;
mod runs;
mod searches;
mod stat;
mod timed;

use std::path::Path;

use ktax::model::{Comparison, FORMAT, Sides};
use ktax::report::{
    CSV, FORMATS, Format, JSON, MARKDOWN, Report, Saved, TEXT, TextOptions, parse, render,
    render_all,
};

const EXPECTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/expected");

fn text(comparison: &Comparison, width: u16) -> String {
    at(comparison, width, false)
}

fn at(report: &dyn Report, width: u16, colour: bool) -> String {
    render(report, TEXT, TextOptions { width, colour }).unwrap()
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

/// Results that are no comparison of counts.
fn others() -> Vec<(&'static str, Saved)> {
    let of = |comparison| Saved::Comparison(Box::new(comparison));
    let diff = Sides { base: exits::base(), change: exits::change() };
    vec![
        ("bisection", Saved::Bisection(Box::new(searches::bisection()))),
        ("ledger", Saved::Ledger(Box::new(searches::ledger()))),
        ("guests", of(guests::compared())),
        ("guests-alone", of(guests::alone())),
        ("native-one", Saved::Native(Box::new(native::one()))),
        ("native-many", Saved::Native(Box::new(native::many()))),
        ("exits", Saved::Exits(vec![exits::base()])),
        ("exits-two", Saved::Exits(vec![exits::base(), exits::plain("vCPU 1", true)])),
        ("exits-diff", Saved::ExitDiff(Box::new(diff))),
        ("stat-two", Saved::Stat(Box::new(stat::two()))),
        ("stat-pairs", Saved::Stat(Box::new(stat::pairs()))),
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

/// What may be wider: a command to be copied, and a table of names that stay whole.
fn may_be_wide(line: &str) -> bool {
    line.starts_with("  --base git:") || line.starts_with("EXTERNAL_INTERRUPT")
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let counted = cases::all().iter().map(|(name, it)| (*name, of_counts(it)));
    for (name, result) in counted.chain(others()).chain(timed::all()) {
        for width in [60, 72, 80, 100, 120, 160, 200] {
            for line in at(&result, width, false).lines() {
                let is_narrow = line.chars().count() <= usize::from(width);
                assert!(is_narrow || may_be_wide(line), "{name} at {width}: {line}");
                assert_eq!(line.trim_end(), line, "{name} at {width}: blanks at the end");
            }
        }
    }
}

fn of_counts(comparison: &Comparison) -> Saved {
    Saved::Comparison(Box::new(comparison.clone()))
}

#[test]
fn every_result_can_be_printed_again() {
    let counted = cases::all().iter().map(|(name, it)| (*name, of_counts(it)));
    for (name, result) in counted.chain(others()).chain(timed::all()) {
        let read = parse(&show(&result, JSON)).unwrap();
        assert_eq!(read.len(), 1, "{name}");
        for format in FORMATS {
            assert_eq!(show(&read[0], *format), show(&result, *format), "{name} as {format:?}");
        }
    }
    let all = [&of_counts(&cases::changes()) as &dyn Report, &guests::alone()];
    let sweep = render_all(&all, JSON, TextOptions::default()).unwrap();
    assert_eq!(parse(&sweep).unwrap().len(), 2);
}

#[test]
fn what_is_no_result_is_refused_with_the_reason() {
    let old =
        show(&native::one(), JSON).replacen(&format!("\"format\": {FORMAT}"), "\"format\": 1", 1);
    let cut = show(&native::one(), JSON).replacen("\"cpus\": 2,", "", 1);
    for (text, reason) in [
        ("", "it is not a result of ktax"),
        ("[]", "it is not a result of ktax"),
        ("{\"a\": 1}", "it is not a result of ktax"),
        (format!("[{{\"format\": {FORMAT}}}]").as_str(), "neither"),
        (old.as_str(), format!("it has format 1, and this ktax reads format {FORMAT}").as_str()),
        (cut.as_str(), "it is damaged (missing field `cpus`"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn no_control_character_gets_through() {
    let counted = cases::all().iter().map(|(name, it)| (*name, of_counts(it)));
    for (name, result) in counted.chain(others()).chain(timed::all()) {
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
