use super::table::US;
use crate::model::{ExitAccount, ExitTable};
use crate::report::number;
use crate::stats::tables::{average, share_percent};

/// Whether it adds up, and what it cost to know; nothing where nobody kept account.
pub fn account(table: &ExitTable) -> Option<String> {
    let account = table.account.as_ref().filter(|account| account.wall_ns > 0)?;
    let us = |ns: f64| number::whole(ns / US);
    let open_ns = account.open_ns();
    let missing_ns = account.wall_ns as f64 - table.sum_ns() as f64 - open_ns as f64;
    let mut text = format!(
        "vCPU wall time {} = rows {}",
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
    text +=
        &format!(" + {} missing ({percent:.2} %). Events lost: {}.", us(missing_ns), account.lost);
    Some(text + &missed(account) + &recorder(account, table.exits()))
}

fn missed(account: &ExitAccount) -> String {
    match account.missed_switches {
        0 => String::new(),
        missed => format!(
            " ktax missed {missed} task switches or wakeups of this machine. If one was a vCPU's, \
             time may be in another part of its row."
        ),
    }
}

fn recorder(account: &ExitAccount, exits: u64) -> String {
    let Some(recorder) = account.recorder.as_ref().filter(|_| exits > 0) else {
        return String::new();
    };
    let each = average(recorder.exits_ns as f64, exits as f64);
    format!(
        " The recorder took {} ns for each exit, and {} µs at task switches.",
        number::whole(each),
        number::whole(recorder.switches_ns as f64 / US)
    )
}
