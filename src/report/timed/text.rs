//! For a terminal.

use super::{
    HEADER, cells, controls, crossings, how, kernel, legend, of_bare_metal, remarks, subject,
    variance,
};
use crate::model::{Side, TimedComparison};
use crate::report::TextOptions;
use crate::report::text::{coloured, columns, paragraph, table_of_numbers, warnings};
use crate::text::escape;

/// What was compared, the table, what is behind it, what the numbers are.
pub(super) fn render(comparison: &TimedComparison, options: TextOptions) -> String {
    let page = |text: &str| match text {
        "" => String::new(),
        text => paragraph(&escape(text), options),
    };
    let sections = [
        header(comparison, options),
        rows(comparison, options),
        remarks(comparison).iter().map(|remark| page(remark)).collect(),
        of_bare_metal(comparison).iter().map(|percent| page(percent)).collect(),
        crossings(comparison).iter().map(|crossing| page(crossing)).collect(),
        page(&controls(comparison)),
        page(&variance(comparison)),
        warnings(&comparison.warnings, options),
        page(&legend(comparison)),
    ];
    let sections: Vec<String> = sections.into_iter().filter(|text| !text.is_empty()).collect();
    sections.join("\n")
}

fn header(comparison: &TimedComparison, options: TextOptions) -> String {
    let plan = &comparison.plan;
    let side = |side: Side| {
        let subject = subject(plan.subjects.get(side));
        [side.name().to_owned(), escape(&kernel(comparison, side)), escape(&subject)]
    };
    [
        paragraph(&escape(&plan.title), options),
        "\n".to_owned(),
        columns(&Side::BOTH.map(side), options),
        paragraph(&escape(&how(comparison)), options),
    ]
    .concat()
}

/// Secondary rows are indented below those that decide.
fn rows(comparison: &TimedComparison, options: TextOptions) -> String {
    let line = |row| {
        let mut cells = cells(row).to_vec();
        if !row.headline {
            cells[0].insert_str(0, "  ");
        }
        cells
    };
    let lines = comparison.rows.iter().map(line).collect();
    coloured(&table_of_numbers(&HEADER, lines, 1..6, options), options)
}
