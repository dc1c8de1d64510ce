//! `ktax exits record` within a KVM host in QEMU, where KVM says why the processor left the guest.
//! Every test is a boot; the exact ones count instructions instead of nanoseconds.

mod common;

use std::fs;
use std::os::unix::fs::symlink;

use common::kvm::{LINE, assert_whole, count, initrd, kernel, kvm_host};
use common::{Ran, cache, ktax, run, scratch};
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
    let table = boot(&[]);
    assert_whole(&table);
    assert!(count(&table, "npf") > 1000 && count(&table, "io") > 100, "{table:?}");
    let exact = [(); 2].map(|()| boot(&["--exact"]));
    assert_eq!(exact[0], exact[1]);
}

#[test]
fn each_of_two_vcpus_has_a_table_and_they_add_up_to_the_vms() {
    let dir = scratch();
    let vmlinuz = format!("vmlinuz={}", kernel().display());
    let initrd = format!("initrd={}", initrd(dir.path()).display());
    let record = ["/ktax", "exits", "record", "--json", "--level", "exits", "--per", "both", "--"];
    let guest = ["/ktax", "vmm", "linux", "--cpus", "2", "--kernel", "/files/vmlinuz"];
    let rest = ["--initrd", "/files/initrd", "--append", LINE];
    let host = ["--exact", "--file", &vmlinuz, "--file", &initrd];
    let ran = kvm_host(&host, &[&record[..], &guest, &rest].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("init sees 2 processors"), "{}", ran.stdout);
    let start = ran.stdout.find("\n[\n").expect("there are tables") + 1;
    let tables: Vec<ExitTable> = serde_json::from_str(&ran.stdout[start..]).unwrap();
    let [vm, vcpus @ ..] = &tables[..] else { panic!("no table: {}", ran.stdout) };
    assert_eq!(vcpus.len(), 2, "{tables:?}");
    tables.iter().for_each(assert_whole);
    for row in &vm.rows {
        let of = |table: &ExitTable| table.row(&row.reason).map_or(0, |row| row.count);
        assert_eq!(row.count, vcpus.iter().map(of).sum::<u64>(), "{}", row.reason);
    }
    assert_eq!(vm.sum_ns(), vcpus.iter().map(ExitTable::sum_ns).sum::<u64>());
    // Each boots, so that each has pages of its own to find and waits for the other.
    let busy = |table: &ExitTable| count(table, "npf") > 0 && count(table, "hlt") > 0;
    assert!(vcpus.iter().all(busy), "{vcpus:?}");
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
    // A cache in which nothing has run yet.
    symlink(cache().join("kernels"), dir.path().join("kernels")).unwrap();
    let compare = |text: &str| {
        fs::write(&file, text).unwrap();
        let mut command = ktax();
        command.env("KTAX_CACHE", dir.path()).arg("compare").arg(&file);
        run(command.arg("--json").arg("--out").arg(&out))
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

#[test]
fn a_kernel_that_is_locked_down_says_so() {
    let record = ["/ktax", "exits", "record", "--", "/ktax", "vmm", "raw", "--out", "10"];
    let ran = kvm_host(&["--boot-line", "lockdown=confidentiality"], &record);
    assert_ne!(ran.status, 0);
    assert!(ran.stderr.contains("lockdown"), "{ran:?}");
}
