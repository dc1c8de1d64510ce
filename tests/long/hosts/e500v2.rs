//! e500v2, with KVM's own exit timing: what the tables of 2008 were made with. The experiment is
//! run as a user runs it.

use std::fs;
use std::path::Path;

use ktax::kvmhost::Board;
use ktax::model::ExitRun;

use super::boards::is_missing;
use super::{assert_whole, count, exits};
use crate::common::{Need, Ran, ktax, require, run, scratch};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/experiments/magic-page.toml");

fn compare(file: &Path, out: &Path, options: &[&str]) -> Ran {
    run(ktax().arg("compare").arg(file).arg("--out").arg(out).args(options))
}

/// Both Sides of each row, as the experiment's JSON has them.
fn sides(out: &Path, options: &[&str]) -> Vec<[ExitRun; 2]> {
    let ran = compare(Path::new(FILE), out, &[&["--json"], options].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let [base, change]: [Vec<ExitRun>; 2] = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(base.len(), change.len());
    let rows = base.into_iter().zip(change).map(|(base, change)| [base, change]);
    rows.inspect(|both| both.iter().for_each(|run| assert_whole(&run.table))).collect()
}

fn both(row: &[ExitRun; 2], reason: &str) -> [u64; 2] {
    [0, 1].map(|side: usize| count(&row[side].table, reason))
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
    let rows = sides(&out, &[]);
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(row[0].row, "raw:all=2000");
    for reason in ["MMIO", "EMUL_RFI"] {
        assert_eq!(both(row, reason), [2000, 2000], "{reason}");
    }
    for reason in ["EMUL_WRTEE", "EMUL_MFSPR", "EMUL_MFMSR"] {
        assert_eq!(both(row, reason), [2000, 0], "{reason}");
    }
    assert_eq!(both(row, "EMUL_MTSPR"), [6000, 0]);
    // The one call that asks for the page.
    assert_eq!(both(row, "SYSCALL"), [0, 1]);
    let ran = compare(Path::new(FILE), &again, &[]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    for file in ["base.json", "change.json", "base.1.log", "change.1.log"] {
        let [first, second] = [&out, &again].map(|dir| fs::read(dir.join(file)).unwrap());
        assert!(first == second, "{file} is not the same in each run");
    }
    assert_answered(&ran.stdout);
    // What the host said is a file that others can read too.
    let [base, change] = ["base.1.log", "change.1.log"].map(|name| out.join(name));
    let said = exits(&["diff", &base.display().to_string(), &change.display().to_string()]).stdout;
    let first = said.lines().find(|line| line.starts_with("EMUL_")).unwrap();
    assert!(first.starts_with("EMUL_MTSPR") && first.ends_with("-100.00"), "{said}");
}

/// What is below the question in the file is what comes out now, if it is of the same versions.
fn assert_answered(said: &str) {
    println!("{said}");
    let text = fs::read_to_string(FILE).unwrap();
    let answer: Vec<&str> = text.lines().map(|line| line.trim_start_matches(['#', ' '])).collect();
    let is_there = |line: &str| answer.contains(&line.trim());
    let names = |line: &&str| line.starts_with("base  ") || line.starts_with("change  ");
    match said.lines().filter(names).all(is_there) {
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
    let rows = sides(&dir.path().join("out"), &["-w", "raw:mtspr=100", "-w", "raw:rfi=50"]);
    let [mtspr, rfi] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((both(mtspr, "EMUL_MTSPR"), both(mtspr, "EMUL_RFI")), ([100, 0], [0, 0]));
    assert_eq!((both(rfi, "EMUL_MTSPR"), both(rfi, "EMUL_RFI")), ([100, 0], [50, 50]));
    assert_eq!((both(mtspr, "EMUL_MFMSR"), both(rfi, "EMUL_MFMSR")), ([0, 0], [0, 0]));
}

/// The same experiment fails at what each of the patches mends.
#[test]
fn without_its_patches_the_kernel_runs_no_guest() {
    if is_missing(&Board::E500V2) {
        return;
    }
    const SECOND: &str = r#", "kernels/patches/kvm-e500v2-syscall-vector.patch"]"#;
    let dir = scratch();
    let file = dir.path().join("experiment.toml");
    let fail = |patches: &str, out: &str| {
        let lines = fs::read_to_string(FILE).unwrap();
        let line = lines.lines().find(|line| line.starts_with("host_patches = ")).unwrap();
        assert!(line.ends_with(SECOND), "{line}");
        let patches = if patches == "none" { "" } else { &line.replace(SECOND, "]") };
        fs::write(&file, lines.replace(line, patches)).unwrap();
        let ran = compare(&file, &dir.path().join(out), &[]);
        assert_eq!(ran.status, 69, "{}", ran.stderr);
        let problem = "the KVM host on e500v2 did not answer: the kernel panicked";
        assert!(ran.stderr.contains(problem), "{}", ran.stderr);
        ran.stderr
    };
    let said = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    assert!(fail("none", "stock").contains("stock/base.1.log"));
    let stock = said("stock/base.1.log").replace('\r', "");
    assert!(stock.contains("host: begin\n") && !stock.contains("TIMEINGUEST"), "{stock}");
    assert!(stock.contains("exit_nr ") && stock.contains("kernel BUG at arch/powerpc"), "{stock}");
    // The guest that makes no system call runs with the first alone.
    assert!(fail("first", "first").contains("first/change.1.log"));
    assert!(said("first/base.1.log").contains("TIMEINGUEST"));
    let change = said("first/change.1.log").replace('\r', "");
    assert!(change.contains("exit_nr 9\nkernel BUG at arch/powerpc"), "{change}");
}
