use super::awaited::awaited;
use super::coherence::coherence;
use super::details::details;
use super::estimates::estimates;
use super::functions::functions;
use super::overall::overall;
use super::parallel::parallel;
use super::scalability::scalability;
use super::sides::sides;
use super::table::table;
use super::waits::{sleepers, takers, waits};
use crate::view::{Legend, Records, Section, View};
use crate::{again, changes, curves, effect, forest, headline, verdict, words};
use ktax_host::text::short_hashes;
use ktax_model::{AWAITED, Comparison, CountsComparison, Model, Sides, TRANSFERS, metric};

/// All rows at once, what carries most, the table, each row, then how costs grow, what carries each
/// change, and what else changed or failed.
pub fn view(comparison: &Comparison, counts: &CountsComparison) -> View {
    let rows = &comparison.rows;
    let growth = counts.growth.iter().map(words::growth).collect();
    let by_size = forest::by_size(rows);
    let threshold = comparison.threshold_percent;
    let mut sections = vec![forest::forest(&by_size, threshold, forest::LAYOUTS)];
    sections.extend(overall(rows));
    sections.push(Section::InWords(Box::new(Section::table(table(rows)))));
    sections.extend(awaited(rows));
    sections.extend(scalability(rows));
    sections.extend(parallel(rows, counts));
    sections.extend(waits(rows, counts));
    sections.extend(takers(rows));
    sections.extend(sleepers(rows));
    sections.extend(coherence(rows));
    sections.push(details(comparison, counts, &by_size));
    sections.extend(curves::curves(rows, "instructions", &[]));
    sections.push(Section::Sentences(growth));
    sections.extend(functions(rows));
    sections.push(changes::costly(rows));
    let model = counts.key.model.as_ref().and_then(Model::machine);
    sections.extend(model.map(|model| changes::modelled(rows, &model.name)));
    sections.extend(estimates(rows));
    sections.push(changes::also_changed(rows));
    sections.push(changes::background(rows));
    sections.push(changes::operations(rows));
    sections.push(changes::different_work(rows));
    sections.push(changes::program_work(rows));
    sections.push(changes::failures(rows, changes::boot, |failed| failed.failure.next_step()));
    View {
        title: comparison.title.clone(),
        headline: headline::of_rows(&comparison.rows),
        sides: sides(counts),
        side_heads: side_heads(counts),
        how: words::of_counts(counts),
        measured_by: format!("guest {}", short_hashes(&counts.key.guest)),
        again: again::of_counts(rows, comparison.threshold_percent, counts),
        sections,
        warnings: comparison.warnings.clone(),
        legend: legend(comparison, counts),
    }
}

/// What stands beside a side's name; a side may have more than a boot line.
fn side_heads(counts: &CountsComparison) -> [&'static str; 2] {
    let Sides { base, change } = &counts.subjects;
    match base.subject.has_settings() || change.subject.has_settings() {
        true => ["kernel", "boot line and settings"],
        false => ["kernel", "boot line"],
    }
}

const OF_ONE_CPU: &str =
    "insn: instructions per operation in process context, counted exactly; they are not time.";
const OF_SEVERAL_CPUS: &str = "insn: makespan per operation, in instructions: how long several \
                               CPUs need for it if each instruction takes the same time; counted \
                               exactly.";

/// What the numbers are.
fn legend(comparison: &Comparison, counts: &CountsComparison) -> Legend {
    let is_by_rep = |row| verdict::is_by_rep(row) && row.verdict.is_change();
    let rep = comparison.rows.iter().any(is_by_rep).then_some(words::BY_REP);
    let is_by_threads = |row| verdict::is_by(row, AWAITED) && row.verdict.is_change();
    let threads = comparison.rows.iter().any(is_by_threads).then_some(words::BY_AWAITED);
    let insn = if counts.key.cpus > 1 { OF_SEVERAL_CPUS } else { OF_ONE_CPU };
    let numbers = [insn, "base, change and delta are of the layout with the median delta."];
    Legend::of(numbers.map(str::to_owned).into_iter().chain(words::programs(&comparison.rows)))
        .with(words::over_layouts(comparison.threshold_percent, counts.layouts))
        .with(rep)
        .with(threads)
}

/// One line for each row and Metric, with all samples. A model's unit has its name.
pub fn records(comparison: &Comparison) -> Records {
    let model = comparison.counts().and_then(|counts| counts.key.model.as_ref());
    effect::records(&comparison.rows, |name| {
        let Some(metric) = metric(name) else { return String::new() };
        let is_modelled = metric.modelled.is_some() || metric.name == TRANSFERS;
        match model.filter(|_| is_modelled) {
            Some(model) => format!("{} (model {})", metric.unit, model.name()),
            None => metric.unit.to_owned(),
        }
    })
}
