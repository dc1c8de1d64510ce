//! What a program of the user's leaves running: a daemon has left the process group that the
//! guest's janitor ends. This process adopts it, and ends it.

use std::fs;
use std::io;

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};

/// Makes processes whose parents have ended children of this process.
pub(super) fn adopt() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Ends all children of this process, and those that it gets by that. Nothing else may have one.
pub(super) fn end() {
    while let Some(left) = Some(children()).filter(|left| !left.is_empty()) {
        for pid in left {
            // It may have ended by itself.
            kill_process(pid, Signal::KILL).ok();
            waitpid(Some(pid), WaitOptions::empty()).ok();
        }
    }
}

fn children() -> Vec<Pid> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.filter_map(|it| fs::read_to_string(it.path().join("children")).ok());
    let all: String = lists.collect();
    all.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}
