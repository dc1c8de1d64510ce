use super::table::ratio;
use crate::number;
use crate::view::{FailureReason, Kind, Line, Note, Section, Table};
use ktax_model::{Crossing, Ratio, Row, TimesComparison, TimesEvidence};

/// A row with what its pairs say.
pub type TimedRow<'a> = (&'a Row, &'a TimesEvidence);

/// Why there are no verdicts at all, or fewer than one might expect.
pub fn of_all(times: &TimesComparison) -> Section {
    let blocks = times.plan.is_in_blocks().then(|| {
        "Blocks give less certainty than pairs of boots: whatever else changed between two boots \
         of this machine looks like the change, and more processes in a boot do not help. A \
         verdict needs 10 pairs of neighbouring blocks and 8 A/A pairs: 36 boots, in the order \
         that `ktax run` asks for."
            .to_owned()
    });
    Section::Sentences(times.unfit.iter().cloned().chain(blocks).collect())
}

/// Why single rows have no answer, each reason once.
pub fn of_rows(rows: &[TimedRow<'_>], times: &TimesComparison) -> Section {
    let mut reasons: Vec<FailureReason> = Vec::new();
    for (row, _) in rows.iter().filter(|(row, _)| row.reason != times.unfit) {
        let Some(reason) = &row.reason else { continue };
        let why = format!("{}: {reason}", row.verdict.text());
        match reasons.iter_mut().find(|known| known.why == why) {
            Some(known) => known.rows.push(row.row.clone()),
            None => {
                reasons.push(FailureReason {
                    rows: vec![row.row.clone()],
                    why,
                    ..FailureReason::default()
                });
            }
        }
    }
    Section::Reasons { title: "Rows without an answer:".to_owned(), reasons }
}

/// What guests keep of bare metal's speed, in percent of it: the inverse of the ratio.
pub fn of_bare_metal(rows: &[TimedRow<'_>], times: &TimesComparison) -> Section {
    let note = |(row, times): &TimedRow<'_>| {
        let Ratio { estimate, low, high } = times.ratio?;
        let [most, least] = [low, high.unwrap_or(f64::INFINITY)].map(|ratio| 100.0 / ratio);
        let text = format!("{:.1} % ({least:.1}…{most:.1})", 100.0 / estimate);
        Some(Note { row: row.row.clone(), text })
    };
    let has_guest = times.plan.subjects.base.bare_metal;
    let answered = rows.iter().filter(|(row, _)| has_guest && row.verdict.is_answer());
    let title = "The guest's speed, in percent of bare metal's:".to_owned();
    Section::Notes { title, notes: answered.filter_map(note).collect() }
}

/// Where curves cross.
pub fn crossings(times: &TimesComparison) -> Section {
    let sentence = |crossing: &Crossing| {
        let Crossing { family, parameter, between: (from, to), at, ratios, certain } = crossing;
        let certain = match certain {
            true => "",
            false => " This may be chance: not both ratios differ from 1 by more than noise.",
        };
        format!(
            "{family}: the curves cross at about {parameter}={}. The ratio is {} at \
             {parameter}={from}, and {} at {parameter}={to}.{certain}",
            number::measured(*at),
            ratio(ratios.0),
            ratio(ratios.1),
        )
    };
    Section::Sentences(times.crossings.iter().map(sentence).collect())
}

/// How fair the machine is, and where its noise is.
pub fn controls(rows: &[TimedRow<'_>]) -> Section {
    let columns = [
        ("workload", Kind::Row),
        ("A/A ratio\n(99 %)", Kind::Number),
        ("between boots\n%", Kind::Number),
    ];
    let line = |(row, times): &TimedRow<'_>| {
        let control = times.control.map(|control| ratio(control.ratio));
        let between = times.between_boots_percent.map(|percent| format!("{percent:.0}"));
        let is_known = control.is_some() || between.is_some();
        let cells = [row.row.clone(), control.unwrap_or_default(), between.unwrap_or_default()];
        is_known.then(|| Line { is_part: !row.headline, ..Line::of(cells) })
    };
    Section::Table {
        title: "How fair and how noisy the machine was".to_owned(),
        table: Table::of(columns).with(rows.iter().filter_map(line)),
        notes: Vec::new(),
    }
}
