//! Why a program does not repeat.

use std::cmp::Reverse;

use syscalls::x86_64::Sysno;

use super::counts::with_boots;
use super::error::Error;
use super::session::Session;
use crate::analyse::{TraceDifference, between_traces};
use crate::engine::Stop;
use crate::model::{Comparison, CountsPlan, Row, Side, Step, TracedCall};
use crate::run::{CountsBoots, traced};
use crate::rundir::AnyRunDir;
use crate::text::counted;

/// Says of each program whose counts differ between Layouts what it was given that differs, by
/// running it under ptrace in the two whose counts are furthest apart; the caller has locked the
/// directory.
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
        if !rows.is_empty() && plan.layouts.len() < 2 {
            return Ok(vec!["noise is between layouts; measure with --layouts 2 or more".into()]);
        }
        let said = if rows.is_empty() { "there is no program" } else { "no program is noisy" };
        return Ok(vec![format!("{said}; there is nothing to explain")]);
    }
    with_boots(dir, session, |boots| {
        let explain = |row: &&Row| {
            session.observer.status(&format!("tracing {}", row.row));
            let traces = in_two_layouts(&boots, plan, row);
            session.observer.status("");
            match traces {
                Ok([one, other]) => Ok(sentence(&row.row, &between_traces(&one, &other))),
                Err(Stop::Cancelled) => Err(Error::Cancelled),
                Err(Stop::Failed(failure, _)) => {
                    Ok(format!("{} cannot be traced: {failure}", row.row))
                }
            }
        };
        noisy.iter().map(|row| explain(row)).collect()
    })
}

fn in_two_layouts(
    boots: &CountsBoots<'_>,
    plan: &CountsPlan,
    row: &Row,
) -> Result<[Vec<TracedCall>; 2], Stop> {
    let program = plan.workloads.iter().find(|workload| workload.row == row.row);
    let program = program.expect("a row of a plan is one of its workloads");
    let [one, other] = furthest_apart(plan, row);
    Ok([traced(boots, plan, one, program)?, traced(boots, plan, other, program)?])
}

/// The Steps of the Side with the larger range that have the smallest and the largest count.
fn furthest_apart<'a>(plan: &'a CountsPlan, row: &Row) -> [&'a Step; 2] {
    let counts = |side: Side| row.effects().first().map(|effect| effect.samples.get(side));
    let of_side = |side: Side| plan.steps.iter().filter(move |step| step.side == side);
    let pair = |side: Side| {
        let counted = counts(side).into_iter().flatten().copied().zip(of_side(side));
        let (least, most) = (counted.clone().min_by_key(by_count), counted.max_by_key(by_count));
        let ((least, one), (most, other)) = least.zip(most)?;
        Some((most - least, [one, other]))
    };
    let pairs = Side::BOTH.into_iter().filter_map(pair);
    let pair = pairs.max_by_key(|(range, _)| *range);
    pair.expect("a noisy row has counts").1
}

fn by_count(of: &(u64, &Step)) -> u64 {
    of.0
}

/// Whether the headline differs between the layouts of a Side.
fn is_noisy(row: &Row) -> bool {
    let first = row.effects().first();
    let differs = |counts: &Vec<u64>| counts.windows(2).any(|pair| pair[0] != pair[1]);
    first.is_some_and(|effect| Side::BOTH.iter().any(|side| differs(effect.samples.get(*side))))
}

fn sentence(row: &str, difference: &TraceDifference) -> String {
    let mut given: Vec<(u16, u64)> =
        difference.given.iter().map(|(number, times)| (*number, *times)).collect();
    given.sort_by_key(|(number, times)| (Reverse(*times), *number));
    let times = |(number, times): &(u16, u64)| {
        let times = usize::try_from(*times).unwrap_or(usize::MAX);
        format!("{} {}", name(*number), counted(times, "time"))
    };
    let given: Vec<String> = given.iter().map(times).collect();
    let apart: Vec<String> = difference.apart.iter().map(|number| name(*number)).collect();
    let until = match difference.is_cut {
        true => format!(", up to its system call {},", TracedCall::MOST),
        false => String::new(),
    };
    let mut said = match given.is_empty() {
        true => format!(
            "{row}: two layouts{until} gave it the same by every system call; what differs is the \
             kernel's own work"
        ),
        false => {
            format!("{row}: two layouts{until} gave it something else by {}", given.join(", "))
        }
    };
    if !apart.is_empty() {
        said += &format!("; its runs went apart at {}", apart.join(", "));
    }
    said
}

/// As the kernel names it.
fn name(number: u16) -> String {
    match Sysno::new(number.into()) {
        _ if number == TracedCall::RDTSC => "the clock (rdtsc)".to_owned(),
        Some(call) => call.name().to_owned(),
        None => format!("system call {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_most_comes_first() {
        let difference = |given: &[(u16, u64)], apart: &[u16]| TraceDifference {
            given: given.iter().copied().collect(),
            apart: apart.iter().copied().collect(),
            is_cut: false,
        };
        let few = [(318, 1), (228, 7), (511, 1), (510, 1)];
        let said = sentence("program:a", &difference(&few, &[]));
        let named = "clock_gettime 7 times, getrandom 1 time, system call 510 1 time, the clock \
            (rdtsc) 1 time";
        assert_eq!(said, format!("program:a: two layouts gave it something else by {named}"));
        let said = sentence("program:a", &difference(&few, &[202]));
        assert!(said.ends_with("; its runs went apart at futex"), "{said}");
        let cut = TraceDifference { is_cut: true, ..TraceDifference::default() };
        let said = sentence("program:a", &cut);
        assert!(said.contains("two layouts, up to its system call 32768, gave it the same"));
    }
}
