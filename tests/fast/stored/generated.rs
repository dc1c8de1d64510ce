//! A store of measurements that nobody measured, as large as is wanted.

use ktax::disk::sha256;
use ktax::model::{
    AskedGuest, Boot, FORMAT, Identity, Layout, Machine, Measurand, MeasuredLayout, Measurement,
    Sample, Signature, Subject, Workload,
};
use ktax::rundir::profile;
use ktax::store::Store;

use super::made;

/// Operations of every region.
const OPS: u64 = 1_000;

/// Measurement to make.
#[derive(Debug, Clone)]
pub struct Made<'a> {
    /// The row's name.
    pub row: &'a str,
    /// The kernel's release.
    pub release: &'a str,
    /// The boot line.
    pub boot_line: &'a str,
    /// QEMU's version.
    pub qemu: &'a str,
    /// Instructions of an operation.
    pub cost: u64,
    /// Functions that share the cost; the first has what is left.
    pub functions: usize,
}

impl<'a> Made<'a> {
    pub fn new(row: &'a str, release: &'a str, cost: u64) -> Made<'a> {
        Made { row, release, boot_line: "", qemu: "7.2.22", cost, functions: 3 }
    }
}

/// Measurement under five layouts that differ by an instruction each.
pub fn measurement(made: &Made<'_>) -> Measurement {
    let kernel = kernel(made.release);
    let layout = |index: u32| Layout { seed: index, padding: index, phase: u64::from(index) };
    let measurand = Measurand {
        kernel_sha256: kernel.sha256.clone(),
        boot_line: made.boot_line.into(),
        machine: Machine::default(),
        key: made::key(made.qemu),
        workload: workload(made.row),
        layouts: (0..5).map(layout).collect(),
    };
    let layouts = (0..5).map(|index| under(made, index)).collect();
    let subject = Subject::new(&kernel.source, made.boot_line);
    Measurement {
        format: FORMAT,
        measurand,
        kernel,
        subject,
        guest: AskedGuest::default(),
        seed: 1,
        layouts,
    }
}

fn under(made: &Made<'_>, layout: u64) -> MeasuredLayout {
    let total = made.cost * OPS + layout;
    let each = total / made.functions as u64 / 2;
    let mut lines = String::new();
    let mut left = total;
    for index in 1..made.functions {
        lines += &format!("fn\tprocess\t{each}\t0\tkernel_function_{index}\n");
        left -= each;
    }
    let text = format!(
        "ktax-profile\t1\napi\t1\nregion\t{}\ntotal\t{total}\n\
         fn\tprocess\t{left}\t0\tdo_syscall_64\n{lines}end\n",
        made.row
    );
    let parsed = profile::parse(&text).unwrap();
    let sample = Sample {
        ops: OPS,
        counts: parsed.counts(),
        total,
        tsc: total,
        signature: Signature::from([("calls".to_owned(), OPS)]),
        values: Signature::new(),
        notes: Vec::new(),
        printed: None,
        parallel: None,
    };
    MeasuredLayout { boot: Boot::default(), sample, profile: text }
}

pub fn kernel(release: &str) -> Identity {
    let version = release.split('-').next().unwrap();
    let source = format!("debian:linux-image-{release}={version}");
    let (sha256, release) = (sha256(release), Some(release.to_owned()));
    Identity { sha256, release, ..made::identity(&source, "") }
}

fn workload(row: &str) -> Workload {
    let signature = Signature::from([("calls".to_owned(), OPS)]);
    Workload { signature, ..made::workload(row, OPS) }
}

/// Puts these into a store.
pub fn fill<'a>(store: &Store, rows: impl IntoIterator<Item = Made<'a>>) {
    for made in rows {
        store.put(&measurement(&made)).unwrap();
    }
}
