//! Guests of a host, recorded while they do something; and the same without a guest.

use std::fs;
use std::path::PathBuf;

use super::error::HostError;
use super::frame::Said;
use super::given::Given;
use super::host::{Host, run};
use crate::engine::initramfs::{DIRECTORY, PROGRAM, append, append_console, end};
use crate::engine::payload;
use crate::model::{ExitRun, ExitTable, Workload};
use crate::wire::{Answer, arguments, parse_answer};

/// Runs one program between two marks, and goes off.
const INIT: &[u8] = include_bytes!(env!("KTAX_VM_INIT"));

/// A guest's machine.
#[derive(Debug)]
pub struct Guest {
    /// A bzImage.
    pub kernel: PathBuf,
    pub boot_line: String,
    /// Features of KVM that it does not see.
    pub without: Vec<String>,
    pub cpus: u8,
    pub memory_mib: u32,
}

/// What is recorded.
#[derive(Debug, Clone)]
pub enum Task {
    /// Boot to init, and off.
    Boot,
    /// No kernel: one kind of exit, so often.
    Raw { kind: String, count: u32 },
    /// A program of the guest's; natively too, if it is asked for.
    Program { workload: Workload, native: bool },
}

/// Does each task in a guest of its own, on a host of its own: none sees what another left.
///
/// # Errors
/// Where one of them has no table.
pub fn record(
    host: &Host<'_>,
    guest: &Guest,
    tasks: &[(String, Task)],
) -> Result<Vec<ExitRun>, HostError> {
    let broken = |error| HostError::File { path: "the guest's files".into(), error };
    let given = |name: &str, content| Given { name: name.to_owned(), content };
    let files = [
        given("kernel", fs::read(&guest.kernel).map_err(broken)?),
        given("initrd", archive().map_err(broken)?),
        given("ktax-guest", payload::GUEST.to_vec()),
    ];
    let one = |(row, task): &(String, Task)| {
        let said = run(host, &commands(guest, task), &files)?;
        outcome(row, task, &said)
    };
    tasks.iter().map(one).collect()
}

/// All that is in a guest.
fn archive() -> std::io::Result<Vec<u8>> {
    let mut archive = Vec::new();
    for name in ["dev", "proc", "sys", "tmp"] {
        append(&mut archive, name, DIRECTORY, &[])?;
    }
    append_console(&mut archive)?;
    for (name, content) in
        [("init", INIT), ("ktax-guest", payload::GUEST), ("ktax-hello", payload::HELLO)]
    {
        append(&mut archive, name, PROGRAM, content)?;
    }
    end(archive)
}

const TABLE: &str = "/tmp/table.json";

/// Record, print the table, and where it is asked for the same program without a guest.
fn commands(guest: &Guest, task: &Task) -> Vec<Vec<String>> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let record = words(&["/ktax", "exits", "record", "--level", "exits", "--out", TABLE]);
    let vmm = |form: &str| words(&["--", "/ktax", "vmm", form]);
    let report = words(&["/ktax", "exits", "report", TABLE, "--json"]);
    match task {
        Task::Boot => vec![[record, vmm("linux"), linux(guest, &[])].concat(), report],
        Task::Raw { kind, count } => {
            let raw = vec![format!("--{kind}"), count.to_string()];
            vec![[record, vmm("raw"), raw].concat(), report]
        }
        Task::Program { workload, native } => {
            let arguments = arguments(workload);
            let linux = linux(guest, &arguments);
            let marked = words(&["--stop-at-marks"]);
            let from = words(&["--from-stop"]);
            let record = [record, from, vmm("linux"), marked, linux].concat();
            let native = native.then(|| [words(&["/files/ktax-guest"]), arguments].concat());
            [record, report].into_iter().chain(native).collect()
        }
    }
}

fn linux(guest: &Guest, arguments: &[String]) -> Vec<String> {
    let own = "console=ttyS0 quiet panic=-1 nokaslr norandmaps";
    let line = format!("{own} {} -- run {}", guest.boot_line, arguments.join(" "));
    let mut words: Vec<String> =
        ["--kernel", "/files/kernel", "--initrd", "/files/initrd"].map(str::to_owned).to_vec();
    words.extend(["--append".into(), line]);
    words.extend(["--cpus".into(), guest.cpus.to_string()]);
    words.extend(["--memory-mib".into(), guest.memory_mib.to_string()]);
    words.extend(guest.without.iter().flat_map(|name| ["--without".into(), name.clone()]));
    words
}

fn outcome(row: &str, task: &Task, said: &[Said]) -> Result<ExitRun, HostError> {
    let failed = |what: &str, said: &Said| HostError::Guest {
        row: row.to_owned(),
        what: what.to_owned(),
        said: crate::wire::tail(&[&said.stdout[..], &said.stderr].concat()),
    };
    let [recorded, reported, native @ ..] = said else {
        return Err(HostError::Unusable { reason: format!("{row} was not recorded") });
    };
    if recorded.status != 0 {
        return Err(failed("its recording failed", recorded));
    }
    let tables: Result<Vec<ExitTable>, _> = serde_json::from_slice(&reported.stdout);
    let table = tables.ok().and_then(|tables| tables.into_iter().next());
    let table = table.ok_or_else(|| failed("it has no table", reported))?;
    let Task::Program { workload, .. } = task else {
        return Ok(ExitRun { row: row.to_owned(), table, guest_ns: None, native_ns: None });
    };
    let ns = |said: &Said| {
        nanoseconds(&said.stdout, workload)
            .map_err(|why| failed(&format!("its program failed ({why})"), said))
    };
    let (guest_ns, native_ns) = (Some(ns(recorded)?), native.first().map(ns).transpose()?);
    Ok(ExitRun { row: row.to_owned(), table, guest_ns, native_ns })
}

/// What a program says of its Region, among what else is on a console; or why it does not.
fn nanoseconds(console: &[u8], workload: &Workload) -> Result<u64, String> {
    let text = String::from_utf8_lossy(console).replace('\r', "");
    let answer = text.split_once("ktax 1\n").map(|(_, answer)| answer);
    let answer = answer.ok_or("it said nothing")?;
    // A last line without its end, and what the monitor prints, are not the program's.
    let lines = answer.lines().take_while(|line| *line != "end" && !line.starts_with("fail "));
    let last = answer.lines().find(|line| *line == "end" || line.starts_with("fail "));
    let mut whole = String::from("ktax 1\n");
    lines.chain(last).for_each(|line| whole += &format!("{line}\n"));
    match parse_answer(whole.as_bytes(), &workload.program).map_err(|error| error.to_string())? {
        Answer::Done(done) => {
            done.values.get("nanoseconds").copied().ok_or_else(|| "it took no time".into())
        }
        Answer::Refused(why) => Err(why),
    }
}
