use std::process::ExitCode;

use crate::flow::Error;
use crate::model::{Blame, Comparison, Effect, Metric, Row, Verdict, metric};

/// What the exit status says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// No slowdown detected.
    Ok = 0,
    /// ktax or its host failed.
    Internal = 1,
    /// The command line, the experiment or the plan is wrong.
    Usage = 2,
    /// A slowdown above the threshold.
    Slower = 3,
    /// Too few boots, or different work.
    Inconclusive = 4,
    /// A boot or a run failed.
    NotRun = 69,
    /// The machine failed, or is in use: another try may end well.
    TryAgain = 75,
    /// Stopped by the user.
    Cancelled = 130,
}

impl Exit {
    /// What Comparisons say as a whole: the first of slowdown, failure, doubt. Only headline rows
    /// are asked.
    pub fn of_comparisons(comparisons: &[Comparison]) -> Exit {
        match headline(comparisons).any(is_slower) {
            true => Exit::Slower,
            false => Exit::of_measuring(comparisons),
        }
    }

    /// The same where a slowdown is no news.
    pub fn of_measuring<'a>(comparisons: impl IntoIterator<Item = &'a Comparison>) -> Exit {
        let rows: Vec<Exit> = headline(comparisons).map(of_measured).collect();
        let mut order = [Exit::Internal, Exit::NotRun, Exit::Inconclusive].into_iter();
        order.find(|exit| rows.contains(exit)).unwrap_or(Exit::Ok)
    }

    /// What an error says.
    pub fn of_error(error: &Error) -> Exit {
        match error.blame() {
            None => Exit::Cancelled,
            Some(Blame::User) => Exit::Usage,
            Some(Blame::Guest) => Exit::NotRun,
            Some(Blame::Host) => Exit::Internal,
        }
    }

    /// What `git bisect run` is told: a commit that cannot be judged is skipped, and what is no
    /// commit's fault ends the search.
    pub fn for_bisect(self) -> ExitCode {
        const SKIP: u8 = 125;
        match self {
            Exit::Ok | Exit::Slower => self.into(),
            Exit::NotRun | Exit::Inconclusive => ExitCode::from(SKIP),
            Exit::Internal | Exit::Usage | Exit::TryAgain | Exit::Cancelled => self.of_no_commit(),
        }
    }

    /// What `git bisect run` is told of an error that would be the same with every commit, such as
    /// that there is no QEMU.
    pub fn of_no_commit(self) -> ExitCode {
        const ABORT: u8 = 128;
        match self {
            Exit::Cancelled => self.into(),
            other => ExitCode::from(ABORT + other as u8),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// What a row says where a slowdown is no news.
fn of_measured(row: &Row) -> Exit {
    match row.verdict {
        Verdict::Slower | Verdict::Faster | Verdict::BelowThreshold => Exit::Ok,
        Verdict::NoDetectedChange | Verdict::OneSide => Exit::Ok,
        Verdict::TooFewBoots | Verdict::DifferentWork | Verdict::Inconclusive => Exit::Inconclusive,
        // A full disk says nothing of a guest.
        Verdict::Failed if is_of_the_host(row) => Exit::Internal,
        Verdict::Failed => Exit::NotRun,
    }
}

fn is_of_the_host(row: &Row) -> bool {
    row.failures.iter().any(|failed| failed.failure.blame() == Blame::Host)
}

fn headline<'a>(
    comparisons: impl IntoIterator<Item = &'a Comparison>,
) -> impl Iterator<Item = &'a Row> {
    comparisons.into_iter().flat_map(|comparison| &comparison.rows).filter(|row| row.headline)
}

/// Fewer instructions do not make up for more REP iterations: neither is the other's unit.
fn is_slower(row: &Row) -> bool {
    let is_slower = |effect: &Effect| {
        effect.verdict == Verdict::Slower && metric(&effect.metric).is_some_and(Metric::decides)
    };
    row.verdict == Verdict::Slower || row.effects().iter().any(is_slower)
}
