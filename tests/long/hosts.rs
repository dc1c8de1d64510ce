//! Real KVM of other architectures, within QEMU: guests that leave a known number of times, and
//! what `ktax exits` says of what the kernel wrote about them. `make test-hosts` runs these.

use std::fs;
use std::path::{Path, PathBuf};

use ktax::kvmhost::Board;
use ktax::model::{ExitRun, ExitTable, Failure, Row, Side, Sides, Verdict};
use ktax::rundir::AnyRunDir;

use crate::answers::row_comes_out_again;
use crate::common::{Need, Ran, files_below, ktax, require, run, scratch, scratch_path};

fn exits(arguments: &[&str]) -> Ran {
    run(ktax().arg("exits").args(arguments)).exits(0)
}

fn count(table: &ExitTable, reason: &str) -> u64 {
    table.row(reason).unwrap_or_else(|| panic!("no {reason}: {table:?}")).count
}

/// Every exit has its entry, but for those after which there was none.
fn assert_whole(table: &ExitTable) {
    let (guest, others): (Vec<_>, Vec<_>) = table.rows.iter().partition(|row| row.is_guest);
    let open = table.account.as_ref().map_or(0, |account| account.open.len() as u64);
    assert_eq!(guest[0].count, others.iter().map(|row| row.count).sum::<u64>() + open, "{table:?}");
}

// The answers of experiments about hosts of other architectures: one row of each is measured anew.

/// A test for each file.
macro_rules! come_out_again {
    ($($test:ident $board:ident $file:literal)*) => {
        pub const ANSWERS: &[&str] = &[$($file),*];
        $(#[test]
        fn $test() {
            if !is_missing(&Board::$board) {
                row_comes_out_again($file);
            }
        })*
    };
}

come_out_again! {
    exit_cost_arm64 ARM64 "experiments/exit-cost-arm64.toml"
    exit_cost_power9 POWER9 "experiments/exit-cost-power9.toml"
    exit_cost_riscv64 RISCV64 "experiments/exit-cost-riscv64.toml"
    magic_page E500V2 "experiments/magic-page.toml"
}

// Helpers for hosts on boards: whether one is available, and a run of an experiment with it, as a
// user runs it.

/// Whether a host of it can be had; a test that needs it says so and is not run.
#[track_caller]
pub fn is_missing(board: &Board) -> bool {
    let looked = board.find_qemu(None);
    let why = looked.as_ref().err().map(|error| format!("{error}, or `sh scripts/setup-hosts.sh`"));
    !require(Need::Hosts, looked.is_ok(), why.unwrap_or_default())
}

/// Compares once, in one layout. Returns the report and the rows.
pub fn compare(file: &Path, out: &Path, works: &[&str], status: i32) -> (String, Vec<Row>) {
    let mut ktax = ktax();
    ktax.arg("compare").arg(file).arg("--out").arg(out).args(["--layouts", "1"]);
    ktax.args(works.iter().flat_map(|work| ["-w", work]));
    let ran = run(&mut ktax);
    assert_eq!(ran.status, status, "{}\n{}", ran.stdout, ran.stderr);
    (ran.stdout, AnyRunDir::open(out).unwrap().comparison().unwrap().unwrap().rows)
}

pub fn table(row: &Row, side: Side) -> &ExitTable {
    let run = row.guests().unwrap().runs.get(side);
    &run.as_ref().unwrap_or_else(|| panic!("{row:?}")).table
}

pub fn experiment(board: &Board) -> PathBuf {
    let name = format!("experiments/exit-cost-{}.toml", board.name.to_lowercase());
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

// POWER9 as a hypervisor within another one, with KVM's timing of its own phases: an experiment,
// run as a user runs it.

#[test]
fn every_call_of_a_nested_guest_is_in_the_timings() {
    if is_missing(&Board::POWER9) {
        return;
    }
    let dir = scratch();
    let file = experiment(&Board::POWER9);
    let (_, rows) =
        compare(&file, &dir.path().join("out"), &["raw:hcall=1000", "raw:fault=100"], 0);
    let [calls, faults] = &rows[..] else { panic!("{rows:?}") };
    for (row, expected) in [(calls, [1001, 1]), (faults, [1, 101])] {
        assert_eq!(row.verdict, Verdict::OneSide);
        let table = table(row, Side::Base);
        assert_eq!(table.source, "book3s HV timings");
        // One more call, of the end; each goes to user space. The guest's code is one page.
        let [call, fault] = expected;
        for reason in ["hypercall", "vcpu_entry", "vcpu_exit"] {
            assert_eq!(count(table, reason), call, "{reason}: {table:?}");
        }
        assert_eq!(count(table, "page_fault"), fault, "{table:?}");
        // Interrupts of the host's end its stays in the guest too.
        let stays = count(table, "in_guest");
        assert!((call + fault..call + fault + 100).contains(&stays), "{table:?}");
        assert_eq!(count(table, "guest_exit"), stays, "{table:?}");
        assert!(table.warnings.is_empty(), "{table:?}");
    }
}

// e500v2, with KVM's own exit timing: what the tables of 2008 were made with. The experiment is run
// as a user runs it.

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/experiments/magic-page.toml");

/// The tables of one layout: too few for a verdict.
const ONE_LAYOUT: [&str; 3] = ["--json", "--layouts", "1"];

fn compare_e500v2(file: &Path, out: &Path, options: &[&str]) -> Ran {
    run(ktax().arg("compare").arg(file).arg("--out").arg(out).args(options))
}

/// The rows that a run directory was analysed to.
fn rows(out: &Path) -> Vec<Row> {
    AnyRunDir::open(out).unwrap().comparison().unwrap().unwrap().rows
}

/// Both Sides of a row, in the layout that is shown.
fn sides(row: &Row) -> Sides<ExitRun> {
    let runs = &row.guests().unwrap().runs;
    let run_of = |side: Side| runs.get(side).clone().unwrap_or_else(|| panic!("{row:?}"));
    let both = Sides { base: run_of(Side::Base), change: run_of(Side::Change) };
    for run in both.both() {
        assert_eq!(run.row, row.row);
        assert_whole(&run.table);
    }
    both
}

fn both(runs: &Sides<ExitRun>, reason: &str) -> [u64; 2] {
    Side::BOTH.map(|side| count(&runs.get(side).table, reason))
}

/// The console of the first host of a Side.
fn console(out: &Path, side: Side) -> PathBuf {
    let name = |boot: &str| format!("boots/{boot}-{}/runs/raw:all=2000.serial.log", side.name());
    let found =
        ["000", "001"].map(|boot| out.join(name(boot))).into_iter().find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{} has no console of the {}", out.display(), side.name()))
}

/// 2000 times each of eight things that e500v2's guests may not do, and the same with the page that
/// guest and KVM share.
#[test]
fn the_magic_page_takes_away_what_it_is_for_and_nothing_else() {
    if is_missing(&Board::E500V2) {
        return;
    }
    let dir = scratch();
    let (out, again) = (dir.path().join("out"), dir.path().join("again"));
    let ran = compare_e500v2(Path::new(FILE), &out, &[]).exits(0);
    let rows = rows(&out);
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((row.row.as_str(), row.verdict), ("raw:all=2000", Verdict::Faster));
    let runs = sides(row);
    for reason in ["MMIO", "EMUL_RFI"] {
        assert_eq!(both(&runs, reason), [2000, 2000], "{reason}");
    }
    for reason in ["EMUL_WRTEE", "EMUL_MFSPR", "EMUL_MFMSR"] {
        assert_eq!(both(&runs, reason), [2000, 0], "{reason}");
    }
    assert_eq!(both(&runs, "EMUL_MTSPR"), [6000, 0]);
    // The one call that asks for the page.
    assert_eq!(both(&runs, "SYSCALL"), [0, 1]);
    // The first layout is the same however many follow.
    compare_e500v2(Path::new(FILE), &again, &ONE_LAYOUT).exits(4);
    let files = files_below(&again.join("boots"));
    assert!(files.iter().any(|(name, _)| name.ends_with("raw:all=2000.serial.log")), "{files:?}");
    for (name, content) in files {
        let first = fs::read(out.join("boots").join(&name)).unwrap();
        assert!(first == content, "{} is not the same in each run", name.display());
    }
    // Other tools can read the host's console, too.
    let [base, change] = Side::BOTH.map(|side| console(&out, side).display().to_string());
    let text = exits(&["diff", &base, &change]).stdout;
    let first = text.lines().find(|line| line.starts_with("EMUL_")).unwrap();
    assert!(first.starts_with("EMUL_MTSPR") && first.ends_with("-100.00"), "{text}");
    assert_answered(&ran.stdout);
}

/// The answer in the file is the current output, if it has the same versions.
fn assert_answered(printed: &str) {
    println!("{printed}");
    let text = fs::read_to_string(FILE).unwrap();
    let answer: Vec<&str> = text.lines().map(|line| line.trim_start_matches(['#', ' '])).collect();
    let is_there = |line: &str| answer.contains(&line.trim());
    let versions = printed.lines().skip_while(|line| !line.starts_with("exact · QEMU "));
    let mut versions = versions.take_while(|line| !line.is_empty()).peekable();
    assert!(versions.peek().is_some(), "{printed}");
    match versions.all(is_there) {
        true => assert!(printed.lines().all(is_there), "{text}\nnow:\n{printed}"),
        false => drop(require(Need::Versions, false, "the answer is of other versions")),
    }
}

#[test]
fn a_guest_does_what_its_row_says() {
    if is_missing(&Board::E500V2) {
        return;
    }
    let dir = scratch();
    let works = ["-w", "raw:mtspr=100", "-w", "raw:rfi=50"];
    let options = [&works[..], &ONE_LAYOUT].concat();
    let ran = compare_e500v2(Path::new(FILE), &dir.path().join("out"), &options).exits(4);
    let rows = ran.comparison().rows;
    let rows: Vec<Sides<ExitRun>> = rows.iter().map(sides).collect();
    let [mtspr, rfi] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((both(mtspr, "EMUL_MTSPR"), both(mtspr, "EMUL_RFI")), ([100, 0], [0, 0]));
    assert_eq!((both(rfi, "EMUL_MTSPR"), both(rfi, "EMUL_RFI")), ([100, 0], [50, 50]));
    assert_eq!((both(mtspr, "EMUL_MFMSR"), both(rfi, "EMUL_MFMSR")), ([0, 0], [0, 0]));
}

/// Without one of the patches the experiment fails at what that mends.
#[test]
fn without_its_patches_the_kernel_runs_no_guest() {
    if is_missing(&Board::E500V2) {
        return;
    }
    const SECOND: &str = r#", "kernels/patches/kvm-e500v2-syscall-vector.patch"]"#;
    let (dir, file) = scratch_path("experiment.toml");
    // The Sides that failed, each with its console.
    let fail = |patches: &str| -> (PathBuf, Vec<(Side, String)>) {
        let lines = fs::read_to_string(FILE).unwrap();
        let line = lines.lines().find(|line| line.starts_with("host_patches = ")).unwrap();
        assert!(line.ends_with(SECOND), "{line}");
        let patched = if patches == "none" { "" } else { &line.replace(SECOND, "]") };
        fs::write(&file, lines.replace(line, patched)).unwrap();
        let out = dir.path().join(patches);
        let ran = compare_e500v2(&file, &out, &["--layouts", "1"]).exits(69);
        let rows = rows(&out);
        let [Row { verdict: Verdict::Failed, failures, .. }] = &rows[..] else {
            panic!("{rows:?}")
        };
        // The report says why, and where the console is.
        for expected in ["the kernel panicked: ", "runs/ROW.serial.log in the boot's directory"] {
            ran.prints(expected);
        }
        let failed = failures.iter().map(|failed| {
            let is_panic = matches!(failed.failure, Failure::Panic { .. });
            assert!(is_panic && ran.stdout.contains(&failed.boot), "{failed:?}\n{}", ran.stdout);
            let text = fs::read_to_string(console(&out, failed.side)).unwrap();
            (failed.side, text.replace('\r', ""))
        });
        let failed = failed.collect();
        (out, failed)
    };
    let (_, stock) = fail("none");
    let hosts = |side: Side| stock.iter().filter(|(failed_side, _)| *failed_side == side).count();
    assert_eq!(Side::BOTH.map(hosts), [1, 1]);
    for (_, log) in stock {
        assert!(log.contains("host: begin\n") && !log.contains("TIMEINGUEST"), "{log}");
        assert!(log.contains("exit_nr ") && log.contains("kernel BUG at arch/powerpc"), "{log}");
    }
    // The guest that makes no system call runs with the first alone.
    let (out, first) = fail("first");
    let [(Side::Change, change)] = &first[..] else { panic!("{first:?}") };
    assert!(fs::read_to_string(console(&out, Side::Base)).unwrap().contains("TIMEINGUEST"));
    assert!(change.contains("exit_nr 9\nkernel BUG at arch/powerpc"), "{change}");
}

// Boards whose kernels' tracepoints say every exit, as experiments: run as a user runs them.

/// A kind of exit, and KVM's reason for it.
type Kind = (&'static str, &'static str);

/// The rounds of each row, and of the one that does all kinds in each round.
const ROUNDS: u64 = 1000;

/// Each kind of exit is there as often as the row says, and the guest's first page once. The last
/// store, to a device, says the end: the guest is not entered again.
fn assert_exact(board: &Board, kinds: &[Kind], [device, first]: [&str; 2]) {
    let (dir, file) = (scratch(), experiment(board));
    let outs = ["out", "again"].map(|name| dir.path().join(name));
    let names = kinds.iter().map(|(kind, _)| kind).chain([&"all"]);
    let works: Vec<String> = names.map(|kind| format!("raw:{kind}={ROUNDS}")).collect();
    let works: Vec<&str> = works.iter().map(String::as_str).collect();
    let (stdout, rows) = compare(&file, &outs[0], &works, 0);
    assert!(stdout.contains(&format!("host kvm-{} · 1 layout", board.name)), "{stdout}");
    let (every_kind, each) = rows.split_last().unwrap();
    assert_eq!(each.len(), kinds.len());
    let every_kind = table(every_kind, Side::Base);
    assert_ended(every_kind, device, first);
    for (_, reason) in kinds {
        let times = kinds.iter().filter(|(_, other)| other == reason).count() as u64;
        assert_eq!(count(every_kind, reason), ROUNDS * times, "all: {every_kind:?}");
    }
    for (row, (kind, reason)) in each.iter().zip(kinds) {
        assert_eq!(row.verdict, Verdict::OneSide);
        let table = table(row, Side::Base);
        assert_eq!(count(table, reason), ROUNDS, "{kind}: {table:?}");
        assert_ended(table, device, first);
        assert_parts(table, (kind, reason));
    }
    // In the row of all kinds, too, only a processor that waits sleeps.
    for (kind, reason) in kinds {
        let parts = every_kind.row(reason).unwrap().parts.as_ref().unwrap();
        assert_eq!(parts.halted_ns > Some(0), *kind == "wfi", "{kind}: {every_kind:?}");
    }
    // Each boot says the same, but for the last digit of a time.
    compare(&file, &outs[1], &works, 0);
    for work in works {
        let console = |out: &PathBuf| {
            let runs = out.join("boots/000-base/runs");
            fs::read_to_string(runs.join(format!("{work}.serial.log"))).unwrap()
        };
        let [first, second] = outs.each_ref().map(console);
        assert_eq!(same(&first, &second), Ok(()), "{work}: {first}\nagain:\n{second}");
    }
}

/// Compares two consoles: all lines have to be the same, and each event's time to 1 µs.
///
/// A host that is idle makes QEMU put the clock forward to the next timer. QEMU's main loop does
/// it, and where it looks just after the processor has halted, it does not know yet of the
/// instructions before the halt: the clock is then ahead by as many nanoseconds. On a busy machine
/// that was so in 6 of 48 boots, by less than 1 µs, which rounds some of the times up.
fn same(first: &str, other: &str) -> Result<(), String> {
    let (first, other): (Vec<&str>, Vec<&str>) = (first.lines().collect(), other.lines().collect());
    if first.len() != other.len() {
        return Err(format!("{} lines and {}", first.len(), other.len()));
    }
    let is_alike = |(first, other): &(&&str, &&str)| match (time_us(first), time_us(other)) {
        (Some((time, first)), Some((again, other))) => first == other && time.abs_diff(again) <= 1,
        _ => first == other,
    };
    let different = first.iter().zip(&other).find(|lines| !is_alike(lines));
    different.map_or(Ok(()), |(first, other)| Err(format!("{first} and {other}")))
}

/// The time of a line of ftrace, and the line without it.
fn time_us(line: &str) -> Option<(u64, String)> {
    let (before, event) = line.split_once(": ")?;
    let (before, time) = before.rsplit_once(' ')?;
    let (seconds, micros) = time.split_once('.').filter(|(_, micros)| micros.len() == 6)?;
    let time = seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?;
    Some((time, format!("{before} {event}")))
}

#[test]
fn consoles_that_differ_in_more_than_a_digit_are_seen() {
    let line = |time: &str, event: &str| format!("init-1 [000] d....  {time}: {event}");
    let first = [line("5.116999", "kvm_entry: PC: 0x1"), "==".to_owned()].join("\n");
    let again = |time, event| [line(time, event), "==".to_owned()].join("\n");
    assert_eq!(same(&first, &again("5.117000", "kvm_entry: PC: 0x1")), Ok(()));
    for (time, event) in [("5.117001", "kvm_entry: PC: 0x1"), ("5.116999", "kvm_entry: PC: 0x2")] {
        assert!(same(&first, &again(time, event)).is_err(), "{time} {event}");
    }
    assert!(same(&first, &first.replace("==", "=")).is_err());
    assert!(same(&first, first.trim_end_matches("\n==")).is_err());
}

/// Lines that KVM's trace has for any guest that has ended.
fn assert_ended(table: &ExitTable, device: &str, first: &str) {
    assert_eq!(count(table, first), 1, "{table:?}");
    let account = table.account.as_ref().unwrap();
    let open: Vec<&str> = account.open.iter().map(|open| open.reason.as_str()).collect();
    assert_eq!((open, account.lost, account.unpaired), (vec![device], 0, 0), "{table:?}");
    assert_whole(table);
    assert_eq!(table.sum_ns() + account.open[0].ns, account.wall_ns, "{table:?}");
}

/// The monitor hears of the device alone; only a processor that waits sleeps.
fn assert_parts(table: &ExitTable, (kind, reason): Kind) {
    let parts = table.row(reason).unwrap().parts.as_ref().unwrap();
    assert_eq!(parts.user_ns > 0, ["mmio", "wfi"].contains(&kind), "{kind}: {table:?}");
    assert_eq!(parts.halted_ns > Some(100 * parts.kernel_ns), kind == "wfi", "{kind}: {table:?}");
    assert_eq!(parts.halted_ns > Some(0), kind == "wfi", "{kind}: {table:?}");
}

#[test]
fn arm64_says_every_exit_by_its_class() {
    if is_missing(&Board::ARM64) {
        return;
    }
    let device = "DABT_LOW";
    let kinds =
        [("hvc", "HVC64"), ("mrs", "SYS64"), ("mmio", device), ("fault", device), ("wfi", "WFx")];
    assert_exact(&Board::ARM64, &kinds, [device, "IABT_LOW"]);
}

#[test]
fn riscv64_says_every_exit_by_its_cause() {
    if is_missing(&Board::RISCV64) {
        return;
    }
    let (device, call) = ("store guest-page fault", "environment call from VS-mode");
    let kinds =
        [("ecall", call), ("mmio", device), ("fault", device), ("wfi", "virtual instruction")];
    assert_exact(&Board::RISCV64, &kinds, [device, "instruction guest-page fault"]);
}

/// A Side's boot line is that of its host: without KVM, that Side fails and says of what.
#[test]
fn a_side_of_a_board_has_its_own_host() {
    if is_missing(&Board::ARM64) {
        return;
    }
    let (dir, file) = (scratch(), scratch());
    let file = file.path().join("experiment.toml");
    let text = fs::read_to_string(experiment(&Board::ARM64)).unwrap();
    let text = text.split("# What ktax said").next().unwrap();
    fs::write(&file, format!("{text}\n[change]\nboot_line = \"kvm-arm.mode=none\"\n")).unwrap();
    let (stdout, rows) = compare(&file, &dir.path().join("out"), &["raw:hvc=10"], 69);
    assert!(stdout.contains("kvm-arm.mode=none"), "{stdout}");
    let [row] = &rows[..] else { panic!("{rows:?}") };
    let [failed] = &row.failures[..] else { panic!("{row:?}") };
    assert_eq!(failed.side, Side::Change);
    let Failure::NoAnswer { console } = &failed.failure else { panic!("{failed:?}") };
    assert!(console.contains("/dev/kvm"), "{console}");
}
