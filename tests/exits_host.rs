//! `ktax exits record` within a KVM host in QEMU, where KVM says why the processor left the guest.
//! Every test is a boot; the exact ones count instructions instead of nanoseconds.

mod common;

use std::fs;

use common::kvm::{LINE, initrd, kernel, kvm_host};
use common::{Ran, ktax, run, scratch};
use ktax::model::{ExitRun, ExitTable};
use serde_json::Value;

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
    let tables: Vec<ExitTable> = serde_json::from_str(&ran.stdout).unwrap();
    tables.into_iter().next().unwrap()
}

fn count(table: &ExitTable, reason: &str) -> u64 {
    table.row(reason).map_or(0, |row| row.count)
}

/// Every exit has its entry, and all of the vCPU's time is in a row.
fn assert_whole(table: &ExitTable) {
    let account = table.account.as_ref().unwrap();
    assert_eq!((account.lost, account.unpaired), (0, 0), "{table:?}");
    let (guest, others): (Vec<_>, Vec<_>) = table.rows.iter().partition(|row| row.is_guest);
    let exits: u64 = others.iter().map(|row| row.count).sum();
    assert_eq!(guest[0].count, exits + account.open.len() as u64, "{table:?}");
    let open_ns: u64 = account.open.iter().map(|open| open.ns).sum();
    assert_eq!(table.sum_ns() + open_ns, account.wall_ns);
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
        let halted = table.row("hlt").unwrap().parts.as_ref().unwrap();
        assert!(halted.user_ns > 0, "{table:?}");
    }
}

#[test]
fn an_exact_host_repeats_the_table_to_the_byte_and_its_time_is_the_vcpus() {
    let [(first, account), (second, _)] = [(); 2].map(|()| record(&["--exact"], &[], &GUEST));
    assert_eq!(first, second);
    assert_whole(&first);
    let wall_ns = account["vcpus"][0]["wall_ns"].as_u64().unwrap() as f64;
    let missing = 1.0 - first.sum_ns() as f64 / wall_ns;
    assert!((0.0..0.01).contains(&missing), "{missing} of {wall_ns} ns");
    // One kind less is less by exactly its number.
    let without = ["--out", "2000", "--cpuid", "2000", "--hlt", "1000"];
    let (without, _) = record(&["--exact"], &[], &without);
    assert_eq!(count(&first, "npf") - count(&without, "npf"), 2000);
    assert_eq!(count(&first, "io"), count(&without, "io"));
}

#[test]
fn a_stock_kernel_boots_while_it_is_recorded_and_repeats_to_the_byte() {
    let dir = scratch();
    let vmlinuz = format!("vmlinuz={}", kernel().display());
    let initrd = format!("initrd={}", initrd(dir.path()).display());
    let record = ["/ktax", "exits", "record", "--json", "--level", "exits", "--"];
    let guest = ["/ktax", "vmm", "linux", "--kernel", "/files/vmlinuz"];
    let rest = ["--initrd", "/files/initrd", "--append", LINE];
    let command = [&record[..], &guest, &rest].concat();
    let boot = |host: &[&str]| {
        // The guest's console comes before the table.
        let ran = kvm_host(&[host, &["--file", &vmlinuz, "--file", &initrd]].concat(), &command);
        let start = ran.stdout.find("\n[\n").expect("there is a table") + 1;
        table(&Ran { stdout: ran.stdout[start..].to_owned(), ..ran })
    };
    let table = boot(&["--time-limit", "30"]);
    assert_whole(&table);
    assert!(count(&table, "npf") > 1000 && count(&table, "io") > 100, "{table:?}");
    let exact = [(); 2].map(|()| boot(&["--exact"]));
    assert_eq!(exact[0], exact[1]);
}

const GUESTS: &str = r#"
title = "Guests"
host = "kvm"
workloads = ["raw:out=200", "getppid"]
base = { kernel = "debian:cloud-amd64" }
"#;

#[test]
fn an_experiment_of_guests_has_their_tables_and_what_of_bare_metal_is_left() {
    kernel();
    let dir = scratch();
    let (file, out) = (dir.path().join("guests.toml"), dir.path().join("out"));
    let compare = |text: &str| {
        fs::write(&file, text).unwrap();
        run(ktax().arg("compare").arg(&file).arg("--json").arg("--out").arg(&out))
    };
    let wrong = compare(&GUESTS.replace("base = {", "base = { without = [\"no-such\"],"));
    assert_eq!(wrong.status, 2, "{}", wrong.stderr);
    assert!(wrong.stderr.contains("no-such"), "{}", wrong.stderr);
    let ran = compare(GUESTS);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let sides: Vec<Vec<ExitRun>> = serde_json::from_str(&ran.stdout).unwrap();
    let [raw, program] = &sides[0][..] else { panic!("{sides:?}") };
    assert_eq!(count(&raw.table, "io"), 200);
    assert_whole(&raw.table);
    // Between its marks a program leaves for little but what its start needs.
    assert_whole(&program.table);
    let (guest, native) = (program.guest_ns.unwrap() as f64, program.native_ns.unwrap() as f64);
    assert!((0.5..1.02).contains(&(native / guest)), "{native} of {guest}");
}
