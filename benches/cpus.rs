//! Costs of several CPUs for the host: QEMU's CPU seconds for an instruction, as a ratio to one
//! CPU that is counted, too. Runs of each machine alternate, and what a run takes without the row's
//! operations is subtracted.

mod common;

use std::path::{Path, PathBuf};

use ktax::engine::exact::Exact;
use ktax::engine::qemu::Qemu;
use ktax::engine::{Cancel, Engine, Frozen, Limits, Request, Stop};
use ktax::kernel::{self, Kernel, Talk};
use ktax::model::{Layout, Machine, Model, Subject};
use ktax::rundir::profile;
use ktax::{plan, wire};

const ROUNDS: usize = 3;

/// Longer than any slice lasts.
const ENDLESS: u32 = 1_000_000_000;

/// CPUs, the quantum they are given, a model, and how much more than one CPU it may cost.
type Case = (&'static str, u32, Option<u32>, Option<Model>, Option<f64>);

/// Cases that are compared with one CPU.
const MACHINES: [Case; 4] = [
    ("4 CPUs, the default quanta", 4, None, None, Some(3.0)),
    ("4 CPUs, the default quanta, coherence", 4, None, Some(Model::Coherence), Some(6.0)),
    ("4 CPUs, no quantum", 4, Some(ENDLESS), None, None),
    ("4 CPUs, quantum 500", 4, Some(500), None, None),
];

/// Rows, and their operations: on own objects no CPU waits for another, on shared ones all do.
const ROWS: [(&str, u64); 3] = [
    ("scale:call=getppid,objects=own", 400_000),
    ("scale:call=fork,objects=own", 1500),
    ("scale:call=dup,objects=shared", 200_000),
];

fn main() {
    let unpacked = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../qemu-backports");
    let named = std::env::var_os("KTAX_QEMU").map(PathBuf::from);
    let program = named.unwrap_or_else(|| unpacked.join("qemu-system-x86_64"));
    if !program.is_file() {
        println!("skipped: several CPUs need a newer QEMU, which `make newer-qemu` fetches");
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let qemu = Qemu::find(Some(&program)).expect("QEMU");
    let limits = Limits::with_seconds(3600).for_cpus(4);
    let engine = Exact::new(qemu, dir.path(), limits, Cancel::default()).expect("a cache");
    let kernel = kernel(&dir.path().join("kernels"));
    let boot = |cpus, quantum, model| {
        let request = request(&kernel, Machine { quantum, model, ..Machine::with_cpus(cpus) });
        engine.boot(&request).map_err(describe).expect("the kernel boots")
    };
    let alone = boot(1, None, None);
    let several = MACHINES.map(|(_, cpus, quantum, model, _)| (cpus, boot(cpus, quantum, model)));
    for (row, ops) in ROWS.into_iter().filter(|(row, _)| common::is_asked_for(row)) {
        compare(row, ops, &*alone, &several);
    }
}

fn compare(row: &str, ops: u64, alone: &dyn Frozen, several: &[(u32, Box<dyn Frozen + '_>)]) {
    let mut ratios = vec![Vec::new(); several.len()];
    let mut seconds = Vec::new();
    for _ in 0..ROUNDS {
        let alone_s = for_an_instruction(alone, row, 1, ops);
        seconds.push(alone_s * 1e9);
        for (ratios, (cpus, boot)) in ratios.iter_mut().zip(several) {
            ratios.push(for_an_instruction(&**boot, row, *cpus, ops) / alone_s);
        }
    }
    println!(
        "{row}: 1 CPU takes {:.2} ns of CPU time for an instruction",
        common::spread(seconds).1
    );
    for ((name, .., wanted), ratios) in MACHINES.iter().zip(&ratios) {
        let (least, middle, most) = common::spread(ratios.iter().copied());
        let wanted = wanted.map_or(String::new(), |most| format!("   wanted: at most {most}"));
        println!("  {name} / 1 CPU   {middle:.2} ({least:.2} to {most:.2}){wanted}");
    }
}

/// CPU seconds for one of the instructions that more operations execute.
fn for_an_instruction(boot: &dyn Frozen, row: &str, cpus: u32, ops: u64) -> f64 {
    let [few, many] = [ops / 50, ops].map(|ops| run(boot, &format!("{row},cpus={cpus},ops={ops}")));
    (many.0 - few.0) / (many.1 - few.1)
}

/// The CPU seconds of a run, and the instructions of its Region.
fn run(boot: &dyn Frozen, row: &str) -> (f64, f64) {
    let definitions = plan::definitions().expect("built-in workloads");
    let rows =
        plan::select_rows(&definitions, Some(&[row.to_owned()])).expect("a built-in workload");
    let order = wire::order(&rows[0], &layout());
    let before = common::cpu_seconds_of_children();
    let answer = boot.run(&order).map_err(describe).expect("it runs");
    let seconds = common::cpu_seconds_of_children() - before;
    let parsed = profile::parse(&answer.profile).expect("a profile");
    (seconds, parsed.total as f64)
}

fn kernel(cache: &Path) -> Kernel {
    let subject = Subject::new("debian:cloud-amd64", "");
    let talk = Talk {
        note: &|note| eprintln!("{note}"),
        status: &|_| {},
        task: &|_| {},
        is_cancelled: &|| false,
    };
    kernel::obtain(&subject, cache, &talk).expect("a kernel")
}

fn request(kernel: &Kernel, machine: Machine) -> Request {
    Request {
        image: kernel.image.clone(),
        image_sha256: kernel.identity.sha256.clone(),
        boot_line: String::new(),
        machine,
        layout: layout(),
        modules: None,
        side_programs: None,
        program: None,
    }
}

fn layout() -> Layout {
    Layout { seed: 1, padding: 0, phase: 0 }
}

fn describe(stop: Stop) -> String {
    format!("{stop:?}")
}
