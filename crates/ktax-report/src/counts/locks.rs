//! Which lock a function takes. The functions are measured; these names of locks are not, and only
//! well-known ones are here, as they are called in Linux 5.10 to 6.12.

/// What waits for any lock, and what leads there: the function that takes the lock called it.
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

/// A function and the lock that it takes, or waits for.
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

/// Who takes the lock: the first in a stack, whose callers follow, that is no lock's own function.
/// The last one if all are.
pub(super) fn taker(functions: &[String]) -> &str {
    let found = functions.iter().find(|function| !is_primitive(function));
    found.or(functions.last()).map_or("", String::as_str)
}

/// The lock that this function is known to take.
pub(super) fn lock_of(taker: &str) -> Option<&'static str> {
    LOCKS.iter().find(|(function, _)| *function == taker).map(|(_, lock)| *lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(stack: &str) -> (String, Option<&'static str>) {
        let functions: Vec<String> = stack.split(' ').map(str::to_owned).collect();
        let taker = taker(&functions);
        (taker.to_owned(), lock_of(taker))
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
