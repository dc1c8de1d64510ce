//! Exit tables: where the time of virtual machines went, and a headline about several tables.

mod tables;
#[cfg(test)]
mod tests;

pub use tables::{ClassicColumns, ExitDiff, ExitScale, bars, exits_classic, reasons_table};

use std::cmp::Reverse;

use crate::exits::tables::{parts_table, reason_time_ns, times_table};
use crate::number;
use crate::view::{Legend, Records, Report, Section, Value, View};
use ktax_host::text::counted;
use ktax_model::{
    ExitCounter, ExitEvents, ExitParts, ExitRow, ExitRows, ExitTable, RecorderCost, SavedResult,
    exit_warnings,
};
use ktax_stats::tables::{checked_percent_change, share_percent};

/// Exit tables of a recording or of a file.
#[derive(Debug, Clone, Copy)]
pub struct ExitTables<'a>(pub &'a [ExitTable]);

impl Report for ExitTables<'_> {
    fn view(&self) -> View {
        let bars = bars(self.0.iter().map(|table| (title(table), table)));
        let (title, mut all) = match self.0 {
            [one] => (title(one), sections("", one)),
            several => {
                let all = several.iter().flat_map(|table| sections(&title(table), table));
                (counted(several.len(), "exit table"), all.collect::<Vec<_>>())
            }
        };
        all.insert(0, bars);
        all.push(remarks(self.0));
        View {
            title,
            headline: headline(self.0),
            sections: all,
            warnings: exit_warnings(self.0),
            legend: legend(self.0),
            ..View::default()
        }
    }

    fn records(&self) -> Records {
        let mut records = Records::new(COLUMNS.map(|(name, _)| name));
        for table in self.0 {
            for row in &table.rows {
                records.push(COLUMNS.map(|(_, cell)| cell(table, row)));
            }
        }
        records
    }

    fn result(&self) -> SavedResult {
        SavedResult::Exits(self.0.to_vec())
    }
}

/// Title of a table: the virtual machine, and the program or file that counted.
pub fn title(table: &ExitTable) -> String {
    match table.name.is_empty() {
        true => table.source.clone(),
        false => format!("{} ({})", table.name, table.source),
    }
}

/// Terms of the columns of the table of parts.
const PART_TERMS: [(&str, &str); 6] = [
    ("guest", "in the guest"),
    ("kernel", "in the kernel, on a CPU"),
    ("VMM", "in the VMM"),
    ("halted", "asleep in the kernel"),
    ("preempted", "ready to run, without a CPU"),
    (
        "unknown or halted",
        "in the kernel, where the vCPU may sleep: task switches were not recorded",
    ),
];

/// Returns the terms of the columns that a table has. If the table is of calls of KVM_RUN, the
/// guest's time includes the kernel's, because a call does not separate them.
fn part_terms(table: &ExitTable) -> Vec<(&'static str, &'static str)> {
    let mut parts = PART_TERMS;
    let has_switches = !table.is_missing(ExitEvents::Scheduling);
    let is_of_calls = table.row("KVM_RUN").is_some();
    match (is_of_calls, has_switches) {
        (true, true) => {
            parts[0].1 = "in KVM_RUN, on a CPU: the guest, and the kernel for it";
            parts[1].1 = "in the kernel, on a CPU, outside KVM_RUN";
        }
        (true, false) => {
            parts[0].1 = "in KVM_RUN: the guest, the kernel for it, and halts";
            parts[1].1 = "in the kernel, running or waiting, outside KVM_RUN";
        }
        (false, true) => {}
        (false, false) => parts[1].1 = "in the kernel, running or waiting for a page or a CPU",
    }
    // With task switches the table has `halted` and `preempted`, else `unknown or halted`.
    let is_absent = |name: &str| match has_switches {
        true => name == PART_TERMS[5].0,
        false => name == PART_TERMS[3].0 || name == PART_TERMS[4].0,
    };
    parts.into_iter().filter(|(name, _)| !is_absent(name)).collect()
}

/// Returns the sections of a table: counts and times (the longest time first, counters last), the
/// parts of the times, and a sentence that compares the sum with the recorded time.
pub fn sections(title: &str, table: &ExitTable) -> Vec<Section> {
    let mut rows: Vec<&ExitRow> = table.rows.iter().filter(|row| row.count > 0).collect();
    // Rows without times are sorted by their counts.
    let untimed_count = |row: &&ExitRow| Reverse(if row.is_timed() { 0 } else { row.count });
    rows.sort_by_key(|row| (row.counter, Reverse(row.time_ns()), untimed_count(row)));
    if rows.is_empty() {
        let no_exits = "No exits were recorded.";
        let sentence = match title {
            "" => no_exits.to_owned(),
            title => format!("{title}: {no_exits}"),
        };
        return vec![Section::Sentences(vec![sentence])];
    }
    let (title, notes) = (title.to_owned(), Vec::new());
    let mut sections = vec![Section::Table { title, table: times_table(&rows, table), notes }];
    if has_parts(table) {
        sections.push(Section::table(parts_table(&rows, table)));
    }
    sections.extend(account_sentence(table).map(|sentence| Section::Sentences(vec![sentence])));
    sections
}

/// Section with the remarks on the recorders, once for all tables of a page.
pub fn remarks<'a>(tables: impl IntoIterator<Item = &'a ExitTable>) -> Section {
    Section::Sentences(recorder_sentence(tables).into_iter().collect())
}

fn has_parts(table: &ExitTable) -> bool {
    table.rows.iter().any(|row| row.count > 0 && row.parts.is_some())
}

/// Legend of the rows and columns of these tables.
pub fn legend<'a>(tables: impl IntoIterator<Item = &'a ExitTable>) -> Legend {
    let tables: Vec<&ExitTable> = tables.into_iter().collect();
    let timed = tables.iter().find(|table| table.is_timed() && table.sum_ns() > 0);
    let Some(first) = timed else { return counter_legend(&tables) };
    let parts = tables.iter().any(|table| has_parts(table)).then(|| part_terms(first));
    let count = (first.rows_are != ExitRows::Phases).then_some(COUNT);
    Legend::new([MICROSECONDS].into_iter().chain(row_meaning(first)))
        .with_terms([SUM])
        .with_terms(count)
        .with_terms(rate_term(&tables))
        .with_terms(parts.into_iter().flatten())
}

/// Sentences that explain the rows.
fn row_meaning(table: &ExitTable) -> Vec<&'static str> {
    let has_guest = table.rows.iter().any(|row| row.is_guest);
    match table.rows_are {
        ExitRows::Phases => vec![
            "A row is a phase of KVM's work for the vCPU, not an exit reason: each exit passes \
             through several phases.",
            "Exits are counted once, in the phase guest_exit (on POWER8 rm_intr).",
        ],
        ExitRows::Accesses => vec![
            "A row is one address, port, register or call: the time from the guest's access to the \
             next entry.",
            NO_GUEST,
        ],
        ExitRows::Reasons if table.row("KVM_RUN").is_some() => vec![
            "A row is the time from KVM_RUN's return for this reason to its next call; KVM_RUN \
             itself is the guest's time and the kernel's.",
        ],
        ExitRows::Reasons if has_guest => vec![EXIT_AND_GUEST],
        ExitRows::Reasons => vec![EXIT_ALONE, NO_GUEST],
    }
}

const EXIT_AND_GUEST: &str = "A row is the time from an exit for this reason to the next entry; \
                              the guest's row is the time from an entry to the next exit.";
const EXIT_ALONE: &str = "A row is the time from an exit for this reason to the next entry.";
const NO_GUEST: &str = "The file has no time in the guest, so sum % is a share of the time \
                        outside the guest.";
const MICROSECONDS: &str = "Times are in microseconds (µs).";
const SUM: (&str, &str) = ("sum %", "share of the time of all rows");
const COUNT: (&str, &str) = ("count %", "share of all exits");

/// Term of the column of rates; `None` if no table knows the length of its recording.
fn rate_term(tables: &[&ExitTable]) -> Option<(&'static str, &'static str)> {
    let has_rates = tables.iter().any(|table| table.elapsed_s().is_some());
    has_rates.then_some(("rate /s", "count for each second of the recording"))
}

/// Legend of tables without times, such as KVM's statistics; only the row of halts may have a time.
fn counter_legend(tables: &[&ExitTable]) -> Legend {
    let rows = || tables.iter().flat_map(|table| &table.rows).filter(|row| row.count > 0);
    if !rows().any(|row| row.counter.is_some()) {
        let counts = rows().any(ExitRow::is_reason).then_some(COUNT);
        let rates = rate_term(tables).filter(|_| counts.is_some());
        return Legend::default().with_terms(counts).with_terms(rates);
    }
    let has_times = rows().any(ExitRow::is_timed);
    let times = has_times.then_some(MICROSECONDS);
    let counters = "A row without count % is a counter of KVM, not an exit reason.";
    Legend::new(times.into_iter().chain([counters]))
        .with_terms(has_times.then_some(SUM))
        .with_terms(rows().any(ExitRow::is_reason).then_some(COUNT))
        .with_terms(rate_term(tables))
}

/// Sentence that compares the sum of a table's rows with the recorded time; `None` if the source
/// has no such account.
fn account_sentence(table: &ExitTable) -> Option<String> {
    let account = table.account.as_ref().filter(|account| account.wall_ns > 0)?;
    let us = |ns: f64| number::whole(ns / number::US);
    let open_ns = account.open_ns();
    let missing_ns = account.wall_ns as f64 - table.sum_ns() as f64 - open_ns as f64;
    let mut text = format!(
        "vCPU wall time {} µs = rows {}",
        us(account.wall_ns as f64),
        us(table.sum_ns() as f64)
    );
    if !account.open.is_empty() {
        let mut reasons: Vec<&str> = account.open.iter().map(|open| open.reason.as_str()).collect();
        reasons.sort_unstable();
        reasons.dedup();
        text += &format!(" + {} in open exits ({})", us(open_ns as f64), reasons.join(", "));
    }
    let percent = share_percent(missing_ns, account.wall_ns as f64);
    Some(text + &format!(" + {} missing ({percent:.2} %).", us(missing_ns)))
}

/// Sentences about lost events and the recorder's cost. Several recordings have one range of
/// values.
fn recorder_sentence<'a>(tables: impl IntoIterator<Item = &'a ExitTable>) -> Option<String> {
    let accounts: Vec<_> = tables.into_iter().filter_map(|table| table.account.as_ref()).collect();
    let lost = count_range(accounts.iter().map(|account| account.lost))?;
    let mut text = format!("Events lost: {lost}.");
    let missed = accounts.iter().map(|account| account.missed_switches);
    if missed.clone().any(|missed| missed > 0) {
        let missed = count_range(missed).unwrap_or_default();
        text += &format!(
            " ktax missed {missed} task switches or wakeups of this machine. If one was a vCPU's, \
             time may be in another part of its row."
        );
    }
    let costs: Vec<&RecorderCost> =
        accounts.iter().filter_map(|account| account.recorder.as_ref()).collect();
    let at_exits = count_range(costs.iter().map(|cost| cost.exit_ns));
    let at_switches = count_range(costs.iter().map(|cost| cost.switch_ns));
    if let Some((exit, switch)) = at_exits.zip(at_switches) {
        text += &format!(
            " The recorder took {exit} ns for each exit, and {switch} ns for each task switch or \
             wakeup of this machine. The times include this cost, and the kernel's cost of calling \
             the recorder."
        );
    }
    Some(text)
}

/// Formats the range of values: `411`, or `408 to 411`; `None` without values.
fn count_range(values: impl Iterator<Item = u64> + Clone) -> Option<String> {
    let [least, most] =
        [values.clone().min()?, values.max()?].map(|value| number::whole(value as f64));
    Some(if least == most { least } else { format!("{least} to {most}") })
}

/// Returns the value of a column for a row of a table.
type RecordCell = fn(&ExitTable, &ExitRow) -> Value;

const COLUMNS: [(&str, RecordCell); 19] = [
    ("of", |table, _| (&table.name).into()),
    ("source", |table, _| (&table.source).into()),
    ("reason", |_, row| (&row.reason).into()),
    ("is_guest", |_, row| row.is_guest.into()),
    ("count", |_, row| row.count.into()),
    ("sum_ns", |table, row| reason_time_ns(table, &row.reason).into()),
    ("min_ns", |_, row| row.least_ns.into()),
    ("max_ns", |_, row| row.most_ns.into()),
    ("p50_ns", |_, row| row.p50_ns.into()),
    ("p99_ns", |_, row| row.p99_ns.into()),
    ("squares_ns2", |_, row| row.squares_ns2.map(|squares| squares.to_string()).as_ref().into()),
    ("kernel_ns", |_, row| part(row, |parts| Some(parts.kernel_ns))),
    ("user_ns", |_, row| part(row, |parts| Some(parts.user_ns))),
    ("halted_ns", |_, row| part(row, |parts| parts.halted_ns)),
    ("preempted_ns", |_, row| part(row, |parts| parts.preempted_ns)),
    ("unknown_ns", |_, row| part(row, |parts| Some(parts.unknown_ns))),
    ("lost_events", |table, _| table.account.as_ref().map(|account| account.lost).into()),
    ("elapsed_ns", |table, _| table.elapsed_ns.into()),
    ("counter", |_, row| row.counter.map(ExitCounter::name).into()),
];

fn part(row: &ExitRow, part: fn(&ExitParts) -> Option<u64>) -> Value {
    row.parts.as_ref().and_then(part).into()
}

/// Maximum number of reasons in a headline.
const MAX_NAMED: usize = 3;

/// Time of all vCPUs in one or several tables, ns.
#[derive(Default)]
pub struct VcpuTime<'a> {
    /// Time by exit reason, without time in which the vCPU waited or may have waited; the longest
    /// first.
    pub exits: Vec<(&'a str, u64)>,
    pub guest: u64,
    pub halted: u64,
    pub preempted: u64,
    /// Time by exit reason in which the vCPU ran or waited, which the recording cannot tell.
    unknown: Vec<(&'a str, u64)>,
}

impl<'a> VcpuTime<'a> {
    /// Sums tables. Unless `knows_halts`, halted and preempted time counts as time of its row.
    pub fn sum(tables: &[&'a ExitTable], knows_halts: bool) -> VcpuTime<'a> {
        let mut time = VcpuTime::default();
        let rows = tables.iter().flat_map(|table| &table.rows);
        rows.for_each(|row| time.add(row, row.parts.as_ref().filter(|_| knows_halts)));
        for parts in [&mut time.exits, &mut time.unknown] {
            parts.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        }
        time
    }

    fn add(&mut self, row: &'a ExitRow, parts: Option<&ExitParts>) {
        let [halted, preempted, unknown] = parts.map_or([0; 3], ExitParts::waits_ns);
        let waits = halted.saturating_add(preempted).saturating_add(unknown);
        let busy = row.time_ns().saturating_sub(waits);
        self.halted = self.halted.saturating_add(halted);
        self.preempted = self.preempted.saturating_add(preempted);
        if row.counter.is_some() {
            return;
        }
        if unknown > 0 {
            add_to(&mut self.unknown, &row.reason, unknown);
        }
        match row.is_guest {
            true => self.guest = self.guest.saturating_add(busy),
            false => add_to(&mut self.exits, &row.reason, busy),
        }
    }

    fn exits_ns(&self) -> u64 {
        sum_ns(&self.exits)
    }

    pub fn unknown_ns(&self) -> u64 {
        sum_ns(&self.unknown)
    }

    fn all_ns(&self) -> f64 {
        let parts = [self.exits_ns(), self.guest, self.halted, self.preempted, self.unknown_ns()];
        parts.map(|ns| ns as f64).iter().sum::<f64>()
    }
}

fn add_to<'a>(parts: &mut Vec<(&'a str, u64)>, reason: &'a str, more: u64) {
    match parts.iter_mut().find(|(name, _)| *name == reason) {
        Some((_, ns)) => *ns = ns.saturating_add(more),
        None => parts.push((reason, more)),
    }
}

pub fn sum_ns(parts: &[(&str, u64)]) -> u64 {
    parts.iter().fold(0, |all, (_, ns)| all.saturating_add(*ns))
}

/// Headline of exit tables: `exits took 0.62 % of the vCPU time: 0.43 % EPT_VIOLATION, 0.14 %
/// IO_INSTRUCTION, 0.04 % EXTERNAL_INTERRUPT; 91.84 % halted, 6.99 % in the guest, 0.56 %
/// preempted; 2 320 exits/s`, and the events that were not recorded. Empty if nothing was recorded.
pub fn headline<'a>(tables: impl IntoIterator<Item = &'a ExitTable>) -> String {
    let all_tables: Vec<&ExitTable> = tables.into_iter().collect();
    let tables = whole_vm(&all_tables);
    let has_row = |is_wanted: fn(&ExitRow) -> bool| {
        tables.iter().any(|table| table.rows.iter().any(is_wanted))
    };
    let answer = if !tables.iter().any(|table| table.is_timed()) {
        frequent_reasons(tables)
    } else if has_row(|row| row.is_guest) {
        time_shares(tables)
    } else {
        exit_totals(tables)
    };
    [answer].into_iter().chain(missing_events(tables)).collect::<Vec<_>>().join("; ")
}

/// Returns a sentence for each kind of events that was not recorded: the consequence, and how to
/// record these events.
fn missing_events(tables: &[&ExitTable]) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    for missing in tables.iter().flat_map(|table| &table.missing) {
        let consequence = match missing.events {
            ExitEvents::Entries => {
                "entries into the guest were not recorded, so there are no times"
            }
            ExitEvents::Scheduling => {
                "task switches were not recorded, so ktax cannot tell running from sleeping"
            }
        };
        let sentence = format!("{consequence}: {}", missing.next_step);
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    sentences
}

/// Answer of tables without time in the guest: the total time in exits, because the vCPU time is
/// not known.
fn exit_totals(tables: &[&ExitTable]) -> String {
    let time = VcpuTime::sum(tables, false);
    let total_ns = time.exits_ns();
    format!(
        "{} took {} µs, halts included: {}; {}",
        event_noun(tables),
        number::whole(total_ns as f64 / number::US),
        name_shares(time.exits.iter().take(MAX_NAMED).copied(), total_ns as f64),
        exit_rate(tables)
    )
}

/// Lists parts with their shares: `0.43 % EPT_VIOLATION, 0.14 % IO_INSTRUCTION`.
fn name_shares<'a>(parts: impl Iterator<Item = (&'a str, u64)>, all: f64) -> String {
    let share =
        |(name, part): (&str, u64)| format!("{:.2} % {name}", share_percent(part as f64, all));
    parts.map(share).collect::<Vec<_>>().join(", ")
}

/// Returns the noun for the events of these tables.
fn event_noun(tables: &[&ExitTable]) -> &'static str {
    let are_accesses = tables.iter().any(|table| table.rows_are == ExitRows::Accesses);
    if are_accesses { "accesses" } else { "exits" }
}

/// Answer of tables with time in the guest: the shares of the vCPU time.
fn time_shares(tables: &[&ExitTable]) -> String {
    let knows_parts = tables.iter().all(|table| knows_parts(table));
    let time = VcpuTime::sum(tables, knows_parts);
    let all_ns = time.all_ns();
    let share = |ns: u64| format!("{:.2} %", share_percent(ns as f64, all_ns));
    let named = |parts: &[(&str, u64)]| {
        name_shares(parts.iter().copied().filter(|(_, ns)| *ns > 0), all_ns)
    };
    let unknown: Vec<&str> = time.unknown.iter().take(MAX_NAMED).map(|(name, _)| *name).collect();
    let unknown = format!("unknown or halted ({})", unknown.join(", "));
    let mut elsewhere = [
        ("halted", time.halted),
        (guest_words(tables), time.guest),
        ("preempted", time.preempted),
        (&unknown, time.unknown_ns()),
    ];
    elsewhere.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let exits = named(&time.exits[..time.exits.len().min(MAX_NAMED)]);
    let bound = if time.unknown_ns() > 0 { "at least " } else { "" };
    let mut sentence = format!("exits took {bound}{} of the vCPU time", share(time.exits_ns()));
    if !knows_parts {
        sentence += ", halts included";
    }
    if tables.iter().any(|table| table.rows_are == ExitRows::Phases) {
        sentence += ", by phase";
    }
    for (separator, part) in [(": ", exits), ("; ", named(&elsewhere)), ("; ", exit_rate(tables))] {
        if !part.is_empty() {
            sentence += &format!("{separator}{part}");
        }
    }
    sentence
}

/// Tells whether a table knows the parts of all times: halted, preempted and others.
fn knows_parts(table: &ExitTable) -> bool {
    table.rows.iter().all(|row| row.time_ns() == 0 || row.parts.is_some())
}

/// Words for the time in the guest. Time in KVM_RUN includes the kernel's work for the guest.
fn guest_words(tables: &[&ExitTable]) -> &'static str {
    let is_of_calls = tables.iter().any(|table| table.row("KVM_RUN").is_some());
    let has_switches = !tables.iter().any(|table| table.is_missing(ExitEvents::Scheduling));
    match (is_of_calls, has_switches) {
        (true, true) => "in KVM_RUN",
        (true, false) => "in KVM_RUN, halts included",
        (false, _) => "in the guest",
    }
}

/// Answer of tables without times: the most frequent reasons; empty if nothing was counted.
fn frequent_reasons(tables: &[&ExitTable]) -> String {
    let total: f64 = tables.iter().map(|table| table.exits() as f64).sum();
    if total == 0.0 {
        return String::new();
    }
    let rows = tables.iter().flat_map(|table| &table.rows);
    let mut rows: Vec<&ExitRow> = rows.filter(|row| row.is_reason() && row.count > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.count));
    let named =
        name_shares(rows.iter().take(MAX_NAMED).map(|row| (&*row.reason, row.count)), total);
    let colon = if named.is_empty() { "" } else { ": " };
    format!("{}{colon}{named}", exit_rate(tables))
}

/// Formats the rate of exits of one recording, or the number of exits of several.
fn exit_rate(tables: &[&ExitTable]) -> String {
    let exits = tables.iter().map(|table| table.exits() as f64).sum::<f64>();
    match tables {
        [ExitTable { elapsed_ns: Some(ns @ 1..), .. }] => {
            let seconds = *ns as f64 / 1e9;
            format!("{} exits/s in {} s", number::whole(exits / seconds), number::measured(seconds))
        }
        _ if exits == 1.0 && event_noun(tables) == "exits" => "1 exit".to_owned(),
        _ => format!("{} {}", number::whole(exits), event_noun(tables)),
    }
}

/// Returns the first table only if it is of a VM and the others are of the VM's vCPUs, because the
/// VM's table includes their exits.
fn whole_vm<'a, 'b>(tables: &'b [&'a ExitTable]) -> &'b [&'a ExitTable] {
    let Some((first, others)) = tables.split_first() else { return tables };
    let suffix = format!(" of {}", first.name);
    let is_vm = !first.name.is_empty() && others.iter().all(|table| table.name.ends_with(&suffix));
    if is_vm { &tables[..1] } else { tables }
}

/// Name of the time in exits if it may include halts.
const WITH_HALTS: &str = "time in exits, halts included,";

/// Headline of two tables: `exits -34.81 % (2 320 → 1 512 /s), time in exits -20.56 % (6 188 → 4
/// 922 µs/s), …`. The times add up to the times of the table.
pub fn diff_headline(base: &ExitTable, change: &ExitTable, scale: ExitScale) -> String {
    let part = |name: &str, values: [f64; 2], unit: &str| {
        let [base, change] = scale.apply(values);
        let percent = number::percent(checked_percent_change(base, change));
        let [base, change] = [base, change].map(number::whole);
        format!("{name} {percent} % ({base} → {change}{})", scale.unit(unit))
    };
    let sides = [base, change];
    let exits = sides.map(|table| table.exits() as f64);
    let knows_halts =
        sides.iter().all(|table| knows_parts(table) && !table.is_missing(ExitEvents::Scheduling));
    let times = sides.map(|table| VcpuTime::sum(&[table], knows_halts));
    let us =
        |part: fn(&VcpuTime) -> u64| times.each_ref().map(|time| part(time) as f64 / number::US);
    let [in_exits, guest] = [us(|time| time.exits_ns()), us(|time| time.guest)];
    let [halted, preempted] = [us(|time| time.halted), us(|time| time.preempted)];
    let mut parts = vec![part("exits", exits, "")];
    // KVM's statistics have no times.
    if sides.iter().all(|table| table.is_timed()) {
        parts.push(part(if knows_halts { "time in exits" } else { WITH_HALTS }, in_exits, "µs"));
        if guest != [0.0; 2] {
            parts.push(part(guest_words(&sides), guest, "µs"));
        }
        let elsewhere = [("halted", halted), ("preempted", preempted)];
        let elsewhere = elsewhere.iter().filter(|(_, times)| *times != [0.0; 2]);
        parts.extend(elsewhere.map(|(name, times)| part(name, *times, "µs")));
    }
    parts.join(", ")
}
