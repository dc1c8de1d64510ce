//! Which settings of a killed ktax were restored.

use std::fmt;

use serde::Serialize;

use ktax_host::text::escape_bytes;

/// Which settings of a killed ktax were restored, and which were not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Replayed {
    /// Settings that have their old value again.
    pub put_back: Vec<PutBack>,
    /// Settings that somebody else has changed since; they stay as they are.
    pub left: Vec<Left>,
}

/// A setting that was restored.
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
    /// Whether the journal had no setting that differs.
    pub fn is_empty(&self) -> bool {
        self.put_back.is_empty() && self.left.is_empty()
    }
}

impl fmt::Display for Replayed {
    /// Writes one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |value: &str| escape_bytes(value.as_bytes());
        let back = self.put_back.iter().map(|at| {
            format!("restored {} to {} (was {})", at.setting, value(&at.to), value(&at.from))
        });
        let left = self.left.iter().map(|at| match at.now.as_str() {
            "" => format!("did not restore {}: {}", at.setting, at.why),
            now => format!("left {} at {}: {}", at.setting, value(now), at.why),
        });
        let all: Vec<String> = back.chain(left).collect();
        match all.as_slice() {
            [] => f.write_str("no setting was left changed"),
            all => f.write_str(&all.join("; ")),
        }
    }
}
