//! The native rows beside other programs that do the same: the loops of `benches/reference.c`, and
//! `perf bench` where it is installed. Ratios of alternating pairs in one run, as in `speed.rs`.

mod common;

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ktax::engine::payload;

const KTAX: &str = env!("CARGO_BIN_EXE_ktax");

/// Counterpart of a row: the same number of operations, the same parameters.
enum Beside {
    Loop,
    Perf(&'static str),
}

struct Row {
    name: &'static str,
    params: &'static [&'static str],
    ops: u64,
    beside: Beside,
    pairs: usize,
    all_cpus: bool,
}

/// Both sides on the same one. Left alone, the scheduler decides in each run whether two processes
/// that wake each other share a CPU, and that is worth more than any difference looked for here.
const fn on_one_cpu(name: &'static str, ops: u64, beside: Beside) -> Row {
    Row { name, params: &[], ops, beside, pairs: 31, all_cpus: false }
}

/// One group and many rounds: perf's time contains the end of each of its processes, which have
/// some thirty shared libraries to unmap. With four groups and 200 rounds that is a tenth of it.
const fn messaging(params: &'static [&'static str], perf: &'static str) -> Row {
    let beside = Beside::Perf(perf);
    Row { name: "messaging", params, ops: 2000, beside, pairs: 11, all_cpus: true }
}

/// perf bench with the parameters of the reports on queued spinlocks, `-g 20 -l 5000`. A run takes
/// so long that a few pairs must do. [`TWENTY_GROUPS_TAKE`] is printed.
const TWENTY_GROUPS: Row = Row {
    name: "messaging",
    params: &["channel=socket", "workers=process", "groups=20"],
    ops: 5000,
    beside: Beside::Perf("sched messaging -g 20"),
    pairs: 3,
    all_cpus: true,
};

/// Needs of that row: 2 × 20 × 20 workers, and 20 × 20 × 20 × 5000 messages.
const TWENTY_GROUPS_TAKE: &str = "messaging socket process 20: perf's -g 20 -l 5000. Each run has \
    800 processes, 40 million messages,\n  and up to 160 MB of memory; 8 runs of about 50 s on 2 \
    CPUs";

const ROWS: [Row; 12] = [
    on_one_cpu("getppid", 300_000, Beside::Loop),
    on_one_cpu("getppid", 300_000, Beside::Perf("syscall basic")),
    on_one_cpu("pipe", 10_000, Beside::Loop),
    // perf's time contains a fork and an exit of a large process, so use many operations.
    on_one_cpu("pipe", 50_000, Beside::Perf("sched pipe")),
    on_one_cpu("context-switch", 20_000, Beside::Loop),
    // The locks of the C library's fork(), which ktax does without, are two more pages to copy.
    on_one_cpu("fork-exit", 300, Beside::Loop),
    on_one_cpu("fork-exec", 200, Beside::Loop),
    on_one_cpu("page-fault", 20_000, Beside::Loop),
    messaging(&["channel=socket", "workers=process"], "sched messaging -g 1"),
    messaging(&["channel=pipe", "workers=process"], "sched messaging -g 1 -p"),
    messaging(&["channel=socket", "workers=thread"], "sched messaging -g 1 -t"),
    TWENTY_GROUPS,
];

struct Bench {
    cache: PathBuf,
    reference: PathBuf,
    hello: PathBuf,
    cpu: String,
}

fn main() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let reference = dir.path().join("reference");
    let compiler = compile(&reference);
    // Both sides of fork-exec execute this one: what exec costs depends on the program.
    let (_, hello, _holder) = payload::install_programs(dir.path()).expect("a writable directory");
    let bench = Bench { cache: dir.path().to_owned(), reference, hello, cpu: first_cpu() };
    let perf = perf_version();
    println!("ktax beside others, natively: medians, and the ratio of alternating pairs");
    println!("loop: benches/reference.c, linked statically, {compiler}");
    match &perf {
        Some(version) => println!("perf: {version}\n{TWENTY_GROUPS_TAKE}"),
        None => println!("perf: not here; for its rows: sudo apt-get install linux-perf"),
    }
    println!(
        "row                             ktax  reference      pairs  ratio  least..most  beside"
    );
    for row in ROWS.iter().filter(|row| perf.is_some() || matches!(row.beside, Beside::Loop)) {
        bench.compare(row);
    }
}

fn first_cpu() -> String {
    let status = fs::read_to_string("/proc/self/status").expect("/proc");
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let cpus = cpus.expect("a line of proc(5)").trim();
    cpus.chars().take_while(char::is_ascii_digit).collect()
}

fn perf_version() -> Option<String> {
    let output = Command::new("perf").arg("version").stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

impl Bench {
    /// Runs the sides as A B B A, each once before for nothing.
    fn compare(&self, row: &Row) {
        let mut pairs = Vec::new();
        for pair in 0..=row.pairs {
            let first = (pair % 2 == 0).then(|| self.ktax(row));
            let reference = self.reference(row);
            let ktax = first.unwrap_or_else(|| self.ktax(row));
            if pair > 0 {
                pairs.push((ktax, reference));
            }
        }
        let (_, ktax, _) = common::spread(pairs.iter().map(|(ktax, _)| *ktax));
        let (_, reference, _) = common::spread(pairs.iter().map(|(_, reference)| *reference));
        let (least, ratio, most) =
            common::spread(pairs.iter().map(|(ktax, reference)| ktax / reference));
        let values = row.params.iter().filter_map(|param| param.split('=').nth(1));
        let name = values.fold(row.name.to_owned(), |name, value| name + " " + value);
        let (scale, unit) = if ktax < 1000.0 { (1.0, "ns") } else { (1000.0, "µs") };
        let beside = match row.beside {
            Beside::Loop => "loop".to_owned(),
            Beside::Perf(benchmark) => format!("perf bench {benchmark}"),
        };
        let (ktax, reference, pairs) = (ktax / scale, reference / scale, row.pairs);
        println!(
            "{name:<28}{ktax:>8.2} {reference:>10.2} {unit} {pairs:>7}  {ratio:.3} \
             {least:>6.2}..{most:<4.2}  {beside}"
        );
    }

    /// Nanoseconds per operation, as all times here.
    fn ktax(&self, row: &Row) -> f64 {
        let mut command = self.command(row, KTAX);
        command.args(["workloads", "run", row.name, "--samples", "1", "--json", "--cache"]);
        command.arg(&self.cache).args(["-p", &format!("ops={}", row.ops)]);
        command.args(row.params.iter().flat_map(|param| ["-p", param]));
        let table: serde_json::Value = serde_json::from_str(&output(&mut command)).expect("JSON");
        let time = table.pointer("/result/native/rows/0/samples/0/values/nanoseconds");
        let time = time.unwrap_or_else(|| panic!("{table:#}"));
        time.as_f64().expect("a number") / row.ops as f64
    }

    fn reference(&self, row: &Row) -> f64 {
        let ops = row.ops.to_string();
        let Beside::Perf(benchmark) = row.beside else {
            let mut command = self.command(row, &self.reference);
            command.args([row.name, &ops]).arg(&self.hello);
            return output(&mut command).trim().parse::<f64>().expect("a number") / row.ops as f64;
        };
        let mut command = self.command(row, "perf");
        command.arg("bench").args(benchmark.split(' ')).args(["-l", &ops]);
        let text = output(&mut command);
        let before = |unit| {
            let line = text.lines().find_map(|line| line.strip_suffix(unit))?;
            line.split_whitespace().last()?.parse::<f64>().ok()
        };
        // The total has but milliseconds.
        before(" usecs/op")
            .map(|each| each * 1e3)
            .or_else(|| before(" [sec]").map(|total| total * 1e9 / row.ops as f64))
            .unwrap_or_else(|| panic!("perf said: {text}"))
    }

    fn command(&self, row: &Row, program: impl AsRef<OsStr>) -> Command {
        if row.all_cpus {
            return Command::new(program);
        }
        let mut command = Command::new("taskset");
        command.args(["-c", &self.cpu]).arg(program);
        command
    }
}

/// Makes the program of the loops as much like ktax's own as can be, because fork and exit depend
/// on what is mapped and how. So it is static, and written in one piece: of the small ones that a
/// linker writes, ext4 makes small folios, and fork + exit is 7 % dearer. Returns the compiler's
/// version.
fn compile(path: &Path) -> String {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut build = cc::Build::new();
    build.cargo_metadata(false).target(&target).host(&target).opt_level(2);
    let compiler = build.get_compiler();
    let linked = path.with_extension("linked");
    let mut command = Command::new(compiler.path());
    command.args(["-std=gnu11", "-Wall", "-Wextra", "-static", "-O2", "-s", "-o"]);
    output(command.arg(&linked).arg("benches/reference.c"));
    let program = fs::read(&linked).expect("what was linked");
    fs::write(path, program).expect("a writable directory");
    fs::set_permissions(path, Permissions::from_mode(0o755)).expect("a file of ours");
    let text = output(Command::new(compiler.path()).arg("--version"));
    text.lines().next().unwrap_or_default().to_owned()
}

fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}{errors}");
    text
}
