//! Commands that the running kernel counts: which one runs when, and the table.

use super::moment::Moment;
use crate::analyse;
use crate::engine::Cancel;
use crate::engine::command::{self, CommandError};
use crate::model::{Blame, Counted, StatCommand, StatTable};
use crate::stats::random::Random;
use crate::text::{escape, shell_line};

/// Why there is no table. The message says what failed, why, and what to do next.
#[derive(Debug, thiserror::Error)]
pub enum StatError {
    /// A command was not counted.
    #[error("{}", escape(&.0.to_string()))]
    Command(#[from] CommandError),
    /// A command failed, and failed runs were not asked for.
    #[error(
        "`{command}` failed with {failure}{last_words}; use --show-output to see all that it \
         prints, or --ignore-failure to count failed runs too"
    )]
    Failed {
        /// As one would type it.
        command: String,
        /// Its exit status or its signal.
        failure: String,
        /// What it printed last.
        last_words: String,
    },
}

impl StatError {
    /// Who can do something about it.
    pub fn blame(&self) -> Blame {
        match self {
            StatError::Command(error) => error.blame(),
            StatError::Failed { .. } => Blame::Host,
        }
    }
}

/// What to count.
#[derive(Debug)]
pub struct StatOrder {
    /// The command; or the base, and the change.
    pub commands: Vec<Vec<String>>,
    /// How often each runs.
    pub runs: u32,
    /// Which one of a pair runs first is drawn from this; only for two commands.
    pub seed: Option<u64>,
    /// Whether the user sees what the commands print.
    pub is_shown: bool,
    /// Whether failed runs count too.
    pub ignores_failure: bool,
}

/// Runs the commands and counts them; `None` where the user stopped it.
///
/// # Errors
/// A command cannot be started or fails, or this machine has no room for it.
pub fn stat(
    order: &StatOrder,
    cancel: &Cancel,
    observe: &dyn Fn(Moment<'_>),
) -> Result<Option<StatTable>, StatError> {
    let mut sides: Vec<Repeated> = order.commands.iter().cloned().map(Repeated::new).collect();
    let mut random = Random::new(order.seed.unwrap_or_default());
    for _ in 0..order.runs {
        let change_first = random.coin();
        if change_first {
            sides.reverse();
        }
        let ended = sides.iter_mut().try_for_each(|side| side.once(order, cancel, observe));
        if change_first {
            sides.reverse();
        }
        match ended {
            Err(StatError::Command(CommandError::Cancelled)) => return Ok(None),
            ended => ended?,
        }
    }
    Ok(Some(table(sides, order)))
}

/// A command, and what its runs came to.
struct Repeated {
    command: StatCommand,
    counted: Vec<Counted>,
}

impl Repeated {
    fn new(words: Vec<String>) -> Repeated {
        let command = StatCommand { words, failures: Vec::new() };
        Repeated { command, counted: Vec::new() }
    }

    /// Runs it once more.
    fn once(
        &mut self,
        order: &StatOrder,
        cancel: &Cancel,
        observe: &dyn Fn(Moment<'_>),
    ) -> Result<(), StatError> {
        let shown = shell_line(&self.command.words);
        observe(Moment::Runs(&shown));
        let ended = command::run(&self.command.words, order.is_shown, cancel)?;
        observe(Moment::Done);
        if let Some(failure) = command::failure(ended.status) {
            if !order.ignores_failure {
                let last_words = last_words(&ended.last_words);
                return Err(StatError::Failed { command: shown, failure, last_words });
            }
            self.command.failures.push(failure);
        }
        self.counted.push(ended.counted);
        Ok(())
    }
}

/// The last lines that say something.
fn last_words(said: &[u8]) -> String {
    const LINES: usize = 3;
    let said = String::from_utf8_lossy(said);
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    if last.is_empty() { String::new() } else { format!(": {}", escape(&last.join(" | "))) }
}

fn table(sides: Vec<Repeated>, order: &StatOrder) -> StatTable {
    let (commands, counted): (Vec<StatCommand>, Vec<Vec<Counted>>) =
        sides.into_iter().map(|side| (side.command, side.counted)).unzip();
    StatTable {
        release: rustix::system::uname().release().to_string_lossy().into_owned(),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        commands,
        runs: order.runs as usize,
        seed: order.seed,
        rows: analyse::counters(&counted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_three_lines_without_controls() {
        assert_eq!(last_words(b"one\ntwo\n\n three\nfo\x1bur\n"), ": two | three | fo\\u{1b}ur");
        assert_eq!(last_words(b"\n"), "");
    }
}
