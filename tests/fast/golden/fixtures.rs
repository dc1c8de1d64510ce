//! Small run directories, written as `ktax run` writes them.

use std::collections::BTreeMap;
use std::path::Path;

use ktax::model::{
    Arch, AskedCounts, AskedGuest, Boot, CountsPlan, FORMAT, Failure, Identity, ImageFormat, Key,
    Layout, Machine, Outcome, Plan, Region, Run, Sample, Side, Sides, Signature, Step, Subject,
    Workload,
};
use ktax::rundir::{RunDir, profile};

/// One function of a profile: context, function, and per operation instructions and REP iterations;
/// or `costly` or `modelled`, function and kind, and how many of the kind.
pub type Line = (&'static str, &'static str, u64, u64);

/// What a Run measures, by Side and Layout.
pub type Measure = fn(Side, usize) -> Result<(Vec<Line>, Signature), Failure>;

/// One row: name, operation, measurement. Every Region has [`OPS`] operations.
pub type Made = (&'static str, &'static str, Measure);

/// Operations of every Region, and what a profile may have beyond whole operations.
pub const OPS: u64 = 400;

/// Writes a whole run directory.
pub fn run_dir(root: &Path, title: &str, layouts: usize, rows: &[Made]) -> RunDir<CountsPlan> {
    run_dir_of(root, plan(title, layouts, rows), |step, at| {
        let (row, _, measure) = rows[at];
        let (lines, signature) = measure(step.side, step.layout)?;
        Ok((profile_text(row, &lines), signature))
    })
}

/// Writes the whole run directory of a Plan, with the profile and the signature of each of its
/// rows.
pub fn run_dir_of(
    root: &Path,
    plan: Plan<CountsPlan>,
    measure: impl Fn(&Step, usize) -> Result<(String, Signature), Failure>,
) -> RunDir<CountsPlan> {
    let dir = RunDir::create(root, plan).unwrap();
    let _lock = dir.lock().unwrap();
    let method = &dir.plan().method;
    for step in &method.steps {
        dir.prepare(step).unwrap();
        dir.write_boot(step, &Boot::default()).unwrap();
        for (at, workload) in method.workloads.iter().enumerate() {
            let row = workload.row.clone();
            match measure(step, at) {
                Ok((text, signature)) => {
                    let outcome = Outcome::Measured(sample(&text, signature));
                    dir.write_run(step, &Run { row, outcome }, Some(&text)).unwrap();
                }
                Err(failure) => {
                    let outcome = Outcome::<Sample>::Failed(failure);
                    dir.write_run(step, &Run { row, outcome }, None).unwrap();
                }
            }
        }
    }
    dir
}

fn sample(text: &str, signature: Signature) -> Sample {
    let parsed = profile::parse(text).unwrap();
    let counts = parsed.counts();
    let (total, notes, parallel) = (parsed.total, parsed.notes, parsed.parallel);
    let values = Signature::new();
    Sample {
        ops: OPS,
        counts,
        total,
        tsc: total,
        signature,
        values,
        printed: None,
        notes,
        parallel,
    }
}

/// As the plugin writes it; the region itself costs a few instructions, which make odd fractions.
pub fn profile_text(row: &str, lines: &[Line]) -> String {
    let own = ("process", "[user]", 5, 0);
    let counted = lines.iter().map(|(context, function, n, rep)| (context, function, n, rep));
    let mut text = format!("ktax-profile\t1\napi\t1\nregion\t{row}\n");
    let (mut total, mut functions) = (own.2, String::new());
    for (context, function, instructions, rep) in counted {
        if let ("costly" | "modelled", Some((function, kind))) =
            (*context, function.split_once(' '))
        {
            let count = instructions * OPS;
            functions += &format!("{context}\tprocess\t{kind}\t{count}\t{function}\n");
            continue;
        }
        let (instructions, rep) = (instructions * OPS, rep * OPS);
        total += instructions + rep;
        functions += &format!("fn\t{context}\t{instructions}\t{rep}\t{function}\n");
    }
    functions += &format!("fn\t{}\t{}\t{}\t{}\n", own.0, own.2, own.3, own.1);
    text += &format!("total\t{total}\n{functions}end\n");
    text
}

pub fn plan(title: &str, layouts: usize, rows: &[Made]) -> Plan<CountsPlan> {
    let side = |index: usize| if index % 2 == 0 { Side::Base } else { Side::Change };
    let step = |index: usize| Step { index: index as u32, side: side(index), layout: index / 2 };
    let layout = |index: usize| Layout { seed: index as u32, padding: 0, phase: 0 };
    let subject = |line: &str| Subject::new("debian:linux-image-6.1.0-56-cloud-amd64", line);
    let method = CountsPlan {
        key: key(),
        asked: AskedCounts {
            machine: Machine::default(),
            subjects: Sides {
                base: subject("lsm=capability"),
                change: subject("lsm=landlock,lockdown,yama,integrity,apparmor,selinux,bpf"),
            },
            guest: AskedGuest::default(),
            calibration: None,
        },
        kernels: Sides { base: kernel(), change: kernel() },
        archives: None,
        workloads: rows.iter().map(|(row, operation, _)| workload(row, operation)).collect(),
        layouts: (0..layouts).map(layout).collect(),
        steps: (0..2 * layouts).map(step).collect(),
    };
    Plan { format: FORMAT, title: title.into(), seed: 1, threshold_percent: 0.1, method }
}

pub fn key() -> Key {
    Key {
        engine: "exact".into(),
        qemu: "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)".into(),
        machine_type: "pc-q35-7.2".into(),
        machine: Machine::default(),
        guest: "9".repeat(64),
        programs: String::new(),
        modules: Vec::new(),
    }
}

pub fn kernel() -> Identity {
    Identity {
        source: "debian:linux-image-6.1.0-56-cloud-amd64=6.1.187-1".into(),
        sha256: "ab".repeat(32),
        release: Some("6.1.0-56-cloud-amd64".into()),
        package_date: Some("2026-01-31".into()),
        build_id: None,
        config_sha256: None,
        arch: Arch::X86_64,
        format: ImageFormat::BzImage,
    }
}

fn workload(row: &str, operation: &str) -> Workload {
    Workload {
        row: row.into(),
        title: format!("{row}, modelled"),
        operation: operation.into(),
        program: row.split(':').next().unwrap_or(row).into(),
        ops: OPS,
        region: Region::Marked,
        memory_bytes: 0,
        params: BTreeMap::new(),
        signature: BTreeMap::new(),
        numbers: BTreeMap::new(),
    }
}
