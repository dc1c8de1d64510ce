//! What is running, how many of how many, time left: on stderr. A terminal has it in one line that
//! goes away; anything else gets a line now and then.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::locale;
use crate::flow::Moment;
use crate::text::{ascii, escape};

/// What a bar is drawn with, and the same in ASCII.
pub const CHARS: [&str; 2] = ["━╸ ", "=> "];

/// A bar over so many Runs.
pub fn bar_of_runs(runs: usize) -> ProgressBar {
    let target = match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(Some(runs as u64), target);
    let template = "{bar:24} {pos}/{len} runs  {eta} left  {wide_msg}";
    let style = ProgressStyle::with_template(template).expect("the template is well formed");
    bar.set_style(style.progress_chars(CHARS[usize::from(locale::is_ascii())]));
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// A bar whose message says how far a step is; a spinner if nobody knows the total.
pub fn bar_of_task(has_total: bool) -> ProgressBar {
    let bar = if has_total { bar_of_runs(0) } else { spinner() };
    if has_total {
        let style = ProgressStyle::with_template("{bar:24} {wide_msg}");
        let style = style.expect("the template is well formed");
        bar.set_style(style.progress_chars(CHARS[usize::from(locale::is_ascii())]));
    }
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
    let message = escape(message);
    bar.set_message(if locale::is_ascii() { ascii(&message) } else { message });
}

/// Shows what goes on.
pub fn show(bar: &ProgressBar, moment: Moment<'_>) {
    match moment {
        Moment::Runs(what) => say(bar, what),
        Moment::Done => bar.inc(1),
    }
}
