//! Each workload without the system calls that its work is: whatever it then says is no number.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use std::{fs, io};

use ktax::model::{Failure, Workload};
use ktax::plan::{Definition, Experiment, ExperimentMethod, definitions};
use ktax::rundir::profile::{self, ProfileError};
use ktax::text::escape_bytes;
use ktax::wire::{self, Answer, Hello, arguments, parse_answer, parse_hello, parse_symbols};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::time::{ClockId, clock_gettime};
use seccompiler::SeccompCmpOp;
use syscalls::x86_64::Sysno;
use tempfile::TempDir;

use super::examples::{group_members, guest, only_computes};
use crate::common::calls::{Condition, filtered, refusing};
use crate::common::{comes, scratch, until};

mod work {
    use syscalls::x86_64::Sysno::{self, *};

    /// The work of each program but those that only compute, which `computed.rs` looks at.
    pub const WORK: &[(&[&str], &[Sysno])] = &[
        (
            &["page-fault", "page-fault-cow", "page-fault-file", "page-fault-file-1", "touch"],
            &[mmap],
        ),
        (&["page-fault-thp", "micro-flush"], &[madvise]),
        (&["af-unix", "pipe", "tcp", "context-switch", "read-1", "file-reread"], &[read]),
        (&["bw-pipe", "bw-tcp", "bw-unix"], &[read]),
        (&["write-1", "fs-append"], &[write]),
        (&["fs-rename"], &[rename]),
        (&["fs-readdir"], &[getdents64]),
        (&["fs-truncate"], &[pwrite64]),
        (&["udp"], &[sendto]),
        (&["tcp-connect"], &[connect]),
        (&["getppid"], &[getppid]),
        (&["getuid"], &[getuid]),
        (&["stat"], &[newfstatat]),
        (&["fstat"], &[fstat]),
        (&["open-close", "create-delete", "file-create"], &[openat]),
        (&["file-delete"], &[unlinkat]),
        (&["select-file", "select-tcp"], &[select]),
        (&["signal-install", "protection-fault"], &[rt_sigaction]),
        (&["signal-handle"], &[kill]),
        (&["mmap-latency", "mmap-touch-munmap"], &[munmap]),
        (&["mmap-reread", "micro-faults"], &[mmap]),
        (&["mmap-stress"], &[mremap]),
        (&["fork-exit", "fork-exec", "sh", "fork-pages"], &[clone]),
        (&["high-systime", "buildlike", "under-load"], &[clone]),
        (&["locks"], &[mmap]),
        (&["walk"], &[getdents64]),
        (&["micro-events"], &[poll, eventfd2]),
        (&["micro-files"], &[dup, lseek, fcntl, fallocate]),
        (&["micro-futex"], &[futex]),
        (&["micro-io"], &[read, write, pread64, pwrite64, socketpair]),
        (&["micro-mappings"], &[munmap]),
        (&["messaging"], &[clone, read]),
        (
            &["high-systime-job"],
            &[clone, read, creat, link, getdents64, shmat, kill, socket, times],
        ),
        (&["micro-names"], &[openat, getdents64]),
        (&["micro-tasks"], &[read, sched_yield, tgkill, getpgid, clone]),
        (&["scale"], &[getppid, madvise, munmap, dup, open, read, clone, tgkill, futex]),
    ];
}

/// Calls that are refused, if not all: an argument, and what it is.
fn condition(call: Sysno, program: &str) -> Option<Condition> {
    match (call, program) {
        // Standard output is where the answer goes.
        (Sysno::write, _) => Some((0, SeccompCmpOp::Ne, 1)),
        // That does not wait: the clean-up does.
        (Sysno::poll, _) => Some((2, SeccompCmpOp::Eq, 0)),
        // With no flag but SIGCHLD: not the C library's fork, which the clean-up needs.
        (Sysno::clone, _) => Some((0, SeccompCmpOp::Eq, 17)),
        // With the value 1, with which no semaphore of the C library waits.
        (Sysno::futex, "scale") => Some((2, SeccompCmpOp::Eq, 1)),
        _ => None,
    }
}

/// Rows that no refused call can keep from their work, because it is in user mode (a futex without
/// contention, a clock), or because the C library itself cannot start without it (brk, malloc).
const CALLS_NOBODY: &[&str] = &[
    "high-systime-job:job=brk-test",
    "high-systime-job:job=page-test",
    "micro-mappings:call=brk1",
    "micro-mappings:call=brk2",
    "micro-mappings:call=malloc1",
    "micro-mappings:call=malloc2",
    "micro-futex:call=posix-semaphore1",
    "micro-futex:call=pthread-mutex1",
    "micro-tasks:call=clock-gettime",
];

fn run_without(calls: &[Sysno], workload: &Workload) -> Output {
    const EIO: u32 = 5;
    let dir = scratch();
    let with_condition = |call: &Sysno| (*call, condition(*call, &workload.program));
    let filter = refusing(calls.iter().map(with_condition), EIO);
    let mut command: Command = guest();
    command.args(arguments(workload)).env("TMPDIR", dir.path()).current_dir(dir.path());
    let mut child = filtered(&mut command, &filter).stdout(Stdio::piped()).spawn().unwrap();
    if !comes(|| child.try_wait().unwrap().is_some()) {
        kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
        panic!("{} waits for what cannot come", workload.row);
    }
    child.wait_with_output().unwrap()
}

#[test]
fn work_that_cannot_be_done_is_no_number() {
    let (mut broken, mut failures) = (BTreeSet::new(), Vec::new());
    let calls = |d: &Definition| !d.hidden && d.needs.is_none() && !only_computes(&d.program);
    for definition in definitions().unwrap().into_iter().filter(calls) {
        let work = work::WORK.iter().find(|(programs, _)| programs.contains(&&*definition.program));
        let (_, calls) = work.unwrap_or_else(|| panic!("{}: what is its work?", definition.name));
        let row = definition.rows().unwrap();
        for workload in row.iter().filter(|row| !CALLS_NOBODY.contains(&&*row.row)) {
            let output = run_without(calls, workload);
            match parse_answer(&output.stdout, &workload.program) {
                Ok(Answer::Done(done)) => {
                    if workload.deviations(&done.signature).is_empty() {
                        failures.push(format!("{}: a number", workload.row));
                    }
                }
                Ok(Answer::Refused(why)) => assert!(!why.is_empty()),
                Err(error) => failures.push(format!("{}: {error}", workload.row)),
            }
            broken.insert(workload.program.clone());
        }
    }
    assert_eq!(failures, [""; 0]);
    assert!(broken.len() > 50, "{broken:?}");
}

// Valid input, damaged.

/// One thing that goes wrong.
#[derive(Debug, Clone)]
pub enum Damage {
    Flip(Index, u8),
    Truncate(Index),
    Duplicate(Index, Index),
    Splice(Index, Vec<u8>),
    Swap(Index, Index),
}

/// Input that parsers often fail on.
const TOKENS: &[&str] = &[
    "\n",
    "\r\n",
    "\0",
    " ",
    "\t",
    "\x1b]0;evil\x07",
    "\u{9b}31m",
    "\u{202e}",
    "end\n",
    "ready\n",
    "ktax 1\n",
    "fail ",
    "fail\n",
    "sig a 1\n",
    "tsc 1\n",
    "18446744073709551615",
    "region\t2\n",
    "18446744073709551616",
    "-1",
    "+1",
    "0",
    "total\t0\n",
    "fn\tprocess\t1\t1\tf\n",
    "split\ta\tb\n",
    "ffffffff81000000 T f\n",
    "Kernel panic - not syncing: ",
    "[",
    "{",
    "\"",
    "\"\"\"",
    "=",
    "a.",
    "[base]\n",
    "nan",
    "1e999",
    "'",
    "#",
    "\u{feff}",
];

fn damage() -> impl Strategy<Value = Damage> {
    let noise = vec(any::<u8>(), 1..20);
    let token = select(TOKENS).prop_map(|token| token.as_bytes().to_vec());
    prop_oneof![
        2 => (any::<Index>(), 0u8..8).prop_map(|(position, bit)| Damage::Flip(position, bit)),
        1 => any::<Index>().prop_map(Damage::Truncate),
        2 => any::<(Index, Index)>().prop_map(|(from, to)| Damage::Duplicate(from, to)),
        1 => (any::<Index>(), noise).prop_map(|(position, bytes)| Damage::Splice(position, bytes)),
        3 => (any::<Index>(), token).prop_map(|(position, bytes)| Damage::Splice(position, bytes)),
        2 => any::<(Index, Index)>().prop_map(|(first, other)| Damage::Swap(first, other)),
    ]
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match self {
            Damage::Flip(position, bit) => *position.get_mut(bytes.as_mut_slice()) ^= 1 << bit,
            Damage::Truncate(position) => bytes.truncate(position.index(bytes.len())),
            Damage::Duplicate(from, to) => {
                let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
                let piece = bytes[from.min(to)..from.max(to)].to_vec();
                bytes.splice(from..from, piece);
            }
            Damage::Splice(position, piece) => {
                let position = position.index(bytes.len());
                bytes.splice(position..position, piece.iter().copied());
            }
            Damage::Swap(first, other) => {
                let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
                let count = lines.len();
                lines.swap(first.index(count), other.index(count));
                *bytes = lines.concat();
            }
        }
    }
}

/// One of `seeds`, damaged up to five times; sometimes it is noise from the beginning.
pub fn damaged(seeds: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let seed = select(seeds).prop_map(|seed| seed.as_bytes().to_vec());
    let seed = prop_oneof![9 => seed, 1 => vec(any::<u8>(), 0..300)];
    (seed, vec(damage(), 0..6)).prop_map(|(mut bytes, damages)| {
        damages.iter().for_each(|damage| damage.apply(&mut bytes));
        bytes
    })
}

/// Damaged seeds as text.
pub fn damaged_text(seeds: &'static [&'static str]) -> impl Strategy<Value = String> {
    damaged(seeds).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

// Nothing that comes in makes a parser panic, gets out unescaped, or means two things.

pub const HELLOS: &[&str] = &[
    "ktax 1\nrelease 6.1.0-56-cloud-amd64\nbuild-id 0123456789abcdef\nready\n",
    "ktax 1\nrelease 6.12.0\nready\n",
];

pub const ANSWERS: &[&str] = &[
    "ktax 1\nstart pipe\nsig round-trips 7\nsig failed 0\nsig children 1\ntsc 900\nend\n",
    "ktax 1\nstart pipe\ntsc 18446744073709551615\nend\n",
    "ktax 1\nstart pipe\nvalue nanoseconds 7\nuncounted cycles No such file\nend\n",
    "ktax 1\nstart pipe\nsig calls 7\nfail mmap: Cannot allocate memory\n",
    "ktax 1\nfail order: no such workload in this guest\n",
];

pub const TABLES: &[&str] = &["ktax 1\nstart symbols\n\
    ffffffff81000040 T second\nffffffff81000000 t first.cold\n0000000000001000 D percpu\n\
    ffffffffc0000000 t helper\t[module]\nend\n"];

pub const PROFILES: &[&str] = &[
    "ktax-profile\t1\napi\t1\nregion\t1\ntotal\t5120\nfn\tprocess\t800\t0\t[user]\n\
     fn\tprocess\t12\t4096\tmemset_erms\nfn\tinterrupt\t212\t0\ttick\nend\n",
    "ktax-profile\t1\napi\t4\nsplit\tkthread\t__switch_to_asm not recognised\nregion\t1\n\
     total\t0\nend\n",
];

/// Answer of CPUs whose time was over, which is no profile.
const OVER: &str = "ktax-profile\t1\napi\t4\nlimit\t1600000000\n\
    at\t0\twait\tnative_queued_spin_lock_slowpath\nat\t2\twork\t[user]\nend\n";

const EXPERIMENTS: &[&str] = &[
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/experiments/lsm.toml")),
    "title = \"t\"\nlayouts = 3\nworkloads = [\"pipe\"]\n[machine]\ncpu = \"max\"\n\
     memory_mib = 512\n[base]\nkernel = \"a\"\n[change]\nkernel = \"b\"\nboot_line = \"x=1\"\n",
];

const CONSOLES: &[&str] = &["[ 1.0] x\r\n[ 2.0] Kernel panic - not syncing: VFS: no root\r\nmore"];

pub fn printable(text: &str) -> bool {
    text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}

fn answer_text(answer: &Answer) -> String {
    match answer {
        Answer::Refused(text) => format!("ktax 1\nstart pipe\nfail {text}\n"),
        Answer::Done(done) => {
            let mut text = "ktax 1\nstart pipe\n".to_owned();
            text.extend(done.signature.iter().map(|(name, n)| format!("sig {name} {n}\n")));
            text.extend(done.values.iter().map(|(name, n)| format!("value {name} {n}\n")));
            text.extend(
                done.uncounted.iter().map(|(name, why)| format!("uncounted {name} {why}\n")),
            );
            text.extend(done.tsc.map(|tsc| format!("tsc {tsc}\n")));
            text + "end\n"
        }
    }
}

fn hello_text(hello: &Hello) -> String {
    let id = hello.build_id.as_ref().map_or(String::new(), |id| format!("build-id {id}\n"));
    format!("ktax 1\nrelease {}\n{id}ready\n", hello.release)
}

/// Nothing is kept on disk: a case that fails is printed whole.
fn config() -> ProptestConfig {
    ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn hellos(wire in damaged(HELLOS)) {
        match parse_hello(&wire) {
            Ok(hello) => prop_assert_eq!(parse_hello(hello_text(&hello).as_bytes()), Ok(hello)),
            Err(error) => prop_assert!(printable(&error.to_string()), "{error:?}"),
        }
    }

    #[test]
    fn answers(wire in damaged(ANSWERS)) {
        match parse_answer(&wire, "pipe") {
            Ok(answer) => {
                let text = answer_text(&answer);
                prop_assert!(text.split('\n').all(printable), "{text:?}");
                prop_assert_eq!(parse_answer(text.as_bytes(), "pipe"), Ok(answer));
            }
            Err(error) => prop_assert!(printable(&error.to_string()), "{error:?}"),
        }
    }

    #[test]
    fn symbol_tables(wire in damaged(TABLES)) {
        match parse_symbols(&wire) {
            Ok(symbols) => {
                let addresses: Vec<&str> = symbols.lines().map(|line| &line[..16]).collect();
                prop_assert!(addresses.windows(2).all(|pair| pair[0] < pair[1]), "{symbols}");
                prop_assert!(symbols.lines().all(printable), "{symbols:?}");
                let lines = symbols.lines().map(|line| line.replacen(' ', " T ", 1) + "\n");
                let table = format!("ktax 1\nstart symbols\n{}end\n", lines.collect::<String>());
                prop_assert_eq!(parse_symbols(table.as_bytes()), Ok(symbols));
            }
            Err(error) => prop_assert!(printable(&error.to_string()), "{error:?}"),
        }
    }

    #[test]
    fn profiles(text in damaged_text(PROFILES)) {
        match profile::parse(&text) {
            Ok(parsed) => {
                let both = |sum: u128, counts: &ktax::model::Counts| {
                    sum + u128::from(counts.executed())
                };
                let lines = parsed.profile.lines.iter().map(|line| &line.counts);
                prop_assert_eq!(lines.fold(0, both), u128::from(parsed.total));
                prop_assert_eq!(parsed.counts().values().fold(0, both), u128::from(parsed.total));
                prop_assert!(parsed.profile.lines.iter().all(|line| printable(&line.function)));
            }
            Err(error) => prop_assert!(printable(&error.to_string()), "{error:?}"),
        }
    }

    #[test]
    fn profiles_of_a_time_that_was_over(text in damaged_text(&[OVER])) {
        if let Err(ProfileError::LimitReached { limit, cpus }) = profile::parse(&text) {
            prop_assert!(cpus.len() <= 32);
            let message = Failure::CountedTime { limit_s: limit, cpus }.to_string();
            prop_assert!(printable(&message), "{message:?}");
        }
    }

    /// A reason shows the line that it is about below it, so it has several lines.
    #[test]
    fn experiments(text in damaged_text(EXPERIMENTS)) {
        match Experiment::parse(&text, "x.toml") {
            Ok(experiment) => match experiment.method {
                ExperimentMethod::Counts(counts) => prop_assert_eq!(counts.check(), Ok(())),
                ExperimentMethod::Times(times) => prop_assert_eq!(times.check(), Ok(())),
                ExperimentMethod::Guests(guests) => prop_assert!(!guests.asked.rows.is_empty()),
            },
            Err(error) => {
                let message = error.to_string();
                let control = |c: char| c.is_control() && c != '\n';
                prop_assert!(!message.contains(control), "{message:?}");
            }
        }
    }

    #[test]
    fn consoles(console in damaged(CONSOLES)) {
        let message = wire::panic_message(&console).unwrap_or_default();
        for text in [escape_bytes(&console), wire::tail(&console), message] {
            prop_assert!(printable(&text), "{text:?}");
            prop_assert_eq!(&escape_bytes(text.as_bytes()), &text, "escaped twice");
        }
    }

    #[test]
    fn text_is_text_in_any_alphabet(text in any::<String>()) {
        prop_assert!(printable(&escape_bytes(text.as_bytes())));
        drop(Experiment::parse(&text, "x.toml"));
        drop(profile::parse(&text));
    }
}

#[test]
fn every_seed_is_valid() {
    assert!(HELLOS.iter().all(|text| parse_hello(text.as_bytes()).is_ok()));
    assert!(ANSWERS.iter().all(|text| parse_answer(text.as_bytes(), "pipe").is_ok()));
    assert!(TABLES.iter().all(|text| parse_symbols(text.as_bytes()).is_ok()));
    assert!(PROFILES.iter().all(|text| profile::parse(text).is_ok()));
    assert!(EXPERIMENTS.iter().all(|text| Experiment::parse(text, "").is_ok()));
    assert!(CONSOLES.iter().all(|text| wire::panic_message(text.as_bytes()).is_some()));
}

#[test]
fn two_messages_in_a_row_are_none() {
    let pairs = |texts: &[&str]| -> Vec<String> {
        let pairs =
            texts.iter().flat_map(|first| texts.iter().map(move |two| format!("{first}{two}")));
        pairs.collect()
    };
    assert!(pairs(HELLOS).iter().all(|text| parse_hello(text.as_bytes()).is_err()));
    assert!(pairs(TABLES).iter().all(|text| parse_symbols(text.as_bytes()).is_err()));
    assert!(pairs(PROFILES).iter().all(|text| profile::parse(text).is_err()));
    for text in pairs(ANSWERS) {
        assert!(parse_answer(text.as_bytes(), "pipe").is_err(), "{text:?}");
    }
}

// A parser's time grows with its input and no faster, whatever the input is made of.

/// Time of the CPU: several times what the largest needs; quadratic time passes it before.
const LIMIT: Duration = Duration::from_secs(30);

/// The largest is four times what a guest may say. The smaller ones fail sooner.
const SIZES: [usize; 3] = [256 << 10, 1 << 20, 4 << 20];

/// That this thread has had: not what others had meanwhile.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// `head`, then `piece` over and over.
fn check(head: &str, piece: &str, parse: impl Fn(&str)) {
    for size in SIZES {
        let text = format!("{head}{}", piece.repeat(size / piece.len()));
        let started = cpu_time();
        parse(&text);
        let took = cpu_time() - started;
        assert!(took < LIMIT, "{head:?} and {piece:?} to {size} bytes: {took:?}");
    }
}

#[test]
fn the_wire() {
    for piece in ["a", " ", "\x1b", "\u{202e}", "sig a 1\n", "fail ", "ktax 1\n"] {
        for head in ["", "ktax 1\n", "ktax 1\nstart pipe\n", "ktax 1\nstart pipe\nfail "] {
            check(head, piece, |text| {
                drop(black_box(wire::parse_answer(text.as_bytes(), "pipe")));
                drop(black_box(wire::parse_hello(text.as_bytes())));
            });
        }
    }
}

#[test]
fn symbols() {
    for piece in
        ["a", "ffffffff81000000 T same\n", "ffffffff81000000 T same\t[module]\n", "1 t a\n"]
    {
        check("ktax 1\nstart symbols\n", piece, |text| {
            drop(black_box(wire::parse_symbols(text.as_bytes())));
        });
        check("ktax 1\nstart symbols\n", piece, |text| {
            drop(black_box(wire::parse_symbols(format!("{text}end\n").as_bytes())));
        });
    }
}

#[test]
fn long_consoles() {
    for piece in ["a", "\x1b", "\n", "Kernel panic - not syncing", "Kernel panic - not syncing: "] {
        check("", piece, |text| {
            black_box(escape_bytes(text.as_bytes()));
            black_box(wire::tail(text.as_bytes()));
            black_box(wire::panic_message(text.as_bytes()));
        });
    }
}

#[test]
fn long_profiles() {
    for piece in [
        "a",
        "\t",
        "\n",
        "fn\t",
        "fn\tprocess\t1\t0\tf\n",
        "split\ta\tb\n",
        "region\t1\n",
        "total\t1\n",
        "limit\t1\nat\t0\twork\tf\n",
    ] {
        for end in ["", "end\n"] {
            check("ktax-profile\t1\n", piece, |text| {
                drop(black_box(profile::parse(&format!("{text}{end}"))));
            });
        }
    }
}

#[test]
fn long_experiments() {
    for (head, piece) in [
        ("", "a"),
        ("", "a."),
        ("", "["),
        ("", "\n"),
        ("title = \"", "\\u0041"),
        ("title = ", "["),
        ("title = ", "{a="),
        ("title = [", "1,"),
        ("workloads = [", "\"pipe\","),
        ("", "[base]\n"),
        ("", "[[a]]\n"),
        ("", "#\x1b\n"),
    ] {
        check(head, piece, |text| drop(black_box(Experiment::parse(text, "x.toml"))));
    }
}

// A load that gets nothing done beside the job is a result; one that has ended is not.

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
        // It has waited for the job, looked, and now polls the load again and again.
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
        // The janitor ends the load, also a stopped one.
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

#[test]
fn a_profile_that_does_not_add_up_is_refused() {
    let text = "ktax-profile\t1\napi\t1\nregion\t1\ntotal\t7\nfn\tprocess\t4\t2\tf\nend\n";
    let error = profile::parse(text).unwrap_err().to_string();
    assert!(error.contains('6') && error.contains('7'), "{error}");
    assert!(profile::parse(&text.replace("\t7", "\t6")).is_ok());
}
