//! riscv64: the distribution's kernel, whose tracepoints say every exit.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use ktax::kvmhost::Board;
use ktax::model::ExitTable;

use super::boards::{boot, is_missing};
use super::{assert_whole, count, section, tables};
use crate::common::{Need, cache, require, scratch};

/// A board, and the package of its kernel.
struct Machine {
    board: Board,
    package: &'static str,
}

const SUITE: &str = "trixie";

impl Machine {
    /// A directory with the kernel's `image` and perhaps KVM's module; fetched once.
    fn kernel(&self) -> Option<PathBuf> {
        let (name, hosts) = (self.board.name, cache().join("hosts"));
        fs::create_dir_all(&hosts).unwrap();
        let dir = hosts.join(format!("debian-{name}"));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/foreign-kernel.sh");
        let mut fetch = Command::new("sh");
        fetch.arg(script).args([name, SUITE, self.package]);
        let output = fetch.arg(&dir).output().unwrap();
        if output.status.success() {
            return Some(dir);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let why = format!("no kernel for {name}: {}", said.lines().last().unwrap_or(""));
        require(Need::Hosts, false, why);
        None
    }

    /// What the host's trace says; nothing if the host cannot be had.
    fn table(&self) -> Option<ExitTable> {
        if is_missing(&self.board) {
            return None;
        }
        let (kernel, dir) = (self.kernel()?, scratch());
        let module = kernel.join("kvm.ko");
        let module = module.exists().then_some(&*module);
        let serial = boot(&self.board, &kernel.join("image"), module);
        let trace = section(&serial, "trace");
        assert_complete(trace);
        let path = dir.path().join("trace");
        fs::write(&path, trace).unwrap();
        Some(tables(&path).remove(0))
    }
}

/// The kernel has written over nothing: `entries-in-buffer/entries-written: 4146/4146`.
fn assert_complete(trace: &str) {
    let numbers = trace.split("entries-written:").nth(1).and_then(|rest| rest.split('#').next());
    let (there, written) = numbers.and_then(|numbers| numbers.trim().split_once('/')).unwrap();
    assert_eq!(there, written);
}

/// The guest writes to a device 1000 times, calls 500 times, waits 20 times, and says its end by a
/// last write, after which it is not entered again. Its code is one page.
fn assert_exact(table: &ExitTable, [device, call, wait, first]: [&str; 4]) {
    let counts = [device, call, wait, first].map(|reason| count(table, reason));
    assert_eq!(counts, [1000, 500, 20, 1], "{table:?}");
    let account = table.account.as_ref().unwrap();
    let open: Vec<&str> = account.open.iter().map(|open| open.reason.as_str()).collect();
    assert_eq!((open, account.lost, account.unpaired), (vec![device], 0, 0), "{table:?}");
    assert_whole(table);
    assert_eq!(table.sum_ns() + account.open[0].ns, account.wall_ns, "{table:?}");
    let of = |reason| table.row(reason).unwrap().parts.as_ref().unwrap();
    assert!(of(device).user_ns > 0 && of(call).halted_ns == 0, "{table:?}");
    assert!(of(wait).halted_ns > 100 * of(wait).kernel_ns, "{table:?}");
}

#[test]
fn riscv64_says_every_exit_by_its_cause() {
    let machine = Machine {
        package: "linux-image-riscv64",
        board: Board {
            name: "riscv64",
            qemu: ("qemu-system-riscv64", "qemu-system-misc"),
            machine: &["-M", "virt", "-cpu", "rv64,h=true", "-bios", "default"],
            console: "ttyS0",
            compiler: "riscv64-linux-gnu",
            library: "libc6-dev-riscv64-cross",
            flags: &[],
            sources: &[("riscv64.c", include_str!("riscv64.c"))],
            module: Some("kvm"),
        },
    };
    let Some(table) = machine.table() else { return };
    let [device, first] = ["store guest-page fault", "instruction guest-page fault"];
    let [call, wait] = ["environment call from VS-mode", "virtual instruction"];
    assert_exact(&table, [device, call, wait, first]);
}
