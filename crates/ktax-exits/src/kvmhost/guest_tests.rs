use super::*;
use ktax_model::{Region, Saved};

const PLAIN: Layout = Layout { seed: 1, padding: 0, phase: 0 };

fn guest() -> Guest {
    let (boot_line, without) = ("mitigations=off".into(), vec!["kvmclock".into()]);
    Guest { image: "/k".into(), boot_line, without, cpus: 2, memory_mib: 128 }
}

fn program(native: bool) -> Task {
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
    Task::Program { workload, native }
}

fn said(stdout: &str) -> Said {
    Said { status: 0, stdout: stdout.into(), stderr: Vec::new() }
}

/// A table as `ktax exits report --json` prints it.
fn table() -> Said {
    let table = ExitTable { source: "a test".into(), ..ExitTable::default() };
    said(&serde_json::to_string(&Saved::from(SavedResult::Exits(vec![table]))).unwrap())
}

const ANSWER: &str = "ktax 1\nstart getppid\nsig calls 9\nvalue nanoseconds 70\nend\n";

#[test]
fn the_layout_is_on_the_guests_boot_line() {
    let line = |task: &Task, layout| {
        let record = commands(&guest(), task, layout).remove(0);
        let at = record.iter().position(|word| word == "--append").unwrap();
        record[at + 1].clone()
    };
    let moved = Layout { seed: 1, padding: 2, phase: 30 };
    let own = "console=ttyS0 quiet panic=-1 nokaslr norandmaps";
    let run = "run getppid ops=9 size=4";
    let task = program(false);
    assert_eq!(line(&task, &PLAIN), format!("{own} mitigations=off -- {run}"));
    let padded = format!("{own} ktax.pad=xx mitigations=off -- phase=30");
    assert_eq!(line(&task, &moved), format!("{padded} {run}"));
    assert_eq!(line(&Task::Boot, &moved), format!("{padded} run"));
}

#[test]
fn a_program_has_its_time_in_the_guest_and_natively() {
    let console = format!("\r\n{}\nktax: recorded\n", ANSWER.replace('\n', "\r\n"));
    let native = said(&ANSWER.replace("70", "60"));
    let answers = [said(&console), table(), native];
    let recorded = outcome("getppid", &program(true), &answers).unwrap();
    assert_eq!((recorded.run.guest_ns, recorded.run.native_ns), (Some(70), Some(60)));
    assert_eq!(recorded.signature, [("calls".to_owned(), 9)].into());
    let raw = Task::Raw { kind: "out".into(), count: 3 };
    let recorded = outcome("raw:out=3", &raw, &answers[1..]).unwrap_err();
    assert!(matches!(recorded, Stop::Failed(Failure::Garbled { .. }, _)), "{recorded:?}");
}

#[test]
fn each_way_to_fail_is_a_failed_row() {
    let failure =
        |first: Said, second: Said| match outcome("getppid", &program(false), &[first, second])
            .unwrap_err()
        {
            Stop::Failed(failure, console) => (failure, console),
            Stop::Cancelled => panic!("nobody cancelled"),
        };
    let lost = Said { status: 1, stdout: b"booting".to_vec(), stderr: b"no BTF".to_vec() };
    let (refused, console) = failure(lost, table());
    let message = "the recording failed: bootingno BTF".to_owned();
    assert_eq!((refused, &console[..]), (Failure::Refused { message }, &b"bootingno BTF"[..]));
    let panicked = said("Kernel panic - not syncing: no init\r\n");
    let message = "no init".to_owned();
    assert_eq!(failure(panicked, table()).0, Failure::Panic { message });
    assert!(matches!(failure(said(ANSWER), said("[]")).0, Failure::Garbled { .. }));
    assert!(matches!(failure(said("ready\n"), table()).0, Failure::Silent { .. }));
    let half = ANSWER.split_once("value").unwrap().0;
    assert!(matches!(failure(said(half), table()).0, Failure::Garbled { .. }));
    let no = said("ktax 1\nstart getppid\nfail no /proc\n");
    let message = "no /proc".to_owned();
    assert_eq!(failure(no, table()).0, Failure::Refused { message });
    let other = failure(said(&ANSWER.replace("calls 9", "calls 8")), table()).0;
    assert_eq!(other, Failure::WrongWork { deviations: "calls 8, expected 9".into() });
}
