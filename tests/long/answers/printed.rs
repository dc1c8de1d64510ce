//! Reads what ktax printed for people: its versions and the rows of its tables.

use std::collections::BTreeSet;

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
    Some(Printed::of(&answer.lines().map(plain).collect::<Vec<_>>().join("\n")))
}

impl Printed {
    pub fn of(text: &str) -> Printed {
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
        // Of several tables the first has the verdicts.
        let mut known = BTreeSet::new();
        rows.retain(|(name, _): &(String, Vec<String>)| known.insert(name.clone()));
        Printed { text: text.to_owned(), rows }
    }

    /// What stands behind this name above the title.
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
            let (of, base) = title.split_once(", ").unwrap_or_default();
            let base = base.strip_suffix(" instructions").map(str::to_owned);
            let units = units.split_whitespace().skip(1).chain(std::iter::repeat(""));
            let named = cells.into_iter().zip(units).map(|(cell, unit)| match unit {
                "insn" => format!("{cell} insn"),
                _ => cell,
            });
            let cells = base.into_iter().chain(named).collect();
            rows.push((format!("{of} {name}").trim().to_owned(), cells));
        }
    }
}

#[test]
fn rows_are_read_by_their_whole_names() {
    let text = "title\nQEMU    7.2\nbase    a, image b,\n        of 2026-01-31\n\
                change  c\n\n           base  delta\nworkload   insn\n─────\n\
                pipe:      1 200.50  +1.00  slower\n  ops=2\nstat  2  0\nOmitted: MDE %.\n\n\
                workload  lines\n──\nstat  9\n\nmean\nfunction\n──\nf  1\n";
    let read = Printed::of(text);
    let versions = ["QEMU", "base", "change"].map(|name| read.version(name).unwrap());
    assert_eq!(versions, ["7.2", "a, image b, of 2026-01-31", "c"]);
    assert_eq!(read.rows().len(), 2);
    assert_eq!(read.row("pipe:ops=2").unwrap().join("|"), "1 200.50|+1.00|slower");
    let read =
        answer(&format!("{MARK}# stat, 3.0 instructions\n#\n# added  insn\n# ───\n# pti  +8\n"))
            .unwrap();
    assert_eq!(read.row("stat pti").unwrap().join("|"), "3.0|+8 insn");
    let read =
        Printed::of("Processes:\nTest Type  base  change\n              of\n──\nstat  1  2\n");
    assert_eq!(read.row("stat").unwrap().join("|"), "1|2");
}
