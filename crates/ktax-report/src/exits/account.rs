use crate::number;
use ktax_model::{ExitTable, RecorderCost};
use ktax_stats::tables::share_percent;

/// Whether a table adds up; nothing where nobody kept account.
pub fn account(table: &ExitTable) -> Option<String> {
    let account = table.account.as_ref().filter(|account| account.wall_ns > 0)?;
    let us = |ns: f64| number::whole(ns / number::US);
    let open_ns = account.open_ns();
    let missing_ns = account.wall_ns as f64 - table.sum_ns() as f64 - open_ns as f64;
    let mut text = format!(
        "vCPU wall time {} µs = rows {}",
        us(account.wall_ns as f64),
        us(table.sum_ns() as f64)
    );
    if !account.open.is_empty() {
        let mut reasons: Vec<&str> = account.open.iter().map(|open| open.reason.as_str()).collect();
        reasons.sort_unstable();
        reasons.dedup();
        text += &format!(" + {} in open exits ({})", us(open_ns as f64), reasons.join(", "));
    }
    let percent = share_percent(missing_ns, account.wall_ns as f64);
    Some(text + &format!(" + {} missing ({percent:.2} %).", us(missing_ns)))
}

/// What a recorder says of itself: once, however many tables of its recording there are, and from
/// the least to the most where there are several recordings.
pub fn recorders<'a>(tables: impl IntoIterator<Item = &'a ExitTable>) -> Option<String> {
    let accounts: Vec<_> = tables.into_iter().filter_map(|table| table.account.as_ref()).collect();
    let lost = range(accounts.iter().map(|account| account.lost))?;
    let mut text = format!("Events lost: {lost}.");
    let missed = accounts.iter().map(|account| account.missed_switches);
    if missed.clone().any(|missed| missed > 0) {
        let missed = range(missed).unwrap_or_default();
        text += &format!(
            " ktax missed {missed} task switches or wakeups of this machine. If one was a vCPU's, \
             time may be in another part of its row."
        );
    }
    let costs: Vec<&RecorderCost> = accounts.iter().filter_map(|it| it.recorder.as_ref()).collect();
    let at_exits = range(costs.iter().map(|cost| cost.exit_ns));
    let at_switches = range(costs.iter().map(|cost| cost.switch_ns));
    if let Some((exit, switch)) = at_exits.zip(at_switches) {
        text += &format!(
            " The recorder took {exit} ns for each exit, and {switch} ns for each task switch or \
             wakeup of this machine. The times include this, and what the kernel takes to call \
             the recorder."
        );
    }
    Some(text)
}

/// `411`, or `408 to 411`.
fn range(values: impl Iterator<Item = u64> + Clone) -> Option<String> {
    let [least, most] = [values.clone().min()?, values.max()?].map(|it| number::whole(it as f64));
    Some(if least == most { least } else { format!("{least} to {most}") })
}
