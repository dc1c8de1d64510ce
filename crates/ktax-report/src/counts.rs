//! Reports of comparisons of exactly counted instructions.

mod cpus;
mod details;
mod paths;

pub use details::{details, kind_functions};
pub use paths::{changed_paths, row_costs, top_counts};

use std::collections::BTreeMap;

use crate::counts::cpus::{awaited, coherence, cpu_times, scalability};
use crate::counts::cpus::{lock_callers, sleepers, waits};
use crate::counts::details::{functions, overall};
use crate::effect::carried_most;
use crate::view::{Columns, Legend, Note, Records, Section, SideLine, Table, View};
use crate::{changes, effect, number, pictures, words};
use ktax_host::text::short_hashes;
use ktax_model::{
    AWAITED, CYCLES, Comparison, CountsComparison, Effect, Estimate, LowHigh, Model, Row, Side,
    Sides, TRANSFERS, metric,
};

pub fn view(comparison: &Comparison, counts: &CountsComparison) -> View {
    let rows = &comparison.rows;
    let by_size = pictures::by_size(rows);
    let threshold = comparison.threshold_percent;
    let model = counts.key.machine.model.as_ref().and_then(Model::machine);
    let mut sections = vec![
        pictures::forest(&by_size, threshold, pictures::LAYOUTS),
        overall(rows),
        Section::InWords(Box::new(Section::table(rows_table(rows)))),
        awaited(rows),
        scalability(rows),
        cpu_times(rows, counts),
        waits(rows, counts),
        lock_callers(rows),
        sleepers(rows),
        coherence(rows),
        Section::Rows,
    ];
    sections.extend(pictures::family_curves(rows, "instructions", &[]));
    sections.push(Section::sentences(counts.growth.iter().map(words::growth)));
    sections.extend(functions(rows));
    sections.push(changes::costly(rows));
    sections.extend(model.map(|model| changes::modelled(rows, &model.name)));
    sections.extend(estimates(rows));
    sections.extend([
        changes::also_changed(rows),
        changes::background(rows),
        changes::operations(rows),
        changes::different_work(rows),
        changes::program_work(rows),
        changes::failures(rows, changes::failed_boot, |failed| failed.failure.next_step()),
    ]);
    View {
        title: comparison.title.clone(),
        headline: words::headline(&comparison.rows),
        sides: sides(counts),
        side_heads: side_heads(counts),
        how: words::counts_header(counts),
        measured_by: format!("guest {}", short_hashes(&counts.key.guest)),
        again: ktax_plan::repeat_command(comparison, rows),
        sections,
        warnings: comparison.warnings.clone(),
        legend: legend(comparison, counts),
    }
}

/// Heads of the columns of sides: kernel, and boot line (with settings if a side has some).
fn side_heads(counts: &CountsComparison) -> [&'static str; 2] {
    let Sides { base, change } = &counts.asked.subjects;
    match base.has_settings() || change.has_settings() {
        true => ["kernel", "boot line and settings"],
        false => ["kernel", "boot line"],
    }
}

const INSN_OF_ONE_CPU: &str =
    "insn: instructions per operation in process context, counted exactly; they are not time.";
const INSN_OF_SEVERAL_CPUS: &str = "insn: makespan per operation, in instructions: how long \
                                    several CPUs need for it if each instruction takes the same \
                                    time; counted exactly.";

fn legend(comparison: &Comparison, counts: &CountsComparison) -> Legend {
    let is_by_rep = |row| words::is_by_rep(row) && row.verdict.is_change();
    let rep = comparison.rows.iter().any(is_by_rep).then_some(words::BY_REP);
    let is_by_threads = |row| words::is_by(row, AWAITED) && row.verdict.is_change();
    let threads = comparison.rows.iter().any(is_by_threads).then_some(words::BY_AWAITED);
    let insn = if counts.key.machine.cpus > 1 { INSN_OF_SEVERAL_CPUS } else { INSN_OF_ONE_CPU };
    let sentences = [insn, "base, change and delta are of the layout with the median delta."];
    Legend::new(sentences.map(str::to_owned).into_iter().chain(words::programs(&comparison.rows)))
        .with_terms(words::over_layouts(comparison.threshold_percent, counts.layouts))
        .with_terms(rep)
        .with_terms(threads)
}

/// Returns one line for each row and Metric, with all samples. A unit that a model counts has the
/// model's name.
pub fn records(comparison: &Comparison) -> Records {
    let model = comparison.counts().and_then(|counts| counts.key.machine.model.as_ref());
    effect::records(&comparison.rows, |name| {
        let Some(metric) = metric(name) else { return String::new() };
        let is_modelled = metric.modelled().is_some() || metric.name == TRANSFERS;
        match model.filter(|_| is_modelled) {
            Some(model) => format!("{} (model {})", metric.unit, model.name()),
            None => metric.unit.to_owned(),
        }
    })
}

pub fn sides(counts: &CountsComparison) -> Vec<SideLine> {
    let line = |side: Side| SideLine {
        side: side.name(),
        name: kernel_name(counts, side),
        settings: counts.asked.subjects.get(side).variant_text(),
    };
    Side::BOTH.map(line).to_vec()
}

/// Name of a side's kernel, with its revision or hash if both sides' kernels have the same name.
fn kernel_name(counts: &CountsComparison, side: Side) -> String {
    let (Sides { base, change }, kernel) = (&counts.kernels, counts.kernels.get(side));
    if base.name() != change.name() || base.sha256 == change.sha256 {
        return short_hashes(kernel.name());
    }
    match counts.asked.subjects.get(side).revision() {
        Some(revision) => format!("{} (git {revision})", kernel.name()),
        None => {
            let start: String = kernel.sha256.chars().take(12).collect();
            format!("{} (sha256 {start})", kernel.name())
        }
    }
}

/// Table with one line for each row, in the Plan's order.
///
/// The function that carries most is only on a wide page, because the page also lists it with all
/// other functions below. A narrow page then leaves out in this order: the change (it is base plus
/// delta), the range (rows that changed repeat it above their functions), the MDE, the base.
fn rows_table(rows: &[Row]) -> Table {
    let lines: Vec<_> = rows.iter().map(|row| (row, row.effects().first())).collect();
    let mut columns = Columns::new(&lines);
    let cell =
        |text: fn(&Effect) -> String| move |(_, effect): (_, Option<&Effect>)| effect.map(text);
    columns.row("workload", |(row, _)| &row.row);
    columns.number("base insn", cell(|effect| number::count(effect.base))).drop_order(4);
    columns.number("change insn", cell(|effect| number::count(effect.change))).drop_order(1);
    columns.number("delta insn", cell(|effect| number::delta(effect.delta)));
    columns.number("delta %", cell(|effect| number::percent(effect.percent)));
    columns.number("range %", cell(effect::over_layouts)).drop_order(2);
    columns.number("MDE %", cell(effect::detectable)).drop_order(3);
    let has_carried = rows.iter().any(|row| carried_most(row).is_some());
    let carried = columns.words("carried most by", |(row, _)| carried_most(row));
    carried.drop_order(0).wide_only().keep_if(has_carried);
    columns.verdict(|(row, _)| words::verdict_cell(row));
    columns.table()
}

/// Sections of estimated cycles, one for each machine.
fn estimates(rows: &[Row]) -> impl Iterator<Item = Section> {
    let mut machines: BTreeMap<String, Vec<Note>> = BTreeMap::new();
    for row in rows {
        let Some(estimate) = row.counts().and_then(|counts| counts.estimate.as_ref()) else {
            continue;
        };
        let note = estimate_text(estimate).map(|text| Note { row: row.row.clone(), text });
        machines.entry(estimate_title(estimate)).or_default().extend(note);
    }
    machines.into_iter().map(|(title, notes)| Section::Notes { title, notes })
}

fn estimate_title(estimate: &Estimate) -> String {
    let Estimate { machine, cpu, base, .. } = estimate;
    let subject = match base {
        Some(_) => "What the change adds to an operation",
        None => "What costly instructions and string iterations add to an operation",
    };
    format!(
        "{subject}, in {CYCLES}: estimated for {cpu} ({machine}), not measured (no verdict rests \
         on it):"
    )
}

/// Formats an estimate: `between +380 and +420 (+2.1…2.4 %)`; `None` for a row without any
/// difference. The text begins with the instructions that the estimate leaves out, because these
/// may cost more than the rest.
fn estimate_text(estimate: &Estimate) -> Option<String> {
    let Estimate { base, delta, percent, left_out, .. } = estimate;
    if *delta == [0.0; 2] && left_out.is_empty() {
        return None;
    }
    let without = match left_out.is_empty() {
        true => String::new(),
        false => format!("without {}, not timed there: ", words::deltas(left_out)),
    };
    let percent = percent.map(|[low, high]| number::percent_range(Some(low), Some(high)));
    let percent = percent.map_or(String::new(), |percent| format!(" ({percent} %)"));
    let base_cost = base.map(|[low, high]| {
        format!("; the base takes {}…{}", number::measured(low), number::measured(high))
    });
    let base_cost = base_cost.unwrap_or_default();
    Some(match delta {
        [0.0, 0.0] => format!("{without}no other difference"),
        _ => format!("{without}{}{percent}{base_cost}", between(*delta)),
    })
}

fn between([low, high]: LowHigh) -> String {
    let signed = |value: f64| {
        let sign = if value > 0.0 { "+" } else { "" };
        format!("{sign}{}", number::measured(value))
    };
    format!("between {} and {}", signed(low), signed(high))
}
