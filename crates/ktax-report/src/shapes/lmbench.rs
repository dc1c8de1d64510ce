use crate::formats::{Page, numbers};
use crate::options::TextOptions;
use crate::view::SideLine;
use crate::{counts, number, verdict, words};
use ktax_model::{Comparison, Effect, Row};
use ktax_stats::tables::{mean, percent_change};

/// A line: its name in the published table, and the rows whose mean it is.
type Line = (&'static str, &'static [&'static str]);

/// Title, what is better, and lines in the published order.
const SECTIONS: &[(&str, &[Line])] = &[
    (
        "Process tests, instructions per operation, smaller is better",
        &[
            ("null call", &["getppid"]),
            ("null I/O", &["read-1", "write-1"]),
            ("stat", &["stat"]),
            ("open/close", &["open-close"]),
            ("select TCP", &["select-tcp"]),
            ("sig inst", &["signal-install"]),
            ("sig handl", &["signal-handle"]),
            ("fork proc", &["fork-exit"]),
            ("exec proc", &["fork-exec"]),
            ("sh proc", &["sh"]),
        ],
    ),
    (
        "File and VM system, instructions per operation, smaller is better",
        &[
            ("0K file create", &["file-create:bytes=0"]),
            ("0K file delete", &["file-delete:bytes=0"]),
            ("10K file create", &["file-create:bytes=10240"]),
            ("10K file delete", &["file-delete:bytes=10240"]),
            ("mmap latency", &["mmap-latency"]),
            ("prot fault", &["protection-fault"]),
            ("page fault", &["page-fault-file"]),
        ],
    ),
    (
        "Local communication and memory, instructions per KiB, smaller is better",
        &[
            ("pipe", &["bw-pipe"]),
            ("AF Unix", &["bw-unix"]),
            ("TCP", &["bw-tcp"]),
            ("file reread", &["file-reread"]),
            ("mmap reread", &["mmap-reread"]),
            ("bcopy (libc)", &["bcopy-libc"]),
            ("bcopy (hand)", &["bcopy-hand"]),
            ("mem read", &["mem-read"]),
            ("mem write", &["mem-write"]),
        ],
    ),
    (
        "Context switching, instructions per switch, smaller is better",
        &[
            ("2p/0K", &["context-switch:kib=0,processes=2"]),
            ("2p/16K", &["context-switch:kib=16,processes=2"]),
            ("2p/64K", &["context-switch:kib=64,processes=2"]),
            ("8p/16K", &["context-switch:kib=16,processes=8"]),
            ("8p/64K", &["context-switch:kib=64,processes=8"]),
            ("16p/16K", &["context-switch:kib=16,processes=16"]),
            ("16p/64K", &["context-switch:kib=64,processes=16"]),
        ],
    ),
    (
        "Local communication latencies, instructions per round trip, smaller is better",
        &[
            ("Pipe", &["pipe"]),
            ("AF UNIX", &["af-unix"]),
            ("UDP", &["udp"]),
            ("TCP", &["tcp"]),
            ("TCP conn", &["tcp-connect"]),
        ],
    ),
    (
        "Not in the published tables, instructions per operation, smaller is better",
        &[
            ("fstat", &["fstat"]),
            ("select file", &["select-file"]),
            ("page fault, anonymous", &["page-fault"]),
            ("page fault, huge", &["page-fault-thp"]),
            ("page fault, file, one page", &["page-fault-file-1"]),
            ("page fault, copy on write", &["page-fault-cow"]),
        ],
    ),
];

/// The published tables, with the verdicts that they did not have.
pub fn render(comparison: &Comparison, options: TextOptions) -> String {
    let page = Page::new(options);
    let mut text = page.paragraph(&format!("LMBench-style microbenchmarks: {}", comparison.title));
    if let Some(counts) = comparison.counts() {
        for SideLine { side, what, beside } in counts::sides(counts) {
            text += &page.paragraph(&format!("{side}: {what} {beside}"));
        }
        text += &page.paragraph(&words::of_counts(counts));
    }
    for (title, lines) in SECTIONS {
        let rows: Vec<Vec<String>> =
            lines.iter().filter_map(|line| cells(comparison, line)).collect();
        if !rows.is_empty() {
            let header = ["Test Type", "base", "change", "% Overhead\nwith change", "verdict"];
            let table = numbers(&header, rows, 1..4, options);
            text += &format!("\n{title}:\n{table}");
        }
    }
    text + "\n" + &page.paragraph("Modelled on LMBench; not LMBench's own results.")
}

/// Whether a row is in one of the lines; a mean of several rows needs all of them.
pub fn has(comparison: &Comparison, row: &Row) -> bool {
    let mut lines = SECTIONS.iter().flat_map(|(_, lines)| *lines);
    lines.any(|(_, names)| names.contains(&&*row.row) && rows(comparison, names).is_some())
}

/// The rows of a line, if the Comparison has them all.
fn rows<'a>(comparison: &'a Comparison, names: &[&str]) -> Option<Vec<&'a Row>> {
    let of_row = |name: &&str| comparison.rows.iter().find(|row| row.row == *name);
    names.iter().map(of_row).collect()
}

fn cells(comparison: &Comparison, (name, names): &Line) -> Option<Vec<String>> {
    let rows = rows(comparison, names)?;
    let headlines: Vec<&Effect> = rows.iter().filter_map(|row| row.effects().first()).collect();
    let mut verdicts: Vec<String> = rows.iter().map(|row| verdict::of_row(row).text).collect();
    verdicts.dedup();
    let verdict = verdicts.join(" / ");
    if headlines.len() < rows.len() {
        return Some(vec![
            (*name).to_owned(),
            String::new(),
            String::new(),
            String::new(),
            verdict,
        ]);
    }
    let mean_of = |of: fn(&Effect) -> f64| {
        mean(&headlines.iter().map(|effect| of(effect)).collect::<Vec<f64>>())
    };
    let (base, change) = (mean_of(|effect| effect.base)?, mean_of(|effect| effect.change)?);
    // Instructions: less is better, as of the times in the original's tables.
    let overhead = (base != 0.0).then(|| percent_change(base, change));
    let percent = number::percent(overhead);
    Some(vec![
        (*name).to_owned(),
        number::count(base),
        number::count(change),
        percent + "%",
        verdict,
    ])
}
