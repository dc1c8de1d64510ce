//! The index of the cache by package: one record for each version of each package.

use serde::{Deserialize, Serialize};

use super::debian::Package;

/// What the index says of one version of one package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    /// The package that was asked for; a meta-package perhaps.
    pub package: Package,
    /// The package that holds the kernel.
    pub kernel: Package,
    pub image_sha256: String,
    pub config_sha256: Option<String>,
}

impl Record {
    /// Whether it names files of the cache and no others.
    pub fn is_valid(&self) -> bool {
        let digits = |text: &String| {
            text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        digits(&self.image_sha256) && self.config_sha256.as_ref().is_none_or(digits)
    }
}

/// How the kernel of a package is named so that it can be asked for again.
pub(super) fn source_of(package: &Package) -> String {
    format!("debian:{package}")
}
