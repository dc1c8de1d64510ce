use super::headline::headline;
use super::remarks::{failed, legend, uncounted, values};
use super::table::table as counters;
use crate::view::{Section, SideLine, View};
use ktax_host::text::{counted, shell_line};
use ktax_model::{Side, StatTable};

/// The counters, what could not be counted, and all values if asked.
pub fn view(table: &StatTable, with_values: bool) -> View {
    let lines: Vec<String> = table.commands.iter().map(|it| shell_line(&it.words)).collect();
    let (title, sides, how) = match (lines.as_slice(), table.seed) {
        ([base, change], Some(seed)) => {
            let side = |side: Side, line: &String| SideLine {
                side: side.name(),
                what: line.clone(),
                beside: String::new(),
            };
            let pairs = counted(table.runs, "pair");
            let how = format!("{pairs} in randomized order (seed {seed})");
            let sides = vec![side(Side::Base, base), side(Side::Change, change)];
            ("Performance counter stats".to_owned(), sides, how)
        }
        _ => {
            let title = format!("Performance counter stats for `{}`", lines.join(" "));
            (title, Vec::new(), counted(table.runs, "run"))
        }
    };
    let cpus = counted(table.cpus, "CPU");
    View {
        title,
        headline: headline(table),
        sides,
        side_heads: ["command", ""],
        how: format!("{how} · Linux {} · {cpus}", table.release),
        measured_by: String::new(),
        again: Vec::new(),
        sections: vec![
            Section::table(counters(table)),
            Section::Sentences(failed(table)),
            Section::Sentences(uncounted(table)),
            Section::Sentences(if with_values { values(table) } else { Vec::new() }),
        ],
        warnings: Vec::new(),
        legend: legend(table),
    }
}
