//! The name and version of a Debian package.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One version of a Debian package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// For example `linux-image-6.1.0-50-cloud-amd64`.
    pub name: String,
    /// For example `6.1.176-1`.
    pub version: String,
}

impl Package {
    /// `None` if the name or the version breaks the rules of Debian Policy 5.6.
    pub(super) fn new(name: &str, version: &str) -> Option<Self> {
        (is_package_name(name) && is_version(version))
            .then(|| Self { name: name.to_owned(), version: version.to_owned() })
    }
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.version)
    }
}

/// Whether `name` follows Debian Policy 5.6.1. Such a name is safe in an argument and a file name.
pub(super) fn is_package_name(name: &str) -> bool {
    let rest = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(&b);
    (2..=120).contains(&name.len())
        && name.bytes().all(rest)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Whether `version` follows Debian Policy 5.6.12. Such a version is safe in an argument and a file
/// name.
pub(super) fn is_version(version: &str) -> bool {
    (1..=100).contains(&version.len())
        && version.bytes().all(|b| b.is_ascii_alphanumeric() || b".+-~:".contains(&b))
        && version.starts_with(|c: char| c.is_ascii_digit())
}
