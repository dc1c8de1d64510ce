//! The answer of exit tables in one sentence.

use crate::exits::diff::Scale;
use crate::number;
use ktax_model::{ExitEvents, ExitParts, ExitRow, ExitRows, ExitTable};
use ktax_stats::tables::{change_percent, share_percent};

/// Number of reasons that are named.
const NAMED: usize = 3;

/// Time of all vCPUs, ns; of several tables the sums.
#[derive(Default)]
pub(super) struct VcpuTime<'a> {
    /// By exit reason, without time in which the vCPU waited or may have waited; longest first.
    pub exits: Vec<(&'a str, u64)>,
    pub guest: u64,
    pub halted: u64,
    pub preempted: u64,
    /// By exit reason, where nobody knows whether the vCPU ran.
    unknown: Vec<(&'a str, u64)>,
}

impl<'a> VcpuTime<'a> {
    /// Sums tables. Halted and preempted time stays that of its row where one of the tables does
    /// not know it.
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
        let known = [self.exits_ns(), self.guest, self.halted, self.preempted];
        known.map(|ns| ns as f64).iter().sum::<f64>() + self.unknown_ns() as f64
    }
}

fn add_to<'a>(parts: &mut Vec<(&'a str, u64)>, reason: &'a str, more: u64) {
    match parts.iter_mut().find(|(name, _)| *name == reason) {
        Some((_, ns)) => *ns = ns.saturating_add(more),
        None => parts.push((reason, more)),
    }
}

pub(super) fn sum_ns(parts: &[(&str, u64)]) -> u64 {
    parts.iter().fold(0, |all, (_, ns)| all.saturating_add(*ns))
}

/// Answer of exit tables: `exits took 0.62 % of the vCPU time: 0.43 % EPT_VIOLATION, 0.14 %
/// IO_INSTRUCTION, 0.04 % EXTERNAL_INTERRUPT; 91.84 % halted, 6.99 % in the guest, 0.56 %
/// preempted; 2 320 exits/s`, and the events that were not recorded. Empty where nothing was
/// recorded.
pub fn headline<'a>(tables: impl IntoIterator<Item = &'a ExitTable>) -> String {
    let all: Vec<&ExitTable> = tables.into_iter().collect();
    let tables = whole_vm(&all);
    let has = |part: fn(&ExitRow) -> bool| tables.iter().any(|table| table.rows.iter().any(part));
    let answer = if !tables.iter().any(|table| table.is_timed()) {
        frequent_reasons(tables)
    } else if has(|row| row.is_guest) {
        time_shares(tables)
    } else {
        exit_totals(tables)
    };
    [answer].into_iter().chain(missing_events(tables)).collect::<Vec<_>>().join("; ")
}

/// Returns a sentence for each kind of events that were not recorded: what that means, and how to
/// record them.
fn missing_events(tables: &[&ExitTable]) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    for missing in tables.iter().flat_map(|table| &table.missing) {
        let what = match missing.events {
            ExitEvents::Entries => {
                "entries into the guest were not recorded, so there are no times"
            }
            ExitEvents::Scheduling => {
                "task switches were not recorded, so ktax cannot tell running from sleeping"
            }
        };
        let sentence = format!("{what}: {}", missing.next_step);
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    sentences
}

/// Total time in exits, for tables without time in the guest, of which it could be a share.
fn exit_totals(tables: &[&ExitTable]) -> String {
    let time = VcpuTime::sum(tables, false);
    let all = time.exits_ns();
    format!(
        "{} took {} µs, halts included: {}; {}",
        counted_noun(tables),
        number::whole(all as f64 / number::US),
        name_shares(time.exits.iter().take(NAMED).copied(), all as f64),
        exit_rate(tables)
    )
}

/// `0.43 % EPT_VIOLATION, 0.14 % IO_INSTRUCTION`.
fn name_shares<'a>(parts: impl Iterator<Item = (&'a str, u64)>, all: f64) -> String {
    let share =
        |(name, part): (&str, u64)| format!("{:.2} % {name}", share_percent(part as f64, all));
    parts.map(share).collect::<Vec<_>>().join(", ")
}

fn counted_noun(tables: &[&ExitTable]) -> &'static str {
    let are_accesses = tables.iter().any(|table| table.rows_are == ExitRows::Accesses);
    if are_accesses { "accesses" } else { "exits" }
}

fn time_shares(tables: &[&ExitTable]) -> String {
    let knows_parts = tables.iter().all(|table| has_parts(table));
    let time = VcpuTime::sum(tables, knows_parts);
    let all_ns = time.all_ns();
    let share = |ns: u64| format!("{:.2} %", share_percent(ns as f64, all_ns));
    let named = |parts: &[(&str, u64)]| {
        name_shares(parts.iter().copied().filter(|(_, ns)| *ns > 0), all_ns)
    };
    let unknown: Vec<&str> = time.unknown.iter().take(NAMED).map(|(name, _)| *name).collect();
    let unknown = format!("unknown or halted ({})", unknown.join(", "));
    let mut elsewhere = [
        ("halted", time.halted),
        (guest_words(tables), time.guest),
        ("preempted", time.preempted),
        (&unknown, time.unknown_ns()),
    ];
    elsewhere.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let exits = named(&time.exits[..time.exits.len().min(NAMED)]);
    let least = if time.unknown_ns() > 0 { "at least " } else { "" };
    let mut sentence = format!("exits took {least}{} of the vCPU time", share(time.exits_ns()));
    if !knows_parts {
        sentence += ", halts included";
    }
    if tables.iter().any(|table| table.rows_are == ExitRows::Phases) {
        sentence += ", by phase";
    }
    for (before, part) in [(": ", exits), ("; ", named(&elsewhere)), ("; ", exit_rate(tables))] {
        if !part.is_empty() {
            sentence += &format!("{before}{part}");
        }
    }
    sentence
}

/// Tells whether a table knows which time was halted and which preempted.
fn has_parts(table: &ExitTable) -> bool {
    table.rows.iter().all(|row| row.time_ns() == 0 || row.parts.is_some())
}

/// Words for the time in the guest; `KVM_RUN` is the guest and what the kernel does for it.
fn guest_words(tables: &[&ExitTable]) -> &'static str {
    let is_of_calls = tables.iter().any(|table| table.row("KVM_RUN").is_some());
    let has_switches = !tables.iter().any(|table| table.lacks(ExitEvents::Scheduling));
    match (is_of_calls, has_switches) {
        (true, true) => "in KVM_RUN",
        (true, false) => "in KVM_RUN, halts included",
        (false, _) => "in the guest",
    }
}

/// Most frequent reasons; empty where nothing was counted.
fn frequent_reasons(tables: &[&ExitTable]) -> String {
    let all: f64 = tables.iter().map(|table| table.exits() as f64).sum();
    if all == 0.0 {
        return String::new();
    }
    let rows = tables.iter().flat_map(|table| &table.rows);
    let mut rows: Vec<&ExitRow> = rows.filter(|row| row.is_reason() && row.count > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.count));
    let named = name_shares(rows.iter().take(NAMED).map(|row| (&*row.reason, row.count)), all);
    let colon = if named.is_empty() { "" } else { ": " };
    format!("{}{colon}{named}", exit_rate(tables))
}

/// Rate of exits of one recording; of several the number of exits.
fn exit_rate(tables: &[&ExitTable]) -> String {
    let exits = tables.iter().map(|table| table.exits() as f64).sum::<f64>();
    match tables {
        [ExitTable { elapsed_ns: Some(ns @ 1..), .. }] => {
            let seconds = *ns as f64 / 1e9;
            format!("{} exits/s in {} s", number::whole(exits / seconds), number::measured(seconds))
        }
        _ if exits == 1.0 && counted_noun(tables) == "exits" => "1 exit".to_owned(),
        _ => format!("{} {}", number::whole(exits), counted_noun(tables)),
    }
}

/// Returns the table of a VM alone if the others are of its vCPUs, whose exits it has too.
fn whole_vm<'a, 'b>(tables: &'b [&'a ExitTable]) -> &'b [&'a ExitTable] {
    let Some((first, others)) = tables.split_first() else { return tables };
    let ending = format!(" of {}", first.of);
    let is_whole = !first.of.is_empty() && others.iter().all(|table| table.of.ends_with(&ending));
    if is_whole { &tables[..1] } else { tables }
}

/// Name of the time in exits where halts cannot be told from other exits.
const WITH_HALTS: &str = "time in exits, halts included,";

/// Answer of two tables: `exits -34.81 % (2 320 → 1 512 /s), time in exits -20.56 % (6 188 → 4 922
/// µs/s), …`. All times together are those of the table.
pub fn diff_headline(base: &ExitTable, change: &ExitTable, scale: Scale) -> String {
    let part = |what: &str, values: [f64; 2], unit: &str| {
        let [base, change] = scale.apply(values);
        let percent = number::percent(change_percent(base, change));
        let [base, change] = [base, change].map(number::whole);
        format!("{what} {percent} % ({base} → {change}{})", scale.unit(unit))
    };
    let sides = [base, change];
    let exits = sides.map(|table| table.exits() as f64);
    let knows_halts =
        sides.iter().all(|table| has_parts(table) && !table.lacks(ExitEvents::Scheduling));
    let times = sides.map(|table| VcpuTime::sum(&[table], knows_halts));
    let both =
        |part: fn(&VcpuTime) -> u64| times.each_ref().map(|time| part(time) as f64 / number::US);
    let [in_exits, guest] = [both(|time| time.exits_ns()), both(|time| time.guest)];
    let [halted, preempted] = [both(|time| time.halted), both(|time| time.preempted)];
    let inside = guest_words(&sides);
    let mut parts = vec![part("exits", exits, "")];
    // KVM's statistics have no times.
    if sides.iter().all(|table| table.is_timed()) {
        parts.push(part(if knows_halts { "time in exits" } else { WITH_HALTS }, in_exits, "µs"));
        if guest != [0.0; 2] {
            parts.push(part(inside, guest, "µs"));
        }
        let elsewhere = [("halted", halted), ("preempted", preempted)];
        let there = elsewhere.iter().filter(|(_, times)| *times != [0.0; 2]);
        parts.extend(there.map(|(what, times)| part(what, *times, "µs")));
    }
    parts.join(", ")
}
