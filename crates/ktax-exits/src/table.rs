//! Makes exit tables of recordings, and subtracts and adds tables of cumulative files.

use std::collections::{BTreeMap, BTreeSet};

use super::files::is_cumulative;
use super::recording::{Reason, ReasonTimes, Recording, STAGES, Thread};
use ktax_model::{
    Error, ExitAccount, ExitParts, ExitRow, ExitTable, OpenExit, Result, Warning, exit_warnings,
};
use ktax_stats::tables::quantile;

/// Next step of warnings about lost events.
pub(crate) const RECORD_LESS: &str = "record for a shorter time, or fewer vCPUs";

/// Tables to return: one for the whole VM, one for each vCPU, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableScope {
    Vm,
    Vcpu,
    Both,
}

impl TableScope {
    /// Returns the tables of this scope. Without any vCPU that is the table of the VM.
    pub(super) fn choose(
        self,
        vm: impl Fn() -> ExitTable,
        vcpus: impl Fn() -> Vec<ExitTable>,
    ) -> Vec<ExitTable> {
        let vcpus = if self == TableScope::Vm { vec![] } else { vcpus() };
        match self {
            TableScope::Vcpu if !vcpus.is_empty() => vcpus,
            TableScope::Vm | TableScope::Vcpu => vec![vm()],
            TableScope::Both => std::iter::once(vm()).chain(vcpus).collect(),
        }
    }
}

/// A Recording, with all other inputs of its tables.
pub(super) struct TableInput<'a> {
    pub recording: &'a Recording,
    /// Title of the VM's table; may be empty.
    pub vm_name: &'a str,
    pub source: &'a str,
    pub reason_name: &'a dyn Fn(Reason) -> String,
    /// Start of the recording, ns, if the VM ran before; `None` if the recording starts with the
    /// first event, or at an unknown time.
    pub start_ns: Option<u64>,
    /// Returns the end of a thread's recording, ns.
    pub end_ns: &'a dyn Fn(u32, &Thread) -> u64,
    /// Counts of threads without times.
    pub counted: &'a CountedExits,
    /// True if task switches were recorded.
    pub has_switches: bool,
    /// Returns true if KVM may put the thread to sleep after an exit for this reason.
    pub may_sleep: &'a dyn Fn(Reason) -> bool,
}

/// Counts of exits, for threads whose entries were not recorded and that therefore have no times.
#[derive(Debug, Default)]
pub(super) struct CountedExits {
    /// Number of exits by thread id and reason, of all threads.
    pub exits: BTreeMap<(u32, Reason), u64>,
    /// Ids of the threads without times.
    pub untimed: BTreeSet<u32>,
}

impl TableInput<'_> {
    pub fn tables(&self, scope: TableScope) -> Vec<ExitTable> {
        let threads: Vec<u32> = self.recording.threads.keys().copied().collect();
        // All tables have the warnings of the whole VM, so that a page can print each once.
        let warnings = warnings(&self.account(&threads));
        let vm = || self.table(self.vm_name.to_owned(), &threads, &warnings);
        let vcpu = |tid: &u32| {
            let name = &self.recording.threads[tid].name;
            let of_vm = match self.vm_name {
                "" => String::new(),
                vm_name => format!(" of {vm_name}"),
            };
            self.table(format!("{name} (thread {tid}){of_vm}"), &[*tid], &warnings)
        };
        scope.choose(vm, || threads.iter().map(vcpu).collect())
    }

    fn table(&self, title: String, tids: &[u32], warnings: &[Warning]) -> ExitTable {
        let keys = self.recording.rows.keys().filter(|(tid, _)| tids.contains(tid));
        let mut reasons: Vec<Reason> = keys.map(|(_, reason)| *reason).collect();
        reasons.sort();
        reasons.dedup();
        let times = |reason: Reason| {
            let mut sum = ReasonTimes::default();
            let rows = tids.iter().filter_map(|tid| self.recording.rows.get(&(*tid, reason)));
            rows.for_each(|times| sum.merge(times));
            sum
        };
        let elapsed_ns = self.elapsed_ns(tids);
        let source = self.source.to_owned();
        if tids.iter().any(|tid| self.counted.untimed.contains(tid)) {
            let rows = self.counts(tids);
            return ExitTable { name: title, source, rows, elapsed_ns, ..ExitTable::default() };
        }
        let rows = reasons.iter().map(|reason| self.row(*reason, &times(*reason)));
        ExitTable {
            name: title,
            source,
            rows: rows.collect(),
            warnings: warnings.to_vec(),
            elapsed_ns,
            account: Some(self.account(tids)),
            ..ExitTable::default()
        }
    }

    /// Returns the number of exits of these threads by reason, without times.
    fn counts(&self, tids: &[u32]) -> Vec<ExitRow> {
        let mut counts: BTreeMap<Reason, u64> = BTreeMap::new();
        let exits = self.counted.exits.iter().filter(|((tid, _), _)| tids.contains(tid));
        exits.for_each(|((_, reason), count)| *counts.entry(*reason).or_default() += count);
        let row = |(reason, count): (&Reason, &u64)| ExitRow {
            reason: (self.reason_name)(*reason),
            count: *count,
            ..ExitRow::default()
        };
        counts.iter().map(row).collect()
    }

    fn row(&self, reason: Reason, times: &ReasonTimes) -> ExitRow {
        let quantile = |share| {
            let value = quantile(&times.buckets, share)?.round() as u64;
            Some(value.clamp(times.least, times.most))
        };
        ExitRow {
            reason: (self.reason_name)(reason),
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

    fn parts(&self, reason: Reason, times: &ReasonTimes) -> ExitParts {
        let [kernel_ns, user_ns, halted_ns, preempted_ns]: [u64; STAGES] = times.parts;
        let parts = ExitParts { kernel_ns, user_ns, ..ExitParts::default() };
        if self.has_switches {
            return ExitParts {
                halted_ns: Some(halted_ns),
                preempted_ns: Some(preempted_ns),
                ..parts
            };
        }
        // Without task switches a sleeping thread cannot be distinguished from a running one.
        match reason != Reason::GUEST && (self.may_sleep)(reason) {
            true => ExitParts { kernel_ns: 0, unknown_ns: kernel_ns, ..parts },
            false => parts,
        }
    }

    /// Returns the length of the recording, ns. If its start is unknown, it starts with the first
    /// entry or exit of these threads.
    fn elapsed_ns(&self, tids: &[u32]) -> Option<u64> {
        if let Some(start_ns) = self.start_ns {
            let threads = self.recording.threads.iter();
            let end_ns = threads.map(|(tid, thread)| (self.end_ns)(*tid, thread)).max()?;
            return Some(end_ns.saturating_sub(start_ns));
        }
        let threads = || tids.iter().map(|tid| (*tid, &self.recording.threads[tid]));
        let first_ns = threads().map(|(_, thread)| thread.first_ns).filter(|ns| *ns > 0).min()?;
        let end_ns = threads().map(|(tid, thread)| (self.end_ns)(tid, thread)).max()?;
        Some(end_ns.saturating_sub(first_ns))
    }

    fn account(&self, tids: &[u32]) -> ExitAccount {
        let threads = tids.iter().map(|tid| (*tid, &self.recording.threads[tid]));
        let threads: Vec<(u64, &Thread)> =
            threads.map(|(tid, thread)| ((self.end_ns)(tid, thread), thread)).collect();
        let open = threads.iter().filter_map(|(end_ns, thread)| {
            let (reason, start_ns) = thread.open?;
            let ns = end_ns.saturating_sub(start_ns);
            Some(OpenExit { reason: (self.reason_name)(reason), ns })
        });
        let with_entry_or_exit = threads.iter().filter(|(_, thread)| thread.first_ns > 0);
        ExitAccount {
            wall_ns: with_entry_or_exit
                .map(|(end_ns, thread)| end_ns.saturating_sub(thread.first_ns))
                .fold(0, u64::saturating_add),
            open: open.collect(),
            lost: self.recording.lost_events,
            missed_switches: self.recording.missed_switches,
            unpaired: threads.iter().map(|(_, thread)| thread.unpaired).sum(),
            recorder: None,
        }
    }
}

fn warnings(account: &ExitAccount) -> Vec<Warning> {
    let lost = (account.lost > 0)
        .then(|| Warning::new(format!("{} events were lost", account.lost), RECORD_LESS));
    let unpaired = (account.unpaired > 0).then(|| {
        Warning::new(
            format!(
                "{} events have no partner: an exit without an entry after it, or an entry \
                 without an exit; their time is in the row before",
                account.unpaired
            ),
            "see docs/exits.md: some kernels enter a guest without an event",
        )
    });
    lost.into_iter().chain(unpaired).collect()
}

/// Returns the difference of two reads of a cumulative file. A minimum or maximum is known only if
/// it changed between the reads.
pub fn subtract_tables(earlier: &ExitTable, later: &ExitTable) -> Result<ExitTable> {
    for table in [earlier, later] {
        if !is_cumulative(table) {
            let message = format!("{} is not a file to which a kernel adds", table.source);
            return Err(Error::user(message).next("compare two recordings with `ktax exits diff`"));
        }
    }
    if earlier.source != later.source {
        let [earlier, later] = [&earlier.source, &later.source];
        let message = format!("the earlier table is of {earlier} and the later one of {later}");
        return Err(Error::user(message).next("give two reads of the same file"));
    }
    let mut warnings = exit_warnings([earlier, later]);
    let mut warn_omitted = |reason: &str, read: &str| {
        let fact = format!("{reason} is missing in the {read} read, so ktax omits it");
        warnings.push(Warning::new(fact, "read the file twice again"));
    };
    let mut rows = Vec::new();
    for row in &later.rows {
        match earlier.row(&row.reason) {
            Some(before) => rows.push(subtract_row(before, row)?),
            None => warn_omitted(&row.reason, "first"),
        }
    }
    let absent = earlier.rows.iter().filter(|row| later.row(&row.reason).is_none());
    absent.for_each(|row| warn_omitted(&row.reason, "second"));
    Ok(ExitTable {
        name: later.name.clone(),
        source: format!("{}, between two reads", later.source),
        rows_are: later.rows_are,
        rows,
        warnings,
        ..ExitTable::default()
    })
}

fn subtract_row(before: &ExitRow, after: &ExitRow) -> Result<ExitRow> {
    if before.count == 0 {
        return Ok(after.clone());
    }
    let count = after.count.checked_sub(before.count);
    let sum_ns = after.time_ns().checked_sub(before.time_ns());
    // Unless the file was cleared, its minimum only falls and its maximum only rises.
    let is_continued = after.least_ns <= before.least_ns && after.most_ns >= before.most_ns;
    let (Some(count), Some(sum_ns), true) = (count, sum_ns, is_continued) else {
        return Err(Error::user(format!(
            "{} is smaller in the later read: the file was cleared, or a counter passed 2³²",
            after.reason
        ))
        .next("read the file twice again"));
    };
    let squares = after.squares_ns2.zip(before.squares_ns2).map(|(a, b)| a.checked_sub(b));
    // The file truncates, so the difference of the squares may be less than `count` durations with
    // this sum can have.
    let min_squares =
        u128::from(sum_ns).checked_pow(2).map(|square| square.div_ceil(u128::from(count.max(1))));
    let squares_ns2 = match (before.count, count) {
        // A single duration has no deviation, so its square follows from the sum.
        (_, 0 | 1) => after.squares_ns2.and(min_squares),
        // ktax replaced the square of a single earlier duration, so it cannot be subtracted.
        (1, _) => None,
        _ => squares.flatten().zip(min_squares).map(|(squares, minimum)| squares.max(minimum)),
    };
    Ok(ExitRow {
        reason: after.reason.clone(),
        is_guest: after.is_guest,
        count,
        least_ns: after.least_ns.filter(|least| before.least_ns.is_some_and(|old| *least < old)),
        most_ns: after.most_ns.filter(|most| before.most_ns.is_some_and(|old| *most > old)),
        sum_ns: Some(sum_ns),
        squares_ns2,
        ..ExitRow::default()
    })
}

/// Returns the sum of several tables, with the rows that all tables have. A value that one of them
/// lacks is absent.
pub fn add_tables(title: String, source: String, tables: &[ExitTable]) -> ExitTable {
    let mut rows: Vec<ExitRow> = Vec::new();
    for row in tables.iter().flat_map(|table| &table.rows) {
        match rows.iter_mut().find(|sum| sum.reason == row.reason) {
            Some(sum) if sum.count == 0 => *sum = row.clone(),
            Some(sum) if row.count > 0 => add_row(sum, row),
            Some(_) => {}
            None => rows.push(row.clone()),
        }
    }
    let is_in_all = |row: &ExitRow| tables.iter().all(|table| table.row(&row.reason).is_some());
    let (rows, partial): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_in_all);
    let omitted = |row: &ExitRow| {
        let fact = format!("{} is not in every vCPU's table, so ktax omits it", row.reason);
        Warning::new(fact, "use --per vcpu to see it")
    };
    let mut warnings: Vec<Warning> = partial.iter().map(omitted).collect();
    warnings.extend(exit_warnings(tables));
    let rows_are = tables.first().map(|table| table.rows_are).unwrap_or_default();
    ExitTable { name: title, source, rows_are, rows, warnings, ..ExitTable::default() }
}

/// Adds a row with the same reason to `sum`. A value that one of the two lacks becomes absent.
pub(crate) fn add_row(sum: &mut ExitRow, row: &ExitRow) {
    let combine = |a: Option<u64>, b: Option<u64>, choose: fn(u64, u64) -> u64| {
        a.zip(b).map(|(a, b)| choose(a, b))
    };
    sum.count = sum.count.saturating_add(row.count);
    sum.sum_ns = combine(sum.sum_ns, row.sum_ns, u64::saturating_add);
    sum.least_ns = combine(sum.least_ns, row.least_ns, u64::min);
    sum.most_ns = combine(sum.most_ns, row.most_ns, u64::max);
    let squares = sum.squares_ns2.zip(row.squares_ns2);
    sum.squares_ns2 = squares.and_then(|(a, b)| a.checked_add(b));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TableScope;
    use crate::files::read;
    use crate::recording::{Fold, Stage, VcpuEvent};

    /// A guest that ran before the recording and was idle for most of it.
    #[test]
    fn a_recording_with_a_known_start_is_longer_than_its_events() {
        let reason = Reason { code: 1, detail: 0 };
        let mut fold = Fold::default();
        for (tid, exit) in [(1, 9_000), (2, 9_400)] {
            fold.add(tid, "vcpu", exit, VcpuEvent::Enter);
            fold.add(tid, "vcpu", exit + 100, VcpuEvent::Exit(reason, Stage::Kernel));
            fold.add(tid, "vcpu", exit + 200, VcpuEvent::Enter);
        }
        let recording = &fold.recording();
        let lengths = |start_ns| {
            let (reason_name, end_ns) = (|_| "a reason".to_owned(), |_, _: &Thread| 10_000);
            let (reason_name, end_ns, source) = (&reason_name, &end_ns, "a test");
            let counted = &CountedExits::default();
            let (has_switches, may_sleep) = (true, &|_: Reason| false);
            let input = TableInput {
                recording,
                vm_name: "",
                source,
                reason_name,
                start_ns,
                end_ns,
                counted,
                has_switches,
                may_sleep,
            };
            let tables = input.tables(TableScope::Both);
            tables.iter().map(|table| table.elapsed_ns.unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(lengths(None), [1_000, 1_000, 600]);
        assert_eq!(lengths(Some(2_000)), [8_000; 3]);
    }

    fn read_one(text: &str) -> ExitTable {
        read(text, TableScope::Vm).unwrap().remove(0)
    }

    /// Returns the count, sum, minimum and maximum of a row.
    fn numbers(table: &ExitTable, reason: &str) -> (u64, u64, Option<u64>, Option<u64>) {
        let row = table.row(reason).unwrap();
        (row.count, row.time_ns(), row.least_ns, row.most_ns)
    }

    const FIRST: &str = "guest: 7 70 4 20\ncede: 0 0 0 0\nrm_exit: 2 8 3 5\n";

    #[test]
    fn reads_of_a_cumulative_file_are_subtracted() {
        let later = read_one("guest: 9 170 4 60\ncede: 3 9 1 5\nrm_exit: 2 8 3 5\n");
        let table = subtract_tables(&read_one(FIRST), &later).unwrap();
        // guest: the maximum changed, so it is new; the minimum may be older. cede: all is new.
        assert_eq!(numbers(&table, "guest"), (2, 100, None, Some(60)));
        assert_eq!(numbers(&table, "cede"), (3, 9, Some(1), Some(5)));
        assert_eq!(numbers(&table, "rm_exit"), (0, 0, None, None));
        assert_eq!(table.source, "book3s HV timings, between two reads");
    }

    fn e500(row: &str) -> ExitTable {
        let unused = "HALT\t0\t10737418\t0\t0\t0";
        read_one(&format!("type\tcount\tmin\tmax\tsum\tsum_squared\n{row}\n{unused}"))
    }

    #[test]
    fn squares_are_subtracted_too() {
        // 400 ticks a µs: squares are µs² times 400. Durations of 1 and 3 µs, then 5 and 7 µs.
        let (first, later) = (e500("MMIO\t2\t1\t3\t4\t4000"), e500("MMIO\t4\t1\t7\t16\t33600"));
        let row = subtract_tables(&first, &later).unwrap().row("MMIO").unwrap().clone();
        assert_eq!((row.count, row.time_ns(), row.squares_ns2), (2, 12_000, Some(74_000_000)));
    }

    #[test]
    fn one_exit_has_no_deviation() {
        let squares = |first: &str, later: &str| {
            let table = subtract_tables(&e500(first), &e500(later)).unwrap();
            table.row("MMIO").unwrap().squares_ns2
        };
        // The sum is truncated to microseconds and the square is not: 0.6 µs twice, then 1000.7 µs.
        let after_two = ["MMIO\t2\t0\t0\t1\t288", "MMIO\t3\t0\t1000\t1001\t400560484"];
        assert_eq!(squares(after_two[0], after_two[1]), Some(1_000_000_000_000));
        // After a single earlier duration the difference of the squares is unknown.
        let after_one =
            ["MMIO\t1\t1000\t1000\t1000\t400792392", "MMIO\t11\t1\t1000\t1010\t400796392"];
        assert_eq!(squares(after_one[0], after_one[1]), None);
    }

    #[test]
    fn inconsistent_reads_are_refused_and_missing_rows_warned_of() {
        let first = read_one(FIRST);
        let refusal = |earlier: &ExitTable, later: &ExitTable| {
            subtract_tables(earlier, later).unwrap_err().to_string()
        };
        let cleared = refusal(&first, &read_one("guest: 1 10 10 10\n"));
        assert!(cleared.starts_with("guest is smaller in the later read: "), "{cleared}");
        let other = ExitTable { source: "e500 timing".into(), ..first.clone() };
        assert!(refusal(&first, &other).ends_with("; give two reads of the same file"));
        // A difference is no cumulative file, nor are KVM's statistics.
        let recording = subtract_tables(&first, &first).unwrap();
        let statistics = ExitTable { source: "KVM's statistics".into(), ..first.clone() };
        for table in [recording, statistics] {
            assert!(refusal(&table, &table).contains(" is not a file to which a kernel adds; "));
        }
        // The file was cleared and has since counted more than before, but its maximum fell.
        let grown = read_one("guest: 70 700 4 19\ncede: 0 0 0 0\nrm_exit: 2 8 3 5\n");
        assert!(refusal(&first, &grown).contains(" is smaller in the later read: "));
        let stuck = subtract_tables(
            &read_one("guest: stuck\ncede: 1 2 2 2\n"),
            &read_one("guest: 9 90 4 20\ncede: 1 2 2 2\n"),
        );
        let stuck = stuck.unwrap();
        assert!(stuck.row("guest").is_none());
        assert_eq!(stuck.warnings.len(), 2, "{:?}", stuck.warnings);
        let shrunk = subtract_tables(&first, &read_one("guest: 9 90 4 20\n")).unwrap();
        assert_eq!((shrunk.rows.len(), shrunk.warnings.len()), (1, 2), "{:?}", shrunk.warnings);
    }

    #[test]
    fn tables_of_vcpus_are_added() {
        let second = read_one("guest: 1 30 30 30\ncede: 2 6 2 4\nrm_exit: 0 0 0 0\n");
        let all = add_tables("vm".into(), "s".into(), &[read_one(FIRST), second]);
        assert_eq!(numbers(&all, "guest"), (8, 100, Some(4), Some(30)));
        assert_eq!(numbers(&all, "cede"), (2, 6, Some(2), Some(4)));
        assert_eq!(numbers(&all, "rm_exit"), (2, 8, Some(3), Some(5)));
        let partial = add_tables(
            "vm".into(),
            "s".into(),
            &[read_one(FIRST), read_one("guest: 1 30 30 30\n")],
        );
        assert_eq!((partial.rows.len(), partial.warnings.len()), (1, 2));
    }
}
