use crate::number::{percent, percent_range};
use crate::view::{Kind, Legend, Line, Section, Table, View};
use crate::words;
use ktax_model::{Share, ValidatedRow, Validation};

/// The four numbers, then the rows, of which those that failed come first.
pub fn view(validation: &Validation) -> View {
    let Validation { machine, cpu, timed_cpu, .. } = validation;
    let mut sentences = Vec::new();
    if cpu != timed_cpu {
        sentences.push(format!(
            "The times are of another CPU ({timed_cpu}) than the estimates ({cpu})."
        ));
    }
    for difference in &validation.differences {
        sentences.push(format!("Not the same subjects: {difference}."));
    }
    for row in validation.rows.iter().filter(|row| !row.without.is_empty()) {
        let without = words::deltas(&row.without);
        sentences.push(format!(
            "{} is estimated without {without}, of which {machine} has no cost.",
            row.row
        ));
    }
    if !validation.left_out.is_empty() {
        let left_out = validation.left_out.join(", ");
        sentences.push(format!("Without an estimate or a time: {left_out}."));
    }
    View {
        title: format!("Estimated and measured: {}", validation.title),
        headline: headline(validation),
        how: format!("estimated for {cpu} ({machine}) · timed on {timed_cpu}"),
        sections: vec![
            Section::Sentences(validation.unfit.iter().cloned().collect()),
            Section::table(table(&validation.rows)),
            Section::Sentences(sentences),
        ],
        legend: legend(),
        ..View::default()
    }
}

fn headline(validation: &Validation) -> String {
    if validation.unfit.is_some() {
        return "no row can be judged by these times".to_owned();
    }
    let share = |Share { of_them, all }: Share| format!("{of_them} of {all}");
    let signs = match validation.signs.all {
        0 => "no row changed by 5 % or more".to_owned(),
        _ => format!("sign right in {} that changed by 5 % or more", share(validation.signs)),
    };
    let correlation = validation.rank_correlation;
    let correlation = correlation.map_or(String::new(), |it| format!(", rank correlation {it:.2}"));
    format!(
        "{} rows lie in what was estimated, {signs}{correlation}, median error {} %",
        share(validation.covered),
        percent(Some(validation.median_error_percent)).trim_start_matches('+')
    )
}

fn table(rows: &[ValidatedRow]) -> Table {
    let columns = [
        ("row", Kind::Row),
        ("estimated %", Kind::Number),
        ("measured %", Kind::Number),
        ("interval %", Kind::Number),
        ("", Kind::Words),
    ];
    let line = |row: &ValidatedRow| {
        let [low, high] = row.predicted_percent;
        let interval = match row.measured_interval {
            [Some(from), Some(to)] => percent_range(Some(from), Some(to)),
            _ => "unknown".to_owned(),
        };
        Line::of([
            row.row.clone(),
            percent_range(Some(low), Some(high)),
            percent(Some(row.measured_percent)),
            interval,
            if row.is_covered { "" } else { "outside" }.to_owned(),
        ])
    };
    Table::of(columns).with(rows.iter().map(line))
}

fn legend() -> Legend {
    Legend::default().with([
        ("estimated %", "what the change adds to the base, from counts and the machine's file"),
        ("measured %", "what it added, from the ratios of timed pairs"),
        ("interval %", "the confidence interval of that"),
    ])
}
