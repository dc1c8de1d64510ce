//! Terminals of every width, and those that show nothing but ASCII.

use std::fs;

use ktax::model::{Saved, SavedResult};
use ktax::report::view::{Legend, Records, Report, Section, View};
use ktax::report::{JSON, MARKDOWN, TEXT, TextOptions, render};

use super::{cases, every, show};
use crate::common::{ktax, run, scratch};

const WIDTHS: [u16; 8] = [60, 72, 80, 100, 120, 140, 160, 200];

/// What may be wider: a command to be copied, and a table of names that stay whole.
fn may_be_wide(line: &str) -> bool {
    line.starts_with("  --base git:") || line.starts_with("EXTERNAL_INTERRUPT")
}

fn at(report: &dyn Report, width: u16, ascii: bool) -> String {
    render(report, TEXT, TextOptions { width, colour: false, ascii }).unwrap()
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for (name, result) in every() {
        for (width, ascii) in WIDTHS.iter().flat_map(|width| [(*width, false), (*width, true)]) {
            let text = at(&result, width, ascii);
            // A header may be as wide as the names below it.
            let has_wide = text.lines().any(may_be_wide);
            for line in text.lines() {
                let is_narrow = line.chars().count() <= usize::from(width);
                let is_rule = has_wide && line.chars().all(|c| c == '─' || c == '-');
                assert!(is_narrow || is_rule || may_be_wide(line), "{name} at {width}: {line}");
                assert_eq!(line.trim_end(), line, "{name} at {width}: blanks at the end");
            }
        }
    }
}

#[test]
fn a_terminal_of_ascii_gets_nothing_else() {
    for (name, result) in every() {
        for width in WIDTHS {
            let text = at(&result, width, true);
            let other = text.chars().find(|c| !c.is_ascii());
            assert_eq!(other, None, "{name} at {width}: {text}");
        }
    }
}

/// A dot becomes a bar, which is no new cell of a table.
#[test]
fn markdown_in_ascii_has_the_same_cells() {
    let document = |result: &dyn Report, ascii| {
        let options = TextOptions { ascii, ..TextOptions::default() };
        render(result, MARKDOWN, options).unwrap()
    };
    let cells = |text: &str| -> Vec<usize> {
        text.lines().map(|line| line.replace("\\|", "").matches('|').count()).collect()
    };
    for (name, result) in every() {
        let [plain, full] = [true, false].map(|ascii| document(&result, ascii));
        assert!(plain.is_ascii(), "{name}: {plain}");
        assert_eq!(cells(&plain), cells(&full), "{name}: {plain}");
    }
}

/// As a user's locale says it; a file that is read again is the same in each.
#[test]
fn the_locale_says_what_a_terminal_shows() {
    let dir = scratch();
    let path = dir.path().join("changes.json");
    fs::write(&path, show(&cases::changes(), JSON)).unwrap();
    let report = |locale: &str, format: &str| {
        let mut command = ktax();
        command.env("LC_ALL", locale).arg("report").arg(&path).args(["--format", format]);
        run(&mut command)
    };
    for locale in ["C", "POSIX", "de_DE.ISO-8859-1"] {
        for format in ["text", "markdown", "mail"] {
            let text = report(locale, format).stdout;
            assert!(!text.is_empty() && text.is_ascii(), "{format} in {locale}: {text}");
        }
    }
    for locale in ["C.UTF-8", ""] {
        let text = report(locale, "text").stdout;
        assert!(text.contains('…') && text.contains('─'), "{locale}: {text}");
        assert!(report(locale, "markdown").stdout.contains('…'), "{locale}");
    }
    for format in ["json", "csv", "mail"] {
        let [plain, all] = ["C", "C.UTF-8"].map(|locale| report(locale, format).stdout);
        assert_eq!(plain, all, "{format}");
    }
    let wrong = run(ktax().env("LC_ALL", "C").args(["report", "/…/é"]));
    assert!(wrong.stderr.is_ascii() && wrong.stderr.contains("/../\\u{e9}"), "{}", wrong.stderr);
}

/// The tables of a page alone.
struct Tables(View);

impl Report for Tables {
    fn view(&self) -> View {
        self.0.clone()
    }

    fn records(&self) -> Records {
        Records::default()
    }

    fn result(&self) -> SavedResult {
        SavedResult::Exits(Vec::new())
    }

    fn saved(&self) -> Saved {
        self.result().into()
    }
}

#[test]
fn no_column_vanishes_unsaid_and_none_is_left_out_where_there_is_room() {
    let mut narrow = 0;
    for (name, result) in every() {
        for section in result.view().sections {
            let Some(table) = section.as_table().cloned() else { continue };
            let section = Section::table(table.clone());
            let page =
                View { sections: vec![section], legend: Legend::default(), ..View::default() };
            for width in WIDTHS {
                let text = at(&Tables(page.clone()), width, false);
                narrow += usize::from(text.contains("Omitted to fit"));
                let is_there =
                    |word: &str| text.split([' ', ',', ';', '\n']).any(|shown| shown == word);
                for (at, column) in table.columns.iter().enumerate() {
                    let gone = column.head.split([' ', ',', '\n']).find(|word| !is_there(word));
                    let may_go = table.is_extra(at) && (width < 160 || name == "hostile");
                    assert!(gone.is_none() || may_go, "{name} at {width}: {}\n{text}", column.head);
                }
                let is_hostile = name == "hostile";
                assert!(width < 120 || is_hostile || !text.contains("Omitted"), "{name}: {text}");
            }
        }
    }
    assert!(narrow > 0);
}

#[test]
fn what_is_left_out_is_not_explained() {
    let changes = cases::changes();
    for (width, is_there) in [(60, false), (100, true)] {
        let text = at(&changes, width, false);
        let explained = |head: &str| text.lines().any(|line| line.starts_with(head));
        assert_eq!(text.contains("Omitted to fit 60 columns"), !is_there, "{text}");
        assert_eq!([explained("range %  "), explained("MDE %  ")], [is_there; 2], "{text}");
        assert!(explained("delta %  ") && explained("verdict  "), "{text}");
    }
}

/// Parameters stand below one another before a column is left out.
#[test]
fn a_long_name_takes_no_column_away() {
    let mut changes = cases::changes();
    changes.rows[1].row = "messaging:fds=4,channel=socket,workers=process,ops=20000".into();
    let at = |width| at(&changes, width, false);
    assert!(at(160).contains("messaging:fds=4,channel=socket,workers=process,ops=20000 "));
    let usual = at(80);
    let lines =
        ["messaging: ", "  fds=4,channel=socket,\n", "  workers=process,\n", "  ops=20000\n"];
    assert!(lines.iter().all(|line| usual.contains(line)) && usual.contains("MDE"), "{usual}");
}

/// What one would otherwise look for below the table.
#[test]
fn a_wide_page_says_which_function_carries_most() {
    let changes = cases::changes();
    let [wide, usual] = [160, 100].map(|width| at(&changes, width, false));
    assert!(wide.contains("security_task_alloc 35 %"), "{wide}");
    assert!(!usual.contains("security_task_alloc 35 %"), "{usual}");
}

/// No table of a run is without a unit where it has numbers.
#[test]
fn units_stand_in_each_table() {
    const UNITS: [&str; 10] =
        ["insn", "REP", "µs", "ns", "%", "%)", "MiB/s", "/s", "µs/s", "cycles"];
    const COUNTS: [&str; 14] = [
        "rows",
        "pairs",
        "count",
        "exits",
        "samples",
        "base",
        "change",
        "mean",
        "min",
        "kernels",
        "steps",
        "CPUs",
        "lines",
        "transfers",
    ];
    for (name, result) in every() {
        for section in result.view().sections {
            let Section::Table { title, table, .. } = section else { continue };
            if title.split(' ').any(|word| UNITS.contains(&word)) {
                continue;
            }
            for column in &table.columns {
                if column.kind != ktax::report::view::Kind::Number {
                    continue;
                }
                let has_unit = column.head.split([' ', '\n']).any(|word| UNITS.contains(&word));
                // What is counted is its own unit; counters and quantities name theirs in the row.
                let in_row =
                    table.columns.iter().any(|column| ["counter", "unit"].contains(&&*column.head));
                let is_count = COUNTS.iter().any(|count| column.head.contains(count));
                assert!(has_unit || in_row || is_count, "{name}: {:?}", column.head);
            }
        }
    }
}

/// Whoever reads a symbol searches for it.
#[test]
fn a_symbol_is_on_one_line_at_any_width() {
    let changes = cases::changes();
    let mut narrow = 0;
    for width in 40..=100 {
        let text = at(&changes, width, false);
        let of = |row: &ktax::model::Row| row.deciding().unwrap().functions.clone();
        for function in changes.rows.iter().flat_map(|row| of(row).into_iter().take(5)) {
            let symbol = format!("  {}", function.function);
            let is_whole = |line: &str| {
                line.find(&symbol).is_some_and(|at| {
                    let rest = &line[at + symbol.len()..];
                    rest.is_empty() || rest.starts_with(' ')
                })
            };
            assert!(text.lines().any(is_whole), "{} at {width}\n{text}", function.function);
        }
        narrow += usize::from(text.contains("columns: base → change"));
    }
    assert!(narrow > 0);
}
