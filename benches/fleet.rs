//! How well the shards of a campaign fill the machine, and whether its cost grows with the subjects
//! and no faster. Ratios within one run; the seconds are of this machine.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Rows of a shard: as many as make the start of ktax a small part of it.
const ROWS: &str = r#"["getppid", "stat", "open-close", "fork-exit", "pipe", "write-1"]"#;

fn main() {
    let dir = common::directory();
    let dir = dir.path();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    plan(dir, "shards", 0..8, Some(8));
    let (cpu_before, stolen_before) = (common::cpu_seconds_of_children(), stolen_seconds());
    let started = Instant::now();
    let each =
        "seq 0 7 | xargs -P \"$2\" -I{} \"$1\" campaign run shards --shard {} --jobs 1 --no-store";
    let mut shell = Command::new("sh");
    shell.args(["-c", each, "sh", env!("CARGO_BIN_EXE_ktax"), &cpus.to_string()]);
    run(&mut shell, dir);
    let wall = started.elapsed().as_secs_f64();
    // Time that the hypervisor gave to another machine could not be used.
    let stolen = stolen_seconds() - stolen_before;
    let busy =
        (common::cpu_seconds_of_children() - cpu_before) / (wall * cpus as f64 - stolen) * 100.0;
    println!(
        "8 shards on {cpus} CPUs: {wall:.1} s, CPUs busy {busy:.1} %   wanted: 95 %   \
         ({stolen:.1} CPU seconds were another machine's)"
    );
    // Each has subjects of its own: nothing is booted twice.
    let mut first = None;
    let mut begin = 8;
    for subjects in [4, 8, 16] {
        let out = format!("grow-{subjects}");
        plan(dir, &out, begin..begin + subjects, None);
        begin += subjects;
        let started = Instant::now();
        ktax(dir, &["campaign", "run", &out, "--no-store"]);
        let each = started.elapsed().as_secs_f64() / subjects as f64;
        let first = *first.get_or_insert(each);
        let ratio = each / first;
        println!("{subjects:2} subjects: {each:.2} s each, {ratio:.2} of the first   wanted: 1.00");
    }
}

/// A campaign over boot lines that differ in a number that changes nothing.
fn plan(dir: &Path, out: &str, numbers: std::ops::Range<usize>, shards: Option<usize>) {
    let subject = |number| {
        let line = format!("audit_backlog_limit={}", 64 + number);
        format!("{{ kernel = \"debian:cloud-amd64\", boot_line = {line:?} }}")
    };
    let subjects: Vec<String> = numbers.map(subject).collect();
    let text = format!(
        "title = \"A fleet\"\nlayouts = 2\nworkloads = {ROWS}\nsubjects = [{}]\n",
        subjects.join(", ")
    );
    let file = format!("{out}.toml");
    fs::write(dir.join(&file), text).expect("a writable directory");
    let shards = shards.map(|shards| shards.to_string());
    let shards = shards.iter().flat_map(|shards| ["--shards", shards]);
    let words = ["campaign", "plan", &file, "--out", out, "--no-store"];
    ktax(dir, &words.into_iter().chain(shards).collect::<Vec<_>>());
}

fn ktax(dir: &Path, words: &[&str]) {
    run(Command::new(env!("CARGO_BIN_EXE_ktax")).args(words), dir);
}

fn run(command: &mut Command, dir: &Path) {
    let ran = command.current_dir(dir).env("KTAX_CACHE", dir.join("cache")).output();
    let ran = ran.expect("it starts");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// Steal time of all CPUs together.
fn stolen_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/stat").expect("Linux has it");
    let fields = stat.lines().next().unwrap_or_default().split_whitespace();
    let ticks: f64 = fields.skip(8).take(1).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    ticks / rustix::param::clock_ticks_per_second() as f64
}
