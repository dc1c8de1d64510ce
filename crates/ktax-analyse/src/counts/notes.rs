//! Warnings about Runs, each given once for all rows that it holds for.

use ktax_model::{Region, Sample, Warning, Workload};

/// Instructions between the reads of the clock and the markers, generously.
const BRACKET: u64 = 64;

/// A fact of Runs, and the rows that it holds for.
type FactRows = (String, Vec<String>);

/// Facts that were found in the Runs of the rows so far.
#[derive(Default)]
pub(super) struct Notes {
    asleep: Vec<String>,
    mixed: Vec<FactRows>,
}

impl Notes {
    /// Looks at the Runs of one more row.
    pub(super) fn add<'a>(
        &mut self,
        workload: &Workload,
        samples: impl Iterator<Item = &'a Sample>,
    ) {
        let mut is_asleep = false;
        for sample in samples {
            // Of a program of the user's the time is that of the whole program, with its markers.
            let is_marked = workload.region == Region::Marked && !workload.is_users();
            is_asleep |= is_marked && sleeps(sample);
            for note in &sample.notes {
                match self.mixed.iter_mut().find(|(known, _)| known == note) {
                    Some((_, rows)) if rows.last() == Some(&workload.row) => {}
                    Some((_, rows)) => rows.push(workload.row.clone()),
                    None => self.mixed.push((note.clone(), vec![workload.row.clone()])),
                }
            }
        }
        self.asleep.extend(is_asleep.then(|| workload.row.clone()));
    }

    /// One Warning for each fact.
    pub(super) fn warnings(self) -> Vec<Warning> {
        let asleep = (!self.asleep.is_empty()).then(|| Warning {
            fact: rows_fact(&self.asleep, "sleeps", "sleep", ""),
            next_step: "ktax counts what these rows execute, and not how long they sleep".into(),
        });
        let noted = self.mixed.into_iter().map(|(note, rows)| note_warning(&note, &rows));
        asleep.into_iter().chain(noted).collect()
    }
}

fn note_warning(note: &str, rows: &[String]) -> Warning {
    let (fact, next_step) = if note.starts_with("path: ") {
        let next_step = "the counts are right; what --explain says of callers may not be";
        (rows_fact(rows, "names wrong callers", "name wrong callers", ""), next_step)
    } else {
        let next_step = "add up the contexts of such a row; `ktax doctor` checks the plugin";
        (rows_fact(rows, "mixes contexts", "mix contexts", &format!(" ({note})")), next_step)
    };
    Warning { fact, next_step: next_step.into() }
}

/// Whether the guest's clock went on while no instruction ran. The clock is QEMU's own count; only
/// the few instructions around the Region are not in the total. What faults is in the total twice,
/// so that more there says nothing.
fn sleeps(sample: &Sample) -> bool {
    sample.tsc > sample.total.saturating_add(BRACKET)
}

/// `1 row sleeps: pipe`, `2 rows sleep: pipe, futex`
fn rows_fact(rows: &[String], one: &str, several: &str, why: &str) -> String {
    let names = rows.join(", ");
    match rows.len() {
        1 => format!("1 row {one}{why}: {names}"),
        count => format!("{count} rows {several}{why}: {names}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(row: &str, region: Region) -> Workload {
        let (title, operation, program) = (String::new(), String::new(), String::new());
        let (params, signature, numbers) = Default::default();
        let row = row.to_owned();
        let (ops, memory_bytes) = (1, 0);
        Workload {
            row,
            title,
            operation,
            program,
            ops,
            region,
            params,
            memory_bytes,
            signature,
            numbers,
        }
    }

    fn sample(asleep: u64, notes: &[&str]) -> Sample {
        let (counts, signature, values) = Default::default();
        let notes = notes.iter().map(|note| (*note).to_owned()).collect();
        Sample {
            ops: 1,
            counts,
            total: 1000,
            tsc: 1000 + asleep,
            signature,
            values,
            notes,
            printed: None,
            parallel: None,
        }
    }

    #[test]
    fn what_holds_for_many_runs_is_said_once_with_the_rows() {
        let mut notes = Notes::default();
        // Each boot sleeps another time.
        let asleep = [sample(90_000, &[]), sample(80_000, &[]), sample(70_000, &["rep: old API"])];
        for row in ["pipe", "futex"] {
            notes.add(&workload(row, Region::Marked), asleep.iter());
        }
        notes.add(&workload("getppid", Region::Marked), [sample(BRACKET, &[])].iter());
        notes.add(&workload("kernel-boot", Region::Boot), [sample(90_000, &[])].iter());
        let facts: Vec<String> = notes.warnings().into_iter().map(|warning| warning.fact).collect();
        let expected =
            ["2 rows sleep: pipe, futex", "2 rows mix contexts (rep: old API): pipe, futex"];
        assert_eq!(facts, expected);
        let mut notes = Notes::default();
        notes.add(&workload("pipe", Region::Marked), [sample(BRACKET + 1, &[])].iter());
        assert_eq!(notes.warnings()[0].fact, "1 row sleeps: pipe");
    }
}
