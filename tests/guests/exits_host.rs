//! `ktax exits record` within a KVM host in QEMU, where KVM says why the processor left the guest.
//! Every test is a boot; the exact ones count instructions instead of nanoseconds.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ktax::engine::qemu::Qemu;
use ktax::engine::{Cancel, Limits, Stop};
use ktax::kernel::{Kernel, Talk, modules, obtain};
use ktax::kvmhost::{
    GuestEngine, GuestResult, HostKernel, KVM_MODULES, X86Guest, X86Guests, X86Setup,
};
use ktax::model::{
    ExitTable, Failure, GuestRow, GuestSubject, GuestWork, Layout, Side, Subject, Verdict,
};
use ktax::plan::{definitions, select_rows};
use serde_json::Value;

use crate::common::kvm::{LINE, assert_whole, count, initrd, initrd_of, kernel, kvm_host};
use crate::common::{KERNEL, Ran, cache, ktax, link_shared, printed, run, scratch};

const GUEST: [&str; 8] = ["--out", "2000", "--mmio", "2000", "--cpuid", "2000", "--hlt", "1000"];

/// Records a raw guest in a host; the table, and the VMM's own account.
fn record(host: &[&str], options: &[&str], guest: &[&str]) -> (ExitTable, Value) {
    let record = ["/ktax", "exits", "record", "--json"];
    let vmm = ["--", "/ktax", "vmm", "raw"];
    let ran = kvm_host(host, &[&record, options, &vmm, guest].concat());
    (table(&ran), serde_json::from_str(ran.stderr.lines().last().unwrap()).unwrap())
}

fn table(ran: &Ran) -> ExitTable {
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    printed::exits(&ran.stdout).into_iter().next().unwrap()
}

#[test]
fn every_exit_is_counted_by_its_reason_both_ways() {
    for via in ["bpf", "perf"] {
        let (table, _) = record(&[], &["--level", "exits", "--via", via], &GUEST);
        let counts = ["io", "cpuid", "hlt"].map(|reason| count(&table, reason));
        assert_eq!(counts, [2000, 2000, 1000], "{via}: {table:?}");
        // Beside the 2000 writes to where no memory is, the guest's own pages, once each.
        assert!((2000..2010).contains(&count(&table, "npf")), "{via}: {table:?}");
        assert_whole(&table);
        let cost = table.account.as_ref().unwrap().recorder.as_ref();
        assert_eq!(cost.is_some_and(|cost| cost.exit_ns > 0), via == "bpf", "{table:?}");
        let halted = table.row("hlt").unwrap().parts.as_ref().unwrap();
        assert!(halted.user_ns > 0, "{table:?}");
    }
}

#[test]
fn in_an_exact_host_all_of_the_vcpus_time_is_in_the_table() {
    let (table, account) = record(&["--exact"], &[], &GUEST);
    assert_whole(&table);
    let wall_ns = account["vcpus"][0]["wall_ns"].as_u64().unwrap() as f64;
    let missing = 1.0 - table.sum_ns() as f64 / wall_ns;
    assert!((0.0..0.01).contains(&missing), "{missing} of {wall_ns} ns");
    // One kind less is less by exactly its number.
    let without = ["--out", "2000", "--cpuid", "2000", "--hlt", "1000"];
    let (without, _) = record(&["--exact"], &[], &without);
    assert_eq!(count(&table, "npf") - count(&without, "npf"), 2000);
    assert_eq!(count(&table, "io"), count(&without, "io"));
}

#[test]
fn what_kvm_handles_in_the_kernel_is_counted_and_never_gets_to_the_vmm() {
    let guest = ["--rdmsr", "300", "--wrmsr", "200", "--fault", "2000", "--pic", "600"];
    let (table, account) = record(&["--exact"], &[], &guest);
    assert_whole(&table);
    assert_eq!(["msr", "io"].map(|reason| count(&table, reason)), [500, 600], "{table:?}");
    // The guest's code and page tables are some more pages.
    assert!((2000..2010).contains(&count(&table, "npf")), "{table:?}");
    // The last OUT is the guest's end.
    assert_eq!(account["vcpus"][0]["exits"].to_string(), r#"{"KVM_EXIT_IO":1}"#);
    for reason in ["msr", "io", "npf"] {
        let parts = table.row(reason).unwrap().parts.as_ref().unwrap();
        assert!(parts.user_ns == 0 && parts.kernel_ns > 0, "{table:?}");
    }
}

/// A stock Linux guest, recorded in an exact host; its console comes before the tables.
fn record_linux(initrd: &Path, options: &[&str], guest: &[&str]) -> (Ran, Vec<ExitTable>) {
    let vmlinuz = format!("vmlinuz={}", kernel().display());
    let initrd = format!("initrd={}", initrd.display());
    let record = ["/ktax", "exits", "record", "--json", "--level", "exits"];
    let vmm = ["--", "/ktax", "vmm", "linux", "--kernel", "/files/vmlinuz"];
    let rest = ["--initrd", "/files/initrd", "--append", LINE];
    let host = ["--exact", "--file", &vmlinuz, "--file", &initrd];
    let ran = kvm_host(&host, &[&record[..], options, &vmm, &rest, guest].concat()).exits(0);
    let start = ran.stdout.find("\n{\n").expect("there are tables") + 1;
    let tables = printed::exits(&ran.stdout[start..]);
    (ran, tables)
}

#[test]
fn a_stock_kernel_boots_while_it_is_recorded_and_repeats_to_the_byte() {
    let dir = scratch();
    let initrd = initrd(dir.path());
    let [(first, tables), (second, _)] = [(); 2].map(|()| record_linux(&initrd, &[], &[]));
    assert_whole(&tables[0]);
    assert!(count(&tables[0], "npf") > 1000 && count(&tables[0], "io") > 100, "{tables:?}");
    let seen = "init sees 1 processors and clock kvm-clock";
    assert!(first.stdout.contains(seen), "{}", first.stdout);
    // The console and the table; the VMM's own account, in nanoseconds.
    assert_eq!(first.stdout, second.stdout);
    assert_eq!(first.stderr, second.stderr);
}

/// The first process of a guest with two processors: one is busy, the other interrupts it twenty
/// times, and each interrupt is counted by the kernel. It has no other exit until the host's tick.
const INTERRUPTS: &str = r#"
#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { TIMES = 20 };
static volatile int is_busy, is_done;
static void stay_on(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}
static void *be_busy(void *unused)
{
    stay_on(1);
    is_busy = 1;
    while (!is_done)
        ;
    return unused;
}
static long calls(void)
{
    char line[256];
    long of_first, of_second = -1;
    FILE *file = fopen("/proc/interrupts", "r");
    while (file && fgets(line, sizeof line, file))
        if (strstr(line, "CAL:"))
            sscanf(strstr(line, "CAL:") + 4, "%ld %ld", &of_first, &of_second);
    return of_second;
}
int main(void)
{
    pthread_t thread;
    long before, failed = 0;
    mount("proc", "/proc", "proc", 0, NULL);
    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
    stay_on(0);
    pthread_create(&thread, NULL, be_busy, NULL);
    while (!is_busy)
        sched_yield();
    before = calls();
    for (int i = 0; i < TIMES; i++)
        failed += syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0;
    printf("sent %d, failed %ld, taken %ld\n", TIMES, failed, calls() - before);
    fflush(stdout);
    return reboot(RB_AUTOBOOT);
}
"#;

/// One guest for two tests.
fn two_processors() -> &'static (Ran, Vec<ExitTable>) {
    static TWO: OnceLock<(Ran, Vec<ExitTable>)> = OnceLock::new();
    TWO.get_or_init(|| {
        let dir = scratch();
        let initrd = initrd_of(dir.path(), INTERRUPTS);
        record_linux(&initrd, &["--per", "both"], &["--cpus", "2"])
    })
}

#[test]
fn a_busy_processor_takes_each_interrupt_once() {
    let (ran, _) = two_processors();
    let parts = ran.stdout.lines().find_map(|line| line.split_once("sent 20, failed 0, taken "));
    let parts = parts.unwrap_or_else(|| panic!("it does not say how many: {}", ran.stdout));
    let taken: u32 = parts.1.trim().parse().unwrap();
    // The kernel has some of its own to send; taken twice, there are forty.
    assert!((20..30).contains(&taken), "{taken}");
}

#[test]
fn each_of_two_vcpus_has_a_table_and_they_add_up_to_the_vms() {
    let (_, tables) = two_processors();
    let [vm, vcpus @ ..] = &tables[..] else { panic!("no table: {tables:?}") };
    assert_eq!(vcpus.len(), 2, "{tables:?}");
    tables.iter().for_each(assert_whole);
    for row in &vm.rows {
        let count_of = |table: &ExitTable| table.row(&row.reason).map_or(0, |row| row.count);
        assert_eq!(row.count, vcpus.iter().map(count_of).sum::<u64>(), "{}", row.reason);
    }
    assert_eq!(vm.sum_ns(), vcpus.iter().map(ExitTable::sum_ns).sum::<u64>());
    // Each boots, so that each has pages of its own to find and waits for the other.
    let busy = |table: &ExitTable| count(table, "npf") > 0 && count(table, "hlt") > 0;
    assert!(vcpus.iter().all(busy), "{vcpus:?}");
}

const GUESTS: &str = r#"
title = "Guests"
host = "kvm"
layouts = 1
workloads = ["raw:out=200", "getppid"]
base = { kernel = "debian:cloud-amd64" }
"#;

#[test]
fn an_experiment_of_guests_has_their_tables_and_what_of_bare_metal_is_left() {
    kernel();
    let dir = scratch();
    let (file, out) = (dir.path().join("guests.toml"), dir.path().join("out"));
    // A cache in which nothing has run yet.
    link_shared(dir.path(), &["kernels"]);
    let compare = |text: &str| {
        fs::write(&file, text).unwrap();
        let mut command = ktax();
        command.env("KTAX_CACHE", dir.path()).arg("compare").arg(&file);
        run(command.arg("--json").arg("--out").arg(&out))
    };
    let wrong = compare(&GUESTS.replace("base = {", "base = { without = [\"no-such\"],")).exits(2);
    wrong.says("no-such");
    // One layout is too few for a verdict, and enough for the tables.
    let comparison = printed::comparison(&compare(GUESTS).exits(4).stdout);
    let verdicts: Vec<Verdict> = comparison.rows.iter().map(|row| row.verdict).collect();
    assert_eq!(verdicts, [Verdict::OneSide, Verdict::TooFewBoots]);
    let run = |row: usize| comparison.rows[row].guests().unwrap().runs.base.clone().unwrap();
    let (raw, program) = (run(0), run(1));
    assert_eq!(count(&raw.table, "io"), 200);
    assert_whole(&raw.table);
    // Between its marks a program leaves for little but what its start needs.
    assert_whole(&program.table);
    let (guest, native) = (program.guest_ns.unwrap() as f64, program.native_ns.unwrap() as f64);
    assert!((0.5..1.02).contains(&(native / guest)), "{native} of {guest}");
    // The guest's console is among what its host said.
    let console = fs::read_to_string(out.join("boots/000-base/runs/getppid.serial.log")).unwrap();
    assert!(console.contains("start getppid"), "{console}");
}

#[test]
fn a_kernel_that_is_locked_down_says_so() {
    let record = ["/ktax", "exits", "record", "--", "/ktax", "vmm", "raw", "--out", "10"];
    let ran = kvm_host(&["--boot-line", "lockdown=confidentiality"], &record);
    assert_ne!(ran.status, 0);
    assert!(ran.stderr.contains("lockdown"), "{ran:?}");
}

// The engine of guest experiments: a host for each layout, and its rows.

const FIRST: Layout = Layout { seed: 7, padding: 3, phase: 20_000 };
const SECOND: Layout = Layout { seed: 8, padding: 60, phase: 900_000 };

/// The rows of the test below, by number.
const RAW: usize = 0;
const PROGRAM: usize = 1;
const BOOT: usize = 2;

fn talk(talking: impl FnOnce(&Talk) -> Kernel) -> Kernel {
    let quiet: &dyn Fn(&str) = &|_| {};
    talking(&Talk { note: quiet, status: quiet, task: &|_| {}, is_cancelled: &|| false })
}

/// The usual guests; the boot of the change ends in a panic.
fn engine(cancel: &Cancel) -> X86Guests {
    // The host gets the libraries that this process has, and ktax needs libm.
    assert!(std::hint::black_box(1.0_f64).sin() > 0.0);
    let mut files: Vec<PathBuf> = Vec::new();
    let kernel = talk(|talk| {
        let kernel = obtain(&Subject::new(KERNEL, ""), &cache(), talk).unwrap();
        files = modules(&kernel, &KVM_MODULES, &cache(), talk).unwrap();
        kernel
    });
    let guest = |boot_line: &str| X86Guest {
        image: kernel.image.clone(),
        subject: GuestSubject {
            kernel: Some(Subject::new(KERNEL, boot_line)),
            hidden_features: Vec::new(),
            cpus: 1,
            memory_mib: 256,
        },
    };
    let getppid =
        select_rows(&definitions().unwrap(), Some(&["getppid".to_owned()])).unwrap().remove(0);
    let works = [
        ("raw:cpuid=500", GuestWork::Raw { kind: "cpuid".into(), count: 500 }),
        ("getppid", GuestWork::Program(getppid)),
        ("boot", GuestWork::Boot),
    ];
    let setup = X86Setup {
        qemu: Qemu::find(None).unwrap(),
        ktax: env!("CARGO_BIN_EXE_ktax").into(),
        host: HostKernel {
            image: kernel.image.clone(),
            identity: kernel.identity.clone(),
            boot_line: String::new(),
            modules: files,
        },
        base: guest(""),
        change: Some(guest("rdinit=/none")),
        rows: works.map(|(row, work)| GuestRow { row: row.to_owned(), work }).to_vec(),
        limits: Limits::with_seconds(600),
        cancel: cancel.clone(),
        cache: cache(),
    };
    X86Guests::new(setup).unwrap()
}

#[test]
fn a_layout_repeats_to_the_byte_and_another_moves_the_numbers() {
    let engine = engine(&Cancel::default());
    let rows = |layout: &Layout| -> Vec<GuestResult> {
        let ready = engine.boot(Side::Base, layout).unwrap();
        [RAW, PROGRAM].map(|row| ready.run(row).unwrap()).to_vec()
    };
    let (first, again, second) = (rows(&FIRST), rows(&FIRST), rows(&SECOND));
    assert_eq!(first, again);
    first.iter().for_each(|recorded| assert_whole(&recorded.run.table));
    // Some hundred exits of a guest without a kernel can take as long by chance.
    let times = |rows: &[GuestResult]| {
        rows.iter().map(|recorded| recorded.run.table.sum_ns()).collect::<Vec<_>>()
    };
    assert_ne!(times(&first), times(&second));
    assert_eq!(count(&first[RAW].run.table, "cpuid"), 500);
    assert_eq!(first[PROGRAM].signature, second[PROGRAM].signature);
    assert!(first[PROGRAM].run.guest_ns < Some(first[PROGRAM].run.table.sum_ns()));
}

#[test]
fn a_guest_that_panics_is_a_failed_row_and_its_neighbours_are_not() {
    let engine = engine(&Cancel::default());
    let ready = engine.boot(Side::Change, &FIRST).unwrap();
    match ready.run(BOOT) {
        Err(Stop::Failed(Failure::Panic { message }, console)) => {
            assert!(message.contains("Unable to mount root fs"), "{message}");
            assert!(String::from_utf8_lossy(&console).contains("Kernel panic"), "{console:?}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(count(&ready.run(RAW).unwrap().run.table, "cpuid"), 500);
    // Commands that a user types to check the numbers.
    let (script, order) = (engine.script(Side::Change, &FIRST), ready.order(BOOT));
    let initrd = script.split('\'').skip_while(|word| *word != "-initrd").nth(2).unwrap();
    assert!(Path::new(initrd).is_file() && script.contains("-seed' \\\n  '7'"), "{script}");
    assert!(script.contains("ktax.pad=xxx ") && order.contains("\"phase\":20000"), "{order}");
}

#[test]
fn whoever_cancels_gets_no_row() {
    let cancel = Cancel::default();
    let engine = engine(&cancel);
    cancel.cancel();
    assert!(matches!(engine.boot(Side::Base, &FIRST), Err(Stop::Cancelled)));
}

// Raw guests that get interrupts from their local APIC, which KVM has in the kernel.

/// Records in an exact host; only the guest's end gets to the VMM.
fn recorded(guest: &[&str]) -> (ExitTable, Value) {
    let (table, account) = record(&["--exact"], &[], guest);
    assert_whole(&table);
    assert_eq!(account["vcpus"][0]["exits"].to_string(), r#"{"KVM_EXIT_IO":1}"#);
    // The pages of the code, of its tables, and of the stacks.
    assert!((5..15).contains(&count(&table, "npf")), "{table:?}");
    (table, account)
}

/// Whether it is that number, or at most 1 % more or less: the host's own timers interrupt too.
fn is_about(found: u64, ordered: u64) -> bool {
    found.abs_diff(ordered) * 100 <= ordered
}

#[test]
fn a_timer_interrupts_a_guest_that_runs_and_wakes_one_that_halts() {
    let (table, _) = recorded(&["--interrupt", "1000", "--wake", "300"]);
    assert!(is_about(count(&table, "interrupt"), 1000), "{table:?}");
    assert_eq!(count(&table, "hlt"), 300, "{table:?}");
    // Each is requested, and ended.
    assert!(is_about(count(&table, "msr"), 2 * 1300), "{table:?}");
    let halts = table.row("hlt").unwrap().parts.as_ref().unwrap();
    // KVM would poll for less than 200 µs.
    assert!(halts.halted_ns > Some(300 * 200_000) && halts.user_ns == 0, "{table:?}");
}

#[test]
fn interrupts_between_vcpus_wake_each_of_them() {
    let (table, account) = recorded(&["--self-ipi", "700", "--ipi", "500"]);
    assert!(is_about(count(&table, "msr"), 2 * 700 + 4 * 500), "{table:?}");
    assert!(is_about(count(&table, "hlt"), 2 * 500), "{table:?}");
    assert!(count(&table, "interrupt") < 20, "{table:?}");
    // The second vCPU halts until the monitor stops it.
    assert_eq!(account["vcpus"][1]["exits"].to_string(), r#"{"KVM_EXIT_INTR":1}"#);
    let halts = table.row("hlt").unwrap().parts.as_ref().unwrap();
    assert!(halts.halted_ns > Some(0) && halts.user_ns == 0, "{table:?}");
}

// The recorder's own time is in the times that it records.

fn wall_ns(account: &Value) -> u64 {
    account["vcpus"][0]["wall_ns"].as_u64().unwrap()
}

#[test]
fn the_times_include_what_the_recorder_takes() {
    let guest = ["--cpuid", "2000"];
    let (table, _) = record(&["--exact"], &[], &guest);
    let ran = kvm_host(&["--exact"], &[&["/ktax", "vmm", "raw"], &guest[..]].concat()).exits(0);
    let alone_ns = wall_ns(&serde_json::from_str(ran.stderr.lines().last().unwrap()).unwrap());
    let exit_ns = table.account.as_ref().unwrap().recorder.as_ref().unwrap().exit_ns;
    let recorder_ns = exit_ns * table.exits();
    assert!(recorder_ns > 0, "{table:?}");
    // The kernel's calls of the recorder's programs are not in the programs' own times.
    let added_ns = table.sum_ns().saturating_sub(alone_ns);
    let expected = recorder_ns..recorder_ns * 2;
    assert!(expected.contains(&added_ns), "{added_ns} for {recorder_ns} ns, {alone_ns} alone");
}
