//! Tables of rows that run on several CPUs or wait for kernel threads: where CPUs wait for each
//! other, and which locks they wait for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::view::{Columns, Section};
use crate::{effect, number};
use ktax_model::{
    AWAITED, CacheLine, CountsComparison, CpuTime, Effect, IDLE, MAKESPAN, METRICS, Memory, Row,
    SPIN_WAIT, Side, Sides, TRANSFERS, WaitStack, family,
};
use ktax_stats::tables::{checked_percent_change, share_percent};

const TIME_MEANING: &str = "executed: instructions in process context. The shares are of all \
                            CPUs' time, which is the makespan of each, and add up to 100 %. \
                            process: these instructions; other: REP iterations, interrupts and \
                            kernel threads; wait: what CPUs waited for each other; idle: what \
                            they were halted; uneven: what their slices were shorter than the \
                            longest one of a round, which a real machine does not have.";

fn count_in(effect: &Effect, side: Side, layout: usize) -> u64 {
    effect.samples.get(side).get(layout).copied().unwrap_or_default()
}

fn shown_percent(percent: f64) -> String {
    number::with_decimals(percent, 1, false)
}

/// Time of all CPUs on one side, in the layout with the median makespan.
#[derive(Clone, Copy)]
struct CpuTimes<'a> {
    row: &'a Row,
    side: Side,
    whole: f64,
    executed: &'a Effect,
    process: u64,
    wait: u64,
    idle: u64,
    /// Other instructions, and the uneven ends of slices; `None` in results of older releases.
    other: Option<u64>,
    uneven: Option<u64>,
}

impl<'a> CpuTimes<'a> {
    fn new(row: &'a Row, side: Side, cpus: u32) -> Option<CpuTimes<'a>> {
        let (makespan, executed) = (row.effect(MAKESPAN)?, row.effect(METRICS[0].name)?);
        let count = |effect| count_in(effect, side, makespan.layout);
        let known = row.counts().and_then(|counts| counts.cpu_time.as_ref());
        let known = known.map(|times| times.get(side));
        let (wait, idle) = (count(row.effect(SPIN_WAIT)?), count(row.effect(IDLE)?));
        let process = count(executed);
        Some(CpuTimes {
            row,
            side,
            whole: count(makespan) as f64 * f64::from(cpus),
            executed,
            process,
            wait: known.map_or(wait, |time| time.wait),
            idle: known.map_or(idle, |time| time.idle),
            other: known.map(|time| time.work.saturating_sub(process)),
            uneven: known.map(|time| time.uneven),
        })
    }

    fn share(&self, part: u64) -> String {
        shown_percent(share_percent(part as f64, self.whole.max(1.0)))
    }
}

/// Table of what several CPUs did with their time; empty of one CPU.
pub fn cpu_times(rows: &[Row], counts: &CountsComparison) -> Section {
    let cpus = counts.key.machine.cpus;
    let both = |row| Side::BOTH.map(|side| CpuTimes::new(row, side, cpus));
    let lines: Vec<CpuTimes<'_>> = rows.iter().flat_map(both).flatten().collect();
    let mut columns = Columns::new(&lines);
    columns.row("workload", |line| &line.row.row);
    columns.name("side", |line| line.side.name());
    let executed = |line: CpuTimes<'_>| number::count(line.executed.value(line.side));
    columns.number("executed insn", executed).away(1);
    columns.number("process %", |line| line.share(line.process));
    columns.number("other %", |line| line.other.map(|part| line.share(part))).away(0);
    columns.number("wait %", |line| line.share(line.wait));
    columns.number("idle %", |line| line.share(line.idle));
    columns.number("uneven %", |line| line.uneven.map(|part| line.share(part))).away(2);
    let title = format!("{cpus} CPUs together, per operation, and where their time goes:");
    columns.table().noted(title, TIME_MEANING)
}

/// Parameter with the number of CPUs.
const CPUS: &str = "cpus";

const RATE_MEANING: &str = "ops/Minsn: operations of each CPU while a million instructions of \
                            makespan pass; %: the same in percent of the row with the fewest \
                            CPUs, so that 100 is a row that scales; wait %: what of their time \
                            these CPUs wait for each other, with the change, and in which \
                            function most of it.";

/// Row of a family of rows that differ in their CPUs alone.
#[derive(Clone, Copy)]
struct Member<'a> {
    family: &'a str,
    cpus: u64,
    row: &'a Row,
    makespan: &'a Effect,
    /// Operations of each CPU in a million instructions, on each side.
    rate: [f64; 2],
    /// Rate of the row with the fewest CPUs.
    first: [f64; 2],
}

impl Member<'_> {
    fn percent(&self, side: Side) -> String {
        shown_percent(share_percent(self.rate[side as usize], self.first[side as usize]))
    }
}

/// Table of rows that differ in their CPUs alone, by what each CPU does.
pub fn scalability(rows: &[Row]) -> Section {
    let mut families: BTreeMap<String, Vec<(u64, &Row, &Effect)>> = BTreeMap::new();
    for row in rows {
        if let (Some(cpus), Some(effect)) = (row.params.get(CPUS), row.effect(MAKESPAN)) {
            families.entry(family(&row.row, CPUS)).or_default().push((*cpus, row, effect));
        }
    }
    families.retain(|_, members| members.len() > 1);
    families.values_mut().for_each(|members| members.sort_by_key(|(cpus, ..)| *cpus));
    let lines: Vec<Member<'_>> = families
        .iter()
        .flat_map(|(family, members)| {
            let rate = |(cpus, _, makespan): (u64, &Row, &Effect)| {
                Side::BOTH.map(|side| 1e6 / makespan.value(side) / cpus as f64)
            };
            let first = rate(members[0]);
            members.iter().map(move |member| {
                let (cpus, row, makespan) = *member;
                Member { family, cpus, row, makespan, rate: rate(*member), first }
            })
        })
        .collect();
    let mut columns = Columns::new(&lines);
    // The name is on every line, since a page can sort them.
    columns.row("workload", |line| line.family);
    columns.number("CPUs", |line| line.cpus.to_string());
    columns.number("base ops/Minsn", |line| number::count(line.rate[0])).away(0);
    columns.number("change ops/Minsn", |line| number::count(line.rate[1])).away(1);
    columns.number("base %", |line| line.percent(Side::Base)).away(3);
    columns.number("change %", |line| line.percent(Side::Change));
    columns.name("waits most in", |line| waits_most(line).map(|[function, _]| function)).away(2);
    columns.number("wait %", |line| waits_most(line).map(|[_, share]| share));
    columns.table().noted("What each CPU does where more of them do it:", RATE_MEANING)
}

/// Share of the time, in percent, below which a function is not named.
const LITTLE_WAIT_PERCENT: f64 = 0.1;

/// Names the function with most waiting, and the share of all waiting.
fn waits_most(line: Member<'_>) -> Option<[String; 2]> {
    let Member { row, makespan, cpus, .. } = line;
    let waits = &row.counts()?.waits.as_ref()?.change;
    let all = waits.values().sum::<u64>() as f64;
    let time = makespan.samples.change[makespan.layout] as f64 * cpus as f64;
    let share = share_percent(all, time);
    let (function, _) = waits.iter().max_by_key(|(_, wait)| **wait)?;
    let named = if share < LITTLE_WAIT_PERCENT { String::new() } else { function.clone() };
    Some([named, shown_percent(share)])
}

const AWAITED_MEANING: &str = "A row waits for a kernel thread that its process, the interrupt of \
                               a device or another such thread has woken, until that sleeps \
                               again. What a timer woke is in the background. These instructions \
                               decide like those of the process.";

/// Share of the process's instructions below which nothing is said.
const LEAST_AWAITED: f64 = 0.001;

/// Table with a line for each row that waits for kernel threads.
pub fn awaited(rows: &[Row]) -> Section {
    let awaited = rows.iter().filter_map(|row| {
        let (awaited, process) = (row.effect(AWAITED)?, row.effect(METRICS[0].name)?);
        let least = LEAST_AWAITED * process.base.max(process.change);
        (awaited.base.max(awaited.change) >= least).then_some((row, awaited))
    });
    let lines: Vec<(&Row, &Effect)> = awaited.collect();
    let mut columns = Columns::new(&lines);
    columns.row("workload", |(row, _)| &row.row);
    columns.number("base insn", |(_, awaited)| number::count(awaited.base));
    columns.number("change insn", |(_, awaited)| number::count(awaited.change));
    columns.number("delta %", |(_, awaited)| number::percent(awaited.percent));
    columns.number("range %", |(_, awaited)| effect::over_layouts(awaited)).away(0);
    columns.verdict(|(_, awaited)| awaited.verdict);
    let title = "Kernel threads that rows wait for, instructions per operation:";
    columns.table().noted(title, AWAITED_MEANING)
}

const TRANSFER_MEANING: &str = "model transfers: how often per operation a CPU uses a line of 64 \
                                bytes that another CPU has written since, in a model whose caches \
                                are never full; a model's number, exact in the model. A line has \
                                the name of its variables (+ where in it the line begins, or two \
                                that share it), and other memory that of the function that gets \
                                it most often from another CPU; lines: how many have this name.";

/// Number of cache lines of each row.
const MOST_CACHE_LINES: usize = 5;
/// Share of a row's transfers, in percent, below which a cache line is left out.
const LITTLE_TRANSFERS_PERCENT: f64 = 5.0;
const ALL_LINES: &str = "all";

/// Transfers of the cache lines of one name in a row.
#[derive(Clone)]
struct Transfers<'a> {
    row: &'a Row,
    name: String,
    /// Number of lines; of all together none.
    lines: Option<u64>,
    transfers: Sides<u64>,
}

impl Transfers<'_> {
    fn most(&self) -> u64 {
        self.transfers.base.max(self.transfers.change)
    }

    fn per_op(&self) -> [f64; 2] {
        Side::BOTH.map(|side| number::per_op(*self.transfers.get(side), self.row.ops))
    }
}

/// Table of the cache lines that travel most between CPUs in each row; empty without the model.
pub fn coherence(rows: &[Row]) -> Section {
    let all: Vec<Transfers<'_>> = rows.iter().filter_map(row_transfers).flatten().collect();
    let lines: Vec<&Transfers<'_>> = all.iter().collect();
    let mut columns = Columns::new(&lines);
    columns.row("workload", |line| &line.row.row);
    columns.name("cache line", |line| &line.name);
    columns.number("lines", |line| line.lines.map(|lines| lines.to_string())).away(1);
    columns.number("base model transfers", |line| number::count(line.per_op()[0])).away(3);
    columns.number("change model transfers", |line| number::count(line.per_op()[1]));
    let delta = |line: &Transfers<'_>| number::delta(line.per_op()[1] - line.per_op()[0]);
    columns.number("delta transfers", delta).away(0);
    let percent = |[base, change]: [f64; 2]| number::percent(checked_percent_change(base, change));
    columns.number("delta %", |line| percent(line.per_op())).away(2);
    let title = "Cache lines that travel between CPUs, by the model of coherence:";
    columns.table().noted(title, TRANSFER_MEANING)
}

/// Transfers of a row: all, then by name, the most first.
fn row_transfers(row: &Row) -> Option<Vec<Transfers<'_>>> {
    let effect = row.effect(TRANSFERS)?;
    let found = row.counts()?.model_lines.as_ref()?;
    let mut named: BTreeMap<String, Transfers<'_>> = BTreeMap::new();
    for side in Side::BOTH {
        for line in found.get(side) {
            let name = cache_line_name(line);
            let known = named.entry(name.clone()).or_insert_with(|| Transfers {
                row,
                name,
                lines: None,
                transfers: Sides::default(),
            });
            *known.transfers.get_mut(side) += line.transfers;
            known.lines = known.lines.max(Some(line.lines));
        }
    }
    let mut named: Vec<Transfers<'_>> = named.into_values().collect();
    named.sort_by_key(|line| std::cmp::Reverse(line.most()));
    let transfers = Sides::from_fn(|side| effect.samples.get(side)[effect.layout]);
    let all = Transfers { row, name: ALL_LINES.to_owned(), lines: None, transfers };
    let whole = all.most() as f64;
    named.retain(|line| share_percent(line.most() as f64, whole) >= LITTLE_TRANSFERS_PERCENT);
    named.truncate(MOST_CACHE_LINES);
    Some(std::iter::once(all).chain(named).collect())
}

fn cache_line_name(line: &CacheLine) -> String {
    let CacheLine { memory, name, offset, .. } = line;
    let place = match offset {
        0 => name.clone(),
        offset => format!("{name}+{offset:#x}"),
    };
    match memory {
        Memory::Data => place,
        Memory::Percpu => format!("{place} of each CPU"),
        Memory::Direct => format!("heap, by {name}"),
        Memory::Vmalloc => format!("stack or vmalloc, by {name}"),
        Memory::Pages => format!("struct page, by {name}"),
        Memory::User => format!("user, by {name}"),
        Memory::Other => format!("other, by {name}"),
    }
}

const WAIT_MEANING: &str = "%: what CPUs execute and wait in the function, wherever it is called, \
                            in percent of all CPUs' time; wait %: what of it they wait. A lock's \
                            own instructions count also where nobody waits for it.";

/// Number of functions of a row that are named.
const MOST_FUNCTIONS: usize = 4;

/// Share of the time, in percent, below which a function is not named on either side.
const LITTLE_PERCENT: f64 = 0.005;

/// Shares of all CPUs' time of a function, in percent: its waits, and all that it does.
#[derive(Clone, Copy)]
struct Share<'a> {
    row: &'a Row,
    function: &'a str,
    wait: [f64; 2],
    whole: [f64; 2],
}

/// Table of the functions in which CPUs wait most; empty where they hardly do.
pub fn waits(rows: &[Row], counts: &CountsComparison) -> Section {
    let cpus = f64::from(counts.key.machine.cpus);
    let lines: Vec<Share<'_>> =
        rows.iter().filter_map(|row| wait_shares(row, cpus)).flatten().collect();
    let shown = |percent: f64| number::with_decimals(percent, 2, false);
    let mut columns = Columns::new(&lines);
    // The row is on every line, since a page can sort them.
    columns.row("workload", |line| &line.row.row);
    columns.name("function", |line| line.function);
    columns.number("base %", |line| shown(line.whole[0]));
    columns.number("change %", |line| shown(line.whole[1]));
    columns.number("base wait %", |line| shown(line.wait[0])).away(0);
    columns.number("change wait %", |line| shown(line.wait[1])).away(0);
    let title = "Where CPUs wait for each other, and their time there:";
    columns.table().noted(title, WAIT_MEANING)
}

/// Shares of a row, in the layout with the median makespan.
fn wait_shares(row: &Row, cpus: f64) -> Option<Vec<Share<'_>>> {
    let (makespan, evidence) = (row.effect(MAKESPAN)?, row.counts()?);
    let (waits, executed) = (evidence.waits.as_ref()?, evidence.waiting_functions_work.as_ref()?);
    let share = |counts: &Sides<BTreeMap<String, u64>>, function: &String| {
        Side::BOTH.map(|side| {
            let count = counts.get(side).get(function).copied().unwrap_or_default();
            let time = makespan.samples.get(side)[makespan.layout] as f64 * cpus;
            share_percent(count as f64, time)
        })
    };
    let functions: BTreeSet<&String> = waits.base.keys().chain(waits.change.keys()).collect();
    let shares = functions.into_iter().map(|function| {
        let (wait, executed) = (share(waits, function), share(executed, function));
        let whole = [wait[0] + executed[0], wait[1] + executed[1]];
        Share { row, function, wait, whole }
    });
    let most = |[base, change]: [f64; 2]| base.max(change);
    let mut shares: Vec<Share<'_>> =
        shares.filter(|share| most(share.wait) >= LITTLE_PERCENT).collect();
    // Stable: equal shares stay in the order of their names.
    shares.sort_by(|one, other| most(other.whole).total_cmp(&most(one.whole)));
    shares.truncate(MOST_FUNCTIONS);
    Some(shares)
}

const TAKERS_MEANING: &str = "by: the function that called the lock's own functions, which was \
                              measured; %: its share of all that the row's CPUs wait for each \
                              other; lock: what this function is known to lock, which was not \
                              measured. `ktax report DIR --explain ROW` prints all call paths.";

const SLEEPERS_MEANING: &str = "by: the function in which a CPU's last process was when it left \
                                the CPU idle, without the functions of locks and of the \
                                scheduler; %: its share of all that the row's CPUs are idle; no \
                                process: none has left the CPU, or it runs on another one; lock: \
                                what this function is known to wait for, which was not measured.";

/// Share on both sides, in percent, below which a function is among the others.
const LEAST_PERCENT: f64 = 1.0;
/// Share of their time for which CPUs must wait, or be idle, to be worth a table, in percent.
const LEAST_OF_TIME_PERCENT: f64 = 0.1;

/// Table of who takes the locks for which CPUs wait; empty where they hardly wait.
pub fn takers(rows: &[Row]) -> Section {
    let rows = rows.iter().filter_map(|row| {
        let all = whole_time(row, |time| time.wait)?;
        Some(lock_lines(row, &row.counts()?.wait_stacks, all, "others"))
    });
    lock_table("Which lock CPUs wait for, and who takes it:", TAKERS_MEANING, rows)
}

/// Table of where processes sleep while CPUs are idle; empty where they hardly are.
pub fn sleepers(rows: &[Row]) -> Section {
    let rows = rows.iter().filter_map(|row| {
        let all = whole_time(row, |time| time.idle)?;
        Some(lock_lines(row, &row.counts()?.idle_stacks, all, "others, or no process"))
    });
    lock_table("What processes wait for while CPUs are idle:", SLEEPERS_MEANING, rows)
}

/// Returns the waiting or idle time of both sides; `None` where it is little of the CPUs' time.
fn whole_time(row: &Row, part: fn(&CpuTime) -> u64) -> Option<Sides<u64>> {
    let times = row.counts()?.cpu_time.as_ref()?;
    let whole = |time: &CpuTime| {
        [time.work, time.wait, time.idle, time.uneven].into_iter().fold(0, u64::saturating_add)
    };
    let share = |side: Side| {
        let time = times.get(side);
        share_percent(part(time) as f64, whole(time).max(1) as f64)
    };
    let is_much = Side::BOTH.into_iter().any(|side| share(side) >= LEAST_OF_TIME_PERCENT);
    is_much.then(|| Sides::from_fn(|side| part(times.get(side))))
}

/// Who waits, the shares of both sides in percent, and the lock.
#[derive(Clone, Copy)]
struct LockLine<'a> {
    row: &'a Row,
    by: &'a str,
    shares: [f64; 2],
    lock: &'static str,
}

fn lock_table<'a>(
    title: &str,
    note: &str,
    rows: impl Iterator<Item = Vec<LockLine<'a>>>,
) -> Section {
    let lines: Vec<LockLine<'_>> = rows.flatten().collect();
    let shown = |percent: f64| number::with_decimals(percent, 1, false);
    let mut columns = Columns::new(&lines);
    // The row is on every line, since a page can sort them.
    columns.row("workload", |line| &line.row.row);
    columns.name("by", |line| line.by);
    columns.number("base %", |line| shown(line.shares[0])).away(0);
    columns.number("change %", |line| shown(line.shares[1]));
    columns.words("lock", |line| line.lock).away(1);
    columns.table().noted(title, note)
}

/// Lines of a row, whose shares add up to 100 %; `rest` names all that has no line.
fn lock_lines<'a>(
    row: &'a Row,
    stacks: &'a [WaitStack],
    all: Sides<u64>,
    rest: &'static str,
) -> Vec<LockLine<'a>> {
    if stacks.is_empty() {
        return Vec::new();
    }
    let mut takers: BTreeMap<&str, Sides<u64>> = BTreeMap::new();
    for stack in stacks {
        let sum = takers.entry(taker(&stack.functions)).or_default();
        *sum = Sides::from_fn(|side| sum.get(side).saturating_add(*stack.wait.get(side)));
    }
    let shares = |counts: &Sides<u64>| {
        Side::BOTH
            .map(|side| share_percent(*counts.get(side) as f64, (*all.get(side)).max(1) as f64))
    };
    takers.retain(|_, counts| shares(counts).iter().any(|share| *share >= LEAST_PERCENT));
    let mut takers: Vec<(&str, Sides<u64>)> = takers.into_iter().collect();
    // Stable: equal ones stay in the order of their names.
    takers.sort_by_key(|(_, counts)| Reverse(counts.base.max(counts.change)));
    let named = |side| takers.iter().map(move |(_, counts)| *counts.get(side));
    let others = Sides::from_fn(|side| named(side).fold(*all.get(side), u64::saturating_sub));
    let line = |by, counts: &Sides<u64>, lock| LockLine { row, by, shares: shares(counts), lock };
    let lines = takers.iter().map(|(by, counts)| line(by, counts, lock_taken_by(by).unwrap_or("")));
    let has_rest = others != Sides::default();
    lines.chain(has_rest.then(|| line(rest, &others, ""))).collect()
}

/// Beginnings of the names of functions that wait for any lock: who takes the lock called them.
const PRIMITIVES: &str = "\
     native_queued_spin_lock_slowpath __pv_queued_spin_lock_slowpath queued_spin_lock_slowpath \
     pv_wait kvm_wait virt_spin_lock do_raw_spin_lock _raw_spin_ _raw_read_ _raw_write_ \
     __raw_spin_ queued_read_lock_slowpath queued_write_lock_slowpath osq_lock osq_unlock mutex_ \
     __mutex_ ww_mutex_ rwsem_ __rwsem_ down_read down_write __down_ up_read up_write rt_mutex_ \
     rtlock_ rt_spin_ lockref_ bit_spin_lock percpu_down_ percpu_rwsem_ __percpu_down_read \
     raw_spin_rq_lock_nested __task_rq_lock task_rq_lock _atomic_dec_and_lock \
     _atomic_dec_and_raw_lock refcount_dec_and_lock cpu_relax delay_ __delay __switch_to_asm \
     __schedule schedule_ preempt_schedule io_schedule";

/// Locks, each with the functions that take it or wait for it. The functions are measured; the
/// locks are not, and only well-known functions are here, as they are called in Linux 5.10 to 6.12.
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

/// Returns who takes the lock: the first in a stack, whose callers follow, that is no lock's own
/// function; the last one if all are.
fn taker(functions: &[String]) -> &str {
    let found = functions.iter().find(|function| !is_primitive(function));
    found.or(functions.last()).map_or("", String::as_str)
}

/// Returns the lock that this function is known to take.
fn lock_taken_by(taker: &str) -> Option<&'static str> {
    let takes =
        |(_, functions): &&(&str, &str)| functions.split(' ').any(|function| function == taker);
    LOCKS.iter().find(takes).map(|(lock, _)| *lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(stack: &str) -> (String, Option<&'static str>) {
        let functions: Vec<String> = stack.split(' ').map(str::to_owned).collect();
        let taker = taker(&functions);
        (taker.to_owned(), lock_taken_by(taker))
    }

    #[test]
    fn who_takes_a_lock_stands_above_the_functions_of_locks() {
        for (stack, taker, lock) in [
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
            assert_eq!(takes(stack), (taker.to_owned(), lock), "{stack}");
        }
        assert_eq!(super::taker(&[]), "");
    }

    #[test]
    fn a_function_has_one_lock() {
        let all = || LOCKS.iter().flat_map(|(_, functions)| functions.split(' '));
        let mut functions: Vec<&str> = all().collect();
        functions.sort_unstable();
        assert!(functions.windows(2).all(|two| two[0] != two[1]));
        assert!(!all().any(is_primitive));
    }
}
