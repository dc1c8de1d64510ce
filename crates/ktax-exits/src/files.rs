//! Readers of exit tables in files: ktax's recordings, text traces, and files that kernels write.
//!
//! Files come from anywhere, so a reader returns an error for any text that it does not understand.

mod debugfs;
mod kvm_stat;
mod trace;

use super::table::TableScope;
use ktax_model::{Error, ExitTable, Result, Saved, SavedResult, check_exits, read_results};

/// Maximum size of a file, in bytes: thousands of tables, or some million events as text.
pub const FILE_MAX: u64 = 1 << 30;

/// Format of a file with exit tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A recording of ktax, in JSON.
    Recording,
    /// PowerPC's file `timing` in debugfs (e500).
    E500,
    /// The text of `perf kvm stat`.
    KvmStat,
    /// PowerPC's file `timings` in debugfs (book3s HV).
    Book3sHv,
    /// A trace as text. Only its tables can be of single vCPUs.
    Trace,
}

/// Returns the format of a file; `None` if it has no exit table.
pub fn detect_kind(text: &str) -> Option<FileKind> {
    let has_timings = || debugfs::read_book3s_hv(text).is_ok_and(|tables| !tables.is_empty());
    // Recognizing a trace may need all of the text, because other events may come before KVM's
    // first: so it is tried last.
    match text {
        text if is_recording(text) => Some(FileKind::Recording),
        text if debugfs::is_e500(text) => Some(FileKind::E500),
        text if kvm_stat::recognizes(text) => Some(FileKind::KvmStat),
        _ if has_timings() => Some(FileKind::Book3sHv),
        text => trace::recognizes(text).then_some(FileKind::Trace),
    }
}

/// Reads the tables of a file, in the order of the file.
pub fn read(text: &str, scope: TableScope) -> Result<Vec<ExitTable>> {
    let tables = match detect_kind(text) {
        Some(FileKind::Recording) => result_tables(read_results(text).map_err(|error| {
            Error::user(error.to_string()).next("record again with this version of ktax")
        })?)?,
        Some(FileKind::E500) => debugfs::read_e500(text)?,
        Some(FileKind::KvmStat) => kvm_stat::read(text)?,
        Some(FileKind::Trace) => trace::read(text, scope)?,
        // `detect_kind` does not recognize a damaged `timings`; its reader reports the line.
        Some(FileKind::Book3sHv) | None => debugfs::read_book3s_hv(text)?,
    };
    check_exits(&tables).map_err(|fault| fault.next("record again"))?;
    if tables.is_empty() { Err(trace::no_table_error(text)) } else { Ok(tables) }
}

/// Returns true if the table comes from a file whose counts the kernel only increases.
pub(crate) fn is_cumulative(table: &ExitTable) -> bool {
    [debugfs::E500, debugfs::BOOK3S_HV].contains(&table.source.as_str())
}

fn is_recording(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && text.contains("\"format\"")
}

/// Returns the exit tables of all results; an error if a result has none.
pub fn result_tables(results: Vec<Saved>) -> Result<Vec<ExitTable>> {
    let mut tables = Vec::new();
    for saved in results {
        let exit_tables = match saved.result {
            SavedResult::Exits(exit_tables) => exit_tables,
            SavedResult::Comparison(comparison) => comparison.exit_tables(),
            SavedResult::ExitDiff(pair) => vec![pair.base, pair.change],
            _ => Vec::new(),
        };
        if exit_tables.is_empty() {
            let message = "the file has no exit tables: it has another result";
            return Err(Error::user(message).next("print it with `ktax report`"));
        }
        tables.extend(exit_tables);
    }
    Ok(tables)
}

/// Makes the error of a damaged line.
fn damaged(line: usize, what: &str) -> Error {
    Error::user(format!("line {line}: {what}")).next("copy the whole file again")
}

/// Returns the lines with their numbers, from 1, and without carriage returns of serial consoles.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line.trim_end_matches('\r')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use ktax_model::FORMAT;

    #[test]
    fn a_trace_is_recognized_however_late_its_first_kvm_event_is() {
        let wakeups = "a-1 [000] 1.500000: sched_wakeup: comm=b pid=9 prio=120\n".repeat(1500);
        let kvm = "a-1 [000] 2.000000: kvm_entry: vcpu 0, rip 0x1\n\
                   a-1 [000] 2.000007: kvm_exit: reason EXIT_HLT rip 0x1 info 0 0\n";
        let tables = read(&format!("{wakeups}{kvm}"), TableScope::Vm).unwrap();
        assert_eq!(tables[0].row("TIMEINGUEST").unwrap().sum_ns, Some(7000));
        let error = read(&wakeups, TableScope::Vm).unwrap_err().to_string();
        assert!(
            error.starts_with("it is a trace with 1500 sched_wakeup, and has no exit"),
            "{error}"
        );
    }

    #[test]
    fn a_reason_twice_in_a_timing_file_is_refused() {
        let row = "MMIO\t1\t1\t1\t1\t400\n";
        let text = format!("type\tcount\tmin\tmax\tsum\tsum_squared\n{row}{row}");
        let error = read(&text, TableScope::Vm).unwrap_err();
        let fault = "its table 1 has two rows for the reason \"MMIO\"; record again";
        assert_eq!(error.to_string(), fault);
    }

    proptest! {
        #[test]
        fn any_text_is_a_table_or_an_error(text in "\\PC*|.*") {
            let _ = read(&text, TableScope::Vm);
        }

        #[test]
        fn any_row_is_a_row_or_an_error(
            rows in vec("[A-Z()_ ]{0,12}\t-?[0-9]{0,11}(\t[0-9]{0,20}){3}\t-?[0-9]{0,20}", 0..40),
        ) {
            let text = format!("type\tcount\tmin\tmax\tsum\tsum_squared\n{}\n", rows.join("\n"));
            if let Ok(tables) = read(&text, TableScope::Vm) {
                prop_assert_eq!(tables[0].rows.len(), rows.len());
                let _ = tables[0].sum_ns();
            }
        }

        #[test]
        fn any_timings_are_a_table_or_an_error(
            rows in vec("[a-z_]{1,12}: ([0-9]{0,21} ?){0,5}", 0..9),
        ) {
            let _ = read(&rows.join("\n"), TableScope::Vm);
        }
    }

    #[test]
    fn a_later_format_is_refused_with_its_number() {
        let later = FORMAT + 1;
        let error =
            read(&format!("[{{\"format\": {later}, \"since\": 7}}]"), TableScope::Vm).unwrap_err();
        let expected = format!(
            "it has format {later}, and this ktax reads format {FORMAT}; record again with this \
             version of ktax"
        );
        assert_eq!(error.to_string(), expected);
    }
}
