//! The golden file: tests/data/published/deviations.txt.

use std::fmt::Write;

use super::data::{Row, Tables};
use super::documents::all;
use super::figure::Agreement;

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
    let mut checks = all(tables);
    checks.sort_by_key(|check| check.document.clone());
    let mut text = format!("{PURPOSE}\n");
    let sizes = tables.iter().map(|(table, rows)| {
        let figures: usize = rows.iter().map(Row::figures).sum();
        vec![table.to_owned(), rows.len().to_string(), figures.to_string()]
    });
    text += &aligned(&["table", "rows", "figures"], sizes.collect());
    text += &format!("\n{TERMS}\n");
    let counts = DOCUMENTS.map(|document| {
        let of = || checks.iter().filter(|check| check.document == document);
        let agree = |how| of().filter(|check| check.agreement() == how).count();
        let each = [Agreement::Exact, Agreement::Rounding, Agreement::Deviates].map(agree);
        let counts = [of().count(), each[0], each[1], each[2]].map(|count| count.to_string());
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
