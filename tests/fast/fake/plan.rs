//! The Plan that every scene begins with.

use ktax::model::{
    Arch, AskedCounts, AskedGuest, CountsPlan, FORMAT, Identity, ImageFormat, Key, Machine, Plan,
    Region, Side, Sides, Subject, Workload,
};

use super::scene::{OPS, hello};

pub fn plan(rows: &[&str]) -> Plan<CountsPlan> {
    let both = |of: fn(Side) -> Identity| Sides { base: of(Side::Base), change: of(Side::Change) };
    let subject = |side: Side| {
        Subject::new(&format!("/boot/{}", side.name()), &format!("side={}", side.name()))
    };
    let method = CountsPlan {
        key: Key {
            engine: "exact".into(),
            qemu: "7.2".into(),
            machine_type: "pc-q35-7.2".into(),
            machine: Machine::default(),
            guest: "9".repeat(64),
            programs: String::new(),
            modules: Vec::new(),
        },
        asked: AskedCounts {
            machine: Machine::default(),
            subjects: Sides { base: subject(Side::Base), change: subject(Side::Change) },
            guest: AskedGuest::default(),
            calibration: None,
        },
        kernels: both(identity),
        archives: None,
        workloads: rows.iter().map(|row| workload(row)).collect(),
        layouts: Vec::new(),
        steps: Vec::new(),
    };
    let title = "a plan by hand".into();
    Plan { format: FORMAT, title, seed: 1, threshold_percent: 0.1, method }
}

fn identity(side: Side) -> Identity {
    Identity {
        source: format!("/boot/{}", side.name()),
        sha256: if side == Side::Base { "ab" } else { "cd" }.repeat(32),
        release: Some(hello(side).release),
        package_date: None,
        build_id: hello(side).build_id,
        config_sha256: None,
        arch: Arch::X86_64,
        format: ImageFormat::Vmlinux,
    }
}

/// `calls` must be the number of operations and nothing may fail.
fn workload(row: &str) -> Workload {
    Workload {
        row: row.into(),
        title: format!("{row}, faked"),
        operation: "one call".into(),
        program: row.into(),
        ops: OPS,
        region: Region::Marked,
        memory_bytes: 0,
        params: [("pages".to_owned(), 16)].into(),
        signature: [("calls".to_owned(), OPS), ("failed".to_owned(), 0)].into(),
        numbers: Default::default(),
    }
}
