//! A load that gets nothing done beside the job is a result; one that has ended is not.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::{fs, io};

use ktax::wire::{Answer, parse_answer};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::guest::{group_members, guest};
use crate::common::{scratch, until};

const LINKED_BYTES: u64 = 3 * 40960;

/// Units beside a load that writes a file, and that is stopped from before the Region to after it.
struct Starved {
    temporary: TempDir,
    job: Child,
    load: Pid,
}

impl Starved {
    fn new() -> Self {
        let temporary = scratch();
        let mut command = guest();
        // load=io; what it has in advance is time to stop it in
        command.args(["under-load", "ops=3", "load=5", "lead-ms=3000"]);
        command.env("TMPDIR", temporary.path()).stdout(Stdio::piped());
        let job = command.spawn().unwrap();
        // The first block may be written and not yet counted.
        until("the load works", || size(temporary.path(), "zeros") > 2 * 65536);
        let load = writer(&job);
        kill_process(load, Signal::STOP).unwrap();
        let starved = Self { temporary, job, load };
        until("the job is done", || size(starved.temporary.path(), "out/linked") == LINKED_BYTES);
        // It has waited for the job, looked, and now waits for the load again and again.
        let (seen, enough) = (starved.waits(), 5);
        until("the load is waited for", || starved.waits() > seen + enough);
        starved
    }

    /// How often the main process has waited.
    fn waits(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.job.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse().unwrap()
    }

    /// The answer.
    fn ends_after(mut self, signal: Signal) -> String {
        kill_process(self.load, signal).unwrap();
        io::read_to_string(self.job.stdout.take().unwrap()).unwrap()
    }
}

impl Drop for Starved {
    fn drop(&mut self) {
        // Its janitor ends the load, also one that is stopped.
        drop(self.job.kill());
        self.job.wait().unwrap();
    }
}

fn size(temporary: &Path, file: &str) -> u64 {
    let scratch = fs::read_dir(temporary).unwrap().next();
    let path = scratch.map(|directory| directory.unwrap().path().join(file));
    path.and_then(|path| fs::metadata(path).ok()).map_or(0, |file| file.len())
}

/// The process that has the load's file open.
fn writer(job: &Child) -> Pid {
    let has_it = |pid: &u32| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let files: Vec<PathBuf> = open.filter_map(|fd| fs::read_link(fd.path()).ok()).collect();
        files.iter().any(|file| file.ends_with("zeros"))
    };
    let found = group_members(Pid::from_child(job)).into_iter().find(has_it).unwrap();
    Pid::from_raw(found.try_into().unwrap()).unwrap()
}

#[test]
fn a_load_that_got_no_cpu_has_a_count_of_zero() {
    let text = Starved::new().ends_after(Signal::CONT);
    let Answer::Done(done) = parse_answer(text.as_bytes(), "under-load").unwrap() else {
        panic!("{text}");
    };
    assert_eq!(done.signature["load-moved"], 1);
    assert_eq!(done.values["load-count"], 0);
}

#[test]
fn a_load_that_has_ended_is_a_failure() {
    let text = Starved::new().ends_after(Signal::KILL);
    let Ok(Answer::Refused(why)) = parse_answer(text.as_bytes(), "under-load") else {
        panic!("{text}");
    };
    assert!(why.contains("the load"), "{why}");
}
