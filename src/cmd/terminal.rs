//! Shows progress on a terminal: notes are lines of stderr, and the current activity is one line
//! that disappears.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::options::cancel;
use super::output::{self, note};
use crate::flow::remaining::{
    Part, Rates, RemainingPairs, RemainingRuns, RemainingTask, Work, format_duration, store_rates,
    stored_rates,
};
use crate::flow::{
    Cancel, Error, Event, KernelTask, Observer, Progress, RunEvent, Timing, max_pairs_for,
};
use crate::text::{ascii, counted, escape};

/// Minimum interval between lines of progress in a log.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Minimum interval between ticks of the clock of timed pairs. The clock ticks between two loops,
/// because a thread would take CPU time from the measurement.
const MIN_TICK_INTERVAL: Duration = Duration::from_secs(1);

/// Observer that shows progress on a terminal, or in a log.
pub struct Terminal {
    bar: Mutex<Option<ProgressBar>>,
    remaining: Arc<Mutex<RemainingRuns>>,
    /// Start of the command.
    started: Instant,
    /// Start of the current part of a ledger or a search.
    part_started: Mutex<Instant>,
    last_line: Mutex<Instant>,
    last_tick: Mutex<Instant>,
    pairs: Mutex<RemainingPairs>,
    tasks: Mutex<RemainingTask>,
    has_explained_estimates: AtomicBool,
    log_line: Box<dyn Fn(&str) + Send + Sync>,
}

/// Number of CPUs, which is the number of parallel compilations.
fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics with the lock")
}

impl Terminal {
    pub fn new() -> Terminal {
        let started = Instant::now();
        Terminal {
            bar: Mutex::default(),
            remaining: Arc::new(Mutex::new(RemainingRuns::new(stored_rates()))),
            started,
            part_started: Mutex::new(started),
            last_line: Mutex::new(started),
            last_tick: Mutex::new(started),
            pairs: Mutex::default(),
            tasks: Mutex::new(RemainingTask::new(stored_rates(), cpus())),
            has_explained_estimates: AtomicBool::new(false),
            log_line: Box::new(|text| note!("ktax: {text}")),
        }
    }

    /// Calls `update` with the current bar, or with a new one.
    fn with_bar(&self, new_bar: impl FnOnce() -> ProgressBar, update: impl FnOnce(&ProgressBar)) {
        update(lock(&self.bar).get_or_insert_with(new_bar));
    }

    fn clear(&self) {
        if let Some(bar) = lock(&self.bar).take() {
            bar.finish_and_clear();
        }
    }

    /// Time since the start of the current part of a ledger or a search.
    fn part_elapsed(&self) -> Duration {
        lock(&self.part_started).elapsed()
    }

    /// Bar of runs, with the estimated time left.
    fn bar(&self) -> ProgressBar {
        let (remaining, started) = (Arc::clone(&self.remaining), self.started);
        let left = move |_: &ProgressState, to: &mut dyn std::fmt::Write| {
            let left = lock(&remaining).left(started.elapsed());
            let _ = write!(to, "{}", format_duration(left));
        };
        let bar = bar_of_runs(0);
        let style = style("{bar:24} {pos}/{len} runs  {left} left  {wide_msg}");
        bar.set_style(style.with_key("left", left));
        bar
    }

    /// Prints a line to a log if the last line is older than [`LOG_INTERVAL`].
    fn log(&self, text: impl FnOnce() -> String) {
        let is_shown = lock(&self.bar).as_ref().is_some_and(|bar| !bar.is_hidden());
        let mut last = lock(&self.last_line);
        if !is_shown && last.elapsed() >= LOG_INTERVAL {
            *last = Instant::now();
            (self.log_line)(&text());
        }
    }

    /// Progress of the runs, as a sentence.
    fn progress_text(&self) -> String {
        let mut remaining = lock(&self.remaining);
        let ((done, total), left) =
            (remaining.run_counts(), remaining.left(self.started.elapsed()));
        let total = counted(total, "run");
        format!("{done} of {total}; about {} left", format_duration(left))
    }
}

impl Observer for Terminal {
    fn note(&self, text: &str) {
        match &*lock(&self.bar) {
            Some(bar) => bar.suspend(|| note!("ktax: {text}")),
            None => note!("ktax: {text}"),
        }
    }

    fn status(&self, text: &str) {
        match text {
            "" => self.clear(),
            text => {
                self.with_bar(spinner, |bar| set_message(bar, text));
                self.log(|| text.to_owned());
            }
        }
    }

    /// Shows a bar for each task, because tasks take minutes.
    fn task(&self, task: &KernelTask) {
        let now = self.started.elapsed();
        let (estimate, line) = {
            let mut tasks = lock(&self.tasks);
            (tasks.update(now, task), tasks.line(now, task))
        };
        if let Some(estimate) = estimate {
            self.clear();
            self.note(&estimate);
        }
        if task.is_over {
            self.clear();
            self.rates_measured(&lock(&self.tasks).measured_rates());
            return;
        }
        self.with_bar(
            || bar_of_task(task.total.is_some()),
            |bar| {
                bar.set_length(task.total.unwrap_or_default());
                bar.set_position(task.done);
                set_message(bar, &line);
            },
        );
        self.log(|| line);
    }

    fn part(&self, part: Part) {
        lock(&self.remaining).part(part);
        lock(&self.pairs).part(part);
    }

    fn begin(&self, work: &Work) {
        self.clear();
        *lock(&self.part_started) = Instant::now();
        lock(&self.remaining).begin(work.clone());
        let (done, total) = lock(&self.remaining).run_counts();
        self.with_bar(
            || self.bar(),
            |bar| {
                bar.set_length(total as u64);
                bar.set_position(done as u64);
            },
        );
    }

    fn event(&self, event: &Event<'_>) {
        let done = {
            let mut remaining = lock(&self.remaining);
            remaining.event(self.started.elapsed(), event);
            remaining.run_counts().0
        };
        self.with_bar(spinner, |bar| {
            match event {
                Event::Booting(step) => set_message(bar, &format!("{}: booting", step.name())),
                Event::Running(step, row) => set_message(bar, &format!("{}: {row}", step.name())),
                Event::Lost(step, failure) => bar.suspend(|| {
                    note!(
                        "ktax: {} failed and runs again: {}",
                        step.name(),
                        escape(&failure.to_string())
                    )
                }),
                Event::Found(..) | Event::Booted(..) | Event::Done(..) => {}
            }
            bar.set_position(done as u64);
        });
        self.log(|| self.progress_text());
    }

    /// Removes the bar, and prints how the time was spent.
    fn end(&self, timing: &Timing) {
        self.clear();
        let runs: usize = timing.runs.values().map(|(count, _)| count).sum();
        if runs == 0 {
            return;
        }
        self.rates_measured(&lock(&self.remaining).rates());
        note!(
            "ktax: {} in {:.1} s; sum over all VMs: {:.1} s for {}, {:.1} s for runs",
            counted(runs, "run"),
            self.part_elapsed().as_secs_f64(),
            timing.boot_time.as_secs_f64(),
            counted(timing.boots, "boot"),
            timing.run_time().as_secs_f64(),
        );
        if timing.runs.len() == 1 {
            return;
        }
        note!("ktax: longest runs: {}", longest_runs(timing));
    }

    fn rates_measured(&self, rates: &Rates) {
        store_rates(rates);
    }

    fn tick(&self) {
        let mut last = lock(&self.last_tick);
        if last.elapsed() >= MIN_TICK_INTERVAL {
            *last = Instant::now();
            if let Some(bar) = &*lock(&self.bar) {
                bar.tick();
            }
        }
    }

    fn pairs(&self, done: &Progress, estimates: Option<&[(String, f64)]>) {
        let shows_estimates = estimates.is_some();
        if shows_estimates && !self.has_explained_estimates.swap(true, Ordering::Relaxed) {
            self.note(
                "estimates are shown during the run; this does not change when the run stops",
            );
        }
        let message = self.pairs_text(done, estimates);
        let silent_spinner = || {
            let bar = spinner();
            bar.disable_steady_tick();
            bar
        };
        self.with_bar(silent_spinner, |bar| {
            // A log gets every step, a terminal only the last one.
            if shows_estimates && bar.is_hidden() {
                note!("ktax: {message}");
            }
            set_message(bar, &message);
        });
        if !shows_estimates {
            self.log(|| message.clone());
        }
    }
}

impl Terminal {
    /// Progress of the pairs of this run, and an upper bound of the time left in all runs.
    fn pairs_text(&self, done: &Progress, estimates: Option<&[(String, f64)]>) -> String {
        let mut pairs = lock(&self.pairs);
        let part = pairs.part_of_several();
        let mut line = String::new();
        if let Some(Part { index, count, .. }) = part {
            line += &format!("run {} of {count}; ", index + 1);
        }
        let limit = done.cap.map(|cap| format!(" of at most {cap}")).unwrap_or_default();
        line += &format!("pairs: {}{limit}; A/A pairs: {}", done.pairs, done.controls);
        if let Some(estimates) = estimates {
            let ratios = estimates.iter().map(|(row, ratio)| format!("{row} {ratio:.3}"));
            line += &format!("; {}", ratios.collect::<Vec<_>>().join(", "));
        }
        let total = done.pairs + done.controls;
        let left = pairs.left(self.started.elapsed(), total, done.cap.map(max_pairs_for));
        if let Some(left) = left {
            let for_all = part.map(|part| format!(" for {} runs", part.count)).unwrap_or_default();
            line += &format!("; at most {} left{for_all}", format_duration(left));
        }
        line
    }
}

/// Three rows whose runs take longest on average, each with its mean time.
fn longest_runs(timing: &Timing) -> String {
    let means =
        timing.runs.iter().map(|(row, (count, time))| (row, time.as_secs_f64() / *count as f64));
    let mut means: Vec<(&String, f64)> = means.collect();
    means.sort_by(|left, right| right.1.total_cmp(&left.1));
    let longest = means.iter().take(3).map(|(row, mean)| format!("{row} {mean:.2} s"));
    longest.collect::<Vec<_>>().join(", ")
}

/// Style of a bar, in characters that the terminal can show.
fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).expect("the template is well formed");
    style.progress_chars(if output::is_ascii() { "=> " } else { "━╸ " })
}

fn bar_of_runs(runs: usize) -> ProgressBar {
    let target = match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(Some(runs as u64), target);
    bar.set_style(style("{bar:24} {pos}/{len} runs  {eta} left  {wide_msg}"));
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// Bar whose message shows the progress of a task; a spinner if the total is unknown.
fn bar_of_task(has_total: bool) -> ProgressBar {
    let bar = if has_total { bar_of_runs(0) } else { spinner() };
    if has_total {
        bar.set_style(style("{bar:24} {wide_msg}"));
    }
    bar
}

/// Spinner for work without a known end.
fn spinner() -> ProgressBar {
    let bar = bar_of_runs(0);
    bar.set_style(style("{spinner} {elapsed_precise} {wide_msg}"));
    bar
}

/// Sets the message of a bar. Names from files are escaped.
fn set_message(bar: &ProgressBar, message: &str) {
    let message = escape(message);
    bar.set_message(if output::is_ascii() { ascii(&message) } else { message });
}

/// Calls `work` with the flag that Ctrl-C raises, and with the observer of a bar of runs. A ticking
/// bar has a thread, which takes CPU time.
pub fn with_bar_of_runs<T>(
    runs: usize,
    is_ticking: bool,
    work: impl FnOnce(&Cancel, &dyn Fn(RunEvent<'_>)) -> Result<T, Error>,
) -> Result<T, Error> {
    let cancel = cancel()?;
    let bar = bar_of_runs(runs);
    if !is_ticking {
        bar.disable_steady_tick();
    }
    let result = work(&cancel, &|event| match event {
        RunEvent::Started(what) => set_message(&bar, what),
        RunEvent::Ended => bar.inc(1),
    });
    bar.finish_and_clear();
    result
}

#[cfg(test)]
#[path = "terminal_tests.rs"]
mod tests;
