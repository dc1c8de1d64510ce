use serde::{Deserialize, Serialize};

/// A fact that travels with a result and is printed below it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Warning {
    /// What is so, and where.
    pub fact: String,
    /// What to do about it.
    pub next_step: String,
}
