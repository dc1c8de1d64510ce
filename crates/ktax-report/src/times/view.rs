use super::details::details;
use super::header::{how, sides};
use super::remarks::{self, TimedRow};
use super::table::table;
use crate::view::{Legend, Section, View};
use crate::{again, changes, curves, forest, headline, words};
use ktax_host::text::counted;
use ktax_model::{Comparison, TimesComparison};

/// The table, then why rows have no answer, what failed, and how good the measurement was.
pub fn view(comparison: &Comparison, times: &TimesComparison) -> View {
    let rows = comparison.rows.iter().filter_map(|row| Some((row, row.times()?)));
    let rows: Vec<TimedRow<'_>> = rows.collect();
    let failures = changes::failures(
        &comparison.rows,
        |failed| match failed.boots {
            1 => (format!("1 boot of the {}", failed.side.name()), String::new()),
            boots => (format!("{boots} boots of the {}", failed.side.name()), String::new()),
        },
        |failed| failed.failure.next_step_of_times(times.plan.is_guest(failed.side)),
    );
    let by_size = forest::by_size(&comparison.rows);
    let timed = by_size.iter().filter_map(|row| Some((*row, row.times()?)));
    let timed: Vec<TimedRow<'_>> = timed.collect();
    let mut sections = vec![
        forest::forest(&by_size, comparison.threshold_percent, forest::INTERVAL),
        Section::table(table(&rows)),
        details(comparison, times, &timed),
    ];
    sections.extend(curves::curves(&comparison.rows, "ns", &times.crossings));
    sections.extend([
        remarks::of_all(times),
        remarks::of_bare_metal(&rows, times),
        remarks::crossings(times),
        remarks::of_rows(&rows, times),
        failures,
        remarks::controls(&rows),
    ]);
    View {
        title: comparison.title.clone(),
        headline: headline::of_rows(&comparison.rows),
        sides: sides(times),
        side_heads: ["kernel", "what it is"],
        how: how(times),
        measured_by: String::new(),
        again: again::of_times(&comparison.rows, comparison.threshold_percent, times),
        sections,
        warnings: comparison.warnings.clone(),
        legend: legend(comparison, &rows),
    }
}

/// What the columns are.
fn legend(comparison: &Comparison, rows: &[TimedRow<'_>]) -> Legend {
    let threshold = comparison.threshold_percent;
    let family = |headline| rows.iter().filter(|(row, _)| row.headline == headline).count();
    let secondary = match family(false) {
        0 => String::new(),
        rows => format!("; Benjamini-Hochberg-corrected over {}", counted(rows, "secondary row")),
    };
    let verdict = format!(
        "slower or faster: by at least {threshold} %, and significant at 5 % (Holm-corrected over \
         {}{secondary})",
        counted(family(true), "row")
    );
    let mde = words::MDE;
    let terms = [
        ("base, change", "median over the boots; each boot counts as the median of its loops"),
        ("ratio", "change over base (Hodges-Lehmann estimate), with its signed-rank interval"),
    ];
    let all = ["Times are per operation.".to_owned()].into_iter();
    Legend::of(all.chain(words::programs(&comparison.rows))).with(terms).with([
        (
            "MDE %",
            format!("{mde}: the smallest change that nine of ten such runs would have found"),
        ),
        ("verdict", verdict),
        ("A/A ratio", "base against base; 1 on a fair machine".to_owned()),
        (
            "between boots",
            "share of the base's variance that lies between boots, not between the loops of one; \
             if it is near 0, more loops help as much as more pairs"
                .to_owned(),
        ),
    ])
}
