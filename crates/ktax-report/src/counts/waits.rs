//! Where CPUs wait for each other, and which locks they wait for.

use std::collections::BTreeMap;

use crate::number;
use crate::view::{Cell, Kind, Line, Section, Table};
use ktax_model::{CountsComparison, CpuTime, MAKESPAN, Row, Side, Sides, WaitStack};
use ktax_stats::tables::share_percent;

const WAIT_COLUMNS: [(&str, Kind); 6] = [
    ("workload", Kind::Row),
    ("function", Kind::Name),
    ("base %", Kind::Number),
    ("change %", Kind::Number),
    ("base wait %", Kind::Number),
    ("change wait %", Kind::Number),
];

const WAIT_MEANING: &str = "%: what CPUs execute and wait in the function, wherever it is called, \
                            in percent of all CPUs' time; wait %: what of it they wait. A lock's \
                            own instructions count also where nobody waits for it.";

/// Number of functions of a row that are named.
const MOST_FUNCTIONS: usize = 4;

/// Share of the time, in percent, below which a function is not named on either side.
const LITTLE_PERCENT: f64 = 0.005;

/// Table of the functions in which CPUs wait most; `None` where they hardly do.
pub fn waits(rows: &[Row], counts: &CountsComparison) -> Option<Section> {
    let cpus = f64::from(counts.key.machine.cpus);
    let lines: Vec<Line> = rows.iter().filter_map(|row| wait_lines(row, cpus)).flatten().collect();
    (!lines.is_empty()).then(|| Section::Table {
        title: "Where CPUs wait for each other, and their time there:".to_owned(),
        table: Table { gives_way: vec![vec![4, 5]], ..Table::new(WAIT_COLUMNS) }.with(lines),
        notes: vec![WAIT_MEANING.to_owned()],
    })
}

/// Share of all CPUs' time of a function, in percent.
struct Share<'a> {
    function: &'a str,
    wait: Sides<f64>,
    whole: Sides<f64>,
}

/// Lines of a row; shares are of the layout with the median makespan.
fn wait_lines(row: &Row, cpus: f64) -> Option<Vec<Line>> {
    let (makespan, evidence) = (row.effect(MAKESPAN)?, row.counts()?);
    let (waits, executed) = (evidence.waits.as_ref()?, evidence.executed_there.as_ref()?);
    let share = |count: u64, side: Side| {
        share_percent(count as f64, makespan.samples.get(side)[makespan.layout] as f64 * cpus)
    };
    let mut functions: Vec<&String> = waits.base.keys().chain(waits.change.keys()).collect();
    functions.sort();
    functions.dedup();
    let shares = functions.into_iter().map(|function| {
        let wait = Sides::from_fn(|side| share(count_or_zero(waits.get(side).get(function)), side));
        let executed =
            Sides::from_fn(|side| share(count_or_zero(executed.get(side).get(function)), side));
        let whole = Sides::from_fn(|side| wait.get(side) + executed.get(side));
        Share { function, wait, whole }
    });
    let most = |sides: &Sides<f64>| sides.base.max(sides.change);
    let mut shares: Vec<Share<'_>> =
        shares.filter(|share| most(&share.wait) >= LITTLE_PERCENT).collect();
    // Stable: equal shares stay in the order of their names.
    shares.sort_by(|one, other| most(&other.whole).total_cmp(&most(&one.whole)));
    shares.truncate(MOST_FUNCTIONS);
    Some(shares.iter().map(|share| wait_line(row, share)).collect())
}

const LOCK_COLUMNS: [(&str, Kind); 5] = [
    ("workload", Kind::Row),
    ("by", Kind::Name),
    ("base %", Kind::Number),
    ("change %", Kind::Number),
    ("lock", Kind::Words),
];

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

/// Table of who takes the locks for which CPUs wait; `None` where they hardly wait.
pub fn takers(rows: &[Row]) -> Option<Section> {
    let rows = rows.iter().filter_map(|row| {
        Some(LockStacks {
            row,
            stacks: &row.counts()?.wait_stacks,
            all: whole_time(row, |time| time.wait)?,
        })
    });
    lock_table("Which lock CPUs wait for, and who takes it:", TAKERS_MEANING, rows, "others")
}

/// Table of where processes sleep while CPUs are idle; `None` where they hardly are.
pub fn sleepers(rows: &[Row]) -> Option<Section> {
    let rows = rows.iter().filter_map(|row| {
        Some(LockStacks {
            row,
            stacks: &row.counts()?.idle_stacks,
            all: whole_time(row, |time| time.idle)?,
        })
    });
    lock_table("What processes wait for while CPUs are idle:", SLEEPERS_MEANING, rows, NO_PROCESS)
}

const NO_PROCESS: &str = "others, or no process";

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

/// Stacks of a row, and the whole that they are a part of.
struct LockStacks<'a> {
    row: &'a Row,
    stacks: &'a [WaitStack],
    all: Sides<u64>,
}

fn lock_table<'a>(
    title: &str,
    note: &str,
    rows: impl Iterator<Item = LockStacks<'a>>,
    rest: &str,
) -> Option<Section> {
    let rows = rows.filter(|places| !places.stacks.is_empty());
    let lines: Vec<Line> = rows.flat_map(|places| places.lines(rest)).collect();
    (!lines.is_empty()).then(|| Section::Table {
        title: title.to_owned(),
        table: Table { gives_way: vec![vec![2], vec![4]], ..Table::new(LOCK_COLUMNS) }.with(lines),
        notes: vec![note.to_owned()],
    })
}

impl LockStacks<'_> {
    /// Lines of a row, whose shares add up to 100 % of each side.
    fn lines(&self, rest: &str) -> Vec<Line> {
        let mut takers: BTreeMap<&str, Sides<u64>> = BTreeMap::new();
        let mut others = self.all.clone();
        for stack in self.stacks {
            let sum = takers.entry(taker(&stack.functions)).or_default();
            for side in Side::BOTH {
                let sum = sum.get_mut(side);
                *sum = sum.saturating_add(*stack.wait.get(side));
            }
        }
        let share = |counts: &Sides<u64>, side: Side| {
            share_percent(*counts.get(side) as f64, (*self.all.get(side)).max(1) as f64)
        };
        let is_large = |counts: &Sides<u64>| {
            Side::BOTH.into_iter().any(|side| share(counts, side) >= LEAST_PERCENT)
        };
        takers.retain(|_, counts| is_large(counts));
        let mut takers: Vec<(&str, Sides<u64>)> = takers.into_iter().collect();
        // Stable: equal ones stay in the order of their names.
        takers.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.base.max(counts.change)));
        for (_, counts) in &takers {
            for side in Side::BOTH {
                let rest = others.get_mut(side);
                *rest = rest.saturating_sub(*counts.get(side));
            }
        }
        let line = |by: &str, counts: &Sides<u64>, lock: &str| {
            let percent = |side| number::with_decimals(share(counts, side), 1, false);
            let shares = Side::BOTH.map(percent);
            let [base, change] = shares;
            // The row is on every line, since a page can sort them.
            let cells = [self.row.row.clone(), by.to_owned(), base, change, lock.to_owned()];
            Line::new(cells.map(Cell::from))
        };
        let named =
            takers.iter().map(|(by, counts)| line(by, counts, lock_taken_by(by).unwrap_or("")));
        let has_rest = others != Sides::default();
        named.chain(has_rest.then(|| line(rest, &others, ""))).collect()
    }
}

fn count_or_zero(count: Option<&u64>) -> u64 {
    count.copied().unwrap_or_default()
}

fn wait_line(row: &Row, share: &Share<'_>) -> Line {
    let percent = |percent: f64| number::with_decimals(percent, 2, false);
    let [base, change, base_wait, change_wait] =
        [share.whole.base, share.whole.change, share.wait.base, share.wait.change].map(percent);
    let cells = [
        // The row is on every line, since a page can sort them.
        row.row.clone(),
        share.function.to_owned(),
        base,
        change,
        base_wait,
        change_wait,
    ];
    Line::new(cells.map(Cell::from))
}

/// Functions that wait for any lock, and what leads there: the function that takes the lock called
/// them.
const PRIMITIVES: &[&str] = &[
    "native_queued_spin_lock_slowpath",
    "__pv_queued_spin_lock_slowpath",
    "queued_spin_lock_slowpath",
    "pv_wait",
    "kvm_wait",
    "virt_spin_lock",
    "do_raw_spin_lock",
    "_raw_spin_",
    "_raw_read_",
    "_raw_write_",
    "__raw_spin_",
    "queued_read_lock_slowpath",
    "queued_write_lock_slowpath",
    "osq_lock",
    "osq_unlock",
    "mutex_",
    "__mutex_",
    "ww_mutex_",
    "rwsem_",
    "__rwsem_",
    "down_read",
    "down_write",
    "__down_",
    "up_read",
    "up_write",
    "rt_mutex_",
    "rtlock_",
    "rt_spin_",
    "lockref_",
    "bit_spin_lock",
    "percpu_down_",
    "percpu_rwsem_",
    "__percpu_down_read",
    "raw_spin_rq_lock_nested",
    "__task_rq_lock",
    "task_rq_lock",
    "_atomic_dec_and_lock",
    "_atomic_dec_and_raw_lock",
    "refcount_dec_and_lock",
    "cpu_relax",
    "delay_",
    "__delay",
    "__switch_to_asm",
    "__schedule",
    "schedule_",
    "preempt_schedule",
    "io_schedule",
];

/// Functions with the lock that they take, or wait for. The functions are measured; these names are
/// not, and only well-known ones are here, as they are called in Linux 5.10 to 6.12.
const LOCKS: &[(&str, &str)] = &[
    ("alloc_fd", "files_struct.file_lock"),
    ("__alloc_fd", "files_struct.file_lock"),
    ("close_fd", "files_struct.file_lock"),
    ("__close_fd", "files_struct.file_lock"),
    ("file_close_fd", "files_struct.file_lock"),
    ("pick_file", "files_struct.file_lock"),
    ("put_unused_fd", "files_struct.file_lock"),
    ("ksys_dup3", "files_struct.file_lock"),
    ("expand_files", "files_struct.file_lock"),
    ("expand_fdtable", "files_struct.file_lock"),
    ("do_dup2", "files_struct.file_lock"),
    ("dup_fd", "files_struct.file_lock"),
    ("set_close_on_exec", "files_struct.file_lock"),
    ("dput", "dentry.d_lockref"),
    ("dget_parent", "dentry.d_lockref"),
    ("legitimize_path", "dentry.d_lockref"),
    ("__legitimize_path", "dentry.d_lockref"),
    ("try_to_unlazy", "dentry.d_lockref"),
    ("complete_walk", "dentry.d_lockref"),
    ("d_alloc", "dentry.d_lockref"),
    ("d_alloc_parallel", "dentry.d_lockref"),
    ("d_delete", "dentry.d_lockref"),
    ("d_instantiate", "inode.i_lock"),
    ("d_lru_add", "list_lru_one.lock"),
    ("list_lru_add", "list_lru_one.lock"),
    ("list_lru_del", "list_lru_one.lock"),
    ("filename_create", "inode.i_rwsem"),
    ("open_last_lookups", "inode.i_rwsem"),
    ("path_openat", "inode.i_rwsem"),
    ("do_unlinkat", "inode.i_rwsem"),
    ("do_rmdir", "inode.i_rwsem"),
    ("lock_rename", "inode.i_rwsem"),
    ("vfs_unlink", "inode.i_rwsem"),
    ("lookup_slow", "inode.i_rwsem"),
    ("walk_component", "inode.i_rwsem"),
    ("generic_file_write_iter", "inode.i_rwsem"),
    ("ext4_buffered_write_iter", "inode.i_rwsem"),
    ("do_truncate", "inode.i_rwsem"),
    ("iput", "inode.i_lock"),
    ("inode_sb_list_add", "super_block.s_inode_list_lock"),
    ("new_inode", "super_block.s_inode_list_lock"),
    ("evict", "super_block.s_inode_list_lock"),
    ("vm_mmap_pgoff", "mm_struct.mmap_lock"),
    ("__vm_munmap", "mm_struct.mmap_lock"),
    ("__do_sys_brk", "mm_struct.mmap_lock"),
    ("do_mprotect_pkey", "mm_struct.mmap_lock"),
    ("do_madvise", "mm_struct.mmap_lock"),
    ("do_user_addr_fault", "mm_struct.mmap_lock"),
    ("lock_mm_and_find_vma", "mm_struct.mmap_lock"),
    ("exit_mmap", "mm_struct.mmap_lock"),
    ("dup_mmap", "mm_struct.mmap_lock"),
    ("exit_mm", "mm_struct.mmap_lock"),
    ("rmqueue_bulk", "zone.lock"),
    ("__rmqueue_pcplist", "zone.lock"),
    ("rmqueue", "zone.lock"),
    ("free_pcppages_bulk", "zone.lock"),
    ("free_one_page", "zone.lock"),
    ("folio_lruvec_lock_irqsave", "lruvec.lru_lock"),
    ("folio_lruvec_lock_irq", "lruvec.lru_lock"),
    ("lock_page_lruvec_irqsave", "lruvec.lru_lock"),
    ("pagevec_lru_move_fn", "lruvec.lru_lock"),
    ("folio_batch_move_lru", "lruvec.lru_lock"),
    ("release_pages", "lruvec.lru_lock"),
    ("get_partial_node", "kmem_cache_node.list_lock"),
    ("___slab_alloc", "kmem_cache_node.list_lock"),
    ("__unfreeze_partials", "kmem_cache_node.list_lock"),
    ("__slab_free", "kmem_cache_node.list_lock"),
    ("__handle_mm_fault", "the page table's ptl"),
    ("handle_pte_fault", "the page table's ptl"),
    ("unlink_anon_vmas", "anon_vma.rwsem"),
    ("anon_vma_clone", "anon_vma.rwsem"),
    ("anon_vma_fork", "anon_vma.rwsem"),
    ("unlink_file_vma", "address_space.i_mmap_rwsem"),
    ("vma_link", "address_space.i_mmap_rwsem"),
    ("futex_wait_setup", "futex_hash_bucket.lock"),
    ("futex_q_lock", "futex_hash_bucket.lock"),
    ("futex_wake", "futex_hash_bucket.lock"),
    ("futex_wait_queue", "a futex of user space"),
    ("try_to_wake_up", "task_struct.pi_lock, or rq.__lock"),
    ("scheduler_tick", "rq.__lock"),
    ("pipe_read", "pipe_inode_info.mutex"),
    ("pipe_write", "pipe_inode_info.mutex"),
    ("release_task", "tasklist_lock"),
    ("copy_process", "tasklist_lock"),
];

fn is_primitive(function: &str) -> bool {
    ["down", "schedule"].contains(&function)
        || PRIMITIVES.iter().any(|name| function.starts_with(name))
}

/// Returns who takes the lock: the first in a stack, whose callers follow, that is no lock's own
/// function; the last one if all are.
fn taker(functions: &[String]) -> &str {
    let found = functions.iter().find(|function| !is_primitive(function));
    found.or(functions.last()).map_or("", String::as_str)
}

/// Returns the lock that this function is known to take.
fn lock_taken_by(taker: &str) -> Option<&'static str> {
    LOCKS.iter().find(|(function, _)| *function == taker).map(|(_, lock)| *lock)
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
        let mut functions: Vec<&str> = LOCKS.iter().map(|(function, _)| *function).collect();
        functions.sort_unstable();
        assert!(functions.windows(2).all(|two| two[0] != two[1]));
        assert!(!LOCKS.iter().any(|(function, _)| is_primitive(function)));
    }
}
