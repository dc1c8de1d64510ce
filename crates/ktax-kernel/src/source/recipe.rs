//! What a kernel is built from, and its key in the cache.

use super::options::Options;
use super::start::Start;
use super::trees::{Tree, Trees};
use crate::error::BuildError;
use crate::target::Target;
use ktax_host::disk::sha256_of_parts;

/// A part of every key. Change it when ktax builds another kernel from the same inputs.
const RECIPE: &str = "1";

/// What a kernel is built from.
pub(super) struct Recipe {
    pub target: Target,
    /// The name of the source, for messages and the Identity.
    pub source: String,
    /// The tree with its patches.
    pub tree: Tree,
    pub start: Start,
    pub options: Options,
    /// The versions of compiler and linker.
    pub compiler: String,
}

impl Recipe {
    /// The name of the lane it is built in: the kernel's version, and the target if it is foreign.
    pub(super) fn lane(&self, trees: &Trees) -> Result<String, BuildError> {
        let version = trees.version(&self.tree)?;
        match self.target.is_foreign() {
            true => Ok(format!("{version}-{}", self.target.name)),
            false => Ok(version),
        }
    }

    /// The key of what the user asked for.
    pub(super) fn key(&self) -> String {
        let options = self.options.text();
        sha256_of_parts(&[RECIPE, &self.tree.id, self.start.text(), &options, &self.compiler])
    }

    /// The key of the finished configuration. Different options can lead to the same one.
    pub(super) fn key_of_outcome(&self, config: &str) -> String {
        sha256_of_parts(&[RECIPE, &self.tree.id, "outcome", config, &self.compiler])
    }
}
