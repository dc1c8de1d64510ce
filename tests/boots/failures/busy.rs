use std::time::Instant;

use super::failures;
use crate::common::{Loops, own_cache, row, scratch};
use ktax::model::Verdict;

#[test]
#[ignore = "keeps all CPUs busy: make test-long"]
fn a_busy_machine_fails_no_boot_and_no_run() {
    let dir = scratch();
    let cache = own_cache(dir.path()).display().to_string();
    let cpus = std::thread::available_parallelism().unwrap().get();
    let of_alone = scratch();
    let alone = own_cache(of_alone.path()).display().to_string();
    let started = Instant::now();
    failures(["", ""], &["getppid"], &["--jobs", "1", "--cache", &alone]);
    // Both boots alone fit into this; among eight loops on each CPU, one boot alone takes longer.
    let limit_s = (1 + started.elapsed().as_secs()).to_string();
    let _loops = Loops::start(8 * cpus);
    let more = ["--time-limit", &limit_s, "--jobs", "1", "--cache", &cache];
    let (ran, comparison) = failures(["", ""], &["getppid"], &more);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(row(&comparison, "getppid").verdict, Verdict::NoDetectedChange);
}
