//! What putting back what a killed ktax has left came to.

use std::fmt;

use serde::Serialize;

use crate::text::escape_bytes;

/// What a replay came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Replayed {
    /// What is as it was before.
    pub put_back: Vec<PutBack>,
    /// What is not ktax's any more and stays as it is.
    pub left: Vec<Left>,
}

/// A setting that was put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PutBack {
    pub setting: String,
    pub from: String,
    pub to: String,
}

/// A setting that was left as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Left {
    pub setting: String,
    /// Its value.
    pub now: String,
    pub why: &'static str,
}

impl Replayed {
    /// Whether there was nothing to do.
    pub fn is_empty(&self) -> bool {
        self.put_back.is_empty() && self.left.is_empty()
    }
}

impl fmt::Display for Replayed {
    /// One line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |value: &str| escape_bytes(value.as_bytes());
        let back = self.put_back.iter().map(|at| {
            format!("{} is {} again (was {})", at.setting, value(&at.to), value(&at.from))
        });
        let left = self.left.iter().map(|at| match at.now.as_str() {
            "" => format!("{} is left alone: {}", at.setting, at.why),
            now => format!("{} is left at {}: {}", at.setting, value(now), at.why),
        });
        let all: Vec<String> = back.chain(left).collect();
        match all.as_slice() {
            [] => f.write_str("nothing was left changed"),
            all => f.write_str(&all.join("; ")),
        }
    }
}
