//! The figures that the five documents publish, recomputed by `ktax::stats`. What does not
//! recompute is in tests/data/published/deviations.txt, which
//! `BLESS=1 cargo test --test fast published::` rewrites.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use ktax::stats::growth::{Curve, Fit, GrowthClass, fit};
use ktax::stats::tables::{
    average, contest_ratio, jobs_per_minute, mean, median, per_process_per_page, percent_change,
    share_percent, spread_percent,
};

#[test]
fn figures_recompute_except_for_the_listed() {
    let (path, list) = (directory().join("deviations.txt"), list(&Tables::read()));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &list).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == list, "the list is now:\n{list}\nBLESS=1 accepts it");
}

fn deviations(tables: &Tables) -> Vec<String> {
    let checks = all_checks(tables);
    let deviating = checks.iter().filter(|check| check.agreement() == Agreement::Deviates);
    deviating.map(|check| check.cells().join(", ")).collect()
}

#[test]
fn a_changed_figure_is_noticed() {
    let tables = Tables::read();
    let before = deviations(&tables);
    for (table, row, column, text) in [
        ("paravirt-2009-counters", ("counter", "CPU cycles"), "percent", "+3.64"),
        ("paravirt-2009-cycles", ("cycles", "3919907192"), "cycles", "3949907192"),
        ("exit-timing-2008-totals", ("table", "find"), "averages", "truncated"),
        ("exit-timing-2008-totals", ("table", "find"), "sum", "3426053"),
        ("qspinlock-2015-jpm", ("base_jpm", "118857.14"), "base_jpm", "118857.15"),
        ("qspinlock-2015-jpm", ("base_jpm", "118857.14"), "base_s", "26.26"),
        ("qspinlock-2015-jpm", ("base_jpm", "112635.38"), "base_jpm", "112635.48"),
        ("qspinlock-2015-profile", ("percent", "58.96"), "percent", "59.06"),
        ("page-tables-2002-fork", ("us_per_page", "0.585"), "us_per_page", "0.586"),
        ("page-tables-2002-contest", ("ratio", "4.65"), "ratio", "4.67"),
    ] {
        let after = deviations(&tables.with(table, &[row], column, text));
        assert!(after.len() > before.len(), "{table} {row:?} {column} {text}");
        assert!(before.iter().all(|old| after.contains(old)), "{table}: {after:?}");
    }
    let columns = |test| [("processors", "4"), ("test", test)];
    let mended = deviations(&tables.with("lsm-2002", &columns("null I/O"), "overhead", "2.2"));
    assert_eq!(mended.len(), before.len() - 1);
    let after = deviations(&tables.with("lsm-2002", &columns("exec proc"), "overhead", "0.4"));
    let new: Vec<&String> = after.iter().filter(|line| !before.contains(line)).collect();
    let line = "lsm-2002, 4 processors, exec proc, overhead, 0.4, 0.1418, 0.0000…0.2839, 0.2582";
    assert_eq!(new, [line]);
}

/// Where the rounding of the inputs hides a changed figure from the deviations, the list still
/// changes: one exact figure less.
#[test]
fn one_of_the_last_digit_is_noticed() {
    let checks = all_checks(&Tables::read());
    for check in checks.iter().filter(|check| check.agreement() == Agreement::Exact) {
        for digits in [-1.0, 1.0] {
            assert_ne!(check.moved(digits).agreement(), Agreement::Exact, "{check:?}");
        }
    }
}

#[test]
fn jobs_per_minute_times_minutes_by_users_are_104() {
    let tables = Tables::read();
    let mut rows = 0;
    for row in tables.rows("qspinlock-2015-jpm").iter().filter(|row| row.has("base_s")) {
        for (jpm, seconds) in [("base_jpm", "base_s"), ("change_jpm", "change_s")] {
            let [jpm, seconds, users] = [jpm, seconds, "users"].map(|column| row.value(column));
            assert_eq!(format!("{:.3}", jpm * seconds / 60.0 / users), "104.000", "{row:?}");
            assert!((jobs_per_minute(JOBS_PER_USER, users, seconds) - jpm).abs() < 0.005);
            rows += 1;
        }
    }
    assert_eq!(rows, 8);
}

#[test]
fn the_ten_runs_are_sorted_and_the_printed_one_is_among_them() {
    let tables = Tables::read();
    let cycles: Vec<f64> =
        tables.rows("paravirt-2009-cycles").iter().map(|row| row.value("cycles")).collect();
    assert_eq!(cycles.len(), 10);
    assert!(cycles.is_sorted());
    let printed = tables.row("paravirt-2009-counters", &[("counter", "CPU cycles")]);
    assert!(cycles.contains(&printed.value("change")));
}

/// More than three durations have no recomputable standard deviation; it can still be too large.
#[test]
fn no_standard_deviation_is_larger_than_its_row_allows() {
    for row in Tables::read().rows("exit-timing-2008-exits") {
        let [count, min, max, sum] = ["count", "min", "max", "sum"].map(|c| row.value(c));
        let widest = widest_std_dev(min, average(sum, count), max);
        assert!(row.rounded("stddev").low <= widest.expect("min, avg, max"), "{row:?}");
    }
}

/// "Both 2.5.40 and 2.4.19 are O(number of pages) taking L1 cache effects into account. 2.5.41-mm2
/// ends up being O(1)".
#[test]
fn the_fork_tables_grow_as_their_author_says() {
    let tables = Tables::read();
    let grown = |kernel: &str| -> Fit {
        let rows = tables.rows("page-tables-2002-fork").iter();
        let matching = rows.filter(|row| row.text("kernel") == kernel && row.has("seconds"));
        let points: Vec<(f64, f64)> =
            matching.map(|row| (row.value("pages"), row.value("seconds"))).collect();
        // The first row, without extra pages, is the overhead that the others are printed without.
        let overhead = points[0].1;
        let with_overhead: Vec<_> =
            points[1..].iter().map(|(pages, s)| (*pages, s + overhead)).collect();
        fit(&Curve { base: overhead, points: with_overhead }, &[]).unwrap()
    };
    let growth = |kernel: &str| {
        let (order, power) = (grown(kernel).order("pages"), grown(kernel).power.unwrap());
        // Plus zero: no "-0.00".
        let [exponent, low, high] = [power.exponent, power.low, power.high]
            .map(|value| (value * 100.0).round() / 100.0 + 0.0);
        (order, format!("{exponent:.2} ({low:.2}…{high:.2})"))
    };
    let pair = |order: &str, exponent: &str| (order.to_owned(), exponent.to_owned());
    assert_eq!(growth("2.4.19"), pair("O(pages)", "1.21 (1.12…1.30)"));
    assert_eq!(growth("2.5.40"), pair("O(pages)", "1.14 (1.07…1.20)"));
    assert_eq!(growth("2.5.41-mm2"), pair("O(1)", "0.01 (0.00…0.01)"));
    assert_eq!(grown("2.5.41-mm2").growth, GrowthClass::Constant);
}

// The figures of the five documents: `tests/data/published/*.csv`.

/// Directory of the figures.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/published")
}

/// One row: column → what is printed, empty where nothing is.
#[derive(Debug, Clone)]
pub struct Row(BTreeMap<String, String>);

impl Row {
    pub fn text(&self, column: &str) -> &str {
        self.0.get(column).unwrap_or_else(|| panic!("no column {column} in {self:?}"))
    }

    pub fn has(&self, column: &str) -> bool {
        !self.text(column).is_empty()
    }

    pub fn exact(&self, column: &str) -> Figure {
        Figure::exact(self.text(column))
    }

    pub fn rounded(&self, column: &str) -> Figure {
        Figure::rounded(self.text(column))
    }

    /// How many figures it has; what only says which row it is, is none.
    pub fn figures(&self) -> usize {
        let names = ["kernel", "processors", "users", "pages"];
        let cells = self.0.iter().filter(|(column, _)| !names.contains(&column.as_str()));
        cells.filter(|(_, text)| text.parse::<f64>().is_ok()).count()
    }

    pub fn value(&self, column: &str) -> f64 {
        self.exact(column).value
    }
}

/// All tables, by the name of their file without `.csv`.
#[derive(Debug, Clone)]
pub struct Tables(BTreeMap<String, Vec<Row>>);

impl Tables {
    pub fn read() -> Tables {
        let files = std::fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path());
        let csv = files.filter(|path| path.extension().is_some_and(|extension| extension == "csv"));
        let named = csv
            .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), read_rows(&path)));
        Tables(named.collect())
    }

    /// Each table with its rows.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[Row])> {
        self.0.iter().map(|(table, rows)| (table.as_str(), rows.as_slice()))
    }

    pub fn rows(&self, table: &str) -> &[Row] {
        self.0.get(table).unwrap_or_else(|| panic!("no table {table}"))
    }

    /// The only row with these words in these columns.
    pub fn row(&self, table: &str, wanted: &[(&str, &str)]) -> &Row {
        &self.rows(table)[self.position(table, wanted)]
    }

    /// A copy with another text in one place.
    pub fn with(&self, table: &str, wanted: &[(&str, &str)], column: &str, text: &str) -> Tables {
        let (mut changed, index) = (self.clone(), self.position(table, wanted));
        let row = &mut changed.0.get_mut(table).unwrap()[index];
        assert!(row.0.insert(column.to_owned(), text.to_owned()).is_some(), "no {column}");
        changed
    }

    fn position(&self, table: &str, wanted: &[(&str, &str)]) -> usize {
        let fits = |row: &Row| wanted.iter().all(|(column, text)| row.text(column) == *text);
        let rows = self.rows(table).iter().enumerate();
        let found: Vec<usize> = rows.filter(|(_, row)| fits(row)).map(|(index, _)| index).collect();
        assert_eq!(found.len(), 1, "{table} {wanted:?}");
        found[0]
    }
}

fn read_rows(path: &Path) -> Vec<Row> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_path(path).unwrap();
    let rows = reader.deserialize::<BTreeMap<String, String>>();
    rows.map(|row| Row(row.unwrap_or_else(|e| panic!("{}: {e}", path.display())))).collect()
}

// The derived columns of each document, by ktax's own formulas.

/// AIM7's high_systime: what its 18 tests come to for one user.
pub const JOBS_PER_USER: f64 = 104.0;

/// The fork test makes so many.
pub const PROCESSES: f64 = 1000.0;

/// Every derived figure of the five documents.
pub fn all_checks(tables: &Tables) -> Vec<Check> {
    let mut checks = paravirt_2009(tables);
    checks.extend(lsm_2002(tables));
    checks.extend(exit_timing_2008(tables));
    checks.extend(qspinlock_2015(tables));
    checks.extend(page_tables_2002(tables));
    checks.extend(statements(tables));
    checks
}

fn paravirt_2009(tables: &Tables) -> Vec<Check> {
    let rows = tables.rows("paravirt-2009-counters").iter().filter(|row| row.has("percent"));
    rows.map(|row| {
        let place = ("paravirt-2009", row.text("counter"), "percent");
        let inputs = [row.exact("base"), row.exact("change")];
        Check::new(place, row.rounded("percent"), &inputs, |x| percent_change(x[0], x[1]))
    })
    .collect()
}

fn lsm_2002(tables: &Tables) -> Vec<Check> {
    let rows = tables.rows("lsm-2002").iter();
    rows.map(|row| {
        // A bandwidth that falls by 5 % is an overhead of 5 %.
        let sign = match row.text("better") {
            "smaller" => 1.0,
            "larger" => -1.0,
            other => panic!("better: {other}"),
        };
        let name = match row.text("processors") {
            "1" => format!("1 processor, {}", row.text("test")),
            many => format!("{many} processors, {}", row.text("test")),
        };
        let place = ("lsm-2002", name.as_str(), "overhead");
        let inputs = [row.rounded("base"), row.rounded("change")];
        let formula = |x: &[f64]| sign * percent_change(x[0], x[1]);
        Check::new(place, row.rounded("overhead"), &inputs, formula)
    })
    .collect()
}

fn exit_timing_2008(tables: &Tables) -> Vec<Check> {
    let totals = tables.rows("exit-timing-2008-totals").iter();
    totals
        .flat_map(|total| {
            let exit_rows = tables.rows("exit-timing-2008-exits").iter();
            let rows: Vec<&Row> =
                exit_rows.filter(|row| row.text("table") == total.text("table")).collect();
            rows.iter()
                .flat_map(|row| exits(row, total))
                .chain(sums(&rows, total))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// The derived figures of one type of exit; its counts and sums are whole numbers as they came from
/// the kernel.
fn exits(row: &Row, total: &Row) -> Vec<Check> {
    let name = format!("{}, {}", row.text("table"), row.text("type"));
    let place = |column| ("exit-timing-2008", name.as_str(), column);
    let shortened = match total.text("averages") {
        "rounded" => row.rounded("avg"),
        "truncated" => Figure::truncated(row.text("avg")),
        other => panic!("averages: {other}"),
    };
    let (sum, count) = (row.exact("sum"), row.exact("count"));
    let mut checks = vec![
        Check::new(place("avg"), shortened, &[sum.clone(), count], |x| average(x[0], x[1])),
        Check::new(place("percent"), row.rounded("percent"), &[sum, total.exact("sum")], |x| {
            share_percent(x[0], x[1])
        }),
    ];
    if let Some(durations) = durations(row) {
        let formula = |_: &[f64]| population_std_dev(&durations).unwrap();
        checks.push(Check::new(place("stddev"), row.rounded("stddev"), &[], formula));
    }
    checks
}

/// Each single duration, where the row says it: of up to three, the shortest, the longest, and what
/// is left of the sum.
fn durations(row: &Row) -> Option<Vec<f64>> {
    let (min, max) = (row.value("min"), row.value("max"));
    match row.text("count") {
        "1" => Some(vec![min]),
        "2" => Some(vec![min, max]),
        "3" => Some(vec![min, row.value("sum") - min - max, max]),
        _ => None,
    }
}

/// The time of a table is that of its rows, and each exit is followed by time in the guest.
fn sums(rows: &[&Row], total: &Row) -> [Check; 2] {
    let (guest, exits): (Vec<&Row>, Vec<&Row>) =
        rows.iter().partition(|row| row.text("type") == "TIMEINGUEST");
    let time: f64 = rows.iter().map(|row| row.value("sum")).sum();
    let count: f64 = exits.iter().map(|row| row.value("count")).sum();
    let place = |column| ("exit-timing-2008", total.text("table"), column);
    [
        Check::new(place("sum of time"), total.exact("sum"), &[], |_| time),
        Check::new(place("TIMEINGUEST count"), guest[0].exact("count"), &[], |_| count),
    ]
}

fn qspinlock_2015(tables: &Tables) -> Vec<Check> {
    let rows = tables.rows("qspinlock-2015-jpm").iter().filter(|row| row.has("change_jpm"));
    rows.flat_map(|row| {
        let (driver, governor) = (row.text("driver"), row.text("governor"));
        let name = format!("{driver}, {governor}, {} users", row.text("users"));
        let change = |column: &str, figure: &str| {
            let place = ("qspinlock-2015", name.as_str(), column);
            let inputs =
                [row.rounded(&format!("base_{figure}")), row.rounded(&format!("change_{figure}"))];
            Check::new(place, row.rounded(column), &inputs, |x| percent_change(x[0], x[1]))
        };
        let mut checks = vec![jpm(row, &name, "base"), jpm(row, &name, "change")];
        checks.push(change("jpm_percent", "jpm"));
        checks.extend(row.has("s_percent").then(|| change("s_percent", "s")));
        checks
    })
    .chain(profile(tables))
    .collect()
}

/// AIM7 reads a clock of 10 ms, so seconds with two decimals are not rounded. Where they are not
/// printed, some whole number of these ticks must still give the printed jobs per minute.
fn jpm(row: &Row, name: &str, side: &str) -> Check {
    let (jpm, s) = (format!("{side}_jpm"), format!("{side}_s"));
    let users = row.value("users");
    let seconds = if row.has(&s) {
        row.exact(&s)
    } else {
        let ticks = jobs_per_minute(JOBS_PER_USER, users, row.value(&jpm)) * 100.0;
        Figure::exact(&(ticks.round() / 100.0).to_string())
    };
    let formula = |x: &[f64]| jobs_per_minute(JOBS_PER_USER, users, x[0]);
    Check::new(("qspinlock-2015", name, &jpm), row.rounded(&jpm), &[seconds], formula)
}

/// `[...]` in a profile is what the callers beside it leave of 100 %.
fn profile(tables: &Tables) -> Vec<Check> {
    let rows = tables.rows("qspinlock-2015-profile");
    let rest = rows.iter().filter(|row| row.text("caller") == "[...]");
    rest.map(|rest| {
        let same = |row: &&Row| {
            let are_equal =
                ["kernel", "function"].map(|column| row.text(column) == rest.text(column));
            are_equal == [true, true] && row.has("caller") && row.text("caller") != "[...]"
        };
        let callers: Vec<Figure> =
            rows.iter().filter(same).map(|row| row.rounded("percent")).collect();
        let place = ("qspinlock-2015", rest.text("function"), "[...]");
        Check::new(place, rest.rounded("percent"), &[Figure::sum(&callers)], |x| 100.0 - x[0])
    })
    .collect()
}

fn page_tables_2002(tables: &Tables) -> Vec<Check> {
    let rows = tables.rows("page-tables-2002-fork").iter().filter(|row| row.has("us_per_page"));
    let fork = rows.map(|row| {
        let name = format!("{}, {} pages", row.text("kernel"), row.text("pages"));
        let place = ("page-tables-2002", name.as_str(), "us_per_page");
        let pages = row.value("pages");
        Check::new(place, row.rounded("us_per_page"), &[row.rounded("seconds")], |x| {
            per_process_per_page(x[0] * 1e6, PROCESSES, pages)
        })
    });
    fork.chain(contest(tables)).collect()
}

/// The reference is not printed. Each row gives one, its seconds by its ratio; with the median of
/// them all rows must recompute.
fn contest(tables: &Tables) -> Vec<Check> {
    let rows = tables.rows("page-tables-2002-contest");
    let implied = rows.iter().map(|row| row.value("seconds") / row.value("ratio"));
    let reference = median(&implied.collect::<Vec<f64>>()).unwrap();
    rows.iter()
        .map(|row| {
            let name = format!("{}, {}", row.text("load"), row.text("kernel"));
            let place = ("page-tables-2002", name.as_str(), "ratio");
            let inputs = [row.rounded("seconds")];
            Check::new(place, row.rounded("ratio"), &inputs, |x| contest_ratio(x[0], reference))
        })
        .collect()
}

// Printed figures, what they may stand for, and whether they recompute.

/// A printed number and the interval of what it may stand for.
#[derive(Debug, Clone)]
pub struct Figure {
    pub text: String,
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Figure {
    /// Counted, or never shortened: it stands for itself.
    pub fn exact(text: &str) -> Figure {
        Figure::between(text, 0.0, 0.0)
    }

    /// Rounded to its last digit: half a unit of that digit either way.
    pub fn rounded(text: &str) -> Figure {
        Figure::between(text, -0.5, 0.5)
    }

    /// Cut after its last digit: up to the next one, and not that.
    pub fn truncated(text: &str) -> Figure {
        Figure::between(text, 0.0, 0.999_999)
    }

    /// Sum of figures.
    pub fn sum(figures: &[Figure]) -> Figure {
        let sum = |value: fn(&Figure) -> f64| figures.iter().map(value).sum::<f64>();
        let value = sum(|figure| figure.value);
        let (low, high) = (sum(|figure| figure.low), sum(|figure| figure.high));
        Figure { text: value.to_string(), value, low, high }
    }

    /// The number, and what it may stand for in units of its last digit.
    fn between(text: &str, low: f64, high: f64) -> Figure {
        let value: f64 = text.parse().unwrap_or_else(|_| panic!("{text:?} is no figure"));
        let unit = unit(text);
        Figure { text: text.to_owned(), value, low: value + low * unit, high: value + high * unit }
    }
}

fn decimals(text: &str) -> usize {
    text.split_once('.').map_or(0, |(_, decimals)| decimals.len())
}

/// One of the last digit of a printed number.
fn unit(text: &str) -> f64 {
    10f64.powi(-i32::try_from(decimals(text)).unwrap())
}

/// How well a printed figure recomputes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreement {
    /// From the inputs as they are printed.
    Exact,
    /// From other inputs that would be printed the same.
    Rounding,
    /// From neither.
    Deviates,
}

/// One derived figure and what ktax makes of the figures beside it.
#[derive(Debug, Clone)]
pub struct Check {
    pub document: String,
    pub row: String,
    pub column: String,
    pub printed: Figure,
    /// From the printed inputs; not a number if one of them is missing.
    pub value: f64,
    /// The least and the most that inputs which are printed so can give.
    pub low: f64,
    pub high: f64,
}

impl Check {
    /// Recomputes `printed` by `formula`, which must be monotonic in each input: then its extremes
    /// over all that the inputs may stand for are at corners of that box.
    pub fn new(
        (document, row, column): (&str, &str, &str),
        printed: Figure,
        inputs: &[Figure],
        formula: impl Fn(&[f64]) -> f64,
    ) -> Check {
        let values: Vec<f64> = inputs.iter().map(|input| input.value).collect();
        let corners = 0..1_u32 << inputs.len();
        let results: Vec<f64> = corners
            .map(|corner| {
                let pick = |(i, input): (usize, &Figure)| {
                    if corner >> i & 1 == 0 { input.low } else { input.high }
                };
                formula(&inputs.iter().enumerate().map(pick).collect::<Vec<f64>>())
            })
            .collect();
        Check {
            document: document.to_owned(),
            row: row.to_owned(),
            column: column.to_owned(),
            printed,
            value: formula(&values),
            low: results.iter().copied().fold(f64::INFINITY, f64::min),
            high: results.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    pub fn agreement(&self) -> Agreement {
        // An end of an interval is in it, also where binary fractions miss it by a hair.
        let hair = (self.printed.high - self.printed.low) * 1e-8;
        let meets = |low: f64, high: f64| {
            low <= self.printed.high + hair && high >= self.printed.low - hair
        };
        if meets(self.value, self.value) {
            Agreement::Exact
        } else if meets(self.low, self.high) {
            Agreement::Rounding
        } else {
            Agreement::Deviates
        }
    }

    /// A copy whose printed figure is higher by so many of its last digit.
    pub fn moved(&self, digits: f64) -> Check {
        let (mut moved, by) = (self.clone(), digits * unit(&self.printed.text));
        moved.printed.low += by;
        moved.printed.high += by;
        moved
    }

    /// Line in a list: document, row, column, printed, recomputed, allowed, difference.
    pub fn cells(&self) -> [String; 7] {
        let digits = decimals(&self.printed.text) + 3;
        let show = |value: f64| {
            if value.is_nan() { "none".to_owned() } else { format!("{value:.digits$}") }
        };
        let range = if self.value.is_nan() || self.low == self.high {
            "-".to_owned()
        } else {
            format!("{}…{}", show(self.low), show(self.high))
        };
        let difference = show(self.printed.value - self.value);
        [
            self.document.clone(),
            self.row.clone(),
            self.column.clone(),
            self.printed.text.clone(),
            show(self.value),
            range,
            difference,
        ]
    }
}

// Formulas that only the published documents need.

/// The largest population standard deviation that values between `least` and `most` with this
/// `mean` can have (Bhatia and Davis, 2000): all of them at the two ends. A printed deviation above
/// it has the wrong unit. `None` if the mean does not lie between.
pub fn widest_std_dev(least: f64, mean: f64, most: f64) -> Option<f64> {
    (least <= mean && mean <= most).then(|| ((most - mean) * (mean - least)).sqrt())
}

/// The standard deviation of these values and no others: divided by n, not by n - 1. Twice through
/// the values instead of a sum of squares, which would cancel. `None` for no values.
pub fn population_std_dev(values: &[f64]) -> Option<f64> {
    let centre = mean(values)?;
    let squares: Vec<f64> = values.iter().map(|value| (value - centre).powi(2)).collect();
    mean(&squares).map(f64::sqrt)
}

#[test]
fn the_deviation_is_of_these_values_alone() {
    assert_eq!(population_std_dev(&[]), None);
    assert_eq!(population_std_dev(&[5.0]), Some(0.0));
    // The textbook's eight: mean 5, squares 9 + 1 + 1 + 1 + 0 + 0 + 4 + 16 = 32, 32 / 8 = 4.
    assert_eq!(population_std_dev(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), Some(2.0));
}

#[test]
fn no_values_are_wider_than_the_widest() {
    assert_eq!(widest_std_dev(0.0, 5.0, 10.0), Some(5.0)); // half at 0, half at 10
    assert_eq!(population_std_dev(&[0.0, 10.0]), Some(5.0));
    assert_eq!(widest_std_dev(7.0, 7.0, 7.0), Some(0.0));
    assert_eq!(widest_std_dev(8.0, 7.0, 9.0), None);
    assert_eq!(widest_std_dev(8.0, f64::NAN, 9.0), None);
}

// The golden file: tests/data/published/deviations.txt.

const DOCUMENTS: [&str; 5] =
    ["exit-timing-2008", "lsm-2002", "page-tables-2002", "paravirt-2009", "qspinlock-2015"];

const PURPOSE: &str = "\
The figures of the five documents that ktax was made from, and the derived ones among them
recomputed from the figures printed beside them.
";

const TERMS: &str = "\
exact: from these as they are printed. rounding: from others that would be printed the same, which
gives the allowed range. deviate: from neither. A rounded figure stands for half a unit of its last
digit either way; an average of the two tables that cut theirs stands for a unit upwards.
";

/// The golden file: how many figures there are, how many recompute, and those that do not.
pub fn list(tables: &Tables) -> String {
    let mut checks = all_checks(tables);
    checks.sort_by_key(|check| check.document.clone());
    let mut text = format!("{PURPOSE}\n");
    let sizes = tables.iter().map(|(table, rows)| {
        let figures: usize = rows.iter().map(Row::figures).sum();
        vec![table.to_owned(), rows.len().to_string(), figures.to_string()]
    });
    text += &aligned(&["table", "rows", "figures"], sizes.collect());
    text += &format!("\n{TERMS}\n");
    let counts = DOCUMENTS.map(|document| {
        let checks_of = || checks.iter().filter(|check| check.document == document);
        let agree = |how| checks_of().filter(|check| check.agreement() == how).count();
        let each = [Agreement::Exact, Agreement::Rounding, Agreement::Deviates].map(agree);
        let counts =
            [checks_of().count(), each[0], each[1], each[2]].map(|count| count.to_string());
        [&[document.to_owned()], &counts[..]].concat()
    });
    let header = ["document", "derived", "exact", "rounding", "deviate"];
    text += &aligned(&header, counts.to_vec());
    for (title, how) in [("Deviate", Agreement::Deviates), ("Rounding", Agreement::Rounding)] {
        let lines = checks.iter().filter(|check| check.agreement() == how);
        let header =
            ["document", "row", "column", "printed", "recomputed", "allowed", "difference"];
        let lines = lines.map(|check| check.cells().to_vec()).collect();
        text += &format!("\n{title}\n\n{}", aligned(&header, lines));
    }
    text
}

fn aligned(header: &[&str], mut lines: Vec<Vec<String>>) -> String {
    lines.insert(0, header.iter().map(|&cell| cell.to_owned()).collect());
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().enumerate();
        let padded = cells.map(|(column, cell)| format!("{cell:0$}", width(column).unwrap()));
        writeln!(text, "{}", padded.collect::<Vec<_>>().join("  ").trim_end()).unwrap();
    }
    text
}

// Statements of the documents about their figures.

/// The figures that a statement is about, and what it makes of them.
type Meaning = (Vec<Figure>, fn(&[f64]) -> f64);

/// Every statement with a figure.
pub fn statements(tables: &Tables) -> Vec<Check> {
    let statements = tables.rows("statements").iter();
    statements.map(|row| statement(tables, row)).collect()
}

fn statement(tables: &Tables, row: &Row) -> Check {
    let (document, name) = (row.text("document"), row.text("statement"));
    let (inputs, formula) = match document {
        "paravirt-2009" => paravirt(tables, name),
        "lsm-2002" => lsm(tables, name),
        "exit-timing-2008" => exit_timing(tables, name),
        "page-tables-2002" => page_tables(tables, name),
        other => panic!("no statements of {other}"),
    };
    let printed = if name.starts_with("runtime") {
        Figure::truncated(row.text("figure")) // 2:24 of 144.8 seconds
    } else {
        row.rounded("figure")
    };
    Check::new((document, name, "in words"), printed, &inputs, formula)
}

fn paravirt(tables: &Tables, name: &str) -> Meaning {
    match name {
        "lat_mmap slower by percent" => {
            let row = |kernel| tables.row("paravirt-2009-lat-mmap", &[("kernel", kernel)]);
            let sides = ["non pv", "paravirt"].map(|kernel| row(kernel).rounded("average"));
            (sides.to_vec(), |x| percent_change(x[0], x[1]))
        }
        "spread of ten runs in percent" => {
            let runs = tables.rows("paravirt-2009-cycles").iter();
            (runs.map(|row| row.exact("cycles")).collect(), |x| spread_percent(x).unwrap())
        }
        "more instructions in millions" => {
            let row = tables.row("paravirt-2009-counters", &[("counter", "instructions")]);
            (vec![row.exact("base"), row.exact("change")], |x| (x[1] - x[0]) / 1e6)
        }
        unknown => panic!("no formula for {unknown}"),
    }
}

fn lsm(tables: &Tables, name: &str) -> Meaning {
    match name {
        "worst overhead on 4 processors in percent" => {
            let four = tables.rows("lsm-2002").iter().filter(|row| row.text("processors") == "4");
            let worst = four.max_by(|a, b| a.value("overhead").total_cmp(&b.value("overhead")));
            (vec![worst.unwrap().rounded("overhead")], |x| x[0])
        }
        "AF Unix faster by percent" => {
            let row = tables.row("lsm-2002", &[("processors", "4"), ("test", "AF Unix")]);
            let sides = vec![row.rounded("base"), row.rounded("change")];
            (sides, |x| percent_change(x[0], x[1]))
        }
        unknown => panic!("no formula for {unknown}"),
    }
}

fn exit_timing(tables: &Tables, name: &str) -> Meaning {
    let time = |how: &str| {
        let table = format!("boot {how} paravirtualization");
        tables.row("exit-timing-2008-totals", &[("table", &table)]).exact("sum")
    };
    match name {
        "runtime without paravirtualization" => (vec![time("without")], |x| x[0] / 1e6),
        "runtime with paravirtualization" => (vec![time("with")], |x| x[0] / 1e6),
        "net improvement in percent" => {
            (vec![time("without"), time("with")], |x| -percent_change(x[0], x[1]))
        }
        unknown => panic!("no formula for {unknown}"),
    }
}

fn page_tables(tables: &Tables, name: &str) -> Meaning {
    let ratio = |x: &[f64]| x[0] / x[1];
    match name {
        "2.5.40 to 2.4.19" => {
            let rows = tables.rows("page-tables-2002-fork").iter();
            let both = rows.filter(|row| row.text("kernel") == "2.5.40" && row.has("us_per_page"));
            let old = |row: &Row| fork(tables, "2.4.19", row.text("pages")).value;
            let ratios: Vec<f64> = both.map(|row| row.value("seconds") / old(row)).collect();
            (vec![Figure::exact(&median(&ratios).unwrap().to_string())], |x| x[0])
        }
        "2.5.40 to 2.5.41-mm2 at 64 MB" => {
            (["2.5.40", "2.5.41-mm2"].map(|kernel| fork(tables, kernel, "16384")).to_vec(), ratio)
        }
        "2.4.19 to 2.5.41-mm2 at 64 MB" => {
            (["2.4.19", "2.5.41-mm2"].map(|kernel| fork(tables, kernel, "16384")).to_vec(), ratio)
        }
        unknown => panic!("no formula for {unknown}"),
    }
}

/// The printed seconds; not a number where fork got no memory.
fn fork(tables: &Tables, kernel: &str, pages: &str) -> Figure {
    let row = tables.row("page-tables-2002-fork", &[("kernel", kernel), ("pages", pages)]);
    if row.has("seconds") { row.rounded("seconds") } else { Figure::exact("NaN") }
}
