//! Makes tables of a Recording.

use std::collections::{BTreeMap, BTreeSet};

use super::recording::{Reason, Recording, STAGES, Thread, Times};
use ktax_model::{ExitAccount, ExitParts, ExitRow, ExitTable, OpenExit, Warning};
use ktax_stats::histogram::quantile;

/// What a table is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Per {
    /// All vCPUs together.
    Vm,
    /// Each vCPU.
    Vcpu,
    /// All together, then each.
    Both,
}

impl Per {
    /// Returns the wanted tables; where no vCPU was seen, the table of the VM.
    pub(super) fn choose(
        self,
        vm: impl Fn() -> ExitTable,
        vcpus: impl Fn() -> Vec<ExitTable>,
    ) -> Vec<ExitTable> {
        let vcpus = if self == Per::Vm { vec![] } else { vcpus() };
        match self {
            Per::Vcpu if !vcpus.is_empty() => vcpus,
            Per::Vm | Per::Vcpu => vec![vm()],
            Per::Both => std::iter::once(vm()).chain(vcpus).collect(),
        }
    }
}

/// A Recording, and what a table says beside it.
pub(super) struct Recorded<'a> {
    pub recording: &'a Recording,
    pub of: &'a str,
    pub source: &'a str,
    /// How a reason is called.
    pub name: &'a dyn Fn(Reason) -> String,
    /// When the recording began, ns, if it was of a VM that ran already; otherwise, and where
    /// nobody knows, it is from the first event on.
    pub began: Option<u64>,
    /// When the recording of a thread ended, ns.
    pub end: &'a dyn Fn(u32, &Thread) -> u64,
    /// The threads that have counts alone.
    pub counted: &'a CountedExits,
    /// Whether task switches were recorded.
    pub has_switches: bool,
    /// Whether the vCPU's thread may sleep after an exit for this reason.
    pub may_sleep: &'a dyn Fn(Reason) -> bool,
}

/// Exits of threads whose entries were not recorded: they have no times.
#[derive(Debug, Default)]
pub(super) struct CountedExits {
    /// How often every thread left the guest, by thread id and reason.
    pub exits: BTreeMap<(u32, Reason), u64>,
    /// The threads without entries.
    pub untimed: BTreeSet<u32>,
}

impl Recorded<'_> {
    /// Its tables.
    pub fn tables(&self, per: Per) -> Vec<ExitTable> {
        let threads: Vec<u32> = self.recording.threads.keys().copied().collect();
        // Of the whole VM, so that each table of it says the same, and a page says it once.
        let warnings = warnings(&self.account(&threads));
        let vm = || self.table(self.of.to_owned(), &threads, &warnings);
        let vcpu = |tid: &u32| {
            let name = &self.recording.threads[tid].name;
            let of = if self.of.is_empty() { String::new() } else { format!(" of {}", self.of) };
            self.table(format!("{name} (thread {tid}){of}"), &[*tid], &warnings)
        };
        per.choose(vm, || threads.iter().map(vcpu).collect())
    }

    fn table(&self, of: String, tids: &[u32], warnings: &[Warning]) -> ExitTable {
        let ours = self.recording.rows.keys().filter(|(tid, _)| tids.contains(tid));
        let mut reasons: Vec<Reason> = ours.map(|(_, reason)| *reason).collect();
        reasons.sort();
        reasons.dedup();
        let times = |reason: Reason| {
            let mut all = Times::default();
            let each = tids.iter().filter_map(|tid| self.recording.rows.get(&(*tid, reason)));
            each.for_each(|times| all.merge(times));
            all
        };
        let elapsed_ns = self.elapsed_ns(tids);
        let source = self.source.to_owned();
        if tids.iter().any(|tid| self.counted.untimed.contains(tid)) {
            let rows = self.counts(tids);
            return ExitTable { of, source, rows, elapsed_ns, ..ExitTable::default() };
        }
        let rows = reasons.iter().map(|reason| self.row(*reason, &times(*reason)));
        ExitTable {
            of,
            source,
            rows: rows.collect(),
            warnings: warnings.to_vec(),
            elapsed_ns,
            account: Some(self.account(tids)),
            ..ExitTable::default()
        }
    }

    /// How often these threads left the guest, by reason; no times.
    fn counts(&self, tids: &[u32]) -> Vec<ExitRow> {
        let mut counts: BTreeMap<Reason, u64> = BTreeMap::new();
        let ours = self.counted.exits.iter().filter(|((tid, _), _)| tids.contains(tid));
        ours.for_each(|((_, reason), count)| *counts.entry(*reason).or_default() += count);
        let row = |(reason, count): (&Reason, &u64)| ExitRow {
            reason: (self.name)(*reason),
            count: *count,
            ..ExitRow::default()
        };
        counts.iter().map(row).collect()
    }

    fn row(&self, reason: Reason, times: &Times) -> ExitRow {
        let quantile = |share| {
            let value = quantile(&times.buckets, share)?.round() as u64;
            Some(value.clamp(times.least, times.most))
        };
        ExitRow {
            reason: (self.name)(reason),
            is_guest: reason == Reason::GUEST,
            count: times.count,
            least_ns: Some(times.least),
            most_ns: Some(times.most),
            sum_ns: Some(times.sum),
            squares_ns2: Some(times.squares),
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            parts: Some(self.parts(reason, times)),
            counter: None,
        }
    }

    fn parts(&self, reason: Reason, times: &Times) -> ExitParts {
        let [kernel_ns, user_ns, halted_ns, preempted_ns]: [u64; STAGES] = times.parts;
        let parts = ExitParts { kernel_ns, user_ns, ..ExitParts::default() };
        if self.has_switches {
            return ExitParts {
                halted_ns: Some(halted_ns),
                preempted_ns: Some(preempted_ns),
                ..parts
            };
        }
        // Without task switches a thread that sleeps looks like one that runs.
        match reason != Reason::GUEST && (self.may_sleep)(reason) {
            true => ExitParts { kernel_ns: 0, unknown_ns: kernel_ns, ..parts },
            false => parts,
        }
    }

    /// How long was recorded: the whole recording, or from the first event of these threads to the
    /// last end.
    fn elapsed_ns(&self, tids: &[u32]) -> Option<u64> {
        if let Some(began) = self.began {
            let threads = self.recording.threads.iter();
            let last = threads.map(|(tid, thread)| (self.end)(*tid, thread)).max()?;
            return Some(last.saturating_sub(began));
        }
        let threads = || tids.iter().map(|tid| (*tid, &self.recording.threads[tid]));
        let first = threads().map(|(_, thread)| thread.first).filter(|first| *first > 0).min()?;
        let last = threads().map(|(tid, thread)| (self.end)(tid, thread)).max()?;
        Some(last.saturating_sub(first))
    }

    fn account(&self, tids: &[u32]) -> ExitAccount {
        let threads = tids.iter().map(|tid| (*tid, &self.recording.threads[tid]));
        let threads: Vec<(u64, &Thread)> =
            threads.map(|(tid, thread)| ((self.end)(tid, thread), thread)).collect();
        let open = threads.iter().filter_map(|(end, thread)| {
            let (reason, began) = thread.open?;
            Some(OpenExit { reason: (self.name)(reason), ns: end.saturating_sub(began) })
        });
        let seen = threads.iter().filter(|(_, thread)| thread.first > 0);
        ExitAccount {
            wall_ns: seen
                .map(|(end, thread)| end.saturating_sub(thread.first))
                .fold(0, u64::saturating_add),
            open: open.collect(),
            lost: self.recording.lost,
            missed_switches: self.recording.missed_switches,
            unpaired: threads.iter().map(|(_, thread)| thread.unpaired).sum(),
            recorder: None,
        }
    }
}

fn warnings(account: &ExitAccount) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |fact: String, next_step: &str| {
        warnings.push(Warning { fact, next_step: next_step.to_owned() });
    };
    if account.lost > 0 {
        let fact = format!("{} events were lost", account.lost);
        warn(fact, "record for a shorter time, or fewer vCPUs");
    }
    if account.unpaired > 0 {
        let fact = format!(
            "{} events have no partner: an exit without an entry after it, or an entry without an \
             exit; their time is in the row before",
            account.unpaired
        );
        warn(fact, "see docs/exits.md: some kernels enter a guest without an event");
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::{Fold, VcpuEvent};
    use crate::recording::Stage;

    /// A guest that ran already, and did nothing for most of the recording.
    #[test]
    fn a_recording_is_as_long_as_it_was_and_not_as_its_events() {
        let reason = Reason { code: 1, detail: 0 };
        let mut fold = Fold::default();
        for (tid, at) in [(1, 9_000), (2, 9_400)] {
            fold.add(tid, "vcpu", at, VcpuEvent::Enter);
            fold.add(tid, "vcpu", at + 100, VcpuEvent::Left(reason, Stage::Kernel));
            fold.add(tid, "vcpu", at + 200, VcpuEvent::Enter);
        }
        let recording = &fold.recording();
        let lengths = |began| {
            let (name, end) = (|_| "a reason".to_owned(), |_, _: &Thread| 10_000);
            let (name, end, of, source) = (&name, &end, "", "a test");
            let counted = &CountedExits::default();
            let (has_switches, may_sleep) = (true, &|_: Reason| false);
            let recorded = Recorded {
                recording,
                of,
                source,
                name,
                began,
                end,
                counted,
                has_switches,
                may_sleep,
            };
            let tables = recorded.tables(Per::Both);
            tables.iter().map(|table| table.elapsed_ns.unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(lengths(None), [1_000, 1_000, 600]);
        assert_eq!(lengths(Some(2_000)), [8_000; 3]);
    }
}
