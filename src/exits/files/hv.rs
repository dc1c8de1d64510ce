//! The `timings` file of book3s HV (arch/powerpc/kvm/book3s_hv.c, 4.1 and later): `name: count
//! total least most`, nanoseconds; no squares, and no way to clear it.

use super::{ExitsError, lines};
use crate::model::{ExitRow, ExitTable, FORMAT, Warning};

/// What POWER9 and POWER8 have; each of them names the time in the guest.
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

const GUEST: [&str; 2] = ["in_guest", "guest"];

/// The one table of a file; lines of something else are passed over.
pub(super) fn read(text: &str) -> Result<Vec<ExitTable>, ExitsError> {
    let (mut rows, mut warnings) = (Vec::new(), Vec::new());
    for (number, line) in lines(text) {
        let Some((name, numbers)) = line.split_once(": ") else { continue };
        if !NAMES.contains(&name) {
            continue;
        }
        if numbers.trim() == "stuck" {
            warnings.push(Warning {
                fact: format!("{name} is stuck: the kernel could not read it"),
                next_step: "read the file again".into(),
            });
            continue;
        }
        rows.push(row(number, name, numbers)?);
    }
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let (of, source) = (String::new(), "book3s HV timings".to_owned());
    Ok(vec![ExitTable { format: FORMAT, of, source, rows, warnings, account: None }])
}

fn row(number: usize, name: &str, numbers: &str) -> Result<ExitRow, ExitsError> {
    let parsed: Result<Vec<u64>, _> = numbers.split_whitespace().map(str::parse).collect();
    let what = "not four numbers behind the name";
    let damaged = || ExitsError::Damaged { line: number, what: what.to_owned() };
    let [count, sum_ns, least, most] = parsed.map_err(|_| damaged())?[..] else {
        return Err(damaged());
    };
    Ok(ExitRow {
        reason: name.to_owned(),
        is_guest: GUEST.contains(&name),
        count,
        least_ns: (count > 0).then_some(least),
        most_ns: (count > 0).then_some(most),
        sum_ns,
        squares_ns2: None,
        p50_ns: None,
        p99_ns: None,
        parts: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capture_of_a_power9_is_read() {
        let table =
            read(include_str!("../../../tests/data/exits/power9-timings.txt")).unwrap().remove(0);
        let guest = table.row("in_guest").unwrap();
        assert_eq!((guest.count, guest.sum_ns, guest.is_guest), (1003, 8_150_016, true));
        assert_eq!(table.rows.len(), 7);
    }

    #[test]
    fn what_is_stuck_is_said() {
        let table = read("hypercall: stuck\r\nvcpu_exit: 1 2 2 2\r\n").unwrap().remove(0);
        assert_eq!((table.rows.len(), table.warnings.len()), (1, 1));
        assert!(read("vcpu_exit: 1 2 2\n").is_err());
    }
}
