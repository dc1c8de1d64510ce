//! The answers below experiments and ledgers come out again: one row of each is measured anew.
//! `make test-long` runs these tests, and `make test-kernels` those of kernels from source. Those
//! of hosts of other architectures are in `hosts/again.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ktax::plan::{definitions, select_rows};

use crate::common::require::newer_qemu;
use crate::common::{KERNEL, Need, counts_plan, ktax, require, run, scratch_path};
use crate::hosts;

/// A test for each file.
macro_rules! come_out_again {
    ($($test:ident $file:literal)*) => {
        pub(super) const TESTED: &[&str] = &[$($file),*];
        $(#[test]
        fn $test() {
            comes_out_again($file);
        })*
    };
}

come_out_again! {
    audit "experiments/audit.toml"
    fork_pages "experiments/fork-pages.toml"
    high_systime "experiments/high-systime.toml"
    init_on_alloc "experiments/init-on-alloc.toml"
    point_releases "experiments/kernel-6.1-point-releases.toml"
    locks "experiments/locks.toml"
    lsm "experiments/lsm.toml"
    lsm_cpus "experiments/lsm-cpus.toml"
    lsm_smp "experiments/lsm-smp.toml"
    memcg "experiments/memcg.toml"
    messaging "experiments/messaging.toml"
    mitigations "experiments/mitigations.toml"
    mmap_stress "experiments/mmap-stress.toml"
    thp "experiments/thp.toml"
    under_load "experiments/under-load.toml"
    hardening_boot "ledgers/hardening-boot.toml"
}

/// Kernels are built from source for them, which takes longer than all others together.
mod built {
    use super::comes_out_again;

    come_out_again! {
        lock_slow_paths "experiments/lock-slow-paths.toml"
        lsm_framework "experiments/lsm-framework.toml"
        lsm_framework_up "experiments/lsm-framework-up.toml"
        page_table_sharing "experiments/page-table-sharing.toml"
        paravirt "experiments/paravirt.toml"
        per_vma_locks "experiments/per-vma-locks.toml"
        spinlocks "experiments/spinlocks.toml"
        spinlocks_contended "experiments/spinlocks-contended.toml"
        spinlocks_paravirt "experiments/spinlocks-paravirt.toml"
        hardening "ledgers/hardening.toml"
    }
}

/// A host of this machine's architecture runs ktax itself, so that its counts belong to one build
/// of ktax: the release that `make answers` uses, and not the one that is tested here.
const RUNS_KTAX: &str = "\nhost = \"kvm\"\n";

#[test]
fn every_answer_is_tested() {
    for folder in ["experiments", "ledgers"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = format!("{folder}/{}", entry.unwrap().file_name().to_str().unwrap());
            let runs_ktax = fs::read_to_string(root().join(&name)).unwrap().contains(RUNS_KTAX);
            let is_tested =
                [TESTED, built::TESTED, hosts::ANSWERS].concat().contains(&name.as_str());
            assert_eq!(is_tested, !runs_ktax, "{name}");
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[track_caller]
fn comes_out_again(file: &str) {
    let (text, answer) = read(file);
    let Some(qemu) = qemu_of(&text) else { return };
    let qemu = version_of_now(qemu.as_deref());
    if is_same(file, "QEMU", answer.version("QEMU").as_deref(), &qemu) {
        row_comes_out_again(file);
    }
}

/// An experiment or ledger, and its answer.
#[track_caller]
fn read(file: &str) -> (String, Printed) {
    let text = fs::read_to_string(root().join(file)).unwrap();
    let answer = answer(&text).unwrap_or_else(|| panic!("{file} has no answer: run make answers"));
    (text, answer)
}

/// Measures a row, and compares it with the answer if QEMU and the kernels are those of it.
#[track_caller]
pub fn row_comes_out_again(file: &str) {
    let (text, answer) = read(file);
    let (dir, out) = scratch_path("out");
    let asked = one_row(file, &text, dir.path());
    let Some(qemu) = qemu_of(&text) else { return };
    let ran =
        run(with_qemu(qemu.as_deref()).args(&asked).arg("--out").arg(&out).current_dir(root()));
    assert!(matches!(ran.status, 0 | 3 | 4), "{file}: {}", ran.stderr);
    let versions =
        Printed::parse(&run(ktax().args(["report", "--versions"]).arg(runs(&out))).stdout);
    for name in ["QEMU", "host", "base", "change"] {
        let (then, now) = (answer.version(name), versions.version(name));
        // The change of a ledger is all additions together, and here it is one.
        if (name == "change" && asked[0] == "ledger") || (then.is_none() && now.is_none()) {
            continue;
        }
        let now = now.unwrap_or_else(|| panic!("{file}: this run names no {name}"));
        if !is_same(file, name, then.as_deref(), &now) {
            return;
        }
    }
    let guests = [&answer, &versions].map(|file| file.version("guest").unwrap_or("unknown".into()));
    let whose = format!("{file}, measured with guest {}, here {}", guests[0], guests[1]);
    let again = again(&answer, &ran.stdout, &out);
    assert_rows(&whose, &answer, &again, guests[0] == guests[1]);
}

/// Counts of other kernels and other QEMUs are other counts.
#[track_caller]
fn is_same(file: &str, what: &str, answer: Option<&str>, now: &str) -> bool {
    let why = format!("{file} is of {what} {}, and here is {now}", answer.unwrap_or("?"));
    require(Need::Versions, answer == Some(now), why)
}

/// The directory of the runs whose kernels are named: of a ledger that of its only addition.
fn runs(out: &Path) -> PathBuf {
    let below = fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path());
    match out.join("plan.json").is_file() {
        true => out.to_owned(),
        false => below.into_iter().find(|path| path.join("plan.json").is_file()).unwrap(),
    }
}

/// Output in the shape that the answer has.
fn again(answer: &Printed, stdout: &str, out: &Path) -> Printed {
    match answer.is_lmbench() {
        true => Printed::parse(&run(ktax().args(["report", "-L", "lmbench"]).arg(out)).stdout),
        false => Printed::parse(stdout),
    }
}

/// Whether all cells are among the others, in their order. A wide table omits columns; a ledger's
/// of a single addition has no columns that only others fill.
fn is_within(cells: &[String], others: &[String], is_same: impl Fn(&str, &str) -> bool) -> bool {
    let mut others = others.iter();
    cells.iter().all(|cell| others.any(|other| is_same(cell, other)))
}

fn is_equal(first: &str, other: &str) -> bool {
    first == other
}

fn number(text: &str) -> Option<f64> {
    text.replace([' ', '+', '%'], "").parse().ok()
}

/// `+0.36…0.45`, over layouts.
fn range(cells: &[String]) -> Option<(f64, f64)> {
    let (least, most) = cells.iter().find_map(|cell| cell.split_once('…'))?;
    number(least).zip(number(most))
}

/// The words at the end of a row.
fn verdict(cells: &[String]) -> Vec<&String> {
    let is_word = |c: char| c.is_ascii_alphabetic() || c == ' ';
    cells.iter().rev().take_while(|cell| cell.chars().all(is_word)).collect()
}

/// But for such a part, or for 0.3 where that is more.
fn is_within_part(first: &str, other: &str, part: f64) -> bool {
    match (number(first), number(other)) {
        (Some(first), Some(other)) => (first - other).abs() <= (first.abs() / part).max(0.3),
        _ => first == other,
    }
}

/// Counts compare only within one guest: another one's programs have another size, and lie
/// elsewhere in memory. What an answer says holds nevertheless: the verdict, the base but for a
/// twentieth, and where there is a change its size: but for a fiftieth, or for what layouts make of
/// it, which their ranges say.
fn is_near(told: &[String], again: &[String]) -> bool {
    let bases = told.first().zip(again.first());
    let is_base_near = bases.is_some_and(|(first, other)| is_within_part(first, other, 20.0));
    if verdict(told) != verdict(again) || !is_base_near {
        return false;
    }
    // Without a detected change the difference is noise.
    if told.last().is_some_and(|verdict| verdict == "no detected change") {
        return true;
    }
    match (range(told), range(again)) {
        (Some((least, most)), Some((low, high))) => least <= high && low <= most,
        _ => {
            let is_same = |first: &str, other: &str| {
                is_within_part(first, other, 50.0) || may_move_more(first, other)
            };
            is_within(told, again, is_same) || is_within(again, told, is_same)
        }
    }
}

/// The two ends of a range, who carries most, and a ledger's instructions, which stand beside their
/// percent.
fn may_move_more(first: &str, other: &str) -> bool {
    if first.ends_with(" insn") && other.ends_with(" insn") {
        return true;
    }
    let is_range = |text: &str| text.contains('…');
    let is_carrier = |text: &str| text.ends_with(" %") && number(text).is_none();
    let is_of_range = |text: &str| is_range(text) || number(text).is_some();
    (is_carrier(first) && is_carrier(other))
        || ((is_range(first) || is_range(other)) && is_of_range(first) && is_of_range(other))
}

#[test]
fn near_is_not_far() {
    let near = |told: &str, again: &str| {
        let cells = |row: &str| row.split('|').map(str::to_owned).collect::<Vec<_>>();
        is_near(&cells(told), &cells(again))
    };
    let told = "3 333.92|+18.07|+0.54|+0.38…0.63|slower";
    assert!(near(told, "3 336.46|+15.06|+0.45|+0.36…0.45|slower"));
    for other in [
        "3 733.92|+18.07|+0.54|+0.38…0.63|slower", // another base
        "3 333.92|+18.07|+0.54|+0.38…0.63|no detected change",
        "3 333.92|-18.07|-0.54|-0.63…-0.38|faster",
        "3 333.92|+28.07|+0.84|+0.64…0.90|slower", // beyond all layouts
    ] {
        assert!(!near(told, other), "{other}");
    }
    let told = "461.86|-1.62|-0.35|-0.86…+0.22|1.76|no detected change";
    assert!(near(told, "459.75|+1.23|+0.27|-0.48…+0.62|1.89|no detected change"));
    assert!(!near(told, "429.75|+1.23|+0.27|-0.48…+0.62|1.89|no detected change"));
    // Ledgers have no ranges.
    let told = "3 334.96|+162.02|+48.95|0.10|slower";
    assert!(near(told, "3 334.97|+162.03|+48.95|0.10|slower"));
    let told = "3 331.96|+114.29|+19.55 insn|+0.59|0.20|+4 096.00|slower";
    assert!(near(told, "3 334.96|+114.12|+17.00 insn|+0.51|0.21|+4 096.00|slower"));
    assert!(!near(told, "3 334.96|+114.12|+34.00 insn|+1.02|0.21|+4 096.00|slower"));
    assert!(!near(told, "3 334.97|+172.03|+51.95|0.10|slower"));
}

#[track_caller]
fn assert_rows(whose: &str, answer: &Printed, again: &Printed, is_one_guest: bool) {
    assert!(!again.rows().is_empty(), "{whose}: {again:?}");
    for (row, cells) in again.rows() {
        let told = answer.row(row).unwrap_or_else(|| panic!("{whose}: its answer has no {row}"));
        let is_told = match is_one_guest {
            true => is_within(told, cells, is_equal) || is_within(cells, told, is_equal),
            false => is_near(told, cells),
        };
        let is_told = told.len() > 2 && is_told;
        let told = format!("its answer says {told:?}: run make answers");
        assert!(is_told, "{whose}: {row} is {cells:?}, and {told}");
    }
}

/// The command line that measures one cheap row of the file; of a ledger with one addition alone.
fn one_row(file: &str, text: &str, dir: &Path) -> Vec<String> {
    let mut parsed: toml::Table = toml::from_str(text).unwrap();
    let names: Vec<String> = parsed["workloads"].clone().try_into().unwrap();
    // A row that most changes move, and that is measured in a moment.
    let row = if names.iter().any(|name| name == "stat") { "stat" } else { names[0].as_str() };
    let row = match row.starts_with("raw:") {
        true => row.to_owned(),
        false => {
            select_rows(&definitions().unwrap(), Some(&[row.to_owned()])).unwrap()[0].row.clone()
        }
    };
    if file.starts_with("experiments/") {
        return ["compare", file, "-w", &row].map(str::to_owned).to_vec();
    }
    parsed["add"].as_array_mut().unwrap().truncate(1);
    parsed["workloads"] = vec![row].into();
    let path = dir.join("one.toml");
    fs::write(&path, toml::to_string(&parsed).unwrap()).unwrap();
    ["ledger", path.to_str().unwrap()].map(str::to_owned).to_vec()
}

// Reads what ktax printed for people: its versions and the rows of its tables.

const MARK: &str = "# What ktax said, written by `make answers`:\n";

/// The first columns of tables of rows.
const HEADS: [&str; 2] = ["workload", "Test Type"];

/// The lines that begin with the name of what had to be the same, and the tables of rows.
#[derive(Debug)]
pub struct Printed {
    text: String,
    /// Rows by name, with the cells behind it.
    rows: Vec<(String, Vec<String>)>,
}

/// The answer below an experiment, which was printed once.
pub fn answer(experiment: &str) -> Option<Printed> {
    let (_, answer) = experiment.split_once(MARK)?;
    let plain =
        |line: &str| line.trim_start_matches('#').strip_prefix(' ').unwrap_or("").to_owned();
    Some(Printed::parse(&answer.lines().map(plain).collect::<Vec<_>>().join("\n")))
}

impl Printed {
    pub fn parse(text: &str) -> Printed {
        // A head may have several lines, and its names stand in any of them.
        let (mut rows, mut head, mut above) = (Vec::new(), Vec::new(), "");
        let (mut is_table, mut head_is_added, mut units) = (false, false, "");
        for line in text.lines() {
            if line.starts_with('─') {
                // Tables of functions have other heads, and a ledger's first table has no counts.
                let has = |name: &str| head.iter().any(|line: &&str| line.starts_with(name));
                head_is_added = has("added") && !above.is_empty();
                is_table = head_is_added || HEADS.iter().any(|name| has(name));
                units = head.last().copied().unwrap_or_default();
            } else if line.is_empty() {
                is_table = false;
                head.clear();
            } else if is_table {
                add(&mut rows, head_is_added.then_some((above, units)), line);
            }
            // A ledger's tables stand below `stat, 3 334.96 instructions`.
            above = if line.ends_with(" instructions") { line } else { above };
            head.push(line);
        }
        // The first of several tables has the verdicts.
        let mut known = BTreeSet::new();
        rows.retain(|(name, _): &(String, Vec<String>)| known.insert(name.clone()));
        Printed { text: text.to_owned(), rows }
    }

    /// Value of this name above the title.
    pub fn version(&self, name: &str) -> Option<String> {
        let mut lines = self.text.trim_start().lines().take_while(|line| !line.is_empty());
        let first = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix("  "))?.trim();
        // A long one goes on in lines that begin with blanks.
        let more = lines.take_while(|line| line.starts_with("  ")).map(str::trim);
        Some([first].into_iter().chain(more).collect::<Vec<_>>().join(" "))
    }

    pub fn is_lmbench(&self) -> bool {
        self.text.lines().any(|line| line.starts_with("Test Type"))
    }

    pub fn rows(&self) -> &[(String, Vec<String>)] {
        &self.rows
    }

    pub fn row(&self, name: &str) -> Option<&Vec<String>> {
        self.rows.iter().find(|(row, _)| row == name).map(|(_, cells)| cells)
    }
}

/// Adds a row; or to the last one the end of its name, which is on a line of its own. What a
/// ledger's table is of, and costs in the base, stands above it: `stat, 3 334.96 instructions`.
/// The second line of a table's heads has the units; what is in instructions says so.
fn add(rows: &mut Vec<(String, Vec<String>)>, above: Option<(&str, &str)>, line: &str) {
    let mut cells = line.trim().split("  ").map(str::trim).filter(|cell| !cell.is_empty());
    let name = cells.next().unwrap_or_default();
    let cells: Vec<String> = cells.map(str::to_owned).collect();
    match rows.last_mut() {
        Some((begin, _)) if line.starts_with("  ") && cells.is_empty() => begin.push_str(name),
        // A sentence below the table.
        _ if cells.is_empty() => {}
        _ => {
            let (title, units) = above.unwrap_or_default();
            let (row, base) = title.split_once(", ").unwrap_or_default();
            let base = base.strip_suffix(" instructions").map(str::to_owned);
            let units = units.split_whitespace().skip(1).chain(std::iter::repeat(""));
            let named = cells.into_iter().zip(units).map(|(cell, unit)| match unit {
                "insn" => format!("{cell} insn"),
                _ => cell,
            });
            let cells = base.into_iter().chain(named).collect();
            rows.push((format!("{row} {name}").trim().to_owned(), cells));
        }
    }
}

#[test]
fn rows_are_read_by_their_whole_names() {
    let text = "title\nQEMU    7.2\nbase    a, image b,\n        of 2026-01-31\n\
                change  c\n\n           base  delta\nworkload   insn\n─────\n\
                pipe:      1 200.50  +1.00  slower\n  ops=2\nstat  2  0\nOmitted: MDE %.\n\n\
                workload  lines\n──\nstat  9\n\nmean\nfunction\n──\nf  1\n";
    let read = Printed::parse(text);
    let versions = ["QEMU", "base", "change"].map(|name| read.version(name).unwrap());
    assert_eq!(versions, ["7.2", "a, image b, of 2026-01-31", "c"]);
    assert_eq!(read.rows().len(), 2);
    assert_eq!(read.row("pipe:ops=2").unwrap().join("|"), "1 200.50|+1.00|slower");
    let read =
        answer(&format!("{MARK}# stat, 3.0 instructions\n#\n# added  insn\n# ───\n# pti  +8\n"))
            .unwrap();
    assert_eq!(read.row("stat pti").unwrap().join("|"), "3.0|+8 insn");
    let read =
        Printed::parse("Processes:\nTest Type  base  change\n              of\n──\nstat  1  2\n");
    assert_eq!(read.row("stat").unwrap().join("|"), "1|2");
}

// Which QEMU an experiment runs on: that of the distribution, or a newer one, for several CPUs and
// for the reason that a file has behind `# newer QEMU: `.

/// The newer one, for what needs that; `None` inside for all else, and outside where there is none.
pub fn qemu_of(text: &str) -> Option<Option<PathBuf>> {
    let parsed: toml::Table = toml::from_str(text).unwrap();
    let machine = parsed.get("machine").and_then(|machine| machine.get("cpus"));
    let needs_newer = machine.is_some() || text.contains("\n# newer QEMU: ");
    if needs_newer { newer_qemu().map(Some) } else { Some(None) }
}

/// `ktax` with that QEMU.
pub fn with_qemu(qemu: Option<&Path>) -> Command {
    let mut command = ktax();
    command.envs(qemu.map(|qemu| ("KTAX_QEMU", qemu)));
    command
}

/// QEMU's version, as results name it.
pub fn version_of_now(qemu: Option<&Path>) -> String {
    let plan = ["plan", "--same", "--kernel", KERNEL, "-w", "getppid"];
    counts_plan(&run(with_qemu(qemu).args(plan)).stdout).key.qemu
}
