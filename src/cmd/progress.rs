//! What is running, how many of how many, time left: on stderr, and only if that is a terminal.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::model::Plan;
use crate::run::{Event, Timing};
use crate::text::escape;

/// A bar over so many Runs.
pub fn bar_of_runs(runs: usize) -> ProgressBar {
    let target = match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(Some(runs as u64), target);
    let template = "{bar:24} {pos}/{len} runs  {eta} left  {wide_msg}";
    let style = ProgressStyle::with_template(template).expect("the template is well formed");
    bar.set_style(style.progress_chars("━╸ "));
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// What goes on for long without a known end.
pub fn spinner() -> ProgressBar {
    let bar = bar_of_runs(0);
    bar.set_style(
        ProgressStyle::with_template("{spinner} {elapsed_precise} {wide_msg}")
            .expect("the template is well formed"),
    );
    bar
}

/// Says what is running: rows and kernels have names from files, which do nothing to a terminal.
pub fn say(bar: &ProgressBar, message: &str) {
    bar.set_message(escape(message));
}

/// The progress of one run directory.
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
}

impl Progress {
    /// Shows a bar over all Runs of a Plan.
    pub fn new(plan: &Plan) -> Progress {
        let runs = plan.steps.len() * plan.workloads.len();
        Progress { bar: bar_of_runs(runs), started: Instant::now() }
    }

    /// Shows one event.
    pub fn show(&self, event: &Event<'_>) {
        match event {
            Event::Booting(step) => say(&self.bar, &format!("{}: booting", step.name())),
            Event::Running(step, workload) => {
                say(&self.bar, &format!("{}: {}", step.name(), workload.row));
            }
            Event::Done(runs) => self.bar.inc(*runs as u64),
        }
    }

    /// Takes the bar away and says where the time went.
    pub fn finish(&self, timing: &Timing) {
        self.bar.finish_and_clear();
        let runs: usize = timing.runs.values().map(|(count, _)| count).sum();
        if runs == 0 {
            return;
        }
        note!(
            "ktax: {runs} runs in {:.1} s; all VMs together: {} boots {:.1} s, runs {:.1} s",
            self.started.elapsed().as_secs_f64(),
            timing.boots,
            timing.boot_time.as_secs_f64(),
            timing.run_time().as_secs_f64(),
        );
        if timing.runs.len() == 1 {
            return;
        }
        let mut rows: Vec<_> = timing.runs.iter().map(|(row, (n, time))| (time, n, row)).collect();
        rows.sort_by_key(|(time, ..)| std::cmp::Reverse(*time));
        let slowest: Vec<String> = rows
            .iter()
            .take(3)
            .map(|(time, count, row)| format!("{row} {:.2} s", time.as_secs_f64() / **count as f64))
            .collect();
        note!("ktax: longest runs: {}", slowest.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_does_nothing_to_a_terminal() {
        let bar = ProgressBar::hidden();
        say(&bar, "fork\x1b]0;x\x07");
        assert_eq!(bar.message(), "fork\\u{1b}]0;x\\u{7}");
    }
}
