//! Why a program does not repeat.

use super::counts::with_boots;
use super::error::Error;
use super::session::Session;
use crate::engine::Stop;
use crate::model::{Comparison, Row, Side, Signature};
use crate::run::traced;
use crate::rundir::AnyRunDir;
use crate::text::counted;

/// Says of each program whose counts differ between layouts what it was given that differs, by
/// running it twice more under ptrace; the caller has locked the directory.
///
/// # Errors
/// The Plan is of another QEMU or ktax, or the guest or the host failed.
pub fn explain_noise(
    dir: &AnyRunDir,
    comparison: &Comparison,
    session: &Session<'_>,
) -> Result<Vec<String>, Error> {
    let AnyRunDir::Counts(dir) = dir else {
        return Ok(vec!["only counts of a program are explained; times always have noise".into()]);
    };
    let plan = &dir.plan().method;
    let is_program = |row: &&Row| plan.programs.iter().any(|program| program.row() == row.row);
    let rows: Vec<&Row> = comparison.rows.iter().filter(is_program).collect();
    let noisy: Vec<&&Row> = rows.iter().filter(|row| is_noisy(row)).collect();
    if noisy.is_empty() {
        let said = if rows.is_empty() { "there is no program" } else { "no program is noisy" };
        return Ok(vec![format!("{said}; there is nothing to explain")]);
    }
    with_boots(dir, session, |boots| {
        let explain = |row: &&Row| {
            session.observer.status(&format!("tracing {}", row.row));
            let values = traced(&boots, plan, &row.row);
            session.observer.status("");
            match values {
                Ok(values) => Ok(sentence(&row.row, &values.unwrap_or_default())),
                Err(Stop::Cancelled) => Err(Error::Cancelled),
                Err(Stop::Failed(failure, _)) => {
                    Ok(format!("{} cannot be traced: {failure}", row.row))
                }
            }
        };
        noisy.iter().map(|row| explain(row)).collect()
    })
}

/// Whether the headline differs between the layouts of a Side.
fn is_noisy(row: &Row) -> bool {
    let first = row.effects().first();
    let differs = |counts: &Vec<u64>| counts.windows(2).any(|pair| pair[0] != pair[1]);
    first.is_some_and(|effect| Side::BOTH.iter().any(|side| differs(effect.samples.get(*side))))
}

fn sentence(row: &str, values: &Signature) -> String {
    let calls = |prefix: &str| {
        let of =
            values.iter().filter_map(|(name, count)| Some((name.strip_prefix(prefix)?, *count)));
        let mut of: Vec<(String, u64)> = of.map(|(name, n)| (name.replace('-', "_"), n)).collect();
        of.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(&other.0)));
        of
    };
    let times = |(name, count): (String, u64)| {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        format!("{name} {}", counted(count, "time"))
    };
    let differs: Vec<String> = calls("differs-").into_iter().map(times).collect();
    let diverges: Vec<String> = calls("diverges-").into_iter().map(|(name, _)| name).collect();
    let runs = match values.get("traced-calls") {
        Some(calls) => format!("two runs of {calls} system calls"),
        None => "two runs".to_owned(),
    };
    let mut said = match differs.is_empty() {
        true => format!(
            "{row}: {runs} were given the same by every system call; what differs between \
             layouts is the kernel's own work"
        ),
        false => format!("{row}: {runs} were given something else by {}", differs.join(", ")),
    };
    if !diverges.is_empty() {
        said += &format!("; they went apart at {}", diverges.join(", "));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_most_comes_first() {
        let values = [("differs-getrandom", 1), ("differs-clock-gettime", 7), ("faults", 3)];
        let mut values: Signature =
            values.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
        let said = sentence("program:a", &values);
        assert!(said.ends_with("else by clock_gettime 7 times, getrandom 1 time"), "{said}");
        values.insert("diverges-futex".to_owned(), 1);
        assert!(sentence("program:a", &values).ends_with("; they went apart at futex"));
        assert!(sentence("program:a", &Signature::new()).contains("two runs were given the same"));
        values.insert("traced-calls".to_owned(), 65536);
        assert!(sentence("program:a", &values).contains("two runs of 65536 system calls were"));
    }
}
