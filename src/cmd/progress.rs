//! What is running, how many of how many, time left: on stderr, and only if that is a terminal.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cmd::note::note;
use crate::flow::{Event, Moment, Observer, Progress, Timing};
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

/// Shows what goes on.
pub fn show(bar: &ProgressBar, moment: Moment<'_>) {
    match moment {
        Moment::Runs(what) => say(bar, what),
        Moment::Done => bar.inc(1),
    }
}

/// Tells a person at a terminal what is going on: notes are lines of stderr, all else is one line
/// that goes away.
pub struct Terminal {
    bar: Mutex<Option<ProgressBar>>,
    started: Instant,
    has_peeked: AtomicBool,
}

impl Terminal {
    /// Shows nothing yet.
    pub fn new() -> Terminal {
        let has_peeked = AtomicBool::new(false);
        Terminal { bar: Mutex::default(), started: Instant::now(), has_peeked }
    }

    /// Works with the bar that is shown, or with a new one.
    fn with_bar(&self, make: impl FnOnce() -> ProgressBar, work: impl FnOnce(&ProgressBar)) {
        let mut bar = self.bar.lock().expect("no thread panics with the lock");
        work(bar.get_or_insert_with(make));
    }

    fn clear(&self) {
        if let Some(bar) = self.bar.lock().expect("no thread panics with the lock").take() {
            bar.finish_and_clear();
        }
    }
}

impl Observer for Terminal {
    fn note(&self, text: &str) {
        match &*self.bar.lock().expect("no thread panics with the lock") {
            Some(bar) => bar.suspend(|| note!("ktax: {text}")),
            None => note!("ktax: {text}"),
        }
    }

    fn status(&self, text: &str) {
        match text {
            "" => self.clear(),
            text => self.with_bar(spinner, |bar| say(bar, text)),
        }
    }

    fn begin(&self, runs: usize) {
        self.clear();
        self.with_bar(|| bar_of_runs(runs), |_| ());
    }

    fn event(&self, event: &Event<'_>) {
        self.with_bar(spinner, |bar| match event {
            Event::Booting(step) => say(bar, &format!("{}: booting", step.name())),
            Event::Running(step, row) => say(bar, &format!("{}: {row}", step.name())),
            Event::Done(runs) => bar.inc(*runs as u64),
        });
    }

    /// Takes the bar away and says where the time went.
    fn end(&self, timing: &Timing) {
        self.clear();
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

    fn pairs(&self, done: &Progress, estimates: Option<&[(String, f64)]>) {
        let peek = estimates.is_some();
        if peek && !self.has_peeked.swap(true, Ordering::Relaxed) {
            self.note(
                "estimates are shown during the run; this does not change when the run stops",
            );
        }
        let most = done.cap.map(|cap| format!(" of at most {cap}")).unwrap_or_default();
        let mut message = format!("pairs: {}{most}; A/A pairs: {}", done.pairs, done.controls);
        if let Some(known) = estimates {
            let known = known.iter().map(|(row, ratio)| format!("{row} {ratio:.3}"));
            message += &format!("; {}", known.collect::<Vec<_>>().join(", "));
        }
        let quiet = || {
            let bar = spinner();
            // Its thread would take the CPU from what is measured.
            bar.disable_steady_tick();
            bar
        };
        self.with_bar(quiet, |bar| {
            // A log has every step; a terminal the last one.
            if peek && bar.is_hidden() {
                note!("ktax: {message}");
            }
            say(bar, &message);
        });
    }
}
