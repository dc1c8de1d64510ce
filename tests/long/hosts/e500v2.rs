//! e500v2, with KVM's own exit timing: what the tables of 2008 were made with. The experiment is
//! run as a user runs it.

use std::fs;
use std::path::{Path, PathBuf};

use ktax::kvmhost::Board;
use ktax::model::{ExitRun, Failure, Row, Side, Sides, Verdict};
use ktax::rundir::AnyRunDir;

use super::boards::is_missing;
use super::{assert_whole, count, exits};
use crate::common::{Need, Ran, ktax, printed, require, run, scratch, tree};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/experiments/magic-page.toml");

/// The tables of one layout: too few for a verdict.
const ONE_LAYOUT: [&str; 3] = ["--json", "--layouts", "1"];

fn compare(file: &Path, out: &Path, options: &[&str]) -> Ran {
    run(ktax().arg("compare").arg(file).arg("--out").arg(out).args(options))
}

/// The rows that a run directory was analysed to.
fn rows(out: &Path) -> Vec<Row> {
    AnyRunDir::open(out).unwrap().comparison().unwrap().unwrap().rows
}

/// Both Sides of a row, in the layout that is shown.
fn sides(row: &Row) -> Sides<ExitRun> {
    let runs = &row.guests().unwrap().runs;
    let of = |side: Side| runs.get(side).clone().unwrap_or_else(|| panic!("{row:?}"));
    let both = Sides { base: of(Side::Base), change: of(Side::Change) };
    for run in [&both.base, &both.change] {
        assert_eq!(run.row, row.row);
        assert_whole(&run.table);
    }
    both
}

fn both(runs: &Sides<ExitRun>, reason: &str) -> [u64; 2] {
    Side::BOTH.map(|side| count(&runs.get(side).table, reason))
}

/// The console of the first host of a Side.
fn console(out: &Path, side: Side) -> PathBuf {
    let name = |at: &str| format!("boots/{at}-{}/runs/raw:all=2000.serial.log", side.name());
    let found = ["000", "001"].map(|at| out.join(name(at))).into_iter().find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{} has no console of the {}", out.display(), side.name()))
}

/// 2000 times each of eight things that e500v2's guests may not do, and the same with the page that
/// guest and KVM share.
#[test]
fn the_magic_page_takes_away_what_it_is_for_and_nothing_else() {
    if is_missing(&Board::E500V2) {
        return;
    }
    let dir = scratch();
    let (out, again) = (dir.path().join("out"), dir.path().join("again"));
    let ran = compare(Path::new(FILE), &out, &[]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let rows = rows(&out);
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((row.row.as_str(), row.verdict), ("raw:all=2000", Verdict::Faster));
    let runs = sides(row);
    for reason in ["MMIO", "EMUL_RFI"] {
        assert_eq!(both(&runs, reason), [2000, 2000], "{reason}");
    }
    for reason in ["EMUL_WRTEE", "EMUL_MFSPR", "EMUL_MFMSR"] {
        assert_eq!(both(&runs, reason), [2000, 0], "{reason}");
    }
    assert_eq!(both(&runs, "EMUL_MTSPR"), [6000, 0]);
    // The one call that asks for the page.
    assert_eq!(both(&runs, "SYSCALL"), [0, 1]);
    // The first layout is the same however many follow.
    let second = compare(Path::new(FILE), &again, &ONE_LAYOUT);
    assert_eq!(second.status, 4, "{}", second.stderr);
    let files = tree(&again.join("boots"));
    assert!(files.iter().any(|(name, _)| name.ends_with("raw:all=2000.serial.log")), "{files:?}");
    for (name, content) in files {
        let first = fs::read(out.join("boots").join(&name)).unwrap();
        assert!(first == content, "{} is not the same in each run", name.display());
    }
    // What the host said is a file that others can read too.
    let [base, change] = Side::BOTH.map(|side| console(&out, side).display().to_string());
    let said = exits(&["diff", &base, &change]).stdout;
    let first = said.lines().find(|line| line.starts_with("EMUL_")).unwrap();
    assert!(first.starts_with("EMUL_MTSPR") && first.ends_with("-100.00"), "{said}");
    assert_answered(&ran.stdout);
}

/// What is below the question in the file is what comes out now, if it is of the same versions.
fn assert_answered(said: &str) {
    println!("{said}");
    let text = fs::read_to_string(FILE).unwrap();
    let answer: Vec<&str> = text.lines().map(|line| line.trim_start_matches(['#', ' '])).collect();
    let is_there = |line: &str| answer.contains(&line.trim());
    let versions = said.lines().skip_while(|line| !line.starts_with("exact · QEMU "));
    let mut versions = versions.take_while(|line| !line.is_empty()).peekable();
    assert!(versions.peek().is_some(), "{said}");
    match versions.all(is_there) {
        true => assert!(said.lines().all(is_there), "{text}\nnow:\n{said}"),
        false => drop(require(Need::Versions, false, "the answer is of other versions")),
    }
}

#[test]
fn a_guest_does_what_its_row_says() {
    if is_missing(&Board::E500V2) {
        return;
    }
    let dir = scratch();
    let works = ["-w", "raw:mtspr=100", "-w", "raw:rfi=50"];
    let options = [&works[..], &ONE_LAYOUT].concat();
    let ran = compare(Path::new(FILE), &dir.path().join("out"), &options);
    assert_eq!(ran.status, 4, "{}", ran.stderr);
    let rows = printed::comparison(&ran.stdout).rows;
    let rows: Vec<Sides<ExitRun>> = rows.iter().map(sides).collect();
    let [mtspr, rfi] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((both(mtspr, "EMUL_MTSPR"), both(mtspr, "EMUL_RFI")), ([100, 0], [0, 0]));
    assert_eq!((both(rfi, "EMUL_MTSPR"), both(rfi, "EMUL_RFI")), ([100, 0], [50, 50]));
    assert_eq!((both(mtspr, "EMUL_MFMSR"), both(rfi, "EMUL_MFMSR")), ([0, 0], [0, 0]));
}

/// Without one of the patches the experiment fails at what that mends.
#[test]
fn without_its_patches_the_kernel_runs_no_guest() {
    if is_missing(&Board::E500V2) {
        return;
    }
    const SECOND: &str = r#", "kernels/patches/kvm-e500v2-syscall-vector.patch"]"#;
    let dir = scratch();
    let file = dir.path().join("experiment.toml");
    // The Sides that failed, each with its console.
    let fail = |patches: &str| -> (PathBuf, Vec<(Side, String)>) {
        let lines = fs::read_to_string(FILE).unwrap();
        let line = lines.lines().find(|line| line.starts_with("host_patches = ")).unwrap();
        assert!(line.ends_with(SECOND), "{line}");
        let patched = if patches == "none" { "" } else { &line.replace(SECOND, "]") };
        fs::write(&file, lines.replace(line, patched)).unwrap();
        let out = dir.path().join(patches);
        let ran = compare(&file, &out, &["--layouts", "1"]);
        assert_eq!(ran.status, 69, "{}", ran.stderr);
        let rows = rows(&out);
        let [Row { verdict: Verdict::Failed, failures, .. }] = &rows[..] else {
            panic!("{rows:?}")
        };
        // The report says why, and where the console is.
        for said in ["the kernel panicked: ", "runs/ROW.serial.log in the boot's directory"] {
            assert!(ran.stdout.contains(said), "{}", ran.stdout);
        }
        let failed = failures.iter().map(|failed| {
            let is_panic = matches!(failed.failure, Failure::Panic { .. });
            assert!(is_panic && ran.stdout.contains(&failed.boot), "{failed:?}\n{}", ran.stdout);
            let said = fs::read_to_string(console(&out, failed.side)).unwrap();
            (failed.side, said.replace('\r', ""))
        });
        let failed = failed.collect();
        (out, failed)
    };
    let (_, stock) = fail("none");
    let hosts = |side: Side| stock.iter().filter(|(of, _)| *of == side).count();
    assert_eq!(Side::BOTH.map(hosts), [1, 1]);
    for (_, said) in stock {
        assert!(said.contains("host: begin\n") && !said.contains("TIMEINGUEST"), "{said}");
        assert!(said.contains("exit_nr ") && said.contains("kernel BUG at arch/powerpc"), "{said}");
    }
    // The guest that makes no system call runs with the first alone.
    let (out, first) = fail("first");
    let [(Side::Change, change)] = &first[..] else { panic!("{first:?}") };
    assert!(fs::read_to_string(console(&out, Side::Base)).unwrap().contains("TIMEINGUEST"));
    assert!(change.contains("exit_nr 9\nkernel BUG at arch/powerpc"), "{change}");
}
