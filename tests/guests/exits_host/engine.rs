//! The engine of guest experiments: a host for each layout, and its rows.

use std::path::{Path, PathBuf};

use ktax::engine::qemu::Qemu;
use ktax::engine::{Cancel, Limits, Stop};
use ktax::kernel::{Kernel, Talk, modules, obtain};
use ktax::kvmhost::{Guest, GuestEngine, HostKernel, MODULES, Recorded, X86Guests, X86Setup};
use ktax::model::{Failure, GuestRow, GuestSubject, GuestWork, Layout, Side, Subject};
use ktax::plan::{definitions, select};

use crate::common::kvm::{assert_whole, count};
use crate::common::{KERNEL, cache};

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
        files = modules(&kernel, &MODULES, &cache(), talk).unwrap();
        kernel
    });
    let guest = |boot_line: &str| Guest {
        image: kernel.image.clone(),
        subject: GuestSubject {
            kernel: Some(Subject::new(KERNEL, boot_line)),
            without: Vec::new(),
            cpus: 1,
            memory_mib: 256,
        },
    };
    let getppid = select(&definitions().unwrap(), Some(&["getppid".to_owned()])).unwrap().remove(0);
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
    let rows = |layout: &Layout| -> Vec<Recorded> {
        let ready = engine.boot(Side::Base, layout).unwrap();
        [RAW, PROGRAM].map(|row| ready.run(row).unwrap()).to_vec()
    };
    let (first, again, second) = (rows(&FIRST), rows(&FIRST), rows(&SECOND));
    assert_eq!(first, again);
    first.iter().for_each(|one| assert_whole(&one.run.table));
    // Some hundred exits of a guest without a kernel can take as long by chance.
    let times =
        |rows: &[Recorded]| rows.iter().map(|one| one.run.table.sum_ns()).collect::<Vec<_>>();
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
    // What somebody types to see it themselves.
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
