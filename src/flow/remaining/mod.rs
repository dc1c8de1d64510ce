//! How long it still takes: what earlier runs taught, and what this one does.

mod pairs;
mod rates;
mod shown;
mod store;
#[cfg(test)]
mod tests;
mod work;

pub use pairs::RemainingPairs;
pub use rates::Rates;
pub use store::{learn, learned};
pub use work::{Part, Remaining, Work};

use std::time::Duration;

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
