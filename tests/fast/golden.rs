//! Comparisons as they are shown; `BLESS=1 cargo test --test fast golden::` rewrites what is
//! expected.

mod again;
pub mod cases;
mod estimates;
pub mod formats;
mod page;
pub mod paths;
pub mod results;
mod runs;
mod schema;
mod searches;
mod timed;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ktax::model::{Comparison, ExitPair, Saved, SavedResult};
use ktax::report::view::{Cell, Section, Table};
use ktax::report::{
    CSV, FORMATS, Format, HTML, JSON, MAIL, MARKDOWN, Report, TEXT, TextOptions, render,
};
use ktax::text::escape;
use serde_json::Value;

const EXPECTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/expected");

fn text(comparison: &Comparison, width: u16) -> String {
    rendered(comparison, width, false)
}

pub fn rendered(report: &dyn Report, width: u16, colour: bool) -> String {
    render(report, TEXT, TextOptions { width, colour, ascii: false }).unwrap()
}

pub fn show(report: &dyn Report, format: Format) -> String {
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

const UNFIT: &str = "the same side twice gave 1.19 instead of 1";

/// Results that are no comparison of counts.
fn others() -> Vec<(&'static str, Saved)> {
    let diff =
        ExitPair { base: results::exits_base(), change: results::exits_change(), totals: false };
    let (base, vcpu) = (results::exits_base(), results::plain_exits("vCPU 1", true));
    vec![
        ("bisection", searches::bisection().saved()),
        ("ledger", searches::ledger().saved()),
        ("ledger-guests", searches::guests_ledger().saved()),
        ("guests", results::guests_compared().saved()),
        ("guests-alone", results::guests_alone().saved()),
        ("native-one", results::native_one().saved()),
        ("native-many", results::native_many().saved()),
        ("exits", Saved::from(SavedResult::Exits(vec![results::exits_base()])).saved()),
        ("exits-two", Saved::from(SavedResult::Exits(vec![base, vcpu])).saved()),
        ("exits-diff", Saved::from(SavedResult::ExitDiff(Box::new(diff))).saved()),
        ("stat-two", results::stat_two().saved()),
        ("stat-pairs", results::stat_pairs().saved()),
        ("calibration", Saved::from(estimates::calibrated(true)).saved()),
        ("calibration-alone", Saved::from(estimates::calibrated(false)).saved()),
        ("validation", Saved::from(estimates::validated(None)).saved()),
        ("validation-unfit", Saved::from(estimates::validated(Some(UNFIT))).saved()),
        ("history-one", results::history_one().saved()),
        ("history-many", results::history_many().saved()),
    ]
}

/// The golden files: each kind of result in text, and each kind of section in each format. All
/// other pages are tested by their values, below and in the files of this folder.
const GOLDEN: [(&str, &[&str]); 24] = [
    ("changes", &["100.txt", "80.txt", "html", "mail", "md"]),
    ("troubles", &["80.txt"]),
    ("four-layouts", &["80.txt"]),
    ("hostile", &["80.txt"]),
    ("rep", &["80.txt"]),
    ("costly", &["80.txt"]),
    ("machine", &["80.txt"]),
    ("estimated", &["80.txt"]),
    ("small", &["80.txt", "json"]),
    ("cpus", &["100.txt"]),
    ("timed", &["80.txt", "html", "mail"]),
    ("timed-blocks", &["80.txt"]),
    ("timed-bare-metal", &["80.txt"]),
    ("guests", &["80.txt", "md"]),
    ("guests-alone", &["80.txt"]),
    ("exits-two", &["80.txt", "html"]),
    ("exits-diff", &["80.txt"]),
    ("stat-two", &["80.txt"]),
    ("calibration", &["80.txt"]),
    ("validation", &["80.txt"]),
    ("history-one", &["80.txt", "html"]),
    ("ledger", &["80.txt", "html", "md"]),
    ("native-many", &["80.txt"]),
    ("bisection", &["80.txt"]),
];

/// Shows a result as the end of a golden file's name says.
fn shown(result: &Saved, extension: &str) -> String {
    match extension {
        "80.txt" => rendered(result, 80, false),
        "100.txt" => rendered(result, 100, false),
        "md" => show(result, MARKDOWN),
        "mail" => show(result, MAIL),
        "json" => show(result, JSON),
        "html" => page::readable(&show(result, HTML)),
        other => panic!("{other}"),
    }
}

#[test]
fn every_kind_of_result_looks_as_expected() {
    let results: BTreeMap<&str, Saved> = every().collect();
    for (name, extensions) in GOLDEN {
        for extension in extensions {
            check(&format!("{name}.{extension}"), &shown(&results[name], extension));
        }
    }
}

/// A spreadsheet's columns are a promise; the values are those of the other formats.
#[test]
fn every_table_for_a_spreadsheet_has_the_columns_and_first_lines_as_expected() {
    let mut tables = String::new();
    for (name, result) in every() {
        let csv = show(&result, CSV);
        tables += &format!("# {name}: {} lines\n", csv.lines().count());
        csv.lines().take(3).for_each(|line| tables += &format!("{line}\n"));
    }
    check("tables.csv", &tables);
}

/// Adds the paths of a value's fields, each with its type. Elements of a list share a path, as do
/// both sides, and entries whose keys are no words of ktax.
fn add_fields(value: &Value, path: &str, fields: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let is_word = key.starts_with(|c: char| c.is_ascii_lowercase())
                    && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
                let key = match key.as_str() {
                    "base" | "change" => "SIDE",
                    word if is_word => word,
                    _ => "KEY",
                };
                add_fields(value, &format!("{path}.{key}"), fields);
            }
        }
        Value::Array(values) => {
            values.iter().for_each(|value| add_fields(value, &format!("{path}[]"), fields));
        }
        Value::Null => drop(fields.insert(format!("{path}: null"))),
        Value::Bool(_) => drop(fields.insert(format!("{path}: bool"))),
        Value::Number(_) => drop(fields.insert(format!("{path}: number"))),
        Value::String(_) => drop(fields.insert(format!("{path}: string"))),
    }
}

/// The tables of these sections and of all below them.
fn tables(sections: Vec<Section>) -> Vec<Table> {
    let tables_of = |section| match section {
        Section::Table { table, .. } => vec![table],
        Section::Folded { sections, .. } => tables(sections),
        _ => Vec::new(),
    };
    sections.into_iter().flat_map(tables_of).collect()
}

/// The letters and digits of a text, without what a format puts between them.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric() || "+-−.%<>".contains(*c)).collect()
}

/// The text of a page, without elements.
fn text_of_page(page: &str) -> String {
    let mut text: String =
        page.split('<').filter_map(|part| part.split_once('>')).map(|(_, text)| text).collect();
    for (from, to) in [("&lt;", "<"), ("&gt;", ">"), ("&quot;", ""), ("&amp;", "&")] {
        text = text.replace(from, to);
    }
    text
}

#[test]
fn every_line_of_every_table_is_on_the_page_and_in_the_document() {
    let line_letters = |table: &Table| -> Vec<String> {
        let cell = |cell: &Cell| letters(&escape(&cell.text));
        table.lines.iter().map(|line| line.cells.iter().map(cell).collect()).collect()
    };
    let mut lines = 0;
    for (name, result) in every() {
        let page = letters(&text_of_page(&page::readable(&show(&result, HTML))));
        let document = show(&result, MARKDOWN).replace("&lt;", "<").replace("&gt;", ">");
        let document = letters(&document);
        let sections = result.view().sections;
        for line in sections.iter().filter_map(Section::as_table).flat_map(line_letters) {
            assert!(document.contains(&line), "{name}: {line}\n{document}");
        }
        let details = result.details().rows.into_iter().flat_map(|row| row.sections);
        let sections = sections.into_iter().chain(details).collect();
        for line in tables(sections).iter().flat_map(line_letters) {
            assert!(page.contains(&line), "{name}: {line}\n{page}");
            lines += 1;
        }
    }
    assert!(lines > 200, "{lines}");
}

/// Scripts read JSON by the names of its fields. That the values are those of the result is tested
/// by reading them back, in `again`.
#[test]
fn every_field_of_the_json_is_as_expected() {
    let mut fields = BTreeSet::new();
    for (_, result) in every() {
        let json: Value = serde_json::from_str(&show(&result, JSON)).unwrap();
        add_fields(&json, "", &mut fields);
    }
    check("fields.txt", &fields.into_iter().map(|field| field + "\n").collect::<String>());
}

/// Every result by the name of its files.
pub fn every() -> impl Iterator<Item = (&'static str, Saved)> {
    let counted = cases::all().iter().map(|(name, comparison)| (*name, comparison.saved()));
    counted.chain(others()).chain(timed::all())
}

/// The page of a result.
pub fn page_of(result: &Saved) -> String {
    show(result, HTML)
}

/// Text with the width of a page, in which nothing is left out.
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
fn names_from_anywhere_are_text_in_markdown() {
    let document = show(&cases::all()[3].1, MARKDOWN);
    let name = r"\u{1b}\]0;owned\u{7}\u{202e}\|\`&lt;img src=x&gt;\`\r\n\| a \*b\* \[c\](";
    let name = name.replace(r"\u", r"\\u").replace(r"\r\n", r"\\r\\n");
    assert!(document.contains(&format!("### {name}")), "{document}");
    assert!(document.contains(r"=cmd\|' /C calc'\!A0") && !document.contains("<script"));
}

#[test]
fn colour_adds_escapes_to_verdicts_and_nothing_else() {
    let comparison = &cases::all()[0].1;
    let coloured = rendered(comparison, 100, true);
    assert!(coloured.contains("  \x1b[31mslower\x1b[0m\n"));
    assert!(coloured.contains("  \x1b[32mfaster\x1b[0m\n"));
    let plain = |coloured: String| {
        ["31", "32", "33", "0"]
            .iter()
            .fold(coloured, |text, code| text.replace(&format!("\x1b[{code}m"), ""))
    };
    assert_eq!(plain(coloured), text(comparison, 100));
    // Only the first word of a verdict has a colour.
    let comparison = &cases::all()[4].1;
    let coloured = rendered(comparison, 100, true);
    assert!(coloured.contains("  \x1b[31mslower\x1b[0m (REP)\n"));
    assert!(coloured.contains("  \x1b[32mfaster\x1b[0m, REP slower\n"));
    assert_eq!(plain(coloured), text(comparison, 100));
    let timed = &timed::all()[0].1;
    let coloured = rendered(timed, 80, true);
    assert!(coloured.contains("  \x1b[33mfailed\x1b[0m\n"));
    assert_eq!(plain(coloured), rendered(timed, 80, false));
}
