//! What the documents say in words about their figures.

use ktax::stats::tables::{median, percent_change, spread_percent};

use super::data::{Row, Tables};
use super::figure::{Check, Figure};

/// The figures that a statement is about, and what it makes of them.
type Meaning = (Vec<Figure>, fn(&[f64]) -> f64);

/// Every statement with a figure.
pub fn all(tables: &Tables) -> Vec<Check> {
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
