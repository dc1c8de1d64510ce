//! What `ktax exits` prints.

mod classic;
mod diff;
mod guests;

pub use classic::{Classic, exits_classic};
pub use diff::exits_diff;
pub use guests::{guests, guests_compared};

use super::text::{fitting_table, paragraph};
use super::{TextOptions, number};
use crate::model::{ExitAccount, ExitParts, ExitRow, ExitTable};
use crate::stats::tables::{average, share_percent, std_dev_of_sums};
use crate::text::escape;

const US: f64 = 1000.0;

/// One table, the reason that took most time first.
pub fn exits(table: &ExitTable, options: TextOptions) -> String {
    let mut text = paragraph(&escape(&title(table)), options);
    text += &body(table, options);
    if table.sum_ns() > 0 {
        text += &format!("\n{}", paragraph(&legend(table), options));
    }
    if table.rows.iter().any(|row| row.parts.is_some()) {
        text += &paragraph(PARTS, options);
    }
    for warning in &table.warnings {
        let said = format!("warning: {}; {}", warning.fact, warning.next_step);
        text += &paragraph(&escape(&said), options);
    }
    text
}

/// How often and how long; where that time went; whether it adds up.
fn body(table: &ExitTable, options: TextOptions) -> String {
    let mut rows: Vec<&ExitRow> = table.rows.iter().filter(|row| row.count > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.sum_ns));
    let mut text = String::new();
    if !rows.is_empty() {
        text += &format!("\n{}", times(&rows, table.sum_ns(), options));
    }
    if rows.iter().any(|row| row.parts.is_some()) {
        text += &format!("\n{}", parts(&rows, options));
    }
    if let Some(account) = table.account.as_ref().filter(|account| account.wall_ns > 0) {
        text += &format!("\n{}", said(account, table, options));
    }
    text
}

/// What the columns of the second table are.
const PARTS: &str = "Where it went: in the guest; in the kernel on a CPU; in the VMM; asleep in \
                     the kernel; ready to run without a CPU.";

fn legend(table: &ExitTable) -> String {
    let rows = match table.row("KVM_RUN") {
        None => {
            "A row is the time from an exit for this reason to the next entry; of the guest's, \
             the time from an entry to the next exit."
        }
        Some(_) => {
            "A row is the time from KVM_RUN's return for this reason to its next call; KVM_RUN \
             itself is the guest's time and the kernel's."
        }
    };
    format!("Microseconds. {rows}")
}

/// How often, how long.
fn times(rows: &[&ExitRow], whole_ns: u64, options: TextOptions) -> String {
    let has_quantiles = rows.iter().any(|row| row.p50_ns.is_some());
    // What is left out first: the quantiles, the deviation, the extremes, the average.
    let (header, dispensable): (&[&str], &[&[usize]]) = match has_quantiles {
        true => (
            &["reason", "count", "min", "p50", "p99", "max", "sum", "avg", "stddev", "%"],
            &[&[3, 4], &[8], &[2, 5], &[7]],
        ),
        false => (
            &["reason", "count", "min", "max", "sum", "avg", "stddev", "%"],
            &[&[6], &[2, 3], &[5]],
        ),
    };
    let cells: Vec<_> = rows.iter().map(|row| cells(row, whole_ns, has_quantiles)).collect();
    fitting_table(header, &cells, dispensable, options)
}

/// Where the time of each went.
fn parts(rows: &[&ExitRow], options: TextOptions) -> String {
    let header = ["reason", "guest", "kernel", "VMM", "halted", "preempted"];
    let us = |ns: u64| match ns {
        0 => String::new(),
        ns => number::whole(ns as f64 / US),
    };
    let columns = |row: &ExitRow| {
        let none = ExitParts { kernel_ns: 0, user_ns: 0, halted_ns: 0, preempted_ns: 0 };
        let part = row.parts.as_ref().unwrap_or(&none);
        let (guest, kernel) = if row.is_guest { (part.kernel_ns, 0) } else { (0, part.kernel_ns) };
        [guest, kernel, part.user_ns, part.halted_ns, part.preempted_ns]
    };
    let line = |name: &str, columns: [u64; 5]| {
        std::iter::once(escape(name)).chain(columns.map(us)).collect::<Vec<String>>()
    };
    let mut cells: Vec<Vec<String>> =
        rows.iter().map(|row| line(&row.reason, columns(row))).collect();
    let all = rows.iter().map(|row| columns(row)).fold([0u64; 5], |mut all, more| {
        all.iter_mut().zip(more).for_each(|(sum, one)| *sum = sum.saturating_add(one));
        all
    });
    cells.push(line("all", all));
    // Where nothing went says little; the guest's time is the guest's row.
    let is_empty = |column: &usize| cells.iter().all(|row| row[*column].is_empty());
    let empty: Vec<usize> = (1..header.len()).filter(is_empty).collect();
    let guest: &[usize] = if empty.contains(&1) { &[] } else { &[1] };
    fitting_table(&header, &cells, &[&empty, guest], options)
}

/// Whether it adds up, and what it cost to know.
fn said(account: &ExitAccount, table: &ExitTable, options: TextOptions) -> String {
    let us = |ns: f64| number::whole(ns / US);
    let open_ns = account.open_ns();
    let missing_ns = account.wall_ns as f64 - table.sum_ns() as f64 - open_ns as f64;
    let mut text = format!(
        "vCPU wall time {} = rows {}",
        us(account.wall_ns as f64),
        us(table.sum_ns() as f64)
    );
    if !account.open.is_empty() {
        let mut reasons: Vec<String> =
            account.open.iter().map(|open| escape(&open.reason)).collect();
        reasons.sort();
        reasons.dedup();
        text += &format!(" + {} not ended ({})", us(open_ns as f64), reasons.join(", "));
    }
    let percent = share_percent(missing_ns, account.wall_ns as f64);
    text +=
        &format!(" + {} missing ({percent:.2} %). Events lost: {}.", us(missing_ns), account.lost);
    if account.missed_switches > 0 {
        let missed = account.missed_switches;
        text += &format!(
            " {missed} task switches or wakeups of the machine were not seen: one of a vCPU's can \
             move time between the parts of one row."
        );
    }
    let exits = table.exits();
    if let Some(recorder) = account.recorder.as_ref().filter(|_| exits > 0) {
        let each = average(recorder.exits_ns as f64, exits as f64);
        let switches = us(recorder.switches_ns as f64);
        text += &format!(
            " The recorder took {} ns for each exit, and {switches} µs at task switches.",
            number::whole(each)
        );
    }
    paragraph(&text, options)
}

fn title(table: &ExitTable) -> String {
    match table.of.is_empty() {
        true => table.source.clone(),
        false => format!("{} ({})", table.of, table.source),
    }
}

fn cells(row: &ExitRow, whole_ns: u64, has_quantiles: bool) -> Vec<String> {
    let us = |ns: f64| number::measured(ns / US);
    let maybe = |ns: Option<f64>| ns.map_or(String::new(), us);
    let maybe_ns = |ns: Option<u64>| maybe(ns.map(|ns| ns as f64));
    let quantiles = match has_quantiles {
        true => vec![maybe_ns(row.p50_ns), maybe_ns(row.p99_ns)],
        false => vec![],
    };
    // KVM's statistics count more than they time.
    let is_timed = row.sum_ns > 0 || row.most_ns.is_some();
    let timed = |text: String| if is_timed { text } else { String::new() };
    let before = [escape(&row.reason), number::whole(row.count as f64), maybe_ns(row.least_ns)];
    let after = [
        maybe_ns(row.most_ns),
        timed(number::whole(row.sum_ns as f64 / US)),
        timed(us(average(row.sum_ns as f64, row.count as f64))),
        maybe(deviation_ns(row)),
        timed(format!("{:.2}", share_percent(row.sum_ns as f64, whole_ns as f64))),
    ];
    before.into_iter().chain(quantiles).chain(after).collect()
}

fn deviation_ns(row: &ExitRow) -> Option<f64> {
    std_dev_of_sums(row.count, row.sum_ns, row.squares_ns2?)
}

#[cfg(test)]
mod width_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ExitRun, FORMAT, OpenExit, RecorderCost};

    #[test]
    fn where_it_went_what_was_lost_and_what_it_cost_is_printed() {
        let row = |reason: &str, is_guest, count, parts: [u64; 4]| {
            let [kernel_ns, user_ns, halted_ns, preempted_ns] = parts.map(|us| us * 1000);
            ExitRow {
                reason: reason.into(),
                is_guest,
                count,
                sum_ns: parts.iter().sum::<u64>() * 1000,
                parts: Some(ExitParts { kernel_ns, user_ns, halted_ns, preempted_ns }),
                ..ExitRow::default()
            }
        };
        let rows = vec![
            row("HLT", false, 90, [10, 20, 300, 40]),
            row("IO", false, 10, [1, 2, 0, 0]),
            row("TIMEINGUEST", true, 100, [500, 0, 0, 60]),
        ];
        let recorder = Some(RecorderCost { exits_ns: 26_000, switches_ns: 5_000 });
        let account = ExitAccount {
            wall_ns: 1_000_000,
            open: vec![OpenExit { reason: "TIMEINGUEST".into(), ns: 57_000 }],
            lost: 3,
            unpaired: 0,
            missed_switches: 2,
            recorder,
        };
        let (of, source) = (String::new(), "a test".to_owned());
        let account = Some(account);
        let table = ExitTable { format: FORMAT, of, source, rows, warnings: vec![], account };
        let text = exits(&table, TextOptions { width: 100, colour: false });
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = text.lines().map(words).collect();
        for line in [
            "reason guest kernel VMM halted preempted",
            "HLT 10 20 300 40",
            "IO 1 2",
            "TIMEINGUEST 500 60",
            "all 500 11 22 300 100",
        ] {
            assert!(lines.iter().any(|said| said == line), "{line}\n{text}");
        }
        for said in [
            "vCPU wall time 1 000 = rows 933 + 57 not ended (TIMEINGUEST) + 10 missing (1.00 %).",
            "Events lost: 3.",
            "2 task switches or wakeups of the machine were not seen",
            "The recorder took 260 ns for each exit, and 5 µs at task switches.",
        ] {
            assert!(lines.join(" ").contains(said), "{said}\n{text}");
        }
    }

    /// Files come from anywhere: what is too large stands at the largest number.
    #[test]
    fn numbers_too_large_to_be_added_are_printed() {
        let most = u64::MAX;
        let part =
            ExitParts { kernel_ns: most, user_ns: most, halted_ns: most, preempted_ns: most };
        let row = |reason: &str| ExitRow {
            reason: reason.into(),
            count: most,
            sum_ns: most,
            parts: Some(part.clone()),
            ..ExitRow::default()
        };
        let open = || OpenExit { reason: "HLT".into(), ns: most };
        let recorder = Some(RecorderCost { exits_ns: most, switches_ns: most });
        let account = ExitAccount {
            wall_ns: most,
            open: vec![open(), open()],
            lost: 0,
            unpaired: 0,
            missed_switches: 0,
            recorder,
        };
        let (of, source) = (String::new(), "a test".to_owned());
        let rows = vec![row("HLT"), row("IO")];
        let table = ExitTable {
            format: FORMAT,
            of,
            source,
            rows,
            warnings: vec![],
            account: Some(account),
        };
        let options = TextOptions::default();
        let text = exits(&table, options);
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(words.join(" ").contains("not ended (HLT)"), "{text}");
        let _ = exits_diff(&table, &table, options);
        let run = [ExitRun { row: "r".into(), table, guest_ns: None, native_ns: None }];
        let _ = guests_compared(&run, &run, options);
    }
}
