//! The usual KVM host, Linux on an emulated AMD processor, and its Linux and raw guests: makes the
//! commands that record a guest, and parses their output.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use super::init::{self, CommandOutput, HostArchive, HostFile, HostOrder, store_archive};
use super::{
    FrozenHost, GuestEngine, GuestResult, HostKernel, KvmHost, ReadyHost, boot_line, prepare_error,
};
use ktax_engine::payload;
use ktax_engine::qemu::Qemu;
use ktax_engine::wire::{self, Answer, arguments, parse_answer};
use ktax_engine::{Cancel, Limits, Stop};
use ktax_host::disk::unpack;
use ktax_model::{
    ExitRun, ExitTable, Failure, GuestRow, GuestSubject, GuestWork, Layout, Result, SavedResult,
    Side, Signature, Workload, read_results,
};

/// Inputs of [`X86Guests`].
#[derive(Debug, Clone)]
pub struct X86Setup {
    pub qemu: Qemu,
    /// The ktax that records in the host, usually [`THIS_PROGRAM`](super::THIS_PROGRAM). It must
    /// be linked statically.
    pub ktax: PathBuf,
    pub host: HostKernel,
    pub base: X86Guest,
    /// `None` if the experiment has only a base: then programs also run in the host itself.
    pub change: Option<X86Guest>,
    pub rows: Vec<GuestRow>,
    pub limits: Limits,
    pub cancel: Cancel,
    /// ktax's cache directory.
    pub cache: PathBuf,
}

/// A guest, with the bzImage of its kernel.
#[derive(Debug, Clone)]
pub struct X86Guest {
    pub image: PathBuf,
    pub subject: GuestSubject,
}

/// [`GuestEngine`] of the usual host.
#[derive(Debug)]
pub struct X86Guests {
    setup: X86Setup,
    /// Initramfs of base's host, then of change's host.
    initrds: [HostArchive; 2],
    scratch: PathBuf,
}

impl X86Guests {
    pub fn new(setup: X86Setup) -> Result<X86Guests> {
        let host_file = |name: &str, content| HostFile { name: name.to_owned(), content };
        let programs =
            [("init", &**INIT), ("ktax-guest", &**payload::GUEST), ("ktax-hello", payload::HELLO)];
        let guest_initrd = payload::pack_initramfs(["dev", "proc", "sys", "tmp"], programs);
        let guest_initrd =
            guest_initrd.map_err(prepare_error(Path::new("the guest's initramfs")))?;
        let initrd = |guest: &X86Guest| {
            let files = [
                host_file("kernel", fs::read(&guest.image).map_err(prepare_error(&guest.image))?),
                host_file("initrd", guest_initrd.clone()),
                host_file("ktax-guest", payload::GUEST.to_vec()),
            ];
            let archive = init::build_initramfs(&setup.ktax, &setup.host.modules, None, &files)?;
            store_archive(&setup.cache, &archive)
        };
        let base = initrd(&setup.base)?;
        let change = setup.change.as_ref().map(initrd).transpose()?.unwrap_or_else(|| base.clone());
        let scratch = setup.cache.join("runs");
        Ok(X86Guests { setup, initrds: [base, change], scratch })
    }

    fn initrd(&self, side: Side) -> &Path {
        &self.initrds[usize::from(side == Side::Change)].path
    }

    fn host<'a>(&'a self, layout: &'a Layout) -> KvmHost<'a> {
        let X86Setup { qemu, host: kernel, limits, cancel, .. } = &self.setup;
        KvmHost { qemu, kernel, is_exact: true, layout, limits, cancel, scratch: &self.scratch }
    }
}

impl GuestEngine for X86Guests {
    fn script(&self, side: Side, layout: &Layout) -> String {
        self.host(layout).script(self.initrd(side))
    }

    fn boot(&self, side: Side, layout: &Layout) -> Result<Box<dyn ReadyHost + '_>, Stop> {
        let frozen = FrozenHost::boot(&self.host(layout), self.initrd(side))?;
        Ok(Box::new(X86Ready { engine: self, side, layout: layout.clone(), frozen }))
    }
}

/// The frozen host of a Side and Layout.
struct X86Ready<'a> {
    engine: &'a X86Guests,
    side: Side,
    layout: Layout,
    frozen: FrozenHost,
}

impl X86Ready<'_> {
    fn make_order(&self, row: usize) -> HostOrder {
        let X86Setup { base, change, rows, .. } = &self.engine.setup;
        let guest = change.as_ref().filter(|_| self.side == Side::Change).unwrap_or(base);
        let commands = row_commands(guest, &rows[row].work, change.is_none(), &self.layout);
        HostOrder { phase: self.layout.phase, commands }
    }
}

impl ReadyHost for X86Ready<'_> {
    fn console(&self) -> Option<Vec<u8>> {
        Some(self.frozen.console.clone())
    }

    fn busy(&self) -> Vec<String> {
        self.frozen.busy.clone()
    }

    fn order(&self, row: usize) -> String {
        String::from_utf8_lossy(&self.make_order(row).to_json()).into_owned()
    }

    fn run(&self, row: usize) -> Result<GuestResult, Stop> {
        let (host, initrd) = (self.engine.host(&self.layout), self.engine.initrd(self.side));
        let (outputs, console) = self.frozen.run(&host, initrd, &self.make_order(row))?;
        let mut result = parse_result(&self.engine.setup.rows[row], &outputs)?;
        result.console.splice(0..0, console);
        Ok(result)
    }
}

/// First process of the guest, which runs one program between two marks and powers off.
static INIT: LazyLock<Vec<u8>> = LazyLock::new(|| unpack(include_bytes!(env!("KTAX_VM_INIT_Z"))));

/// File of the host with the recording.
const TABLE: &str = "/tmp/table.json";

/// Returns the host's commands for a row: record the guest, print the table, and with
/// `runs_natively` run the program in the host itself.
fn row_commands(
    guest: &X86Guest,
    work: &GuestWork,
    runs_natively: bool,
    layout: &Layout,
) -> Vec<Vec<String>> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let record = words(&["/ktax", "exits", "record", "--level", "exits", "--out", TABLE]);
    let vmm = |form: &str| words(&["--", "/ktax", "vmm", form]);
    let report = words(&["/ktax", "exits", "report", TABLE, "--json"]);
    match work {
        GuestWork::Boot => {
            vec![[record, vmm("linux"), linux_guest_args(guest, layout, &[])].concat(), report]
        }
        GuestWork::Raw { kind, count } => {
            let raw = vec![format!("--{kind}"), count.to_string()];
            vec![[record, vmm("raw"), raw].concat(), report]
        }
        GuestWork::Program(workload) => {
            let arguments = arguments(workload);
            let linux = linux_guest_args(guest, layout, &arguments);
            let (stop_at_marks, from_stop) = (words(&["--stop-at-marks"]), words(&["--from-stop"]));
            let record = [record, from_stop, vmm("linux"), stop_at_marks, linux].concat();
            let native = runs_natively.then(|| [words(&["/files/ktax-guest"]), arguments].concat());
            [record, report].into_iter().chain(native).collect()
        }
    }
}

fn linux_guest_args(guest: &X86Guest, layout: &Layout, arguments: &[String]) -> Vec<String> {
    let X86Guest {
        subject: GuestSubject { kernel, hidden_features: without, cpus, memory_mib },
        ..
    } = guest;
    let parameters = "console=ttyS0 quiet panic=-1 nokaslr norandmaps";
    let more = kernel.as_ref().map_or("", |kernel| &kernel.boot_line);
    let mut line = vec![boot_line(parameters, layout, &[more, "--"])];
    // The guest executes the phase before the first mark, so it shifts the recording without being
    // part of it.
    line.extend((layout.phase > 0).then(|| format!("phase={}", layout.phase)));
    line.push("run".into());
    line.extend_from_slice(arguments);
    let line = line.join(" ");
    let (cpus, memory_mib) = (cpus.to_string(), memory_mib.to_string());
    let fixed = ["--kernel", "/files/kernel", "--initrd", "/files/initrd", "--append", &line]
        .into_iter()
        .chain(["--cpus", &cpus, "--memory-mib", &memory_mib]);
    let without = without.iter().flat_map(|name| ["--without", name]);
    fixed.chain(without).map(str::to_owned).collect()
}

/// Parses the outputs of a row's commands.
fn parse_result(row: &GuestRow, outputs: &[CommandOutput]) -> Result<GuestResult, Stop> {
    let [recorded, reported, native @ ..] = outputs else {
        let reason = "it has fewer outputs than commands".into();
        return Err(Failure::Garbled { reason }.into());
    };
    // A guest that panics powers off, so the recording itself succeeds.
    if recorded.status != 0 || wire::panic_message(&recorded.stdout).is_some() {
        let message = |tail| format!("the recording failed: {tail}");
        return Err(failed_row(recorded, |tail| Failure::Refused { message: message(tail) }));
    }
    let table = parse_tables(&reported.stdout).and_then(|tables| tables.into_iter().next());
    let no_table = || {
        failed_row(reported, |tail| Failure::Garbled {
            reason: format!("there is no table: {tail}"),
        })
    };
    let table = table.ok_or_else(no_table)?;
    let mut run = ExitRun { row: row.row.clone(), table, guest_ns: None, native_ns: None };
    let mut signature = Signature::new();
    if let GuestWork::Program(workload) = &row.work {
        let (guest_ns, guest_signature) = parse_region(recorded, workload)?;
        (run.guest_ns, signature) = (Some(guest_ns), guest_signature);
        let native = native.first().map(|output| parse_region(output, workload)).transpose()?;
        run.native_ns = native.map(|(ns, _)| ns);
    }
    Ok(GuestResult { run, signature, console: full_output(recorded) })
}

/// Parses the output of `ktax exits report --json`; `None` if it has no exit tables.
fn parse_tables(stdout: &[u8]) -> Option<Vec<ExitTable>> {
    let saved = read_results(std::str::from_utf8(stdout).ok()?).ok()?.pop()?;
    match saved.result {
        SavedResult::Exits(tables) => Some(tables),
        _ => None,
    }
}

/// Makes the failure of a row from a command's output. If the guest's kernel panicked, that is the
/// failure.
fn failed_row(output: &CommandOutput, failure: impl FnOnce(String) -> Failure) -> Stop {
    let console = full_output(output);
    let failure = match wire::panic_message(&console) {
        Some(message) => Failure::Panic { message },
        None => failure(wire::tail(&console)),
    };
    Stop::Failed(failure, console)
}

/// Returns a command's stdout, which has the guest's console, and its stderr.
fn full_output(output: &CommandOutput) -> Vec<u8> {
    [&output.stdout[..], &output.stderr].concat()
}

/// Parses the program's answer: the time of its Region, ns, and its signature.
fn parse_region(output: &CommandOutput, workload: &Workload) -> Result<(u64, Signature), Stop> {
    let Some(text) = extract_answer(&output.stdout) else {
        return Err(failed_row(output, |console| Failure::NoAnswer { console }));
    };
    let garbled = |reason: String| failed_row(output, |_| Failure::Garbled { reason });
    match parse_answer(text.as_bytes(), &workload.program) {
        Ok(Answer::Done(done)) => {
            let time = done.values.get("nanoseconds").copied();
            let time = time.ok_or_else(|| garbled("it has no value `nanoseconds`".into()))?;
            let deviations = workload.deviations(&done.signature).join("; ");
            if !deviations.is_empty() {
                return Err(failed_row(output, |_| Failure::WrongWork { deviations }));
            }
            Ok((time, done.signature))
        }
        Ok(Answer::Refused(message)) => Err(failed_row(output, |_| Failure::Refused { message })),
        Err(error) => Err(garbled(error.to_string())),
    }
}

/// Extracts a program's answer from a console: the lines from its header to its last line. `None`
/// without a header.
fn extract_answer(console: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(console).replace('\r', "");
    let (_, answer) = text.split_once("ktax 1\n")?;
    let is_last = |line: &&str| *line == "end" || line.starts_with("fail ");
    let lines = answer.lines().take_while(|line| !is_last(line));
    let last = answer.lines().find(is_last);
    let mut extracted = String::from("ktax 1\n");
    lines.chain(last).for_each(|line| extracted += &format!("{line}\n"));
    Some(extracted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_model::{Region, Saved, Subject};

    const PLAIN: Layout = Layout { seed: 1, padding: 0, phase: 0 };

    fn guest() -> X86Guest {
        let kernel = Some(Subject::new("/k", "mitigations=off"));
        let without = vec!["kvmclock".into()];
        let subject = GuestSubject { kernel, hidden_features: without, cpus: 2, memory_mib: 128 };
        X86Guest { image: "/k".into(), subject }
    }

    fn program() -> GuestWork {
        let workload = Workload {
            row: "getppid".into(),
            title: String::new(),
            operation: String::new(),
            program: "getppid".into(),
            ops: 9,
            region: Region::Marked,
            params: [("size".to_owned(), 4)].into(),
            memory_bytes: 0,
            signature: [("calls".to_owned(), 9)].into(),
            numbers: Default::default(),
        };
        GuestWork::Program(workload)
    }

    fn row(row: &str, work: GuestWork) -> GuestRow {
        GuestRow { row: row.to_owned(), work }
    }

    fn printed(stdout: &str) -> CommandOutput {
        CommandOutput { status: 0, stdout: stdout.into(), stderr: Vec::new() }
    }

    /// Returns the output of `ktax exits report --json` for an empty table.
    fn table() -> CommandOutput {
        let table = ExitTable { source: "a test".into(), ..ExitTable::default() };
        printed(&serde_json::to_string(&Saved::from(SavedResult::Exits(vec![table]))).unwrap())
    }

    const ANSWER: &str = "ktax 1\nstart getppid\nsig calls 9\nvalue nanoseconds 70\nend\n";

    #[test]
    fn the_layout_is_on_the_guests_boot_line() {
        let line = |work: &GuestWork, layout| {
            let record = row_commands(&guest(), work, false, layout).remove(0);
            let flag = record.iter().position(|word| word == "--append").unwrap();
            record[flag + 1].clone()
        };
        let moved = Layout { seed: 1, padding: 2, phase: 30 };
        let own = "console=ttyS0 quiet panic=-1 nokaslr norandmaps";
        let run = "run getppid ops=9 size=4";
        let task = program();
        assert_eq!(line(&task, &PLAIN), format!("{own} mitigations=off -- {run}"));
        let padded = format!("{own} ktax.pad=xx mitigations=off -- phase=30");
        assert_eq!(line(&task, &moved), format!("{padded} {run}"));
        assert_eq!(line(&GuestWork::Boot, &moved), format!("{padded} run"));
    }

    #[test]
    fn a_program_is_timed_in_the_guest_and_natively() {
        let console = format!("\r\n{}\nktax: recorded\n", ANSWER.replace('\n', "\r\n"));
        let native = printed(&ANSWER.replace("70", "60"));
        let answers = [printed(&console), table(), native];
        let recorded = parse_result(&row("getppid", program()), &answers).unwrap();
        assert_eq!((recorded.run.guest_ns, recorded.run.native_ns), (Some(70), Some(60)));
        assert_eq!(recorded.signature, [("calls".to_owned(), 9)].into());
        let raw = GuestWork::Raw { kind: "out".into(), count: 3 };
        let recorded = parse_result(&row("raw:out=3", raw), &answers[1..]).unwrap_err();
        assert!(matches!(recorded, Stop::Failed(Failure::Garbled { .. }, _)), "{recorded:?}");
    }

    #[test]
    fn every_failure_is_a_failed_row() {
        let row = row("getppid", program());
        let failure = |first: CommandOutput, second: CommandOutput| match parse_result(
            &row,
            &[first, second],
        )
        .unwrap_err()
        {
            Stop::Failed(failure, console) => (failure, console),
            Stop::Cancelled => panic!("nobody cancelled"),
        };
        let failed_recording =
            CommandOutput { status: 1, stdout: b"booting".to_vec(), stderr: b"no BTF".to_vec() };
        let (refused, console) = failure(failed_recording, table());
        let message = "the recording failed: bootingno BTF".to_owned();
        assert_eq!((refused, &console[..]), (Failure::Refused { message }, &b"bootingno BTF"[..]));
        let panicked = printed("Kernel panic - not syncing: no init\r\n");
        let message = "no init".to_owned();
        assert_eq!(failure(panicked, table()).0, Failure::Panic { message });
        assert!(matches!(failure(printed(ANSWER), printed("[]")).0, Failure::Garbled { .. }));
        assert!(matches!(failure(printed("ready\n"), table()).0, Failure::NoAnswer { .. }));
        let cut_answer = ANSWER.split_once("value").unwrap().0;
        assert!(matches!(failure(printed(cut_answer), table()).0, Failure::Garbled { .. }));
        let refusal = printed("ktax 1\nstart getppid\nfail no /proc\n");
        let message = "no /proc".to_owned();
        assert_eq!(failure(refusal, table()).0, Failure::Refused { message });
        let wrong_work = failure(printed(&ANSWER.replace("calls 9", "calls 8")), table()).0;
        assert_eq!(wrong_work, Failure::WrongWork { deviations: "calls 8, expected 9".into() });
    }
}
