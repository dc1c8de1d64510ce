//! Helpers of the benches.

#![allow(dead_code)] // each uses some of it

/// A directory that goes away with the bench.
pub fn directory() -> tempfile::TempDir {
    let dir =
        tempfile::Builder::new().prefix("ktax-bench-").tempdir_in(env!("CARGO_TARGET_TMPDIR"));
    dir.expect("a temporary directory")
}

/// Seconds of CPU time of the processes that were started and waited for: in user mode.
pub fn user_seconds_of_children() -> f64 {
    seconds_of_children()[0]
}

/// Seconds of CPU time of those processes in user mode and in the host's kernel.
pub fn cpu_seconds_of_children() -> f64 {
    seconds_of_children().iter().sum()
}

fn seconds_of_children() -> [f64; 2] {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("a stat");
    let fields = stat.rsplit(')').next().expect("fields").split_ascii_whitespace();
    let mut ticks = fields.skip(13).map(|ticks| ticks.parse::<u64>().expect("ticks"));
    let times = [ticks.next().expect("cutime"), ticks.next().expect("cstime")];
    times.map(|ticks| ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Whether this is to be measured: `cargo bench --bench NAME -- WORD` measures what has the word.
pub fn is_asked_for(what: &str) -> bool {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with('-')).peekable();
    words.peek().is_none() || words.any(|word| what.contains(&word))
}

/// The least, the middle and the most.
pub fn spread(values: impl IntoIterator<Item = f64>) -> (f64, f64, f64) {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    (sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1])
}
