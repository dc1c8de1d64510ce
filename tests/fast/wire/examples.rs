//! The examples in docs/wire.md are what the parsers take and what ktax says.

use std::fs::{self, Permissions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use cpio::newc;
use ktax::engine::{Limits, payload};
use ktax::kvmhost::FREEZE_PROGRAM_PATH;
use ktax::model::{Context, Layout, Modelled, Msr, Signature, UserProgram, Workload};
use ktax::plan::{Definition, ModelKey, definitions, select_rows};
use ktax::program::{ArchiveContents, pack};
use ktax::rundir::profile::{self, ProfileError};
use ktax::wire::{self, Answer, Done, arguments, parse_answer, parse_hello, parse_symbols};
use rustix::process::{Pid, Signal, getuid, kill_process_group};

use crate::common::{Need, require, run, scratch, until};

fn document() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/wire.md")).unwrap()
}

/// Heading and text of every example.
fn examples(document: &str) -> Vec<(String, String)> {
    let (mut found, mut heading, mut open) = (Vec::new(), "", None::<String>);
    for line in document.lines() {
        match (&mut open, line) {
            (None, "```text") => open = Some(String::new()),
            (Some(text), "```") => {
                found.push((heading.to_owned(), std::mem::take(text)));
                open = None;
            }
            (Some(text), line) => *text += &format!("{line}\n"),
            (None, line) => heading = line.strip_prefix("## ").unwrap_or(heading),
        }
    }
    found
}

/// The one example under a heading that begins like this.
fn example(heading: &str) -> String {
    let mut found = examples_under(heading);
    assert_eq!(found.len(), 1, "{heading}");
    found.remove(0)
}

fn examples_under(heading: &str) -> Vec<String> {
    let all_examples = examples(&document()).into_iter();
    all_examples.filter(|(found, _)| found.starts_with(heading)).map(|(_, text)| text).collect()
}

#[test]
fn every_example_belongs_to_a_test() {
    let headings: Vec<String> =
        examples(&document()).iter().map(|(h, _)| h.split(' ').next().unwrap().into()).collect();
    let (answers, profiles) = (["Answer"; 5], ["Profile"; 9]);
    let wanted = [&["Hello", "Order"], &answers[..], &["Programs", "Files"], &profiles].concat();
    assert_eq!(headings, wanted);
}

#[test]
fn functions_are_written_as_the_document_says() {
    let dir = tempfile::tempdir().unwrap();
    let command = vec!["sh".to_owned()];
    let program = UserProgram { name: "p".into(), command, ..UserProgram::default() };
    let contents = ArchiveContents { programs: vec![program], ..ArchiveContents::default() };
    let packed = pack(&contents, dir.path(), 256 << 20, &dir.path().join("cache")).unwrap();
    let written = fs::read_to_string(packed.symbols).unwrap();
    let shape = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let is_hexadecimal = |word: &&&str| u64::from_str_radix(word, 16).is_ok();
        (words[0].to_owned(), words.len(), words[1..].iter().take_while(is_hexadecimal).count())
    };
    let known: Vec<_> = example("Programs").lines().map(shape).collect();
    assert_eq!(known.len(), 3);
    let digits = |(word, words, _): &(String, usize, usize)| (word.clone(), *words);
    let known: Vec<_> = known.iter().map(digits).collect();
    for line in written.lines() {
        assert!(known.contains(&digits(&shape(line))), "{line}");
        assert!(!line.starts_with("text") || shape(line).2 == 3, "{line}");
    }
    assert!(written.lines().any(|line| line.ends_with(" malloc")), "the C library's");
}

#[test]
fn the_hello_is_parsed() {
    // Forty digits would only make the document wider.
    let text = example("Hello").replace("3f6c…40 hex digits…", &"3f6c".repeat(10));
    let hello = parse_hello(text.as_bytes()).unwrap();
    assert_eq!(hello.release, "6.1.0-56-cloud-amd64");
    assert_eq!(hello.build_id, Some("3f6c".repeat(10)));
}

#[test]
fn the_files_of_a_program_are_parsed() {
    let files = wire::parse_files(example("Files").as_bytes(), "program").unwrap().unwrap();
    assert_eq!(files.missing, ["/etc/perl/JSON old.pm"].map(std::path::PathBuf::from));
    assert_eq!((files.executed.len(), files.opened.len(), files.status), (1, 1, 2));
}

#[test]
fn the_order_is_what_ktax_says() {
    let name = "fork-pages:pages=16,ops=20000".to_owned();
    let workload = select_rows(&definitions().unwrap(), Some(&[name])).unwrap().remove(0);
    let layout = Layout { seed: 1, padding: 0, phase: 1_370_000 };
    assert_eq!(wire::order(&workload, &layout), example("Order"));
}

#[test]
fn the_answers_are_parsed() {
    let answers_and_headings = examples(&document());
    let answers = answers_and_headings.iter().filter(|(heading, _)| heading.starts_with("Answer"));
    // The self-test's answer is among those of workloads.
    let row_of = |text: &str| if text.contains("self-test") { "self-test" } else { "fork-pages" };
    let parsed: Vec<Answer> =
        answers.map(|(_, text)| parse_answer(text.as_bytes(), row_of(text)).unwrap()).collect();
    let signature: Signature = [("children".to_owned(), 400), ("failed".to_owned(), 0)].into();
    assert_eq!(
        parsed,
        [
            Answer::Done(Done {
                signature: signature.clone(),
                values: [("page-faults", 12_400), ("context-switches", 803)]
                    .map(|(name, value)| (name.to_owned(), value))
                    .into(),
                tsc: Some(104_857_600),
                ..Done::default()
            }),
            Answer::Done(Done {
                signature,
                values: [("nanoseconds", 30_561_009), ("task-clock-ns", 29_870_117)]
                    .map(|(name, value)| (name.to_owned(), value))
                    .into(),
                uncounted: [("cycles".to_owned(), "this machine has no such counter".to_owned())]
                    .into(),
                tsc: None,
            }),
            Answer::Refused("mmap: Cannot allocate memory".into()),
            Answer::Refused("order: no such workload in this guest".into()),
            Answer::Done(Done {
                signature: [("contended".to_owned(), 34_377), ("counter".to_owned(), 80_000)]
                    .into(),
                ..Done::default()
            }),
        ]
    );
}

#[test]
fn the_profile_adds_up() {
    let profiles = examples_under("Profile");
    let [first, several] = [0, 5].map(|index| profile::parse(&profiles[index]).unwrap());
    assert_eq!((first.profile.lines.len(), first.counts().len(), &first.parallel), (4, 2, &None));
    assert_eq!(several.parallel.unwrap().cpus.len(), 2);
    let called = profiles[0].replace("end\n", &format!("{}end\n", profiles[1]));
    assert_eq!(profile::parse(&called).unwrap().profile.paths.len(), 4);
    let without = called.replace("path\tinterrupt\t0\t212", "path\tinterrupt\t0\t211");
    assert!(
        profile::parse(&without).unwrap_err().to_string().ends_with("to those of its functions")
    );
    let costly = costly_of(&profiles);
    let parsed = profile::parse(&costly).unwrap();
    assert_eq!(parsed.counts()[&Context::Process].group("costly").count(), 2);
    assert_eq!(parsed.profile.msrs[0].msr, Msr(0xc000_0102));
    let fewer = costly.replace("path-costly\t100", "path-costly\t99");
    assert!(profile::parse(&fewer).unwrap_err().to_string().ends_with("to those of its functions"));
    let modelled = profiles[0].replace("end\n", &format!("{}end\n", profiles[3]));
    let counts = profile::parse(&modelled).unwrap().counts();
    assert_eq!(counts[&Context::Process][Modelled::BranchMisses], 3);
    let core2 = ModelKey::Name("core2-extreme".to_owned()).model().unwrap();
    assert_eq!(core2.machine().unwrap().wire().unwrap(), profiles[4]);
    let waited = profiles[5].replace("end\n", &format!("{}end\n", profiles[6]));
    assert!(profile::parse(&waited).is_ok(), "{:?}", profile::parse(&waited));
    let longer = waited.replace("path-wait\t20", "path-wait\t21");
    assert!(profile::parse(&longer).is_err());
    let modelled = profiles[5].replace("end\n", &format!("{}end\n", profiles[7]));
    let modelled = profile::parse(&modelled).unwrap();
    assert_eq!(modelled.parallel.unwrap().transfers, Some(7));
    assert_eq!(modelled.profile.cache_lines.len(), 3);
    let over = profile::parse(&profiles[8]).unwrap_err();
    let ProfileError::LimitReached { limit, cpus } = over else { panic!("{over:?}") };
    assert_eq!((limit, cpus.len()), (Limits::default().instructions(), 3));
}

/// The first profile with its paths, and with costly instructions of its functions and paths.
fn costly_of(profiles: &[String]) -> String {
    let lines = |is_of_path: bool| {
        let lines = profiles[2].lines().filter(move |line| line.starts_with("path") == is_of_path);
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    let tick = "path\tinterrupt\t0\t212\t0\t1\tnative_sched_clock\n";
    let getppid = "path\tprocess\t0\t4200\t0\t100\t__x64_sys_getppid\n";
    let paths = profiles[1]
        .replace(getppid, &lines(true))
        .replace(tick, &format!("{tick}path-costly\t3\tlocked\n"));
    profiles[0].replace("end\n", &format!("{}{paths}end\n", lines(false)))
}

#[test]
fn the_symbol_line_is_what_the_plugin_gets() {
    let document = document();
    let line = document.split("## Symbols").nth(1).unwrap().split('`').nth(1).unwrap();
    let (address, name) = line.split_once(' ').unwrap();
    let wire = format!("ktax 1\nstart symbols\n{address} T {name}\nend\n");
    assert_eq!(parse_symbols(wire.as_bytes()).unwrap(), format!("{line}\n"));
}

#[test]
fn the_limits_are_those_that_are_enforced() {
    let limits = "Limits: 4096 bytes a line, 1 MiB an answer (64 MiB for `symbols`), \
        64 lines of one kind, names `[a-z0-9-]{1,32}`, values unsigned 64-bit decimal";
    assert!(document().replace('\n', " ").contains(limits), "the document says something else");
    let answer = |middle: &str| {
        let text = format!("ktax 1\nstart pipe\n{middle}tsc 1\nend\n");
        parse_answer(text.as_bytes(), "pipe")
    };
    let fail = |bytes: usize| {
        parse_answer(
            format!("ktax 1\nstart pipe\nfail {:x<1$}\n", "", bytes - 5).as_bytes(),
            "pipe",
        )
    };
    assert!(matches!(fail(4096), Ok(Answer::Refused(_))));
    let long = fail(4097).unwrap_err().to_string();
    assert_eq!(long, "line 3 is longer than 4096 bytes");
    let sigs =
        |count: usize| answer(&(0..count).map(|n| format!("sig s{n} 1\n")).collect::<String>());
    assert!(sigs(64).is_ok());
    let many = sigs(65).unwrap_err().to_string();
    assert_eq!(many, "it has more than 64 lines of one kind");
    let named = |name: &str| answer(&format!("sig {name} 1\n"));
    assert!(named(&"x".repeat(32)).is_ok());
    for name in [&*"x".repeat(33), "", "X", "a_b", "ä"] {
        assert!(named(name).is_err(), "{name}");
    }
    let valued = |value: &str| answer(&format!("sig x {value}\n"));
    assert!(valued("18446744073709551615").is_ok());
    for value in ["18446744073709551616", "", "+1", "-1", "0x1", "1.0", " 1"] {
        assert!(valued(value).is_err(), "{value}");
    }
    let limits = ktax::engine::Limits::default();
    assert_eq!((limits.wire_bytes, limits.symbols_bytes), (1 << 20, 64 << 20));
}

// Adding a workload touches two files: an example of one is built into the guest and run.

const PROGRAM: &str = r#"/* SPDX-License-Identifier: MIT */
/* Ask for the process's own number. */
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"

static int op(void)
{
	return syscall(SYS_getpid) <= 0;
}

static void example_run(const struct order *o)
{
	measure(o, 10, op, "calls");
}

WORKLOAD("example", example_run);
"#;

const DEFINITION: &str = r#"
name = "example"
group = "examples"
title = "getpid"
why = "To see that two files are all."
program = "example"
operation = "one getpid call"
ops = 100
signature = { calls = "ops", failed = 0 }
"#;

/// Every C file of the guest but the two that are programs by themselves.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let found = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    // Not of the one program: others for themselves, and those of other machines.
    let is_else = |path: &PathBuf| {
        let others = ["guest/vm", "guest/hosts", "guest/mark", "guest/self-test"];
        path.ends_with("hello.c") || others.iter().any(|folder| path.starts_with(folder))
    };
    found
        .filter(|path| path.extension().is_some_and(|extension| extension == "c") && !is_else(path))
        .collect()
}

#[test]
fn a_workload_is_one_program_and_one_definition() {
    let dir = scratch();
    let (program, guest) = (dir.path().join("example.c"), dir.path().join("guest"));
    fs::write(&program, PROGRAM).unwrap();
    let status = Command::new("cc")
        .args(["-std=gnu11", "-Iguest", "-static", "-O1", "-o"])
        .arg(&guest)
        .args(sources(Path::new("guest")))
        .arg(&program)
        .status();
    assert!(status.unwrap().success());
    let definition: Definition = toml::from_str(DEFINITION).unwrap();
    let workload = definition.rows().unwrap().remove(0);
    let output = Command::new(&guest).args(arguments(&workload)).output().unwrap();
    match parse_answer(&output.stdout, &workload.program) {
        Ok(Answer::Done(done)) => assert_eq!(workload.deviations(&done.signature), [""; 0]),
        other => panic!("{other:?}"),
    }
}

// Workloads that only compute: no refused system call keeps them from a number, so what they answer
// must prove the work itself.

/// These programs, and the entry of each that only counts its loop: it proves nothing. Of the
/// copies `kib` counts what arrived, of mem-read there is nothing but the sum.
pub const COMPUTES: [(&str, &str); 7] = [
    ("bcopy-hand", ""),
    ("bcopy-libc", ""),
    ("connect4", "solved"),
    ("fp-stream", "frames"),
    ("hashes", "rounds"),
    ("mem-read", ""),
    ("mem-write", "kib"),
];

pub fn only_computes(program: &str) -> bool {
    COMPUTES.iter().any(|(name, _)| *name == program)
}

/// All rows but the one that takes a minute.
fn rows() -> Vec<Workload> {
    let is_wanted = |definition: &Definition| {
        only_computes(&definition.program) && definition.name != "connect4-long"
    };
    let wanted = definitions().unwrap().into_iter().filter(is_wanted);
    wanted.flat_map(|definition| definition.rows().unwrap()).collect()
}

fn answer(workload: &Workload) -> (Vec<u8>, Done) {
    let wire = run_workload(workload).stdout;
    match parse_answer(&wire, &workload.program) {
        Ok(Answer::Done(done)) => (wire, done),
        other => panic!("{}: {other:?}", workload.row),
    }
}

/// Whether the answer is taken for this row's.
fn is_a_number(workload: &Workload, wire: &[u8]) -> bool {
    match parse_answer(wire, &workload.program) {
        Ok(Answer::Done(done)) => workload.deviations(&done.signature).is_empty(),
        Ok(Answer::Refused(_)) | Err(_) => false,
    }
}

/// Another order for the same program: one operation more, or of one search another position.
fn other_work(workload: &Workload) -> Workload {
    let mut other = workload.clone();
    match other.params.get_mut("position") {
        Some(position) if *position == 45461667 => *position = 124315432644,
        Some(position) => *position = 45461667,
        None => other.ops += 1,
    }
    other
}

#[test]
fn the_result_of_other_work_is_no_number_whatever_its_loop_says() {
    let rows = rows();
    assert!(rows.len() >= 10, "{}", rows.len());
    for workload in rows {
        let (_, count) = COMPUTES.iter().find(|(name, _)| *name == workload.program).unwrap();
        let (_, mut done) = answer(&other_work(&workload));
        if let Some(number) = done.signature.get_mut(*count) {
            *number = workload.signature[*count];
        }
        let deviations = workload.deviations(&done.signature);
        assert!(!deviations.is_empty(), "{}: {:?} is a number", workload.row, done.signature);
    }
}

#[test]
fn a_result_that_is_cut_or_altered_is_no_number() {
    for workload in rows() {
        let (answered, _) = answer(&workload);
        assert!(is_a_number(&workload, &answered), "{}", workload.row);
        for length in 0..answered.len() - 1 {
            assert!(!is_a_number(&workload, &answered[..length]), "{}: {length}", workload.row);
        }
        let text = String::from_utf8(answered).unwrap();
        for name in workload.signature.keys() {
            let value = workload.signature[name];
            let line = format!("sig {name} {value}\n");
            assert!(text.contains(&line), "{}: {text}", workload.row);
            // Each bit of a number that a program can print.
            for bit in 0..63 {
                let altered = text.replace(&line, &format!("sig {name} {}\n", value ^ 1 << bit));
                assert!(!is_a_number(&workload, altered.as_bytes()), "{altered}");
            }
        }
    }
}

// The guest programs that the build put into ktax, as files that can be run here.

/// The directory with `init` and `hello`, from the very archive that guests boot.
pub fn programs() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guest");
        fs::create_dir_all(&dir).unwrap();
        let cache = scratch();
        let payload = payload::install(cache.path()).unwrap();
        let archive = fs::read(payload.initrd).unwrap();
        for (name, program) in [("init", "init"), ("bin/hello", "hello")] {
            put(&dir.join(program), &extract(&archive, name));
        }
        dir
    })
}

fn extract(mut archive: &[u8], name: &str) -> Vec<u8> {
    loop {
        let mut reader = newc::Reader::new(archive).unwrap();
        assert!(!reader.entry().is_trailer(), "no {name} in the initramfs");
        if reader.entry().name() == name {
            let mut content = Vec::new();
            reader.read_to_end(&mut content).unwrap();
            return content;
        }
        archive = reader.finish().unwrap();
    }
}

/// Writes atomically: another test process may be running the existing program.
fn put(path: &Path, content: &[u8]) {
    if fs::read(path).is_ok_and(|found| found == content) {
        return;
    }
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap()).unwrap();
    file.write_all(content).unwrap();
    file.as_file().set_permissions(Permissions::from_mode(0o755)).unwrap();
    file.into_temp_path().persist(path).unwrap();
}

/// The guest as a plain process, in a process group of its own.
pub fn guest() -> Command {
    let mut command = Command::new(programs().join("init"));
    command.env("KTAX_HELLO", programs().join("hello")).process_group(0).stdin(Stdio::null());
    command
}

/// Runs a workload in an empty directory, and looks at what it leaves there and among the
/// processes.
pub fn run_workload(workload: &Workload) -> Output {
    let (dir, temporary) = (scratch(), scratch());
    let mut files = [tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap()];
    let mut command = guest();
    command.args(arguments(workload)).current_dir(dir.path());
    command.env("TMPDIR", temporary.path());
    // Files: the end of a pipe would only come when every process that is left is gone.
    let [stdout, stderr] = files.each_ref().map(|file| file.try_clone().unwrap());
    let mut child = command.stdout(stdout).stderr(stderr).spawn().unwrap();
    let (group, status) = (Pid::from_child(&child), child.wait().unwrap());
    if !group_members(group).is_empty() {
        kill_process_group(group, Signal::KILL).unwrap();
        panic!("{}: processes are left", workload.row);
    }
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
    assert!(left.is_empty(), "{}: {left:?}", workload.row);
    assert_goes(temporary.path());
    let [stdout, stderr] = files.each_mut().map(|file| {
        let mut content = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut content).unwrap();
        content
    });
    Output { status, stdout, stderr }
}

/// A workload's directory is gone, or goes soon: its janitor may still be at it.
pub fn assert_goes(temporary: &Path) {
    until("the directory goes", || fs::read_dir(temporary).unwrap().next().is_none());
}

/// The processes of a group: field 5 of stat, behind the name in parentheses.
pub fn group_members(group: Pid) -> Vec<u32> {
    let group = group.as_raw_nonzero().to_string();
    let of_group = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        fields.split(' ').nth(2) == Some(&group)
    };
    let names = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).filter(of_group).collect()
}

// A KVM host waits until its kernel is idle before it is frozen, and names who never is.

/// Output of the host's program after this shell command, in a PID namespace of its own: it has no
/// other tasks, and none outlives it.
fn quiet_after(shell: &str) -> Option<String> {
    let unshared = if getuid().is_root() { "-pf" } else { "-rpf" };
    let within = |script: &str| {
        let mut command = Command::new("unshare");
        command.args([unshared, "--mount-proc", "sh", "-c", script, FREEZE_PROGRAM_PATH]);
        run(&mut command)
    };
    let can = within("true").status == 0;
    if !require(Need::Namespaces, can, "this user cannot make a PID namespace") {
        return None;
    }
    let ran = within(&format!("{shell} exec \"$0\" quiet"));
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{ran:?}");
    Some(ran.stdout)
}

#[test]
fn a_host_that_is_never_idle_names_who_runs() {
    let Some(busy) = quiet_after("while :; do :; done &") else { return };
    assert_eq!(busy, "sh\n");
}

// If many threads and processes fail at once, exactly one reason is reported.

#[test]
fn one_of_many_that_fail_at_once_is_heard() {
    for counts in ["threads=16 processes=0", "threads=0 processes=16", "threads=4 processes=4"] {
        for _ in 0..40 {
            let mut command = guest();
            command.args(["bad-together", "ops=1"]).args(counts.split(' '));
            let output = command.stdout(Stdio::piped()).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            match parse_answer(&output.stdout, "bad-together") {
                Ok(Answer::Refused(why)) => {
                    assert_eq!(why, "together: not the result it must have", "{counts}: {text}");
                }
                other => panic!("{counts}: {other:?}\n{text}"),
            }
        }
    }
}
