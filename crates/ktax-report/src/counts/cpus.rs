//! Tables for rows that run on several CPUs or that wait for kernel threads: what CPUs spend their
//! time on, where CPUs wait for each other, and which locks they wait for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::view::{Columns, Section};
use crate::{effect, number};
use ktax_model::{
    AWAITED, CacheLine, CountsComparison, CpuTime, Effect, IDLE, MAKESPAN, METRICS, Memory, Row,
    SPIN_WAIT, Side, Sides, TRANSFERS, WaitStack, family,
};
use ktax_stats::tables::{checked_percent_change, share_percent};

const TIME_MEANING: &str = "executed: instructions in process context. Shares are percent of \
                            CPUs × makespan and add up to 100 %. process: the executed \
                            instructions; other: REP iterations, interrupts and kernel threads; \
                            wait: waiting for another CPU; idle: halted; uneven: slices shorter \
                            than the longest of their round, an artefact of the simulation.";

/// Returns an Effect's count in a Layout; 0 if the result has no such Layout.
fn count_in(effect: &Effect, side: Side, layout: usize) -> u64 {
    effect.samples.get(side).get(layout).copied().unwrap_or_default()
}

fn percent_text(percent: f64) -> String {
    number::with_decimals(percent, 1, false)
}

/// Time of all CPUs on one side, in the layout with the median makespan.
#[derive(Clone, Copy)]
struct CpuTimes<'a> {
    row: &'a Row,
    side: Side,
    /// CPUs × makespan.
    total: f64,
    executed: &'a Effect,
    process: u64,
    wait: u64,
    idle: u64,
    /// Instructions outside process context; `None` in results of older releases.
    other: Option<u64>,
    /// Time in which a slice had ended but the longest slice of its round had not; `None` in
    /// results of older releases.
    uneven: Option<u64>,
}

impl<'a> CpuTimes<'a> {
    fn new(row: &'a Row, side: Side, cpus: u32) -> Option<CpuTimes<'a>> {
        let (makespan, executed) = (row.effect(MAKESPAN)?, row.effect(METRICS[0].name)?);
        let count = |effect| count_in(effect, side, makespan.layout);
        let cpu_time = row.counts().and_then(|counts| counts.cpu_time.as_ref());
        let cpu_time = cpu_time.map(|times| times.get(side));
        let (wait, idle) = (count(row.effect(SPIN_WAIT)?), count(row.effect(IDLE)?));
        let process = count(executed);
        Some(CpuTimes {
            row,
            side,
            total: count(makespan) as f64 * f64::from(cpus),
            executed,
            process,
            wait: cpu_time.map_or(wait, |time| time.wait),
            idle: cpu_time.map_or(idle, |time| time.idle),
            other: cpu_time.map(|time| time.work.saturating_sub(process)),
            uneven: cpu_time.map(|time| time.uneven),
        })
    }

    fn share(&self, part: u64) -> String {
        percent_text(share_percent(part as f64, self.total.max(1.0)))
    }
}

/// Table of what several CPUs spent their time on; empty for a machine with one CPU.
pub fn cpu_times(rows: &[Row], counts: &CountsComparison) -> Section {
    let cpus = counts.key.machine.cpus;
    let sides_of_row = |row| Side::BOTH.map(|side| CpuTimes::new(row, side, cpus));
    let lines: Vec<CpuTimes<'_>> = rows.iter().flat_map(sides_of_row).flatten().collect();
    let mut columns = Columns::new(&lines);
    columns.row("workload", |line| &line.row.row);
    columns.name("side", |line| line.side.name());
    let executed = |line: CpuTimes<'_>| number::count(line.executed.value(line.side));
    columns.number("executed insn", executed).drop_order(1);
    columns.number("process %", |line| line.share(line.process));
    columns.number("other %", |line| line.other.map(|part| line.share(part))).drop_order(0);
    columns.number("wait %", |line| line.share(line.wait));
    columns.number("idle %", |line| line.share(line.idle));
    columns.number("uneven %", |line| line.uneven.map(|part| line.share(part))).drop_order(2);
    let title = format!("CPU time per operation, sum of {cpus} CPUs:");
    columns.table().with_note(title, TIME_MEANING)
}

/// Workload parameter that sets the number of CPUs.
const CPUS_PARAMETER: &str = "cpus";

const RATE_MEANING: &str = "ops/Minsn: operations per CPU and million instructions of makespan; \
                            %: ops/Minsn in percent of the row with the fewest CPUs (100: perfect \
                            scaling); waits most in: the function with the most waiting; wait %: \
                            waiting for another CPU, in percent of CPU time; both on the change \
                            side.";

/// Row of a family of rows that differ only in their number of CPUs.
#[derive(Clone, Copy)]
struct ScalabilityRow<'a> {
    family: &'a str,
    cpus: u64,
    row: &'a Row,
    makespan: &'a Effect,
    /// Operations per CPU and million instructions of makespan, on each side.
    rate: [f64; 2],
    /// Rate of the family's row with the fewest CPUs.
    fewest_cpus_rate: [f64; 2],
}

impl ScalabilityRow<'_> {
    /// Formats the rate in percent of the rate with the fewest CPUs.
    fn percent(&self, side: Side) -> String {
        let [rate, reference] =
            [self.rate, self.fewest_cpus_rate].map(|rates| rates[side as usize]);
        percent_text(share_percent(rate, reference))
    }
}

/// Table of operations per CPU, for rows that differ only in their number of CPUs.
pub fn scalability(rows: &[Row]) -> Section {
    let mut families: BTreeMap<String, Vec<(u64, &Row, &Effect)>> = BTreeMap::new();
    for row in rows {
        if let (Some(cpus), Some(effect)) = (row.params.get(CPUS_PARAMETER), row.effect(MAKESPAN)) {
            families
                .entry(family(&row.row, CPUS_PARAMETER))
                .or_default()
                .push((*cpus, row, effect));
        }
    }
    families.retain(|_, rows| rows.len() > 1);
    families.values_mut().for_each(|rows| rows.sort_by_key(|(cpus, ..)| *cpus));
    let lines: Vec<ScalabilityRow<'_>> = families
        .iter()
        .flat_map(|(family, rows)| {
            let rate = |(cpus, _, makespan): (u64, &Row, &Effect)| {
                Side::BOTH.map(|side| 1e6 / makespan.value(side) / cpus as f64)
            };
            let fewest_cpus_rate = rate(rows[0]);
            rows.iter().map(move |entry| {
                let (cpus, row, makespan) = *entry;
                let rate = rate(*entry);
                ScalabilityRow { family, cpus, row, makespan, rate, fewest_cpus_rate }
            })
        })
        .collect();
    let mut columns = Columns::new(&lines);
    // Every line repeats the name, because readers of a page can sort the lines.
    columns.row("workload", |line| line.family);
    columns.number("CPUs", |line| line.cpus.to_string());
    columns.number("base ops/Minsn", |line| number::count(line.rate[0])).drop_order(0);
    columns.number("change ops/Minsn", |line| number::count(line.rate[1])).drop_order(1);
    columns.number("base %", |line| line.percent(Side::Base)).drop_order(3);
    columns.number("change %", |line| line.percent(Side::Change));
    columns
        .name("waits most in", |line| main_wait(line).map(|[function, _]| function))
        .drop_order(2);
    columns.number("wait %", |line| main_wait(line).map(|[_, share]| share));
    columns.table().with_note("Scalability: operations per CPU as CPUs are added:", RATE_MEANING)
}

/// Share of CPU time, in percent, below which the function that waits is not named.
const MIN_NAMED_WAIT_PERCENT: f64 = 0.1;

/// Returns the change's function with the most waiting, and the share of CPU time that CPUs wait
/// in all functions.
fn main_wait(line: ScalabilityRow<'_>) -> Option<[String; 2]> {
    let ScalabilityRow { row, makespan, cpus, .. } = line;
    let waits = &row.counts()?.waits.as_ref()?.change;
    let total_wait = waits.values().sum::<u64>() as f64;
    let cpu_time = count_in(makespan, Side::Change, makespan.layout) as f64 * cpus as f64;
    let share = share_percent(total_wait, cpu_time);
    let (function, _) = waits.iter().max_by_key(|(_, wait)| **wait)?;
    let name = if share < MIN_NAMED_WAIT_PERCENT { String::new() } else { function.clone() };
    Some([name, percent_text(share)])
}

const AWAITED_MEANING: &str = "Instructions of kernel threads that were woken by the process, a \
                               device interrupt or another such thread. Threads woken by a timer \
                               are background and do not count. These instructions decide the \
                               verdict in the same way as instructions of the process.";

/// Share of the process's instructions below which a row has no line.
const MIN_AWAITED_SHARE: f64 = 0.001;

/// Table with a line for each row that waits for kernel threads.
pub fn awaited(rows: &[Row]) -> Section {
    let awaited = rows.iter().filter_map(|row| {
        let (awaited, process) = (row.effect(AWAITED)?, row.effect(METRICS[0].name)?);
        let min_awaited = MIN_AWAITED_SHARE * process.base.max(process.change);
        (awaited.base.max(awaited.change) >= min_awaited).then_some((row, awaited))
    });
    let lines: Vec<(&Row, &Effect)> = awaited.collect();
    let mut columns = Columns::new(&lines);
    columns.row("workload", |(row, _)| &row.row);
    columns.number("base insn", |(_, awaited)| number::count(awaited.base));
    columns.number("change insn", |(_, awaited)| number::count(awaited.change));
    columns.number("delta %", |(_, awaited)| number::percent(awaited.percent));
    columns.number("range %", |(_, awaited)| effect::over_layouts(awaited)).drop_order(0);
    columns.verdict(|(_, awaited)| awaited.verdict);
    let title = "Kernel threads that rows wait for, in instructions per operation:";
    columns.table().with_note(title, AWAITED_MEANING)
}

const TRANSFER_MEANING: &str = "model transfers: accesses per operation to a 64-byte line that \
                                another CPU wrote last, in a model with infinite caches. A line is \
                                named by its variables (+: offset of the line in a variable), \
                                other memory by the function that fetches it most. lines: number \
                                of lines with this name.";

/// Maximum number of cache lines that are shown for a row.
const MAX_CACHE_LINES: usize = 5;
/// Share of a row's transfers, in percent, below which a cache line is left out.
const MIN_TRANSFERS_PERCENT: f64 = 5.0;
const ALL_LINES: &str = "all";

/// Transfers of all cache lines of a row that have the same name.
#[derive(Clone)]
struct LineTransfers<'a> {
    row: &'a Row,
    name: String,
    /// Number of cache lines; `None` for the sum of all names.
    lines: Option<u64>,
    transfers: Sides<u64>,
}

impl LineTransfers<'_> {
    fn max_side(&self) -> u64 {
        self.transfers.base.max(self.transfers.change)
    }

    fn per_op(&self) -> [f64; 2] {
        Side::BOTH.map(|side| number::per_op(*self.transfers.get(side), self.row.ops))
    }
}

/// Table of the cache lines with the most transfers between CPUs in each row; empty without the
/// model.
pub fn coherence(rows: &[Row]) -> Section {
    let transfers: Vec<LineTransfers<'_>> =
        rows.iter().filter_map(row_transfers).flatten().collect();
    let lines: Vec<&LineTransfers<'_>> = transfers.iter().collect();
    let mut columns = Columns::new(&lines);
    columns.row("workload", |line| &line.row.row);
    columns.name("cache line", |line| &line.name);
    columns.number("lines", |line| line.lines.map(|lines| lines.to_string())).drop_order(1);
    columns.number("base model transfers", |line| number::count(line.per_op()[0])).drop_order(3);
    columns.number("change model transfers", |line| number::count(line.per_op()[1]));
    let delta = |line: &LineTransfers<'_>| number::delta(line.per_op()[1] - line.per_op()[0]);
    columns.number("delta transfers", delta).drop_order(0);
    let percent = |[base, change]: [f64; 2]| number::percent(checked_percent_change(base, change));
    columns.number("delta %", |line| percent(line.per_op())).drop_order(2);
    let title = "Cache lines transferred between CPUs, in the coherence model:";
    columns.table().with_note(title, TRANSFER_MEANING)
}

/// Transfers of a row: the sum of all cache lines, then the names with the most transfers.
fn row_transfers(row: &Row) -> Option<Vec<LineTransfers<'_>>> {
    let effect = row.effect(TRANSFERS)?;
    let model_lines = row.counts()?.model_lines.as_ref()?;
    let mut by_name: BTreeMap<String, LineTransfers<'_>> = BTreeMap::new();
    for side in Side::BOTH {
        for line in model_lines.get(side) {
            let name = cache_line_name(line);
            let sum = by_name.entry(name.clone()).or_insert_with(|| LineTransfers {
                row,
                name,
                lines: None,
                transfers: Sides::default(),
            });
            *sum.transfers.get_mut(side) += line.transfers;
            sum.lines = sum.lines.max(Some(line.lines));
        }
    }
    let mut lines: Vec<LineTransfers<'_>> = by_name.into_values().collect();
    lines.sort_by_key(|line| Reverse(line.max_side()));
    let transfers = Sides::from_fn(|side| count_in(effect, side, effect.layout));
    let all = LineTransfers { row, name: ALL_LINES.to_owned(), lines: None, transfers };
    let total = all.max_side() as f64;
    lines.retain(|line| share_percent(line.max_side() as f64, total) >= MIN_TRANSFERS_PERCENT);
    lines.truncate(MAX_CACHE_LINES);
    Some(std::iter::once(all).chain(lines).collect())
}

fn cache_line_name(line: &CacheLine) -> String {
    let CacheLine { memory, name, offset, .. } = line;
    let address = match offset {
        0 => name.clone(),
        offset => format!("{name}+{offset:#x}"),
    };
    match memory {
        Memory::Data => address,
        Memory::Percpu => format!("{address} of each CPU"),
        Memory::Direct => format!("heap, by {name}"),
        Memory::Vmalloc => format!("stack or vmalloc, by {name}"),
        Memory::Pages => format!("struct page, by {name}"),
        Memory::User => format!("user, by {name}"),
        Memory::Other => format!("other, by {name}"),
    }
}

const WAIT_MEANING: &str = "%: time in the function (executing and waiting), in percent of CPU \
                            time, over all callers; wait %: the waiting part. A lock function's \
                            own instructions also count when nobody waits for the lock.";

/// Maximum number of functions that are shown for a row.
const MAX_FUNCTIONS: usize = 4;

/// Share of CPU time, in percent, that CPUs must wait in a function on one of the sides; functions
/// with less are left out.
const MIN_WAIT_PERCENT: f64 = 0.005;

/// A function's shares of CPU time on both sides, in percent.
#[derive(Clone, Copy)]
struct FunctionShares<'a> {
    row: &'a Row,
    function: &'a str,
    wait: [f64; 2],
    /// Executing and waiting.
    total: [f64; 2],
}

/// Table of the functions in which CPUs wait most; empty where CPUs hardly wait.
pub fn waits(rows: &[Row], counts: &CountsComparison) -> Section {
    let cpus = f64::from(counts.key.machine.cpus);
    let lines: Vec<FunctionShares<'_>> =
        rows.iter().filter_map(|row| wait_shares(row, cpus)).flatten().collect();
    let percent = |percent: f64| number::with_decimals(percent, 2, false);
    let mut columns = Columns::new(&lines);
    // Every line repeats the row, because readers of a page can sort the lines.
    columns.row("workload", |line| &line.row.row);
    columns.name("function", |line| line.function);
    columns.number("base %", |line| percent(line.total[0]));
    columns.number("change %", |line| percent(line.total[1]));
    columns.number("base wait %", |line| percent(line.wait[0])).drop_order(0);
    columns.number("change wait %", |line| percent(line.wait[1])).drop_order(0);
    let title = "Functions in which CPUs wait for each other:";
    columns.table().with_note(title, WAIT_MEANING)
}

/// Shares of a row's functions, in the layout with the median makespan.
fn wait_shares(row: &Row, cpus: f64) -> Option<Vec<FunctionShares<'_>>> {
    let (makespan, evidence) = (row.effect(MAKESPAN)?, row.counts()?);
    let (waits, executed) = (evidence.waits.as_ref()?, evidence.waiting_functions_work.as_ref()?);
    let share = |counts: &Sides<BTreeMap<String, u64>>, function: &String| {
        Side::BOTH.map(|side| {
            let count = counts.get(side).get(function).copied().unwrap_or_default();
            let cpu_time = count_in(makespan, side, makespan.layout) as f64 * cpus;
            share_percent(count as f64, cpu_time)
        })
    };
    let functions: BTreeSet<&String> = waits.base.keys().chain(waits.change.keys()).collect();
    let shares = functions.into_iter().map(|function| {
        let (wait, executed) = (share(waits, function), share(executed, function));
        let total = [wait[0] + executed[0], wait[1] + executed[1]];
        FunctionShares { row, function, wait, total }
    });
    let max_side = |[base, change]: [f64; 2]| base.max(change);
    let mut shares: Vec<FunctionShares<'_>> =
        shares.filter(|share| max_side(share.wait) >= MIN_WAIT_PERCENT).collect();
    // A stable sort: functions with equal shares stay in the order of their names.
    shares.sort_by(|one, other| max_side(other.total).total_cmp(&max_side(one.total)));
    shares.truncate(MAX_FUNCTIONS);
    Some(shares)
}

const LOCK_CALLERS_MEANING: &str = "by: caller of the lock primitive (measured); %: its share of \
                                    the row's waiting time; lock: the lock this function usually \
                                    takes (not measured). `ktax report DIR --explain ROW` prints \
                                    all call paths.";

const SLEEPERS_MEANING: &str = "by: the function that put the last process on the CPU to sleep, \
                                lock and scheduler functions skipped; %: its share of the row's \
                                idle time; no process: none slept here, or it moved to another \
                                CPU; lock: the lock this function usually waits for (not \
                                measured).";

/// Share on both sides, in percent, below which a function counts among the others.
const MIN_LINE_PERCENT: f64 = 1.0;
/// Share of CPU time, in percent, that CPUs must wait (or be idle) on one of the sides; a row with
/// less has no lines.
const MIN_CPU_TIME_PERCENT: f64 = 0.1;

/// Table of the functions that take the locks for which CPUs wait; empty where CPUs hardly wait.
pub fn lock_callers(rows: &[Row]) -> Section {
    let rows = rows.iter().filter_map(|row| {
        let total = total_time(row, |time| time.wait)?;
        Some(lock_lines(row, &row.counts()?.wait_stacks, total, "others"))
    });
    lock_table("Locks that CPUs wait for, by calling function:", LOCK_CALLERS_MEANING, rows)
}

/// Table of where processes sleep while CPUs are idle; empty where CPUs are hardly idle.
pub fn sleepers(rows: &[Row]) -> Section {
    let rows = rows.iter().filter_map(|row| {
        let total = total_time(row, |time| time.idle)?;
        Some(lock_lines(row, &row.counts()?.idle_stacks, total, "others, or no process"))
    });
    lock_table("What processes wait for while CPUs are idle:", SLEEPERS_MEANING, rows)
}

/// Returns the waiting (or idle) time of both sides, as `part` selects; `None` if it is less than
/// [`MIN_CPU_TIME_PERCENT`] of CPU time on both sides.
fn total_time(row: &Row, part: fn(&CpuTime) -> u64) -> Option<Sides<u64>> {
    let times = row.counts()?.cpu_time.as_ref()?;
    let cpu_time = |time: &CpuTime| {
        [time.work, time.wait, time.idle, time.uneven].into_iter().fold(0, u64::saturating_add)
    };
    let share = |side: Side| {
        let time = times.get(side);
        share_percent(part(time) as f64, cpu_time(time).max(1) as f64)
    };
    let is_much = Side::BOTH.into_iter().any(|side| share(side) >= MIN_CPU_TIME_PERCENT);
    is_much.then(|| Sides::from_fn(|side| part(times.get(side))))
}

/// Line of a table of locks.
#[derive(Clone, Copy)]
struct LockLine<'a> {
    row: &'a Row,
    /// Function that waits for the lock.
    waiter: &'a str,
    /// Shares of the waiting (or idle) time of both sides, in percent.
    shares: [f64; 2],
    /// Lock that this function usually takes; empty if ktax knows none.
    lock: &'static str,
}

fn lock_table<'a>(
    title: &str,
    note: &str,
    rows: impl Iterator<Item = Vec<LockLine<'a>>>,
) -> Section {
    let lines: Vec<LockLine<'_>> = rows.flatten().collect();
    let mut columns = Columns::new(&lines);
    // Every line repeats the row, because readers of a page can sort the lines.
    columns.row("workload", |line| &line.row.row);
    columns.name("by", |line| line.waiter);
    columns.number("base %", |line| percent_text(line.shares[0])).drop_order(0);
    columns.number("change %", |line| percent_text(line.shares[1]));
    columns.words("lock", |line| line.lock).drop_order(1);
    columns.table().with_note(title, note)
}

/// Lines of a row, whose shares add up to 100 %; the last line, named `rest_name`, is the sum of
/// the stacks that have no line of their own.
fn lock_lines<'a>(
    row: &'a Row,
    stacks: &'a [WaitStack],
    total: Sides<u64>,
    rest_name: &'static str,
) -> Vec<LockLine<'a>> {
    if stacks.is_empty() {
        return Vec::new();
    }
    let mut waiters: BTreeMap<&str, Sides<u64>> = BTreeMap::new();
    for stack in stacks {
        let sum = waiters.entry(lock_caller(&stack.functions)).or_default();
        *sum = Sides::from_fn(|side| sum.get(side).saturating_add(*stack.wait.get(side)));
    }
    let shares = |counts: &Sides<u64>| {
        Side::BOTH
            .map(|side| share_percent(*counts.get(side) as f64, (*total.get(side)).max(1) as f64))
    };
    waiters.retain(|_, counts| shares(counts).iter().any(|share| *share >= MIN_LINE_PERCENT));
    let mut waiters: Vec<(&str, Sides<u64>)> = waiters.into_iter().collect();
    // A stable sort: functions with equal counts stay in the order of their names.
    waiters.sort_by_key(|(_, counts)| Reverse(counts.base.max(counts.change)));
    let counts_of_lines = |side| waiters.iter().map(move |(_, counts)| *counts.get(side));
    let rest =
        Sides::from_fn(|side| counts_of_lines(side).fold(*total.get(side), u64::saturating_sub));
    let line = |waiter, counts: &Sides<u64>, lock| {
        let shares = shares(counts);
        LockLine { row, waiter, shares, lock }
    };
    let lines = waiters
        .iter()
        .map(|(waiter, counts)| line(waiter, counts, usual_lock(waiter).unwrap_or("")));
    let has_rest = rest != Sides::default();
    lines.chain(has_rest.then(|| line(rest_name, &rest, ""))).collect()
}

/// Prefixes of the names of lock and scheduler functions. The first function of a call stack that
/// is not one of these is shown as the caller that waits.
const PRIMITIVES: &str = "\
     native_queued_spin_lock_slowpath __pv_queued_spin_lock_slowpath queued_spin_lock_slowpath \
     pv_wait kvm_wait virt_spin_lock do_raw_spin_lock _raw_spin_ _raw_read_ _raw_write_ \
     __raw_spin_ queued_read_lock_slowpath queued_write_lock_slowpath osq_lock osq_unlock mutex_ \
     __mutex_ ww_mutex_ rwsem_ __rwsem_ down_read down_write __down_ up_read up_write rt_mutex_ \
     rtlock_ rt_spin_ lockref_ bit_spin_lock percpu_down_ percpu_rwsem_ __percpu_down_read \
     raw_spin_rq_lock_nested __task_rq_lock task_rq_lock _atomic_dec_and_lock \
     _atomic_dec_and_raw_lock refcount_dec_and_lock cpu_relax delay_ __delay __switch_to_asm \
     __schedule schedule_ preempt_schedule io_schedule";

/// Locks, each with the functions that take the lock or wait for it. The report measures the
/// functions and takes the lock from this table, which has only well-known functions, by their
/// names in Linux 5.10 to 6.12.
const LOCKS: &[(&str, &str)] = &[
    (
        "files_struct.file_lock",
        "alloc_fd __alloc_fd close_fd __close_fd file_close_fd pick_file put_unused_fd ksys_dup3 \
         expand_files expand_fdtable do_dup2 dup_fd set_close_on_exec",
    ),
    (
        "dentry.d_lockref",
        "dput dget_parent legitimize_path __legitimize_path try_to_unlazy complete_walk d_alloc \
         d_alloc_parallel d_delete",
    ),
    ("inode.i_lock", "d_instantiate iput"),
    ("list_lru_one.lock", "d_lru_add list_lru_add list_lru_del"),
    (
        "inode.i_rwsem",
        "filename_create open_last_lookups path_openat do_unlinkat do_rmdir lock_rename \
         vfs_unlink lookup_slow walk_component generic_file_write_iter ext4_buffered_write_iter \
         do_truncate",
    ),
    ("super_block.s_inode_list_lock", "inode_sb_list_add new_inode evict"),
    (
        "mm_struct.mmap_lock",
        "vm_mmap_pgoff __vm_munmap __do_sys_brk do_mprotect_pkey do_madvise do_user_addr_fault \
         lock_mm_and_find_vma exit_mmap dup_mmap exit_mm",
    ),
    ("zone.lock", "rmqueue_bulk __rmqueue_pcplist rmqueue free_pcppages_bulk free_one_page"),
    (
        "lruvec.lru_lock",
        "folio_lruvec_lock_irqsave folio_lruvec_lock_irq lock_page_lruvec_irqsave \
         pagevec_lru_move_fn folio_batch_move_lru release_pages",
    ),
    ("kmem_cache_node.list_lock", "get_partial_node ___slab_alloc __unfreeze_partials __slab_free"),
    ("the page table's ptl", "__handle_mm_fault handle_pte_fault"),
    ("anon_vma.rwsem", "unlink_anon_vmas anon_vma_clone anon_vma_fork"),
    ("address_space.i_mmap_rwsem", "unlink_file_vma vma_link"),
    ("futex_hash_bucket.lock", "futex_wait_setup futex_q_lock futex_wake"),
    ("a futex of user space", "futex_wait_queue"),
    ("task_struct.pi_lock, or rq.__lock", "try_to_wake_up"),
    ("rq.__lock", "scheduler_tick"),
    ("pipe_inode_info.mutex", "pipe_read pipe_write"),
    ("tasklist_lock", "release_task copy_process"),
];

fn is_primitive(function: &str) -> bool {
    ["down", "schedule"].contains(&function)
        || PRIMITIVES.split(' ').any(|name| function.starts_with(name))
}

/// Returns the function that called the lock primitive. The innermost function of the stack comes
/// first. If all functions are primitives, the outermost is returned.
fn lock_caller(functions: &[String]) -> &str {
    let caller = functions.iter().find(|function| !is_primitive(function));
    caller.or(functions.last()).map_or("", String::as_str)
}

/// Returns the lock that this function usually takes; `None` for functions outside [`LOCKS`].
fn usual_lock(caller: &str) -> Option<&'static str> {
    let takes_lock =
        |(_, functions): &&(&str, &str)| functions.split(' ').any(|function| function == caller);
    LOCKS.iter().find(takes_lock).map(|(lock, _)| *lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller_and_lock(stack: &str) -> (String, Option<&'static str>) {
        let functions: Vec<String> = stack.split(' ').map(str::to_owned).collect();
        let caller = lock_caller(&functions);
        (caller.to_owned(), usual_lock(caller))
    }

    #[test]
    fn lock_caller_is_the_first_function_that_is_no_primitive() {
        for (stack, caller, lock) in [
            (
                "native_queued_spin_lock_slowpath _raw_spin_lock alloc_fd get_unused_fd_flags",
                "alloc_fd",
                Some("files_struct.file_lock"),
            ),
            (
                "osq_lock rwsem_down_write_slowpath down_write_killable vm_mmap_pgoff",
                "vm_mmap_pgoff",
                Some("mm_struct.mmap_lock"),
            ),
            (
                "__switch_to_asm __schedule schedule pipe_read",
                "pipe_read",
                Some("pipe_inode_info.mutex"),
            ),
            ("mutex_spin_on_owner __mutex_lock own_driver", "own_driver", None),
            ("__schedule schedule schedule_timeout do_it", "do_it", None),
            ("_raw_spin_lock", "_raw_spin_lock", None),
        ] {
            assert_eq!(caller_and_lock(stack), (caller.to_owned(), lock), "{stack}");
        }
        assert_eq!(lock_caller(&[]), "");
    }

    #[test]
    fn each_function_is_listed_for_one_lock() {
        let all = || LOCKS.iter().flat_map(|(_, functions)| functions.split(' '));
        let mut functions: Vec<&str> = all().collect();
        functions.sort_unstable();
        assert!(functions.windows(2).all(|two| two[0] != two[1]));
        assert!(!all().any(is_primitive));
    }
}
