//! The derived columns of each document, by ktax's own formulas.

use ktax::stats::tables::{
    average, contest_ratio, jobs_per_minute, median, per_process_per_page, percent_change,
    share_percent,
};

use super::data::{Row, Tables};
use super::figure::{Check, Figure};
use super::formulas::population_std_dev;
use super::statements;

/// AIM7's high_systime: what its 18 tests come to for one user.
pub const JOBS_PER_USER: f64 = 104.0;

/// The fork test makes so many.
pub const PROCESSES: f64 = 1000.0;

/// Every derived figure of the five documents.
pub fn all(tables: &Tables) -> Vec<Check> {
    let mut checks = paravirt_2009(tables);
    checks.extend(lsm_2002(tables));
    checks.extend(exit_timing_2008(tables));
    checks.extend(qspinlock_2015(tables));
    checks.extend(page_tables_2002(tables));
    checks.extend(statements::all(tables));
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
            let all = tables.rows("exit-timing-2008-exits").iter();
            let rows: Vec<&Row> =
                all.filter(|row| row.text("table") == total.text("table")).collect();
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
        let change = |column: &str, of: &str| {
            let place = ("qspinlock-2015", name.as_str(), column);
            let inputs = [row.rounded(&format!("base_{of}")), row.rounded(&format!("change_{of}"))];
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
            let of = ["kernel", "function"].map(|column| row.text(column) == rest.text(column));
            of == [true, true] && row.has("caller") && row.text("caller") != "[...]"
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
