//! How long it still takes: what earlier runs taught, and what this one does.

mod pairs;
mod rates;
mod shown;
mod store;
mod tasks;
#[cfg(test)]
mod tests;
mod work;

pub use pairs::RemainingPairs;
pub use rates::Rates;
pub use store::{learn, learned};
pub use tasks::RemainingTask;
pub use work::{Part, Remaining, Work};

use std::time::Duration;

/// What an estimate rests on, in words.
pub fn basis(is_learned: bool) -> &'static str {
    match is_learned {
        true => "as earlier runs on this machine took",
        false => "a guess, because nothing was measured on this machine yet",
    }
}

/// As [`spoken`], but two digits of what is short: a multiple of it is what is said of the whole.
pub fn precisely(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..0.0995 => format!("{:.3} s", seconds),
        ..0.995 => format!("{:.2} s", seconds),
        ..9.95 => format!("{:.1} s", seconds),
        _ => spoken(time),
    }
}

/// As a person says it: `45 s`, `3 min 20 s`, `1 h 5 min`.
pub fn spoken(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..600 => format!("{minutes} min {} s", seconds % 60),
        600..3600 => format!("{minutes} min"),
        _ => format!("{hours} h {minutes} min"),
    }
}
