use std::fmt;

use serde::{Deserialize, Serialize};

/// Something of the running kernel that can be set. The name comes from users and from files;
/// `settings.rs` makes the path of it, which cannot lead out of the kernel's own directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Setting {
    /// A sysctl, by its name with dots.
    Sysctl(String),
    /// Transparent huge pages.
    Thp,
    /// The frequency governor of a policy: `policy0`.
    Governor(String),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Sysctl(name) => f.write_str(name),
            Setting::Thp => f.write_str("transparent huge pages"),
            Setting::Governor(policy) => write!(f, "governor of {policy}"),
        }
    }
}
