//! How results look: on terminals of every width, as mail, as published tables; and the answer,
//! which stands first.

use std::fs;
use std::process::Command;

use ktax::analyse::counts;
use ktax::model::{
    AWAITED, Comparison, CountsEvidence, Evidence, Failure, GuestsEvidence, SavedResult, Side,
    Signature, Verdict,
};
use ktax::report::view::{Legend, Records, Section, View};
use ktax::report::{
    FORMATS, JSON, MAIL, MARKDOWN, Report, Shape, TEXT, TextOptions, render, versions,
};

use super::cases::{Line, Made, Measure, run_dir};
use super::{cases, check, every, results, searches, show, text, timed};
use crate::common::{assert_has, ktax, run, scratch, scratch_path};

// Terminals of every width, and those that show nothing but ASCII.

const WIDTHS: [u16; 8] = [60, 72, 80, 100, 120, 140, 160, 200];

/// Whether a line may be wider: a command to be copied, or a table of names that stay whole.
fn may_be_wide(line: &str) -> bool {
    line.starts_with("  --base git:") || line.starts_with("EXTERNAL_INTERRUPT")
}

fn rendered(report: &dyn Report, width: u16, ascii: bool) -> String {
    render(report, TEXT, TextOptions { width, colour: false, ascii }).unwrap()
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for (name, result) in every() {
        for (width, ascii) in WIDTHS.iter().flat_map(|width| [(*width, false), (*width, true)]) {
            let text = rendered(&result, width, ascii);
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
fn an_ascii_terminal_gets_only_ascii() {
    for (name, result) in every() {
        for width in WIDTHS {
            let text = rendered(&result, width, true);
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

/// The locale decides between ASCII and UTF-8; files that are read again are the same in each.
#[test]
fn the_locale_decides_the_character_set() {
    let (_dir, path) = scratch_path("changes.json");
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
        let [plain, utf8] = ["C", "C.UTF-8"].map(|locale| report(locale, format).stdout);
        assert_eq!(plain, utf8, "{format}");
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
}

#[test]
fn omitted_columns_are_named_and_none_is_omitted_with_enough_room() {
    let mut narrow = 0;
    for (name, result) in every() {
        for section in result.view().sections {
            let Some(table) = section.as_table().cloned() else { continue };
            let section = Section::table(table.clone());
            let page =
                View { sections: vec![section], legend: Legend::default(), ..View::default() };
            for width in WIDTHS {
                let text = rendered(&Tables(page.clone()), width, false);
                narrow += usize::from(text.contains("Omitted to fit"));
                let is_there =
                    |word: &str| text.split([' ', ',', ';', '\n']).any(|shown| shown == word);
                for (index, column) in table.columns.iter().enumerate() {
                    let gone = column.head.split([' ', ',', '\n']).find(|word| !is_there(word));
                    let may_be_absent = table.wide_only_columns.contains(&index)
                        && (width < 160 || name == "hostile");
                    assert!(
                        gone.is_none() || may_be_absent,
                        "{name} at {width}: {}\n{text}",
                        column.head
                    );
                }
                let is_hostile = name == "hostile";
                assert!(width < 120 || is_hostile || !text.contains("Omitted"), "{name}: {text}");
            }
        }
    }
    assert!(narrow > 0);
}

#[test]
fn omitted_columns_have_no_legend() {
    let changes = cases::changes();
    for (width, is_there) in [(60, false), (100, true)] {
        let text = rendered(&changes, width, false);
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
    let wide_as = |width| rendered(&changes, width, false);
    assert!(wide_as(160).contains("messaging:fds=4,channel=socket,workers=process,ops=20000 "));
    let usual = wide_as(80);
    let lines =
        ["messaging: ", "  fds=4,channel=socket,\n", "  workers=process,\n", "  ops=20000\n"];
    assert!(lines.iter().all(|line| usual.contains(line)) && usual.contains("MDE"), "{usual}");
}

/// What one would otherwise look for below the table.
#[test]
fn a_wide_page_says_which_function_carries_most() {
    let changes = cases::changes();
    let [wide, usual] = [160, 100].map(|width| rendered(&changes, width, false));
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
                if column.kind != ktax::report::view::ColumnKind::Number {
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

/// Users search for symbols, so each is on one line.
#[test]
fn a_symbol_is_on_one_line_at_any_width() {
    let changes = cases::changes();
    let mut narrow = 0;
    for width in 40..=100 {
        let text = rendered(&changes, width, false);
        let functions_of =
            |row: &ktax::model::Row| row.deciding_effect().unwrap().functions.clone();
        for function in changes.rows.iter().flat_map(|row| functions_of(row).into_iter().take(5)) {
            let symbol = format!("  {}", function.function);
            let is_whole = |line: &str| {
                line.find(&symbol).is_some_and(|start| {
                    let rest = &line[start + symbol.len()..];
                    rest.is_empty() || rest.starts_with(' ')
                })
            };
            assert!(text.lines().any(is_whole), "{} at {width}\n{text}", function.function);
        }
        narrow += usize::from(text.contains("columns: base → change"));
    }
    assert!(narrow > 0);
}

// The answer stands first, in every format that people read and in JSON.

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
        let text = rendered(&result, 100, false);
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
    let headline = |comparison: &Comparison| comparison.saved().headline;
    let named = |wanted: &str| {
        let found = cases::all().iter().find(|(name, _)| *name == wanted);
        headline(&found.unwrap().1)
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
    assert!(results::guests_alone().saved().headline.contains("92.7 % of bare metal's speed"));
    let mut comparison = cases::changes();
    comparison.rows.truncate(2);
    comparison.rows.remove(0);
    assert_eq!(headline(&comparison), "stat: slower (+1.77 %)");
    comparison.rows.clear();
    assert_eq!(headline(&comparison), "");
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
    let page = rendered(&mixed.saved(), 100, false);
    let (_, functions) = page.split_once("Functions that carry most").unwrap();
    let lines: Vec<&str> = functions.split("mean %:").next().unwrap().lines().collect();
    let last_of_instructions = lines.iter().rposition(|line| line.contains(" stat")).unwrap();
    let first_of_rep = lines.iter().position(|line| line.contains("(REP)")).unwrap();
    assert!(last_of_instructions < first_of_rep, "{page}");
}

#[test]
fn a_table_without_numbers_has_no_explanations_below() {
    let mut counts = cases::changes();
    let mut of_guests = results::guests_compared();
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

/// Four of 100 000 instructions are 0.00 %, in either row.
#[test]
fn functions_with_0_percent_are_not_among_the_largest() {
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
    let page = rendered(&cases::made("Dust", 5, &rows).saved(), 100, false);
    let (_, functions) = page.split_once("Functions that carry most").unwrap();
    let functions = functions.split("mean %:").next().unwrap();
    let is_there = |name: &&str| functions.contains(name);
    let named = ["schedule", "pipe_read", "pipe_write"].into_iter().filter(is_there);
    assert_eq!(named.collect::<Vec<_>>(), ["schedule", "pipe_read"], "{functions}");
}

// Published tables: they have no place for every row, and say so.

const OMITTED: &str = "Omitted, because these tables have no line for them: ";
const NEXT: &str = ". To print all rows, run `ktax report` without --columns.";

/// Rows that a table of this shape names as omitted.
fn omitted(shape: Shape, comparison: &Comparison) -> Option<String> {
    let text = shape.render(comparison, TextOptions::default());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.matches(OMITTED).count() <= 1, "{text}");
    let (_, omitted_rows) = text.split_once(OMITTED)?;
    Some(omitted_rows.strip_suffix(NEXT).unwrap_or_else(|| panic!("{omitted_rows}")).to_owned())
}

#[test]
fn a_published_table_says_which_rows_it_has_no_place_for() {
    let mut changes = cases::changes();
    let lacks = "fork-pages:pages=16, context-switch:pages=4,procs=2";
    assert_eq!(omitted(Shape::Lmbench, &changes).as_deref(), Some(lacks));
    assert_eq!(omitted(Shape::Counters, &changes), None);
    // A mean of two rows of which one is missing.
    changes.rows[0].row = "read-1".into();
    let lacks = format!("read-1, {lacks}");
    assert_eq!(omitted(Shape::Lmbench, &changes), Some(lacks));
    changes.rows[4].row = "write-1".into();
    assert_eq!(omitted(Shape::Lmbench, &changes).as_deref(), Some("fork-pages:pages=16"));
}

#[test]
fn counters_that_a_model_has_are_called_the_models() {
    let comparison_of =
        |name: &str| &cases::all().iter().find(|(known, _)| *known == name).unwrap().1;
    let lines = |name: &str| -> Vec<String> {
        let text = Shape::Counters.render(comparison_of(name), TextOptions::default());
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines().map(words).collect()
    };
    let modelled = lines("machine");
    // 400 operations.
    for line in [
        "800 800 0% cache references (model core2-extreme)",
        "0 0 0% cache misses (model core2-extreme)",
        "24 000 24 000 0% branches (model core2-extreme)",
        "0 800 branch misses (model core2-extreme)",
    ] {
        assert!(modelled.iter().any(|found| found == line), "{line}: {modelled:#?}");
    }
    assert!(lines("costly").iter().all(|line| !line.contains("branch")));
}

#[test]
fn a_table_by_pages_has_the_families_that_have_a_row_without() {
    let mut changes = cases::changes();
    for (index, pages) in [(0, 0), (2, 16), (3, 8)] {
        changes.rows[index].row = format!("fork-pages:pages={pages}");
        changes.rows[index].params.insert("pages".into(), pages);
    }
    let lacks = "stat, context-switch:pages=4,procs=2";
    assert_eq!(omitted(Shape::Pages, &changes).as_deref(), Some(lacks));
    changes.rows[0].row = "other:pages=0".into();
    let lacks = "stat, fork-pages:pages=16, fork-pages:pages=8, context-switch:pages=4,procs=2";
    assert_eq!(omitted(Shape::Pages, &changes).as_deref(), Some(lacks));
}

// Output of `ktax report --versions`.

fn versions_of(comparison: &Comparison) -> String {
    versions(&comparison.result(), TextOptions::default()).unwrap()
}

#[test]
fn the_guest_qemu_and_every_kernel_are_named() {
    let both = [&cases::all()[0].1, &results::guests_compared()].map(versions_of);
    check("versions.txt", &both.concat());
}

#[test]
fn runs_with_the_same_versions_have_them_once() {
    let dir = scratch();
    let file = |name: &str, result: Comparison| {
        let path = dir.path().join(name);
        fs::write(&path, show(&result, JSON)).unwrap();
        path
    };
    let (first, other) = (cases::all()[0].1.clone(), results::guests_compared());
    let texts = [&first, &other].map(versions_of).concat();
    let paths = [file("a", first.clone()), file("b", other), file("c", first)];
    let ran = run(ktax().args(["report", "--versions"]).args(paths));
    assert_eq!(ran.stdout, texts, "{}", ran.stderr);
}

#[test]
fn times_and_ledgers_have_no_versions() {
    for result in [searches::ledger().result(), timed::all()[0].1.result()] {
        assert_eq!(versions(&result, TextOptions::default()), None);
    }
}

// Kernel threads that a row waits for decide; those in the background do not.

type Measured = Result<(Vec<Line>, Signature), Failure>;

fn lines(side: Side, context: &'static str) -> Measured {
    let base = [("process", "ksys_fsync", 300, 0), (context, "jbd2_commit", 27_000, 0)];
    let more = (context, "crc32_body", 5_400, 0);
    let change = (side == Side::Change).then_some(more);
    Ok((base.into_iter().chain(change).collect(), Signature::new()))
}

fn fsync(side: Side, _: usize) -> Measured {
    lines(side, "awaited")
}

fn tick(side: Side, _: usize) -> Measured {
    lines(side, "kthread")
}

/// Two rows of which the process executes the same, and a kernel thread more.
fn comparison() -> Comparison {
    let rows: [Made; 2] = [("fsync", "one fsync", fsync), ("tick", "one second", tick)];
    let root = tempfile::tempdir().unwrap();
    counts(&run_dir(&root.path().join("run"), "Checksums in the journal", 5, &rows)).unwrap()
}

#[test]
fn a_row_is_slower_by_the_kernel_threads_that_it_waits_for() {
    let comparison = comparison();
    let [fsync, tick] = &comparison.rows[..] else { panic!("{comparison:?}") };
    let decided_by = &fsync.counts().unwrap().decided_by;
    assert_eq!((fsync.verdict, decided_by.as_str()), (Verdict::Slower, AWAITED));
    let carried = &fsync.deciding_effect().unwrap().functions[0];
    assert_eq!((carried.function.as_str(), carried.delta), ("crc32_body", 5_400.0));
    // Background work is no part of the row.
    assert_eq!(tick.verdict, Verdict::NoDetectedChange);
    assert!(tick.effect(AWAITED).is_none(), "{tick:?}");
    let page = text(&comparison, 100);
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for shown in [
        "fsync 300.01 300.01 0 0 0 0.10 crc32_body 100 % slower (kernel threads)",
        "tick 300.01 300.01 0 0 0 0.10 no detected change",
        "fsync 27 000.00 32 400.00 +20.00 +20.0 slower",
        "in percent of the row's base (no verdict rests on them)",
        "tick kthread 27 000.00 → 32 400.00 +5 400.00 +1 800 more",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
}

// Text for the mail of a patch, and one row with everything that is known about it.

#[test]
fn a_mail_is_ascii_in_lines_that_no_mailer_breaks() {
    for (name, result) in every() {
        let mail = show(&result, MAIL);
        assert!(mail.is_ascii(), "{name}: {mail}");
        assert!(mail.contains(concat!("ktax ", env!("CARGO_PKG_VERSION"))), "{name}: {mail}");
        for line in mail.lines() {
            let text = line.trim_end_matches(" \\");
            let is_word = ["    '", "    $'"].iter().any(|quote| text.starts_with(quote));
            let is_one_word = text.split_whitespace().count() == 1 || is_word;
            let is_name = line.starts_with("EXTERNAL_INTERRUPT") || line.contains("--base git:");
            assert!(line.len() <= 72 || is_one_word || is_name, "{name}: {line}");
        }
    }
}

/// The words of the last paragraph, as a shell takes them.
fn command(mail: &str) -> Vec<String> {
    let (_, command) =
        mail.split_once("To measure it again:\n").unwrap_or_else(|| panic!("{mail}"));
    let ran = run(Command::new("bash").args(["-c", &format!("printf '%s\\0' {command}")])).exits(0);
    ran.stdout.split_terminator('\0').map(str::to_owned).collect()
}

#[test]
fn the_command_of_a_mail_is_one_and_names_what_was_compared() {
    let words = command(&show(&cases::changes(), MAIL));
    let package = "debian:linux-image-6.1.0-56-cloud-amd64=6.1.187-1";
    assert_eq!(words[..4], ["ktax", "compare", "--kernel", package]);
    let value = |name: &str| &words[words.iter().position(|word| word == name).unwrap() + 1];
    assert_eq!(value("--base-boot-line"), "lsm=capability");
    assert!(words.windows(2).any(|two| two == ["-w", "fork-pages:pages=16"]), "{words:?}");
    assert!(!words.iter().any(|word| word == "--layouts"), "what is usual is not said: {words:?}");
    // Only an experiment file can ask for guests; what has no base is typed again as it was.
    let without =
        ["guests", "guests-alone", "native-one", "native-many", "exits", "exits-two", "exits-diff"];
    let without = [&without[..], &["stat-two", "stat-pairs", "history-one", "history-many"]];
    let estimated = ["calibration", "calibration-alone", "validation", "validation-unfit"];
    let without = [&without.concat()[..], &estimated].concat();
    for (name, result) in every() {
        let mail = show(&result, MAIL);
        let has_command = mail.contains("To measure it again:");
        assert_eq!(has_command, !without.contains(&name), "{name}: {mail}");
        if has_command {
            run(ktax().args(&command(&mail)[1..]).arg("--help")).exits(0);
        }
    }
}

/// Ledgers and searches have commands other than `ktax compare`.
#[test]
fn the_mail_of_a_ledger_and_of_a_search_has_a_command() {
    let of_ledger = command(&show(&searches::ledger(), MAIL));
    assert_eq!(of_ledger, ["ktax", "ledger", "hardening", "-w", "@lmbench", "--layouts", "5"]);
    let of_search = command(&show(&searches::bisection(), MAIL));
    assert_eq!(of_search[..3], ["ktax", "bisect", "start"]);
    // A search compares its ends first, with these options.
    let ends = command(&show(&cases::changes(), MAIL));
    let again = ktax::plan::search_command(&cases::changes());
    assert_eq!((&again[..3], &again[3..]), (&of_search[..3], &ends[2..]));
}

#[test]
fn a_row_is_explained_with_all_its_functions_and_a_mistyped_one_is_guessed() {
    let (dir, path) = scratch_path("changes.json");
    fs::write(&path, super::show(&cases::changes(), ktax::report::JSON)).unwrap();
    let explain = |row: &str| run(ktax().arg("report").arg(&path).args(["--explain", row]));
    let output = explain("fork-pages:pages=16").exits(0);
    let functions = cases::changes().rows[2].deciding_effect().unwrap().functions.clone();
    assert!(functions.len() > 5, "{functions:?}");
    for function in functions {
        output.prints(&function.function);
    }
    assert!(!output.stdout.contains("more functions") && !output.stdout.contains("getppid"));
    output.prints("fork-pages:pages=16: slower (+1.22 %)");
    assert_eq!(explain("getppid").status, 0);
    for (case, line) in [
        ("costly", "cr3-write  entry_SYSCALL_64 0 → 1.00, syscall_return_via_sysret 0 → 1.00"),
        ("machine", "model-branch-misses  entry_SYSCALL_64 0 → 2.00"),
    ] {
        let (_, comparison) = cases::all().iter().find(|(name, _)| *name == case).unwrap();
        fs::write(&path, super::show(comparison, ktax::report::JSON)).unwrap();
        assert_has(explain("stat").stdout, line);
    }
    fs::write(&path, super::show(&cases::changes(), ktax::report::JSON)).unwrap();
    let wrong = explain("fork-page").exits(2);
    let message = "ktax: there is no row \"fork-page\" (did you mean \"fork-pages:pages=16\"?)";
    assert!(wrong.stderr.starts_with(message), "{}", wrong.stderr);
    // A result without rows has the same message.
    let saved = serde_json::to_string(&super::results::stat_two().saved()).unwrap();
    fs::write(&path, saved).unwrap();
    assert_eq!(explain("pipe").status, 2);
    let ledger = dir.path().join("ledger.json");
    fs::write(&ledger, show(&searches::ledger(), JSON)).unwrap();
    let ran = run(ktax().arg("report").arg(&ledger).args(["--explain", "getppid"]));
    assert!(ran.status == 2 && ran.stderr.contains("one of its runs: DIR/NAME"), "{}", ran.stderr);
}
