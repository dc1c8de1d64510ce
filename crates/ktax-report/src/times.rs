//! Reports of comparisons of times, measured in pairs of boots.

use crate::view::{
    ColumnKind, Columns, Details, FailureReason, Fields, Legend, Line, Note, PairTrail, Picture,
    Records, RowDetail, Section, SideLine, Table, View,
};
use crate::{changes, number, pictures, words};
use ktax_host::text::counted;
use ktax_model::{
    Comparison, Crossing, Facts, Ratio, Row, Side, Sides, TimedSubject, TimesComparison,
    TimesEvidence, fact,
};

/// Builds the page: the table, rows without an answer, failures, and the quality of the
/// measurement.
pub fn view(comparison: &Comparison, times: &TimesComparison) -> View {
    let rows = comparison.rows.iter().filter_map(|row| Some((row, row.times()?)));
    let rows: Vec<TimedRow<'_>> = rows.collect();
    let failures = changes::failures(
        &comparison.rows,
        |failed| match failed.boots {
            1 => (format!("1 boot of the {}", failed.side.name()), String::new()),
            boots => (format!("{boots} boots of the {}", failed.side.name()), String::new()),
        },
        |failed| failed.failure.timed_next_step(times.plan.asked.is_guest(failed.side)),
    );
    let by_size = pictures::by_size(&comparison.rows);
    let mut sections = vec![
        pictures::forest(&by_size, comparison.threshold_percent, pictures::INTERVAL),
        Section::table(rows_table(&rows)),
        Section::Rows,
    ];
    sections.extend(pictures::family_curves(&comparison.rows, "ns", &times.crossings));
    sections.extend([
        unfit_sentences(times),
        bare_metal_speed(&rows, times),
        crossing_sentences(times),
        unanswered_rows(&rows, times),
        failures,
        controls_table(&rows),
    ]);
    View {
        title: comparison.title.clone(),
        headline: words::headline(&comparison.rows),
        sides: sides(times),
        side_heads: ["kernel", "settings"],
        how: how_measured(times),
        again: ktax_plan::repeat_command(comparison, &comparison.rows),
        sections,
        warnings: comparison.warnings.clone(),
        legend: legend(comparison, &rows),
        ..View::default()
    }
}

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
    let sentences = ["Times are per operation.".to_owned()].into_iter();
    Legend::new(sentences.chain(words::programs(&comparison.rows))).with_terms(terms).with_terms([
        (
            "MDE %",
            format!("{mde}: the smallest change that nine of ten such runs would have found"),
        ),
        ("verdict", verdict),
        ("A/A ratio", "ratio of base to base; 1 on an unbiased machine".to_owned()),
        (
            "between boots",
            "share of the base's variance between boots, as opposed to the loops of one boot; if \
             it is near 0, more loops help as much as more pairs"
                .to_owned(),
        ),
    ])
}

fn sides(times: &TimesComparison) -> Vec<SideLine> {
    let line = |side: Side| SideLine {
        side: side.name(),
        name: times.facts.get(side).get(fact::KERNEL).cloned().unwrap_or_default(),
        settings: subject_words(times.plan.asked.subjects.get(side)),
    };
    Side::BOTH.map(line).to_vec()
}

/// Describes a side: kernel, boot line, settings; `as it is` for the unchanged machine.
fn subject_words(subject: &TimedSubject) -> String {
    if subject.bare_metal {
        return "bare metal".to_owned();
    }
    let mut words: Vec<String> = subject.kernel.iter().cloned().collect();
    words.extend((!subject.boot_line.is_empty()).then(|| subject.boot_line.clone()));
    words.extend(subject.sysctl.iter().map(|(name, value)| format!("{name}={value}")));
    words.extend(subject.thp.iter().map(|thp| format!("thp={thp}")));
    words.extend(subject.governor.iter().map(|governor| format!("governor={governor}")));
    if !subject.prefix.is_empty() {
        let prefix = shlex::try_join(subject.prefix.iter().map(String::as_str));
        words.push(format!("prefix={}", prefix.unwrap_or_else(|_| subject.prefix.join(" "))));
    }
    if words.is_empty() { "as it is".to_owned() } else { words.join(" ") }
}

fn how_measured(times: &TimesComparison) -> String {
    let engine = &times.plan.asked.engine;
    let loops = counted(times.plan.asked.loops as usize, "loop");
    let pairs = counted(times.pairs, "pair");
    let controls = counted(times.controls, "A/A pair");
    let machine = machine_words(&times.facts);
    match times.plan.asked.is_in_blocks() {
        true => format!(
            "{engine} · {pairs} and {controls} of blocks, one block in each boot of this machine \
             · {loops} in each process{machine}"
        ),
        false => format!(
            "{engine} · {pairs} and {controls} of fresh boots, in randomized order (seed {}) · \
             {loops} in each boot{machine}",
            times.seed
        ),
    }
}

/// Lists the facts of the machine that influence times, if they are equal on both sides.
fn machine_words(facts: &Sides<Facts>) -> String {
    let Sides { base, change } = facts;
    let known_fact = |facts: &Facts, name: &str| {
        facts.get(&fact::machine_fact(name)).or_else(|| facts.get(name)).cloned()
    };
    let texts =
        [fact::CPU, fact::GOVERNOR, fact::THP, fact::CLOCK].into_iter().filter_map(|name| {
            let value = known_fact(base, name)
                .filter(|value| known_fact(change, name).as_ref() == Some(value))?;
            Some(if name == fact::CPU { value } else { format!("{name} {value}") })
        });
    texts.map(|fact| format!(" · {fact}")).collect()
}

/// Table with one line for each row; secondary rows belong to the row above. A narrow page leaves
/// out the pairs, the MDE, then the times.
fn rows_table(rows: &[TimedRow<'_>]) -> Table {
    let ns = |side: Side| move |(_, times): TimedRow<'_>| times.ns.get(side).map(number::measured);
    let mut columns = Columns::new(rows);
    columns.row("workload", |(row, _)| &row.row);
    columns.number("base ns", ns(Side::Base)).drop_order(2);
    columns.number("change ns", ns(Side::Change)).drop_order(2);
    columns.number("ratio\n(95 %)", |(_, times)| times.ratio.map(shown_ratio));
    columns.number("pairs", |(_, times)| times.pairs).drop_order(0);
    columns.number("MDE %", |(_, times)| times.detectable_percent.map(number::limit)).drop_order(1);
    columns.verdict(|(row, _)| row.verdict);
    columns.with_parts(|(row, _)| !row.headline)
}

/// Formats a ratio with its interval: `1.028 (1.024…1.032)`.
fn shown_ratio(ratio: Ratio) -> String {
    let high = ratio.high.map_or("∞".to_owned(), |high| format!("{high:.3}"));
    format!("{:.3} ({:.3}…{high})", ratio.estimate, ratio.low)
}

const HOW_TO_READ: &str = "Each mark is one pair, in the order of time: filled marks are change \
                           over base, hollow marks are A/A pairs, base over base. The band is the \
                           interval of the ratio. A dashed line marks an interim test of the \
                           results. A drift of the machine shows as a slope of the hollow marks.";

pub fn details(comparison: &Comparison, times: &TimesComparison) -> Details {
    let timed = pictures::by_size(&comparison.rows).into_iter();
    let timed = timed.filter_map(|row| Some((row, row.times()?)));
    let rows = timed.map(|row| row_detail(comparison, times, row)).collect();
    Details { rows, how: HOW_TO_READ.to_owned() }
}

fn row_detail(
    comparison: &Comparison,
    times: &TimesComparison,
    (row, evidence): TimedRow<'_>,
) -> RowDetail {
    let trail = PairTrail {
        pairs: evidence.series.clone(),
        looks: times.pairs_at_looks.clone(),
        ratio: evidence.ratio,
    };
    let mut sentences = vec![format!("{}. One operation: {}.", row.title, row.operation)];
    sentences.extend(row.reason.iter().map(|reason| format!("{}: {reason}.", row.verdict.text())));
    let one_row = std::slice::from_ref(row);
    RowDetail {
        row: row.row.clone(),
        answer: evidence
            .ratio
            .map_or(String::new(), |ratio| format!("ratio {}", shown_ratio(ratio))),
        verdict: row.verdict.into(),
        sections: vec![
            Section::Sentences(sentences),
            Section::picture("Pairs in the order of time", Picture::Trail(trail), ""),
            pair_numbers(evidence),
        ],
        again: ktax_plan::repeat_command(comparison, one_row),
    }
}

fn pair_numbers(times: &TimesEvidence) -> Section {
    let line = |name: &str, value: String| Line::new([name.to_owned(), value]);
    let control = times.control.map(|control| {
        let pairs = counted(control.pairs, "A/A pair");
        line("base over base", format!("{} over {pairs}", shown_ratio(control.ratio)))
    });
    let p = format!("{:.4} (corrected over {})", times.p_adjusted, counted(times.family, "row"));
    let lines = [line("p", p)].into_iter().chain(control);
    Section::table(Table::new([("", ColumnKind::Words), ("", ColumnKind::Words)]).with_lines(lines))
}

/// Row with the evidence of its pairs.
type TimedRow<'a> = (&'a Row, &'a TimesEvidence);

/// Sentences about the reasons for which the comparison has no verdicts, or needs more boots for
/// them.
fn unfit_sentences(times: &TimesComparison) -> Section {
    let blocks = times.plan.asked.is_in_blocks().then(|| {
        "Blocks give less certainty than pairs of boots: all differences between two boots of this \
         machine look like the change, and more processes in a boot do not help. A verdict needs \
         10 pairs of neighbouring blocks and 8 A/A pairs: 36 boots, in the order that `ktax run` \
         prints."
            .to_owned()
    });
    Section::sentences(times.unfit.iter().cloned().chain(blocks))
}

/// Section of the rows without an answer. Rows with the same reason are listed together.
fn unanswered_rows(rows: &[TimedRow<'_>], times: &TimesComparison) -> Section {
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

/// Notes on the speed of guests in percent of the speed of bare metal, which is the inverse of the
/// ratio.
fn bare_metal_speed(rows: &[TimedRow<'_>], times: &TimesComparison) -> Section {
    let note = |(row, times): &TimedRow<'_>| {
        let Ratio { estimate, low, high } = times.ratio?;
        let [max, min] = [low, high.unwrap_or(f64::INFINITY)].map(|ratio| 100.0 / ratio);
        let text = format!("{:.1} % ({min:.1}…{max:.1})", 100.0 / estimate);
        Some(Note { row: row.row.clone(), text })
    };
    let has_guest = times.plan.asked.subjects.base.bare_metal;
    let answered = rows.iter().filter(|(row, _)| has_guest && row.verdict.is_answer());
    Section::notes("The guest's speed, in percent of bare metal's:", answered.filter_map(note))
}

/// Sentences about the crossings of curves.
fn crossing_sentences(times: &TimesComparison) -> Section {
    let sentence = |crossing: &Crossing| {
        let Crossing {
            family,
            parameter,
            neighbours: (from, to),
            value: crossed_at,
            ratios,
            is_certain,
        } = crossing;
        let remark = match is_certain {
            true => "",
            false => {
                " This may be chance: at least one of the ratios differs from 1 only by noise."
            }
        };
        format!(
            "{family}: the curves cross at about {parameter}={}. The ratio is {} at \
             {parameter}={from}, and {} at {parameter}={to}.{remark}",
            number::measured(*crossed_at),
            shown_ratio(ratios.0),
            shown_ratio(ratios.1),
        )
    };
    Section::sentences(times.crossings.iter().map(sentence))
}

/// Table of the A/A ratios, and of the share of the noise between boots.
fn controls_table(rows: &[TimedRow<'_>]) -> Section {
    let between_boots =
        |times: &TimesEvidence| Some(format!("{:.0}", times.between_boots_percent?));
    let ratio = |times: &TimesEvidence| Some(shown_ratio(times.control?.ratio));
    let has_cells =
        |(_, times): &TimedRow<'_>| ratio(times).is_some() || between_boots(times).is_some();
    let lines: Vec<TimedRow<'_>> = rows.iter().copied().filter(has_cells).collect();
    let mut columns = Columns::new(&lines);
    columns.row("workload", |(row, _)| &row.row);
    columns.number("A/A ratio\n(99 %)", |(_, times)| ratio(times));
    columns.number("between boots\n%", |(_, times)| between_boots(times));
    let table = columns.with_parts(|(row, _)| !row.headline);
    table.with_title("Bias and noise of the machine")
}

/// Returns one line for each row, with unrounded values.
pub fn records(comparison: &Comparison) -> Records {
    let rows = comparison.rows.iter().filter_map(|row| Some((row, row.times()?)));
    let rows: Vec<TimedRow<'_>> = rows.collect();
    let mut fields = Fields::new(&rows);
    fields.add("workload", |(row, _)| &row.row);
    fields.add("operation", |(row, _)| &row.operation);
    fields.add("headline", |(row, _)| row.headline);
    fields.add("verdict", |(row, _)| row.verdict.text());
    fields.add("base_ns", |(_, times)| times.ns.base);
    fields.add("change_ns", |(_, times)| times.ns.change);
    fields.add("ratio", |(_, times)| times.ratio.map(|ratio| ratio.estimate));
    fields.add("ratio_low", |(_, times)| times.ratio.map(|ratio| ratio.low));
    fields.add("ratio_high", |(_, times)| times.ratio.and_then(|ratio| ratio.high));
    fields.add("pairs", |(_, times)| times.pairs);
    fields.add("family", |(_, times)| times.family);
    fields.add("p_adjusted", |(_, times)| times.p_adjusted);
    fields.add("detectable_percent", |(_, times)| times.detectable_percent);
    fields.add("controls", |(_, times)| times.control.map_or(0, |control| control.pairs));
    fields.add("why", |(row, _)| row.reason.as_deref().unwrap_or_default());
    fields.add("failures", |(row, _)| row.failed_boots());
    fields.records()
}
