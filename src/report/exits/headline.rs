use super::scale::Scale;
use crate::model::{ExitParts, ExitRow, ExitTable};
use crate::report::number;
use crate::stats::tables::{change_percent, share_percent};

/// So many reasons are named.
const NAMED: usize = 3;

/// What is said of the time of all vCPUs, ns; of several tables the sums.
#[derive(Default)]
struct Time<'a> {
    /// By exit reason, without halted and preempted time.
    exits: Vec<(&'a str, u64)>,
    guest: u64,
    halted: u64,
    preempted: u64,
}

impl<'a> Time<'a> {
    /// Halted and preempted time stays that of its row where one of the tables does not know it.
    fn of(tables: &[&'a ExitTable], knows_halts: bool) -> Time<'a> {
        let mut time = Time::default();
        let rows = tables.iter().flat_map(|table| &table.rows);
        rows.for_each(|row| time.add(row, row.parts.as_ref().filter(|_| knows_halts)));
        time.exits.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        time
    }

    fn add(&mut self, row: &'a ExitRow, parts: Option<&ExitParts>) {
        let [halted, preempted] =
            parts.map_or([0; 2], |parts| [parts.halted_ns, parts.preempted_ns]);
        let busy = row.sum_ns.saturating_sub(halted).saturating_sub(preempted);
        self.halted = self.halted.saturating_add(halted);
        self.preempted = self.preempted.saturating_add(preempted);
        if row.counter.is_some() {
            return;
        }
        if row.is_guest {
            self.guest = self.guest.saturating_add(busy);
            return;
        }
        match self.exits.iter_mut().find(|(reason, _)| *reason == row.reason) {
            Some((_, ns)) => *ns = ns.saturating_add(busy),
            None => self.exits.push((&row.reason, busy)),
        }
    }

    /// What exits took of the time of a CPU, ns.
    fn exits_ns(&self) -> u64 {
        self.exits.iter().fold(0, |all, (_, ns)| all.saturating_add(*ns))
    }

    fn all_ns(&self) -> f64 {
        [self.exits_ns(), self.guest, self.halted, self.preempted].map(|ns| ns as f64).iter().sum()
    }
}

/// `exits took 0.62 % of the vCPU time: 0.43 % EPT_VIOLATION, 0.14 % IO_INSTRUCTION, 0.04 %
/// EXTERNAL_INTERRUPT; 91.84 % halted, 6.99 % in the guest, 0.56 % preempted; 2 320 exits/s`.
/// Nothing where no time was recorded.
pub fn headline<'a>(tables: impl IntoIterator<Item = &'a ExitTable>) -> String {
    let all: Vec<&ExitTable> = tables.into_iter().collect();
    let tables = whole_vm(&all);
    let knows_halts = tables.iter().all(|table| has_parts(table));
    let time = Time::of(tables, knows_halts);
    let all_ns = time.all_ns();
    // KVM's statistics have no time in the guest, so there is nothing of which times are a share.
    if time.guest == 0 {
        return most_frequent(tables);
    }
    let share = |ns: u64| format!("{:.2} %", share_percent(ns as f64, all_ns));
    let named = |parts: &[(&str, u64)]| -> String {
        let there = parts.iter().filter(|(_, ns)| *ns > 0);
        there.map(|(name, ns)| format!("{} {name}", share(*ns))).collect::<Vec<_>>().join(", ")
    };
    let mut elsewhere =
        [("halted", time.halted), (inside(tables), time.guest), ("preempted", time.preempted)];
    elsewhere.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let exits = named(&time.exits[..time.exits.len().min(NAMED)]);
    let mut said = format!("exits took {} of the vCPU time", share(time.exits_ns()));
    if !knows_halts {
        said += ", halts included";
    }
    for (before, part) in [(": ", exits), ("; ", named(&elsewhere)), ("; ", often(tables))] {
        if !part.is_empty() {
            said += &format!("{before}{part}");
        }
    }
    said
}

/// Whether it knows which time was halted and which preempted.
fn has_parts(table: &ExitTable) -> bool {
    table.rows.iter().all(|row| row.sum_ns == 0 || row.parts.is_some())
}

/// `KVM_RUN` is the guest and what the kernel does for it.
fn inside(tables: &[&ExitTable]) -> &'static str {
    let of_calls = tables.iter().any(|table| table.row("KVM_RUN").is_some());
    if of_calls { "in KVM_RUN" } else { "in the guest" }
}

/// The reasons by count; nothing where nothing was counted.
fn most_frequent(tables: &[&ExitTable]) -> String {
    let all: f64 = tables.iter().map(|table| table.exits() as f64).sum();
    if all == 0.0 {
        return String::new();
    }
    let rows = tables.iter().flat_map(|table| &table.rows);
    let mut rows: Vec<&ExitRow> = rows.filter(|row| row.is_reason() && row.count > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.count));
    let share =
        |row: &&ExitRow| format!("{:.2} % {}", share_percent(row.count as f64, all), row.reason);
    let named: Vec<String> = rows.iter().take(NAMED).map(share).collect();
    let colon = if named.is_empty() { "" } else { ": " };
    format!("{}{colon}{}", often(tables), named.join(", "))
}

/// The rate of one recording; of several the number of exits.
fn often(tables: &[&ExitTable]) -> String {
    let exits = tables.iter().map(|table| table.exits() as f64).sum::<f64>();
    match tables {
        [ExitTable { elapsed_ns: Some(ns @ 1..), .. }] => {
            let seconds = *ns as f64 / 1e9;
            format!("{} exits/s in {} s", number::whole(exits / seconds), number::measured(seconds))
        }
        _ if exits == 1.0 => "1 exit".to_owned(),
        _ => format!("{} exits", number::whole(exits)),
    }
}

/// The table of a VM alone where the others are of its vCPUs, whose exits it has too.
fn whole_vm<'a, 'b>(tables: &'b [&'a ExitTable]) -> &'b [&'a ExitTable] {
    let Some((first, others)) = tables.split_first() else { return tables };
    let ending = format!(" of {}", first.of);
    let is_whole = !first.of.is_empty() && others.iter().all(|table| table.of.ends_with(&ending));
    if is_whole { &tables[..1] } else { tables }
}

/// What exits took where halts cannot be told from other exits.
const WITH_HALTS: &str = "time in exits, halts included,";

/// `exits -34.81 % (2 320 → 1 512 /s), time in exits -20.56 % (6 188 → 4 922 µs/s), …`: all times
/// together are those of the table.
pub fn headline_of_diff(base: &ExitTable, change: &ExitTable, scale: Scale) -> String {
    let part = |what: &str, of: [f64; 2], unit: &str| {
        let [base, change] = scale.apply(of);
        let percent = number::percent(change_percent(base, change));
        let [base, change] = [base, change].map(number::whole);
        format!("{what} {percent} % ({base} → {change}{})", scale.unit(unit))
    };
    let sides = [base, change];
    let exits = sides.map(|table| table.exits() as f64);
    let knows_halts = sides.iter().all(|table| has_parts(table));
    let times = sides.map(|table| Time::of(&[table], knows_halts));
    let of = |part: fn(&Time) -> u64| times.each_ref().map(|time| part(time) as f64 / number::US);
    let [in_exits, guest] = [of(|time| time.exits_ns()), of(|time| time.guest)];
    let [halted, preempted] = [of(|time| time.halted), of(|time| time.preempted)];
    let inside = inside(&sides);
    let mut parts = vec![part("exits", exits, "")];
    // KVM's statistics know neither.
    if sides.iter().all(|table| table.is_timed()) {
        parts.push(part(if knows_halts { "time in exits" } else { WITH_HALTS }, in_exits, "µs"));
        parts.push(part(inside, guest, "µs"));
        let elsewhere = [("halted", halted), ("preempted", preempted)];
        let there = elsewhere.iter().filter(|(_, of)| *of != [0.0; 2]);
        parts.extend(there.map(|(what, of)| part(what, *of, "µs")));
    }
    parts.join(", ")
}
