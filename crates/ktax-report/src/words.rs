//! Words that several reports share.

use std::collections::BTreeMap;

use crate::number;
use ktax_host::text::counted;
use ktax_model::{
    CONTENDED_QUANTUM, CountsComparison, Disk, Growth, GrowthPower, Key, QUANTUM, Row, UserProgram,
    metric, module_and_parameters,
};
use ktax_stats::exact::MIN_LAYOUTS;

/// `exact · QEMU 7.2.22 · pc-q35-7.2 · max · 512 MiB · 5 layouts`.
pub fn machine(key: &Key, layouts: usize) -> String {
    let machine = &key.machine;
    let mut words = vec![
        key.engine.clone(),
        format!("QEMU {}", key.qemu),
        key.machine_type.clone(),
        machine.cpu.clone(),
        format!("{} MiB", number::whole(machine.memory_mib.into())),
    ];
    if machine.cpus > 1 {
        words.push(format!("{} CPUs", machine.cpus));
        words.push(quantum(machine.quantum));
    }
    words.extend(machine.model.as_ref().map(|model| format!("model {}", model.name())));
    if !key.modules.is_empty() {
        let names = key.modules.iter().map(|module| module_and_parameters(module).0);
        let names: Vec<&str> = names.collect();
        words.push(format!("modules {}", names.join(", ")));
    }
    words.push(counted(layouts, "layout"));
    words.join(" · ")
}

/// Lists Metrics by how much they changed: `+2.00 cr3-write, +1.00 verw`.
pub fn deltas(deltas: &BTreeMap<String, f64>) -> String {
    let described = |(name, delta): (&String, &f64)| format!("{} {name}", number::delta(*delta));
    deltas.iter().map(described).collect::<Vec<_>>().join(", ")
}

/// Names the quantum: `quantum 500`, or the two defaults where none was asked for.
fn quantum(asked: Option<u32>) -> String {
    let say = |quantum: u32| number::whole(quantum.into());
    match asked {
        Some(quantum) => format!("quantum {}", say(quantum)),
        None => format!("quantum {}, contended {}", say(QUANTUM), say(CONTENDED_QUANTUM)),
    }
}

/// Describes the machine of counts with the disk, and the code that computes its checksums.
pub fn counts_header(counts: &CountsComparison) -> String {
    let disk = counts.asked.guest.disk.as_ref().map(|disk| {
        let Disk { fs, mib, device, .. } = disk;
        match fs == Disk::OVERLAY {
            true => " · disk overlay on tmpfs".to_owned(),
            false => {
                format!(" · disk {fs}, {} MiB on {}", number::whole((*mib).into()), device.name())
            }
        }
    });
    let crc32c = match counts.crc32c.is_empty() {
        true => String::new(),
        false => format!(" · crc32c by {}", counts.crc32c.join(", ")),
    };
    machine(&counts.key, counts.layouts) + &disk.unwrap_or_default() + &crc32c
}

/// Returns the unit of a Metric for the head of a column: `insn`; empty where it is not known.
pub fn unit(name: &str) -> &'static str {
    match metric(name).map_or("", |metric| metric.unit) {
        "instructions" => "insn",
        other => other,
    }
}

/// Sentences about what the rows of the user's programs run.
pub fn programs(rows: &[Row]) -> impl Iterator<Item = String> + '_ {
    let programs = rows.iter().filter(|row| UserProgram::is_row(&row.row));
    programs.filter_map(|row| match row.computed_from() {
        None => Some(format!("{} runs {}.", row.row, row.title)),
        Some(_) if row.row.ends_with(UserProgram::START) => None,
        Some([small, large]) => Some(format!(
            "{0} is what one more operation adds, by {small} and {large}; {0}{1} is what is left.",
            row.row,
            UserProgram::START
        )),
    })
}

/// Terms of the columns of a comparison over layouts.
pub fn over_layouts(threshold_percent: f64, layouts: usize) -> Vec<(&'static str, String)> {
    let mut terms = vec![
        ("delta %", "delta in percent of base".to_owned()),
        ("range %", "the smallest and the largest delta over all layouts".to_owned()),
    ];
    terms.extend(detectable(layouts));
    terms.extend(verdicts(threshold_percent));
    terms
}

/// Term that says when something is slower or faster over layouts; `None` without a threshold.
pub fn verdicts(threshold_percent: f64) -> Option<(&'static str, String)> {
    let meaning = format!(
        "slower or faster: by at least {threshold_percent} %, and the gap between the sides \
         exceeds each side's range over layouts"
    );
    (threshold_percent > 0.0).then_some(("verdict", meaning))
}

/// Term for a verdict that REP iterations decide.
pub const BY_REP: (&str, &str) = (
    "(REP)",
    "the repeats of string instructions decide; the instructions are neither slower nor faster",
);

/// Term for a verdict that kernel threads decide.
pub const BY_AWAITED: (&str, &str) = (
    "(kernel threads)",
    "the kernel threads that the row waits for decide; the instructions of the process are neither \
     slower nor faster",
);

/// Terms of the column of the MDE, where so many layouts are the noise.
pub fn detectable(layouts: usize) -> Vec<(&'static str, String)> {
    let what = format!("{MDE}: the smallest change that would have been slower or faster");
    let none = (layouts < MIN_LAYOUTS).then(|| {
        format!("a verdict needs {MIN_LAYOUTS} layouts: with fewer, no change of any size gets one")
    });
    [("MDE %", what)].into_iter().chain(none.map(|why| ("none", why))).collect()
}

/// Meaning of MDE.
pub const MDE: &str = "minimum detectable effect";

/// Describes how a cost grows: `fork-pages, base: O(pages). Beyond that of 0 pages …`.
pub fn growth(growth: &Growth) -> String {
    let Growth { family, parameter, order, from, points, because, .. } = growth;
    let side = growth.side.map_or(String::new(), |side| format!(", {}", side.name()));
    let under = match growth.layouts {
        0 => String::new(),
        layouts => format!(" under {}", counted(layouts, "layout")),
    };
    let rows = format!("the {points} rows from {from} on{under}");
    let how = match growth.power {
        Some(GrowthPower { exponent, interval: (low, high) }) => {
            let [exponent, low, high] = [exponent, low, high].map(number::power);
            format!(
                "Beyond that of 0 {parameter} the cost grows with {parameter}^{exponent} \
                 ({low}…{high}), fitted to {rows}."
            )
        }
        None => {
            let (least, most) = growth.beyond_percent;
            format!(
                "Of {rows} the cost lies {least:+.2} to {most:+.2} % above that of 0 {parameter}."
            )
        }
    };
    format!("{family}{side}: {order}. {how} {because}")
}
