//! The figures that the five documents publish, recomputed by `ktax::stats`. What does not
//! recompute is in tests/data/published/deviations.txt, which
//! `BLESS=1 cargo test --test fast published::` rewrites.

mod data;
mod documents;
mod figure;
mod formulas;
mod list;
mod statements;

use self::data::{Tables, directory};
use self::documents::{JOBS_PER_USER, all};
use self::figure::Agreement;
use self::formulas::widest_std_dev;
use self::list::list;
use ktax::stats::growth::{Curve, Fit, GrowthClass, fit};
use ktax::stats::tables::{average, jobs_per_minute};

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
    let checks = all(tables);
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
    let of = |test| [("processors", "4"), ("test", test)];
    let mended = deviations(&tables.with("lsm-2002", &of("null I/O"), "overhead", "2.2"));
    assert_eq!(mended.len(), before.len() - 1);
    let after = deviations(&tables.with("lsm-2002", &of("exec proc"), "overhead", "0.4"));
    let new: Vec<&String> = after.iter().filter(|line| !before.contains(line)).collect();
    let line = "lsm-2002, 4 processors, exec proc, overhead, 0.4, 0.1418, 0.0000…0.2839, 0.2582";
    assert_eq!(new, [line]);
}

/// Where the rounding of the inputs hides it from the deviations, the list still changes: a figure
/// is exact no more.
#[test]
fn one_of_the_last_digit_is_noticed() {
    let checks = all(&Tables::read());
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

/// Of more than three durations a standard deviation does not recompute; it can still be too large.
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
        let of = rows.filter(|row| row.text("kernel") == kernel && row.has("seconds"));
        let points: Vec<(f64, f64)> =
            of.map(|row| (row.value("pages"), row.value("seconds"))).collect();
        // The first row, without extra pages, is the overhead that the others are printed without.
        let overhead = points[0].1;
        let whole: Vec<_> = points[1..].iter().map(|(pages, s)| (*pages, s + overhead)).collect();
        fit(&Curve { base: overhead, points: whole }, &[]).unwrap()
    };
    let said = |kernel: &str| {
        let (order, power) = (grown(kernel).order("pages"), grown(kernel).power.unwrap());
        // Plus zero: no "-0.00".
        let [exponent, low, high] = [power.exponent, power.low, power.high]
            .map(|value| (value * 100.0).round() / 100.0 + 0.0);
        (order, format!("{exponent:.2} ({low:.2}…{high:.2})"))
    };
    let pair = |order: &str, exponent: &str| (order.to_owned(), exponent.to_owned());
    assert_eq!(said("2.4.19"), pair("O(pages)", "1.21 (1.12…1.30)"));
    assert_eq!(said("2.5.40"), pair("O(pages)", "1.14 (1.07…1.20)"));
    assert_eq!(said("2.5.41-mm2"), pair("O(1)", "0.01 (0.00…0.01)"));
    assert_eq!(grown("2.5.41-mm2").growth, GrowthClass::Constant);
}
