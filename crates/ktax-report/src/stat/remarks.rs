use super::numbers::{counter, share, spread, value};
use crate::view::Legend;
use ktax_host::text::{counted, shell_line};
use ktax_model::{Repeats, StatRow, StatTable};

/// Runs that failed.
pub fn failed(table: &StatTable) -> Vec<String> {
    let failed = table.commands.iter().filter_map(|command| {
        let (first, failed) = (command.failures.first()?, command.failures.len());
        let (runs, line) = (counted(table.runs, "run"), shell_line(&command.words));
        Some(format!("{failed} of {runs} of `{line}` failed; the first failed with {first}"))
    });
    failed.collect()
}

/// What was counted a part of the time or not at all: each reason once, with all that it is the
/// reason of.
pub fn uncounted(table: &StatTable) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in &table.rows {
        let Some(reason) = &row.uncounted else { continue };
        match reasons.iter_mut().find(|(known, _)| known == reason) {
            Some((_, counters)) => counters.push(&row.counter),
            None => reasons.push((reason, vec![&row.counter])),
        }
    }
    let line = |(reason, counters): (&str, Vec<&str>)| {
        format!("Not counted here: {}: {reason}.", counters.join(", "))
    };
    let scaled = table.rows.iter().filter_map(|row| {
        let (counter, share) = (&row.counter, share(row)?);
        let why = "the CPU has too few counters";
        Some(format!("Scaled: {why}, so {counter} was counted for {share:.1} % of the time."))
    });
    scaled.chain(reasons.into_iter().map(line)).collect()
}

/// All values, as the postscript of 2009 has them: from the least to the most.
pub fn values(table: &StatTable) -> Vec<String> {
    let names: &[&str] = if table.commands.len() == 2 { &[", base", ", change"] } else { &[""] };
    let of_row = |row: &StatRow| -> Vec<String> {
        let counter = counter(row);
        let seen = row.repeats.iter().zip(names).filter(|_| counter.headline);
        let line = |(seen, name): (&Repeats, &&str)| {
            let sorted: Vec<String> = seen.sorted.iter().map(|it| value(counter, *it)).collect();
            let spread = seen.spread_percent.map(|value| format!("; spread {} %", spread(value)));
            let (title, sorted) = (counter.title, sorted.join("  "));
            format!("{title}{name}: {sorted}{}", spread.unwrap_or_default())
        };
        seen.map(line).collect()
    };
    table.rows.iter().flat_map(of_row).collect()
}

/// What the columns are.
pub fn legend(table: &StatTable) -> Legend {
    let interval = table.rows.iter().find_map(|row| row.repeats.first()?.interval);
    let spread = ("spread %", "how far the largest value is above the smallest".to_owned());
    Legend::default().with(match (table.commands.len() == 2, table.runs, interval) {
        (false, 1, _) => vec![],
        (true, ..) => vec![
            ("base, change", "means over the runs".to_owned()),
            (
                "change %",
                "estimate from the ratios of the pairs, row by row; empty if a value is 0"
                    .to_owned(),
            ),
            ("interval", "confidence interval of the change; it needs six pairs".to_owned()),
        ],
        (false, runs, Some(interval)) => {
            let level = interval.level_percent;
            let within = format!(
                "confidence interval of the median, in percent of the median ({level:.1} % for \
                 {runs} independent runs)"
            );
            vec![spread, ("median within", within)]
        }
        (false, _, None) => {
            vec![
                spread,
                (
                    "median within",
                    "confidence interval of the median; it needs six runs".to_owned(),
                ),
            ]
        }
    })
}
