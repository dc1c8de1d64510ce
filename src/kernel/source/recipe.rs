//! All that a kernel depends on, and the key made of it.

use sha2::{Digest, Sha256};

use super::options::Options;
use super::start::Start;
use super::trees::{Tree, Trees};
use crate::kernel::error::BuildError;
use crate::kernel::target::Target;

/// Changes when the same inputs would make another kernel.
const RECIPE: &str = "1";

/// All that a kernel depends on.
pub(super) struct Recipe {
    pub target: Target,
    /// For people.
    pub source: String,
    pub tree: Tree,
    pub start: Start,
    pub options: Options,
    pub compiler: String,
}

impl Recipe {
    /// Where it is built: for another machine beside those for this one.
    pub fn lane(&self, trees: &Trees) -> Result<String, BuildError> {
        let version = trees.version(&self.tree)?;
        match self.target.is_foreign() {
            true => Ok(format!("{version}-{}", self.target.name)),
            false => Ok(version),
        }
    }

    /// Of what is asked for.
    pub fn key(&self) -> String {
        let options = self.options.text();
        hash(&[RECIPE, &self.tree.id, self.start.text(), &options, &self.compiler])
    }

    /// Of what Kconfig makes of it: another wish can have the same outcome.
    pub fn key_of_outcome(&self, config: &str) -> String {
        hash(&[RECIPE, &self.tree.id, "outcome", config, &self.compiler])
    }
}

/// Of texts, and of where each ends.
pub(super) fn hash(texts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(u64::to_le_bytes(text.len() as u64));
        hash.update(text);
    }
    format!("{:x}", hash.finalize())
}
