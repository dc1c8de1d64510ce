//! Files in debugfs with KVM's own timing, of PowerPC. `timing` of e500 and 440
//! (arch/powerpc/kvm/timing.c, 2.6.29 and later) has microseconds, truncated, and for the squares
//! ticks of the timebase times microseconds. `timings` of book3s HV (arch/powerpc/kvm/book3s_hv.c,
//! 4.1 and later) has `name: count total least most`, nanoseconds; no squares, and no way to clear
//! it.

use std::mem;

use super::{damaged, lines};
use ktax_model::{ExitRow, ExitRows, ExitTable, Result, Warning};

pub(super) const E500: &str = "e500 timing";

const HEADER: &str = "type\tcount\tmin\tmax\tsum\tsum_squared";

const NAME_WIDTH: usize = 12;

/// Rows that the kernel has no names for and prints as `(null)`, by their index among 30: two of
/// them come after TIMEINGUEST.
const NAMELESS: [(usize, &str); 4] =
    [(19, "EMUL_RFCI"), (20, "EMUL_RFDI"), (28, "DBELL"), (29, "GDBELL")];

const GUEST: &str = "TIMEINGUEST";

/// Initial value of a minimum in the kernel, in ticks.
const UNUSED_TICKS: u64 = 0xffff_ffff;

struct RawRow {
    name: String,
    count: u64,
    least_us: u64,
    most_us: u64,
    sum_us: u64,
    /// Ticks times microseconds; it wraps.
    squares: i64,
}

pub(super) fn is_e500(text: &str) -> bool {
    lines(text).any(|(_, line)| line.trim() == HEADER)
}

/// Reads every table of a file; the line before a header names the table.
pub(super) fn read_e500(text: &str) -> Result<Vec<ExitTable>> {
    let (mut tables, mut title, mut rows) = (Vec::new(), String::new(), None);
    for (number, line) in lines(text) {
        let is_row = line.contains('\t');
        match (&mut rows, line.trim()) {
            (rows, HEADER) => {
                tables.extend(rows.replace(Vec::new()).map(|rows| e500_table(&title, rows)));
            }
            (Some(rows), _) if is_row => rows.push(parse_e500_row(number, line)?),
            (Some(_), _) if is_cut_e500_row(line, text) => {
                return Err(damaged(number, "a row that ends within its name"));
            }
            (Some(_), "") => {}
            (None, _) if is_row && parse_e500_row(number, line).is_ok() => {
                return Err(damaged(number, "a row without the header of its table"));
            }
            (before, other) => {
                tables.extend(before.take().map(|rows| e500_table(&title, rows)));
                other.trim_start_matches(['-', '=', ' ']).clone_into(&mut title);
            }
        }
    }
    tables.extend(rows.map(|rows| e500_table(&title, rows)));
    Ok(tables)
}

/// Returns true for a row that ends within its name. The kernel right-aligns names in a column, and
/// titles of tables begin at its left. A blank line is such a row only at the end of the text.
fn is_cut_e500_row(line: &str, text: &str) -> bool {
    let is_name_char = |c: char| c.is_ascii_alphabetic() || "_()".contains(c);
    let name = line.trim_start_matches(' ');
    let is_padded = name.len() < line.len() && line.len() <= NAME_WIDTH;
    let is_the_end = || line.as_bytes().as_ptr_range().end == text.as_bytes().as_ptr_range().end;
    is_padded && name.chars().all(is_name_char) && (!name.is_empty() || is_the_end())
}

fn parse_e500_row(number: usize, line: &str) -> Result<RawRow> {
    let damaged = |what: &str| damaged(number, what);
    let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
    if fields.len() != 6 {
        return Err(damaged("the name is not followed by five numbers"));
    }
    let time =
        |index: usize| fields[index].parse::<u64>().map_err(|_| damaged("a time is not a number"));
    // Printed as signed: from 2³¹ on it looks negative.
    let count = fields[1].parse::<i32>().map_err(|_| damaged("a count is not a number"))?;
    Ok(RawRow {
        name: fields[0].to_owned(),
        count: u64::from(count as u32),
        least_us: time(2)?,
        most_us: time(3)?,
        sum_us: time(4)?,
        squares: fields[5].parse().map_err(|_| damaged("a sum of squares is not a number"))?,
    })
}

fn e500_table(title: &str, rows: Vec<RawRow>) -> ExitTable {
    let ticks_per_us = ticks_per_us(&rows);
    let named = |index: usize| NAMELESS.iter().find(|(row, _)| *row == index && rows.len() == 30);
    let mut warnings = Vec::new();
    if ticks_per_us.is_none() {
        warnings.push(Warning::new(
            "every row is in use, so ktax cannot tell the timebase, and stddev is missing",
            "clear the file (`echo -n c > timing`), and read it again",
        ));
    }
    let names = rows.iter().enumerate().map(|(index, raw)| match (&*raw.name, named(index)) {
        ("(null)", Some((_, name))) => (*name).to_owned(),
        ("(null)", None) => format!("(null) {}", index + 1),
        _ => raw.name.clone(),
    });
    let names: Vec<String> = names.collect();
    let rows = names.into_iter().zip(&rows).map(|(name, raw)| {
        let squares_ns2 = ticks_per_us.and_then(|ticks| squares_ns2(raw, ticks));
        if ticks_per_us.is_some() && squares_ns2.is_none() && raw.count > 0 {
            let fact =
                format!("the sum of squares of {name} has overflowed, so its stddev is missing");
            warnings.push(Warning::new(fact, "clear the file more often"));
        }
        finished(name, raw, squares_ns2)
    });
    let rows = rows.collect();
    let source = E500.into();
    ExitTable { name: title.to_owned(), source, rows, warnings, ..ExitTable::default() }
}

fn finished(reason: String, raw: &RawRow, squares_ns2: Option<u128>) -> ExitRow {
    let was_there = raw.count > 0;
    let ns = |us: u64| us.saturating_mul(1000);
    ExitRow {
        is_guest: reason == GUEST,
        reason,
        count: raw.count,
        // An unused row has the kernel's initial values.
        least_ns: was_there.then(|| ns(raw.least_us)),
        most_ns: was_there.then(|| ns(raw.most_us)),
        sum_ns: Some(ns(raw.sum_us)),
        squares_ns2,
        ..ExitRow::default()
    }
}

/// Ticks per microsecond, from the minimum of an unused row: it is the kernel's initial value
/// divided by this. `None` where no row is unused.
fn ticks_per_us(rows: &[RawRow]) -> Option<u64> {
    let unused = rows.iter().find(|row| row.count == 0 && row.least_us > 0)?;
    Some(UNUSED_TICKS / unused.least_us).filter(|ticks| *ticks > 0)
}

/// Sum of squares, ns²; `None` if it is less than durations of this sum can have.
fn squares_ns2(raw: &RawRow, ticks_per_us: u64) -> Option<u128> {
    let (sum, ticks) = (u128::from(raw.sum_us) * 1000, u128::from(ticks_per_us));
    let square_of_sum = sum.checked_mul(sum)?;
    if raw.count <= 1 {
        // The sum was cut to microseconds and the square was not: one duration has no deviation.
        return Some(square_of_sum);
    }
    let squares = u128::try_from(raw.squares).ok()? * 1_000_000 / ticks;
    let least = square_of_sum.div_ceil(u128::from(raw.count));
    // The kernel's division truncates.
    let slack = 1_000_000 / ticks + 1;
    (squares + slack >= least).then_some(squares.max(least))
}

// The file of book3s HV.

pub(super) const BOOK3S_HV: &str = "book3s HV timings";

const PHASES: [&str; 12] = [
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
const IN_GUEST: [&str; 2] = ["in_guest", "guest"];

/// Reads every table of a file: a repeated name begins the next table. Other lines are ignored.
pub(super) fn read_book3s_hv(text: &str) -> Result<Vec<ExitTable>> {
    let mut tables = Vec::new();
    let (mut seen, mut rows, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    for (number, line) in lines(text) {
        let Some((name, numbers)) = line.split_once(": ") else {
            if !seen.is_empty() && is_cut_phase(line, text) {
                return Err(damaged(number, "a row that ends within its name"));
            }
            continue;
        };
        if !PHASES.contains(&name) {
            continue;
        }
        if seen.contains(&name) {
            seen.clear();
            tables.extend(phase_table(mem::take(&mut rows), mem::take(&mut warnings)));
        }
        seen.push(name);
        if numbers.trim() == "stuck" {
            let fact = format!("{name} is stuck: the kernel could not read it");
            warnings.push(Warning::new(fact, "read the file again"));
            continue;
        }
        rows.push(parse_phase(number, name, numbers)?);
    }
    tables.extend(phase_table(rows, warnings));
    Ok(tables)
}

/// Returns true for a row that ends within its name, as only the last line can.
fn is_cut_phase(line: &str, text: &str) -> bool {
    let begins = |name: &&str| format!("{name}:").starts_with(line);
    !line.is_empty() && text.ends_with(line) && PHASES.iter().any(begins)
}

/// Makes the table of these rows; `None` without rows.
fn phase_table(rows: Vec<ExitRow>, warnings: Vec<Warning>) -> Option<ExitTable> {
    let (source, rows_are) = (BOOK3S_HV.to_owned(), ExitRows::Phases);
    let table = ExitTable { source, rows_are, rows, warnings, ..ExitTable::default() };
    (!table.rows.is_empty()).then_some(table)
}

fn parse_phase(number: usize, name: &str, numbers: &str) -> Result<ExitRow> {
    let parsed: Result<Vec<u64>, _> = numbers.split_whitespace().map(str::parse).collect();
    let damaged = || damaged(number, "the name is not followed by four numbers");
    let [count, sum_ns, least, most] = parsed.map_err(|_| damaged())?[..] else {
        return Err(damaged());
    };
    Ok(ExitRow {
        reason: name.to_owned(),
        is_guest: IN_GUEST.contains(&name),
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

    const CAPTURE: &str = include_str!("../../../../tests/data/exits/e500v2-timing.txt");

    #[test]
    fn both_tables_of_a_serial_line_are_read() {
        let tables = read_e500(CAPTURE).unwrap();
        let titles: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
        assert_eq!(titles.len(), 2, "{titles:?}");
        for table in &tables {
            assert_eq!(table.rows.len(), 30);
            assert!(table.warnings.is_empty(), "{:?}", table.warnings);
            let (guest, exits): (Vec<_>, Vec<_>) = table.rows.iter().partition(|row| row.is_guest);
            assert_eq!(guest[0].count, exits.iter().map(|row| row.count).sum::<u64>());
            let nameless = NAMELESS.map(|(index, _)| table.rows[index].reason.as_str());
            assert_eq!(nameless, ["EMUL_RFCI", "EMUL_RFDI", "DBELL", "GDBELL"]);
        }
        let counts =
            |reason| tables.iter().map(|t| t.row(reason).unwrap().count).collect::<Vec<_>>();
        assert_eq!(counts("EMUL_MTSPR"), [6000, 0]);
        assert_eq!(counts("MMIO"), [2000, 2000]);
    }

    fn e500_row(row: &str) -> ExitTable {
        read_e500(&format!("{HEADER}\n{row}\n        HALT\t0\t10737418\t0\t0\t0\n"))
            .unwrap()
            .remove(0)
    }

    #[test]
    fn what_the_kernel_cannot_print_is_read_as_it_was_meant() {
        let large = e500_row("MMIO\t-294967296\t1\t9\t4000000000\t1600000000000");
        assert_eq!(large.rows[0].count, 4_000_000_000);
        // Ten that make 50 µs together have 250 µs² at least, times 400.
        for squares in ["-7", "99000"] {
            let wrapped = e500_row(&format!("MMIO\t10\t1\t9\t50\t{squares}"));
            assert_eq!((wrapped.rows[0].squares_ns2, wrapped.warnings.len()), (None, 1));
        }
        assert!(e500_row("MMIO\t10\t1\t9\t50\t100000").warnings.is_empty());
        let unused = &e500_row("MMIO\t1\t1\t1\t1\t400").rows[1];
        assert_eq!((unused.least_ns, unused.most_ns), (None, None));
        let text = format!("{HEADER}\nMMIO\t1\t1\t1\t1\t400\n");
        let unknown = read_e500(&text).unwrap().remove(0);
        assert_eq!((unknown.rows[0].squares_ns2, unknown.warnings.len()), (None, 1));
    }

    #[test]
    fn a_capture_that_ends_anywhere_within_a_row_is_an_error() {
        let header = CAPTURE.find(HEADER).unwrap() + HEADER.len() + 2;
        let whole = CAPTURE[header..].find("===").unwrap();
        for length in 0..whole {
            let cut = &CAPTURE[..header + length];
            let line = cut.lines().last().unwrap();
            // The last number may be shorter than it was: nobody can tell.
            let is_in_the_last = line.split('\t').count() == 6 && !line.ends_with(['\t', ' ']);
            let is_row = !cut.ends_with('\n') && !is_in_the_last;
            match read_e500(cut) {
                Ok(tables) => assert!(!is_row, "{line:?} {:?}", tables[0].rows.last()),
                Err(error) => assert!(is_row, "{line:?}: {error}"),
            }
        }
    }

    #[test]
    fn a_row_without_its_name_or_its_table_is_an_error_and_text_is_not() {
        let row = "        HALT\t0\t10737418\t0\t0\t0\n";
        let cut = format!("{HEADER}\n{row}        HA\n{row}");
        let after = format!("{HEADER}\n{row}# \n{row}");
        let before = format!("{row}{HEADER}\n{row}");
        for (text, line) in [(cut, 3), (after, 4), (before, 1)] {
            let error = read_e500(&text).unwrap_err();
            assert!(error.message().starts_with(&format!("line {line}: ")), "{error}");
        }
        for other in ["HA", "=== HALT", "    see below, HALT", "   \n# ", "", "a\tb"] {
            let text = format!("{HEADER}\n{row}{other}\n{HEADER}\n{row}");
            let tables = read_e500(&text).map(|tables| tables.len());
            assert_eq!(tables.ok(), (other != "a\tb").then_some(2), "{other:?}");
        }
    }

    #[test]
    fn a_line_that_was_cut_is_an_error_with_its_number() {
        let rows = ["MMIO\t1\t1\t1\tx\t0", "MMIO\t1\t1\t1", "MMIO\t1\t1", "A\t1\t1\t1\t1\t1\tB\t1"];
        for row in rows {
            let text = format!("{HEADER}\n{row}\nHALT\t0\t10737418\t0\t0\t0\n");
            let error = read_e500(&text).unwrap_err();
            assert!(error.message().starts_with("line 2: "), "{row}: {error}");
        }
    }

    #[test]
    fn the_capture_of_a_power9_is_read() {
        let table = read_book3s_hv(include_str!("../../../../tests/data/exits/power9-timings.txt"))
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
        let exits = |text: &str| read_book3s_hv(text).unwrap()[0].exits();
        let power8 = "rm_entry: 5 1 1 1\nrm_intr: 9 1 1 1\nrm_exit: 5 1 1 1\nguest: 9 1 1 1\n";
        assert_eq!(exits(power8), 9);
        assert_eq!(exits("guest_exit: stuck\nin_guest: 4 1 1 1\nvcpu_exit: 3 1 1 1\n"), 4);
        assert_eq!(exits("vcpu_exit: 3 1 1 1\n"), 0);
    }

    #[test]
    fn files_one_after_the_other_are_a_table_each() {
        let text = "guest: 7 70 1 20\ncede: stuck\nguest: 1 2 2 2\ncede: 3 9 1 5\n";
        let tables = read_book3s_hv(text).unwrap();
        let sums: Vec<u64> = tables.iter().map(ExitTable::sum_ns).collect();
        let warnings: Vec<usize> = tables.iter().map(|table| table.warnings.len()).collect();
        assert_eq!((sums, warnings), (vec![70, 11], vec![1, 0]));
    }

    #[test]
    fn a_file_that_ends_within_a_name_is_an_error() {
        let whole = "guest_exit: 7 70 1 20\nin_guest: 1 2 2 2\n";
        let name = whole.find("in_guest").unwrap();
        for end in name + 1..name + "in_guest: 1 2 2 2".len() {
            let error = read_book3s_hv(&whole[..end]).err();
            let is_line = |error: ktax_model::Error| error.message().starts_with("line 2: ");
            assert!(error.is_some_and(is_line), "{:?}", &whole[..end]);
        }
        for text in ["in_gu", "guest: 1 2 2 2\nin_gu\n", "guest: 1 2 2 2\nother"] {
            assert!(read_book3s_hv(text).is_ok(), "{text:?}");
        }
    }

    #[test]
    fn what_is_stuck_is_said() {
        let table = read_book3s_hv("hypercall: stuck\r\nvcpu_exit: 1 2 2 2\r\n").unwrap().remove(0);
        assert_eq!((table.rows.len(), table.warnings.len()), (1, 1));
        assert!(read_book3s_hv("vcpu_exit: 1 2 2\n").is_err());
    }
}
