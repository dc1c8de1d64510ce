//! Readers of PowerPC's files in debugfs, in which KVM times its own exits.
//!
//! `timing` (e500 and 440, arch/powerpc/kvm/timing.c, Linux 2.6.29 and later) has durations in
//! whole microseconds; its sums of squares are in timebase ticks times microseconds. `timings`
//! (book3s HV, arch/powerpc/kvm/book3s_hv.c, Linux 4.1 and later) has lines `name: count total
//! least most` in nanoseconds. It has no sums of squares and cannot be cleared.

use std::mem;

use super::{damaged, lines};
use ktax_model::{ExitRow, ExitRows, ExitTable, Result, Warning};

pub(super) const E500: &str = "e500 timing";

const HEADER: &str = "type\tcount\tmin\tmax\tsum\tsum_squared";

/// Width of the column of names, which the kernel aligns to the right.
const NAME_WIDTH: usize = 12;

/// Rows that the kernel prints as `(null)`, because it has no names for them: index among the 30
/// rows, and name.
const NAMELESS_ROWS: [(usize, &str); 4] =
    [(19, "EMUL_RFCI"), (20, "EMUL_RFDI"), (28, "DBELL"), (29, "GDBELL")];

/// Name of the row with the time in the guest.
const GUEST: &str = "TIMEINGUEST";

/// Initial value of a minimum in the kernel, in ticks.
const UNUSED_TICKS: u64 = 0xffff_ffff;

/// A row of `timing` in the file's units.
struct RawRow {
    name: String,
    count: u64,
    least_us: u64,
    most_us: u64,
    sum_us: u64,
    /// Sum of squares, in ticks times microseconds; it wraps.
    squares: i64,
}

pub(super) fn is_e500(text: &str) -> bool {
    lines(text).any(|(_, line)| line.trim() == HEADER)
}

/// Reads all tables of a file. The line before a header is the title of the table.
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
            (open, other) => {
                tables.extend(open.take().map(|rows| e500_table(&title, rows)));
                other.trim_start_matches(['-', '=', ' ']).clone_into(&mut title);
            }
        }
    }
    tables.extend(rows.map(|rows| e500_table(&title, rows)));
    Ok(tables)
}

/// Returns true if the line is the beginning of a row, cut within its name: a name after spaces, or
/// spaces at the end of the text. A title has no spaces before it.
fn is_cut_e500_row(line: &str, text: &str) -> bool {
    let is_name_char = |c: char| c.is_ascii_alphabetic() || "_()".contains(c);
    let name = line.trim_start_matches(' ');
    let is_padded = name.len() < line.len() && line.len() <= NAME_WIDTH;
    let is_last = || line.as_bytes().as_ptr_range().end == text.as_bytes().as_ptr_range().end;
    is_padded && name.chars().all(is_name_char) && (!name.is_empty() || is_last())
}

fn parse_e500_row(number: usize, line: &str) -> Result<RawRow> {
    let damaged = |what: &str| damaged(number, what);
    let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
    if fields.len() != 6 {
        return Err(damaged("the name is not followed by five numbers"));
    }
    let time =
        |index: usize| fields[index].parse::<u64>().map_err(|_| damaged("a time is not a number"));
    // The kernel prints the unsigned count as a signed number.
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
    let nameless =
        |index: usize| NAMELESS_ROWS.iter().find(|(row, _)| *row == index && rows.len() == 30);
    let mut warnings = Vec::new();
    if ticks_per_us.is_none() {
        warnings.push(Warning::new(
            "every row is in use, so ktax cannot tell the timebase, and stddev is missing",
            "clear the file (`echo -n c > timing`), and read it again",
        ));
    }
    let names = rows.iter().enumerate().map(|(index, raw)| match (&*raw.name, nameless(index)) {
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
        exit_row(name, raw, squares_ns2)
    });
    let rows = rows.collect();
    let source = E500.into();
    ExitTable { name: title.to_owned(), source, rows, warnings, ..ExitTable::default() }
}

fn exit_row(reason: String, raw: &RawRow, squares_ns2: Option<u128>) -> ExitRow {
    let is_used = raw.count > 0;
    let ns = |us: u64| us.saturating_mul(1000);
    ExitRow {
        is_guest: reason == GUEST,
        reason,
        count: raw.count,
        // The minimum and maximum of an unused row are the kernel's initial values.
        least_ns: is_used.then(|| ns(raw.least_us)),
        most_ns: is_used.then(|| ns(raw.most_us)),
        sum_ns: Some(ns(raw.sum_us)),
        squares_ns2,
        ..ExitRow::default()
    }
}

/// Returns the timebase's ticks per microsecond; `None` if no row is unused. The minimum of an
/// unused row is the kernel's initial value, converted from ticks to microseconds.
fn ticks_per_us(rows: &[RawRow]) -> Option<u64> {
    let unused = rows.iter().find(|row| row.count == 0 && row.least_us > 0)?;
    Some(UNUSED_TICKS / unused.least_us).filter(|ticks| *ticks > 0)
}

/// Returns the sum of squares, ns²; `None` after an overflow, which shows as a value below
/// sum²/count.
fn squares_ns2(raw: &RawRow, ticks_per_us: u64) -> Option<u128> {
    let (sum, ticks) = (u128::from(raw.sum_us) * 1000, u128::from(ticks_per_us));
    let square_of_sum = sum.checked_mul(sum)?;
    if raw.count <= 1 {
        // For one duration, sum² makes the deviation 0; the kernel's square has a finer unit.
        return Some(square_of_sum);
    }
    let squares = u128::try_from(raw.squares).ok()? * 1_000_000 / ticks;
    let minimum = square_of_sum.div_ceil(u128::from(raw.count));
    // One tick times one microsecond, in ns²: the kernel's division truncates.
    let slack = 1_000_000 / ticks + 1;
    (squares + slack >= minimum).then_some(squares.max(minimum))
}

// The file `timings` of book3s HV.

pub(super) const BOOK3S_HV: &str = "book3s HV timings";

/// Names of all rows, on POWER8 and POWER9.
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

/// Names of the row with the time in the guest: on POWER9, and on POWER8.
const GUEST_PHASES: [&str; 2] = ["in_guest", "guest"];

/// Reads all tables of a file. A name that was read before begins the next table; other lines are
/// ignored.
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

/// Returns true if the line is the last of the text and the beginning of a row, cut within its
/// name.
fn is_cut_phase(line: &str, text: &str) -> bool {
    let is_prefix = |name: &&str| format!("{name}:").starts_with(line);
    !line.is_empty() && text.ends_with(line) && PHASES.iter().any(is_prefix)
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
        is_guest: GUEST_PHASES.contains(&name),
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
    fn both_tables_of_a_console_capture_are_read() {
        let tables = read_e500(CAPTURE).unwrap();
        let titles: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
        assert_eq!(titles.len(), 2, "{titles:?}");
        for table in &tables {
            assert_eq!(table.rows.len(), 30);
            assert!(table.warnings.is_empty(), "{:?}", table.warnings);
            let (guest, exits): (Vec<_>, Vec<_>) = table.rows.iter().partition(|row| row.is_guest);
            assert_eq!(guest[0].count, exits.iter().map(|row| row.count).sum::<u64>());
            let nameless = NAMELESS_ROWS.map(|(index, _)| table.rows[index].reason.as_str());
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
    fn overflowed_numbers_are_corrected_or_left_out() {
        let large = e500_row("MMIO\t-294967296\t1\t9\t4000000000\t1600000000000");
        assert_eq!(large.rows[0].count, 4_000_000_000);
        // Ten durations with a sum of 50 µs have squares of at least 250 µs², times 400 ticks.
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
    fn a_capture_that_ends_within_a_row_is_an_error() {
        let header = CAPTURE.find(HEADER).unwrap() + HEADER.len() + 2;
        let table_bytes = CAPTURE[header..].find("===").unwrap();
        for length in 0..table_bytes {
            let cut = &CAPTURE[..header + length];
            let line = cut.lines().last().unwrap();
            // A cut within the last number cannot be detected.
            let is_in_last_number = line.split('\t').count() == 6 && !line.ends_with(['\t', ' ']);
            let is_row = !cut.ends_with('\n') && !is_in_last_number;
            match read_e500(cut) {
                Ok(tables) => assert!(!is_row, "{line:?} {:?}", tables[0].rows.last()),
                Err(error) => assert!(is_row, "{line:?}: {error}"),
            }
        }
    }

    #[test]
    fn a_row_without_a_name_or_a_header_is_an_error() {
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
    fn a_damaged_row_is_an_error_with_its_line() {
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
        // The counts of all phases add up to 6719.
        assert_eq!(table.exits(), 1003);
    }

    /// On POWER8 each exit has one rm_intr. Without that row, stays in the guest are counted.
    #[test]
    fn exits_are_counted_by_one_phase() {
        let exits = |text: &str| read_book3s_hv(text).unwrap()[0].exits();
        let power8 = "rm_entry: 5 1 1 1\nrm_intr: 9 1 1 1\nrm_exit: 5 1 1 1\nguest: 9 1 1 1\n";
        assert_eq!(exits(power8), 9);
        assert_eq!(exits("guest_exit: stuck\nin_guest: 4 1 1 1\nvcpu_exit: 3 1 1 1\n"), 4);
        assert_eq!(exits("vcpu_exit: 3 1 1 1\n"), 0);
    }

    #[test]
    fn concatenated_files_are_separate_tables() {
        let text = "guest: 7 70 1 20\ncede: stuck\nguest: 1 2 2 2\ncede: 3 9 1 5\n";
        let tables = read_book3s_hv(text).unwrap();
        let sums: Vec<u64> = tables.iter().map(ExitTable::sum_ns).collect();
        let warnings: Vec<usize> = tables.iter().map(|table| table.warnings.len()).collect();
        assert_eq!((sums, warnings), (vec![70, 11], vec![1, 0]));
    }

    #[test]
    fn a_file_that_ends_within_a_name_is_an_error() {
        let text = "guest_exit: 7 70 1 20\nin_guest: 1 2 2 2\n";
        let name = text.find("in_guest").unwrap();
        for end in name + 1..name + "in_guest: 1 2 2 2".len() {
            let error = read_book3s_hv(&text[..end]).err();
            let is_line = |error: ktax_model::Error| error.message().starts_with("line 2: ");
            assert!(error.is_some_and(is_line), "{:?}", &text[..end]);
        }
        for text in ["in_gu", "guest: 1 2 2 2\nin_gu\n", "guest: 1 2 2 2\nother"] {
            assert!(read_book3s_hv(text).is_ok(), "{text:?}");
        }
    }

    #[test]
    fn a_stuck_row_is_a_warning() {
        let table = read_book3s_hv("hypercall: stuck\r\nvcpu_exit: 1 2 2 2\r\n").unwrap().remove(0);
        assert_eq!((table.rows.len(), table.warnings.len()), (1, 1));
        assert!(read_book3s_hv("vcpu_exit: 1 2 2\n").is_err());
    }
}
