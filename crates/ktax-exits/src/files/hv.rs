//! The `timings` file of book3s HV (arch/powerpc/kvm/book3s_hv.c, 4.1 and later): `name: count
//! total least most`, nanoseconds; no squares, and no way to clear it.

use std::mem;

use super::{damaged, lines};
use ktax_model::{ExitRow, ExitRows, ExitTable, Result, Warning};

pub(super) const SOURCE: &str = "book3s HV timings";

const NAMES: [&str; 12] = [
    "vcpu_entry",
    "guest_entry",
    "in_guest",
    "guest_exit",
    "vcpu_exit",
    "hypercall",
    "page_fault",
    "rm_entry",
    "rm_intr",
    "rm_exit",
    "guest",
    "cede",
];

/// Names of the time in the guest, on POWER9 and on POWER8.
const GUEST: [&str; 2] = ["in_guest", "guest"];

/// Reads every table of a file: a name that was there before begins the next table. Other lines are
/// ignored.
pub(super) fn read(text: &str) -> Result<Vec<ExitTable>> {
    let mut tables = Vec::new();
    let (mut seen, mut rows, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    for (number, line) in lines(text) {
        let Some((name, numbers)) = line.split_once(": ") else {
            if !seen.is_empty() && is_cut_row(line, text) {
                return Err(damaged(number, "a row that ends within its name"));
            }
            continue;
        };
        if !NAMES.contains(&name) {
            continue;
        }
        if seen.contains(&name) {
            seen.clear();
            tables.extend(table(mem::take(&mut rows), mem::take(&mut warnings)));
        }
        seen.push(name);
        if numbers.trim() == "stuck" {
            warnings.push(Warning {
                fact: format!("{name} is stuck: the kernel could not read it"),
                next_step: "read the file again".into(),
            });
            continue;
        }
        rows.push(parse_row(number, name, numbers)?);
    }
    tables.extend(table(rows, warnings));
    Ok(tables)
}

/// Returns whether a line is a row that ends within its name, as only the last line can.
fn is_cut_row(line: &str, text: &str) -> bool {
    let begins = |name: &&str| format!("{name}:").starts_with(line);
    !line.is_empty() && text.ends_with(line) && NAMES.iter().any(begins)
}

/// Returns the table of these rows; `None` where there are none.
fn table(rows: Vec<ExitRow>, warnings: Vec<Warning>) -> Option<ExitTable> {
    let (source, rows_are) = (SOURCE.to_owned(), ExitRows::Phases);
    let table = ExitTable { source, rows_are, rows, warnings, ..ExitTable::default() };
    (!table.rows.is_empty()).then_some(table)
}

fn parse_row(number: usize, name: &str, numbers: &str) -> Result<ExitRow> {
    let parsed: Result<Vec<u64>, _> = numbers.split_whitespace().map(str::parse).collect();
    let damaged = || damaged(number, "the name is not followed by four numbers");
    let [count, sum_ns, least, most] = parsed.map_err(|_| damaged())?[..] else {
        return Err(damaged());
    };
    Ok(ExitRow {
        reason: name.to_owned(),
        is_guest: GUEST.contains(&name),
        count,
        least_ns: (count > 0).then_some(least),
        most_ns: (count > 0).then_some(most),
        sum_ns: Some(sum_ns),
        ..ExitRow::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capture_of_a_power9_is_read() {
        let table = read(include_str!("../../../../tests/data/exits/power9-timings.txt"))
            .unwrap()
            .remove(0);
        let guest = table.row("in_guest").unwrap();
        assert_eq!((guest.count, guest.time_ns(), guest.is_guest), (1003, 8_150_016, true));
        assert_eq!(table.rows.len(), 7);
        // The phases have 6719 counts together.
        assert_eq!(table.exits(), 1003);
    }

    /// POWER8 comes from the guest in rm_intr. Where that row is missing, stays in the guest count.
    #[test]
    fn exits_are_counted_by_one_phase() {
        let exits = |text: &str| read(text).unwrap()[0].exits();
        let power8 = "rm_entry: 5 1 1 1\nrm_intr: 9 1 1 1\nrm_exit: 5 1 1 1\nguest: 9 1 1 1\n";
        assert_eq!(exits(power8), 9);
        assert_eq!(exits("guest_exit: stuck\nin_guest: 4 1 1 1\nvcpu_exit: 3 1 1 1\n"), 4);
        assert_eq!(exits("vcpu_exit: 3 1 1 1\n"), 0);
    }

    #[test]
    fn files_one_after_the_other_are_a_table_each() {
        let text = "guest: 7 70 1 20\ncede: stuck\nguest: 1 2 2 2\ncede: 3 9 1 5\n";
        let tables = read(text).unwrap();
        let sums: Vec<u64> = tables.iter().map(ExitTable::sum_ns).collect();
        let warnings: Vec<usize> = tables.iter().map(|table| table.warnings.len()).collect();
        assert_eq!((sums, warnings), (vec![70, 11], vec![1, 0]));
    }

    #[test]
    fn a_file_that_ends_within_a_name_is_an_error() {
        let whole = "guest_exit: 7 70 1 20\nin_guest: 1 2 2 2\n";
        let name = whole.find("in_guest").unwrap();
        for end in name + 1..name + "in_guest: 1 2 2 2".len() {
            let error = read(&whole[..end]).err();
            let is_line = |error: ktax_model::Error| error.message().starts_with("line 2: ");
            assert!(error.is_some_and(is_line), "{:?}", &whole[..end]);
        }
        for text in ["in_gu", "guest: 1 2 2 2\nin_gu\n", "guest: 1 2 2 2\nother"] {
            assert!(read(text).is_ok(), "{text:?}");
        }
    }

    #[test]
    fn what_is_stuck_is_said() {
        let table = read("hypercall: stuck\r\nvcpu_exit: 1 2 2 2\r\n").unwrap().remove(0);
        assert_eq!((table.rows.len(), table.warnings.len()), (1, 1));
        assert!(read("vcpu_exit: 1 2 2\n").is_err());
    }
}
