//! Call paths in the forms that other programs read: of a run directory whose profiles are known.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::read::GzDecoder;
use ktax::analyse::counts;
use ktax::model::{Comparison, Side, Signature, Verdict};
use ktax::report::Report;
use ktax::rundir::{AnyRunDir, RunDir};

use super::cases::{OPS, plan, run_dir_of};
use super::{check, page_of};
use crate::common::files::has;
use crate::common::require::{Need, require};
use crate::common::{assert_has, ktax, run, scratch};

const ROW: &str = "read-1";

/// A function below its caller: depth, name, instructions of a call on the base and with the
/// change, calls of an operation.
const PATHS: [(u32, &str, [u64; 2], u64); 9] = [
    (0, "[user]", [30, 30], 1),
    (0, "entry_SYSCALL_64", [40, 40], 1),
    (1, "ksys_read", [50, 50], 1),
    (2, "fdget_pos", [20, 20], 1),
    // This function was separate, and is inlined into its caller now.
    (2, "rw_verify_area.isra.0", [10, 90], 1),
    (3, "security_file_permission", [80, 0], 1),
    (2, "vfs_read", [60, 60], 1),
    (3, "security_hook", [0, 25], 2),
    (3, "iov_iter_init", [15, 15], 1),
];

/// Functions of a program in user mode, per call: `main` calls another one with the change.
const PROGRAM: [(&str, [u64; 2]); 2] = [("[reader]main", [20, 15]), ("[reader]check", [0, 5])];

fn executed(side: Side, path: &(u32, &str, [u64; 2], u64)) -> u64 {
    path.2[side as usize] * path.3 * OPS
}

/// A layout makes the smallest part of an operation of difference, and the first is shown.
fn profile_text(side: Side, layout: u64) -> String {
    let mut text = format!("ktax-profile\t1\napi\t1\nregion\t{ROW}\n");
    let [mut functions, mut paths] = [String::new(), String::new()];
    let mut total = 0;
    for path in &PATHS {
        let more = if path.1 == "vfs_read" { layout } else { 0 };
        let (depth, name, executed) = (path.0, path.1, executed(side, path) + more);
        let calls = if executed > 0 { path.3 * OPS } else { 0 };
        total += executed;
        if name == "[user]" {
            let of_program = |function: &(&str, [u64; 2])| function.1[side as usize] * OPS;
            let own = executed - PROGRAM.iter().map(of_program).sum::<u64>();
            functions += &format!("fn\tprocess\t{own}\t0\t{name}\n");
            for function in PROGRAM.iter().filter(|function| of_program(function) > 0) {
                let count = of_program(function);
                functions += &format!("fn\tprocess\t{count}\t0\t{}\n", function.0);
            }
        } else if executed > 0 {
            functions += &format!("fn\tprocess\t{executed}\t0\t{name}\n");
        }
        if executed > 0 {
            paths += &format!("path\tprocess\t{depth}\t{executed}\t0\t{calls}\t{name}\n");
        }
    }
    // An interrupt is no part of what the row costs.
    functions += "fn\tinterrupt\t500\t8\tsysvec_apic_timer_interrupt\n";
    paths += "path\tinterrupt\t0\t500\t8\t3\tsysvec_apic_timer_interrupt\n";
    text += &format!("total\t{}\n{functions}{paths}end\n", total + 508);
    text
}

/// The page of that, which has a picture.
pub fn page() -> String {
    let dir = scratch();
    page_of(&made(&dir.path().join("run")).saved())
}

/// A run directory with its report.
fn directory(dir: &Path) -> PathBuf {
    let path = dir.join("run");
    let comparison = made(&path);
    AnyRunDir::open(&path).unwrap().write_comparison(&comparison.saved()).unwrap();
    path
}

/// A run directory, and what it says.
fn made(path: &Path) -> Comparison {
    let made = [(ROW, "one read", (|_, _| unreachable!()) as super::cases::Measure)];
    let run: RunDir<_> = run_dir_of(path, plan("A hook in read", 5, &made), |step, _| {
        Ok((profile_text(step.side, step.layout as u64), Signature::new()))
    });
    counts(&run).unwrap()
}

fn export(path: &Path, more: &[&str]) -> Vec<u8> {
    let ran = ktax().arg("report").arg(path).args(["--explain", ROW]).args(more).output().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
    ran.stdout
}

fn text(path: &Path, more: &[&str]) -> String {
    String::from_utf8(export(path, more)).unwrap()
}

#[test]
fn every_form_is_as_expected() {
    let dir = scratch();
    let run = directory(dir.path());
    for form in ["folded", "callgrind", "lkp", "svg"] {
        check(&format!("paths.{form}"), &text(&run, &["--paths", form]));
    }
    check("paths-change.folded", &text(&run, &["--paths", "folded", "--side", "change"]));
    check("paths.explain.txt", &text(&run, &[]));
}

/// The sums of the last two words of the lines.
fn sums(folded: &str) -> [u64; 2] {
    let mut sums = [0; 2];
    for line in folded.lines() {
        let counts: Vec<u64> = line.rsplit(' ').take(2).map(|word| word.parse().unwrap()).collect();
        sums[0] += counts[1];
        sums[1] += counts[0];
    }
    sums
}

#[test]
fn no_instruction_is_lost_on_the_way() {
    let dir = scratch();
    let run = directory(dir.path());
    let executed_in = |side: Side| PATHS.iter().map(|path| executed(side, path)).sum::<u64>() + 500;
    let folded = text(&run, &["--paths", "folded"]);
    assert_eq!(sums(&folded), [executed_in(Side::Base), executed_in(Side::Change)], "{folded}");
    let callgrind = text(&run, &["--paths", "callgrind", "--side", "base"]);
    // The line below `fn` is what the function executes itself.
    let lines: Vec<&str> = callgrind.lines().collect();
    let own = lines.windows(2).filter(|pair| pair[0].starts_with("fn="));
    let own: u64 = own.map(|pair| pair[1].split(' ').nth(1).unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(own, executed_in(Side::Base));
}

#[test]
fn a_profile_for_pprof_is_read_by_pprof() {
    let dir = scratch();
    let run = directory(dir.path());
    for side in ["base", "change"] {
        let bytes = export(&run, &["--paths", "pprof", "--side", side]);
        let mut plain = Vec::new();
        GzDecoder::new(&bytes[..]).read_to_end(&mut plain).unwrap();
        assert!(plain.len() > 100);
        fs::write(dir.path().join(side), bytes).unwrap();
    }
    if !require(Need::Programs, has("go"), "go is missing, whose `go tool pprof` reads the file") {
        return;
    }
    let mut opened = Command::new("go");
    opened.args(["tool", "pprof", "-top", "change"]).current_dir(dir.path());
    let opened = run_of(&mut opened);
    assert!(opened.contains("Type: instructions\n"), "{opened}");
    assert!(opened.contains(" [reader]main\n"), "{opened}");
    let both = export(&run, &["--paths", "pprof"]);
    fs::write(dir.path().join("both"), both).unwrap();
    let mut opened = Command::new("go");
    opened.args(["tool", "pprof", "-top", "both"]).current_dir(dir.path());
    assert_has(run_of(&mut opened), "Type: change-instructions\n");
    let mut pprof = Command::new("go");
    pprof.args(["tool", "pprof", "-top", "-nodefraction=0", "-sample_index=instructions"]);
    pprof.args(["-diff_base", "base", "change"]).current_dir(dir.path());
    let ran = run_of(&mut pprof);
    let is_there = |function: &str, flat: u64| {
        let line = ran.lines().find(|line| line.ends_with(&format!(" {function}"))).unwrap();
        assert_eq!(line.split_whitespace().next(), Some(flat.to_string().as_str()), "{ran}");
    };
    is_there("security_hook", 25 * 2 * OPS);
    is_there("rw_verify_area", 80 * OPS);
    assert!(ran.contains(&format!("-{}", 80 * OPS)), "{ran}");
}

fn run_of(command: &mut Command) -> String {
    let ran = command.output().unwrap();
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{text}{}", String::from_utf8_lossy(&ran.stderr));
    text
}

#[test]
fn a_profile_for_callgrind_is_read_by_callgrind_annotate() {
    if !require(Need::Programs, has("callgrind_annotate"), "valgrind is missing") {
        return;
    }
    let dir = scratch();
    let run = directory(dir.path());
    let file = dir.path().join("callgrind.out.1");
    fs::write(&file, export(&run, &["--paths", "callgrind"])).unwrap();
    let text = run_of(
        Command::new("callgrind_annotate").args(["--inclusive=yes", "--threshold=100"]).arg(&file),
    );
    let line = |function: &str| {
        let found = text.lines().find(|line| line.contains(function));
        found.unwrap_or_else(|| panic!("{function}: {text}")).replace(',', "")
    };
    // Inclusive counts of a caller, in base and change.
    assert!(line(":ksys_read").contains(&(235 * OPS).to_string()), "{text}");
    assert!(line(":security_hook").contains(&(50 * OPS).to_string()), "{text}");
    assert!(line(":[reader]check").contains(&(5 * OPS).to_string()), "{text}");
    assert!(!text.contains("WARNING"), "{text}");
}

/// The costs of a row by function and call path do not depend on its verdict.
#[test]
fn a_row_without_a_verdict_is_explained_by_its_functions_and_call_paths() {
    let dir = scratch();
    let made = [(ROW, "one read", (|_, _| unreachable!()) as super::cases::Measure)];
    let explain = |name: &str, layouts: usize, side_and_layout: fn(Side, u64) -> (Side, u64)| {
        let path = dir.path().join(name);
        let dir: RunDir<_> = run_dir_of(&path, plan("", layouts, &made), |step, _| {
            let (side, layout) = side_and_layout(step.side, step.layout as u64);
            Ok((profile_text(side, layout), Signature::new()))
        });
        let comparison = counts(&dir).unwrap();
        AnyRunDir::open(&path).unwrap().write_comparison(&comparison.saved()).unwrap();
        let ran = run(ktax().arg("report").arg(&path).args(["--explain", ROW]));
        (comparison.rows[0].verdict, ran.stdout)
    };
    let (unchanged, text) = explain("unchanged", 5, |_, layout| (Side::Base, layout));
    assert_eq!(unchanged, Verdict::NoDetectedChange, "{text}");
    for line in [
        "80.00   80.00  26.23   26.23  security_file_permission",
        "90.00   90.00  29.51   29.51    1.00    ├ rw_verify_area",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let (too_few, text) = explain("too-few", 1, |side, layout| (side, layout));
    assert_eq!(too_few, Verdict::TooFewBoots);
    assert!(text.contains("90.00   3.28   25.35  rw_verify_area"), "{text}");
    // 40 instructions in 122 000 are less than a verdict takes.
    let (below, text) =
        explain("below", 5, |side, _| (Side::Base, if side == Side::Base { 0 } else { 40 }));
    assert_eq!(below, Verdict::BelowThreshold);
    assert!(text.contains("60.00   60.10  19.67   19.70  vfs_read"), "{text}");
}

#[test]
fn results_without_paths_name_the_run_directory() {
    let dir = scratch();
    let saved = directory(dir.path());
    let json = dir.path().join("result.json");
    fs::write(&json, run(ktax().arg("report").arg("--json").arg(&saved)).stdout).unwrap();
    let explained = run(ktax().arg("report").arg(&json).args(["--explain", ROW])).stdout;
    assert!(explained.contains("ktax report DIR --explain read-1"), "{explained}");
    let refused = |path: &Path, more: &[&str]| {
        let ran = run(ktax().arg("report").arg(path).args(more)).exits(2);
        ran.stderr
    };
    let of_file = refused(&json, &["--explain", ROW, "--paths", "folded"]);
    assert!(of_file.contains("give the directory of a run of the exact engine"), "{of_file}");
    let other = refused(&saved, &["--explain", "read-2", "--paths", "folded"]);
    assert!(other.contains("did you mean \"read-1\"?"), "{other}");
    assert_has(refused(&saved, &["--paths", "folded"]), "--explain");
    let side = refused(&saved, &["--explain", ROW, "--paths", "svg", "--side", "base"]);
    assert!(side.contains("svg shows both sides; remove --side"), "{side}");
    let unknown = refused(&saved, &["--explain", ROW, "--paths", "perf"]);
    assert!(unknown.contains("folded, pprof, callgrind, lkp, svg"), "{unknown}");
}
