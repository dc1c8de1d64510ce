//! A Kernel from source: a tree, patches, options; built in the cache, once.
//!
//! ```text
//! directory ┐
//! revision  ├─► tree (git) ─► patched tree ─┐
//! package   ┘      start + options ─────────┴─► key ─► cached? ─► lane: check out, make ─► Kernel
//! ```
//!
//! The key is what the kernel depends on: the tree's content, the start, the options, the compiler
//! with the architecture that it is for.
//! What is asked for twice is built once, whichever way it is named; so are two wishes of which
//! Kconfig makes the same configuration.

mod configure;
mod difference;
mod directory;
mod error;
mod git;
mod history;
mod kconfig;
mod lane;
mod make;
mod options;
mod package;
mod record;
mod tools;

pub use difference::{options_between, with_options};
pub use error::BuildError;
pub use history::{commits, that_touch};

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::cache::Cache;
use super::error::KernelError;
use super::spec::{KernelSpec, printable};
use super::{Kernel, Talk, Target};
use crate::model::Subject;
use configure::{Start, configure};
use git::{Tree, Trees};
use lane::Lane;
use make::Make;
use options::Options;

/// Changes when the same inputs would make another kernel.
const RECIPE: &str = "1";

/// All that a kernel depends on.
struct Recipe {
    target: Target,
    /// For people.
    source: String,
    tree: Tree,
    start: Start,
    options: Options,
    compiler: String,
}

impl Recipe {
    /// Where it is built: for another machine beside those for this one.
    fn lane(&self, trees: &Trees) -> Result<String, BuildError> {
        let version = trees.version(&self.tree)?;
        match self.target.is_foreign() {
            true => Ok(format!("{version}-{}", self.target.name)),
            false => Ok(version),
        }
    }

    /// Of what is asked for.
    fn key(&self) -> String {
        let options = self.options.text();
        hash(&[RECIPE, &self.tree.id, self.start.text(), &options, &self.compiler])
    }

    /// Of what Kconfig makes of it: another wish can have the same outcome.
    fn key_of_outcome(&self, config: &str) -> String {
        hash(&[RECIPE, &self.tree.id, "outcome", config, &self.compiler])
    }
}

/// Of texts, and of where each ends.
fn hash(texts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(u64::to_le_bytes(text.len() as u64));
        hash.update(text);
    }
    format!("{:x}", hash.finalize())
}

/// Looks whether all that a build begins with is there.
pub(super) fn check(
    spec: &KernelSpec,
    subject: &Subject,
    cache: &Cache<'_>,
) -> Result<(), KernelError> {
    tools::check(&Target::X86_64)?;
    let trees = Trees::open(&cache.builds())?;
    recipe(spec, (&Target::X86_64, subject), &trees, cache).map(drop)
}

/// Builds what the Subject asks for, or finds it in the cache.
pub(super) fn obtain(
    spec: &KernelSpec,
    (target, subject): (&Target, &Subject),
    cache: &Cache<'_>,
    talk: &Talk<'_>,
) -> Result<Kernel, KernelError> {
    tools::check(target)?;
    let builds = cache.builds();
    let trees = Trees::open(&builds)?;
    let recipe = recipe(spec, (target, subject), &trees, cache)?;
    let key = recipe.key();
    if let Some(kernel) = record::find(cache, &key, &recipe.source)? {
        return Ok(kernel);
    }
    let lane = Lane::take(&builds, &recipe.lane(&trees)?, talk)?;
    // Whoever was waited for may have built it.
    if let Some(kernel) = record::find(cache, &key, &recipe.source)? {
        return Ok(kernel);
    }
    let kernel = build(&trees, &lane, &recipe, cache, talk)?;
    record::remember(cache, &key, &kernel)?;
    Ok(kernel)
}

fn recipe(
    spec: &KernelSpec,
    (target, subject): (&Target, &Subject),
    trees: &Trees,
    cache: &Cache<'_>,
) -> Result<Recipe, KernelError> {
    let start = Start::of(subject.start_config.as_deref(), target)?;
    let options = Options::read(target.options)?.with(&Options::of(&subject.config)?);
    let (mut tree, label) = tree(spec, subject, trees, &cache.builds(), cache)?;
    for patch in &subject.patches {
        tree = patched(trees, &tree, Path::new(patch), &label)?;
    }
    let source = format!("{label} ({})", &tree.id[..12]);
    let compiler = tools::compiler(target)?;
    Ok(Recipe { target: *target, source, tree, start, options, compiler })
}

/// The tree that the specification names, and what it is called.
fn tree(
    spec: &KernelSpec,
    subject: &Subject,
    trees: &Trees,
    builds: &Path,
    cache: &Cache<'_>,
) -> Result<(Tree, String), KernelError> {
    match spec {
        KernelSpec::Source(path) => {
            let directory = directory(path)?;
            Ok((trees.of_directory(&directory)?, format!("src:{}", printable(&directory))))
        }
        KernelSpec::Revision(revision) => {
            let directory = repository(Path::new(subject.tree.as_deref().unwrap_or(".")))?;
            let tree = trees.of_revision(&directory, revision)?;
            Ok((tree, format!("git:{}", printable(&directory))))
        }
        KernelSpec::DebianSource(version) => package::tree(version, trees, builds, cache),
        KernelSpec::Debian { .. } | KernelSpec::File(_) => unreachable!("obtained elsewhere"),
    }
}

/// Where a repository is, with a work tree or bare.
fn repository(path: &Path) -> Result<PathBuf, BuildError> {
    fs::canonicalize(path).map_err(|error| BuildError::Unreadable {
        path: printable(path),
        error,
        wanted: "a repository",
    })
}

fn directory(path: &Path) -> Result<PathBuf, BuildError> {
    let not_a_tree = || BuildError::NotATree { path: printable(path) };
    let directory = fs::canonicalize(path).map_err(|_| not_a_tree())?;
    let is_tree = ["Kconfig", "Makefile"].iter().all(|file| directory.join(file).is_file());
    if is_tree { Ok(directory) } else { Err(not_a_tree()) }
}

fn patched(trees: &Trees, tree: &Tree, patch: &Path, label: &str) -> Result<Tree, BuildError> {
    let absolute = fs::canonicalize(patch).map_err(|error| BuildError::Unreadable {
        path: printable(patch),
        error,
        wanted: "a patch that applies with `patch -p1`",
    })?;
    trees.patched(tree, &absolute).map_err(|error| match error {
        BuildError::Git { said, .. } => {
            BuildError::Patch { patch: printable(patch), source_name: label.to_owned(), said }
        }
        other => other,
    })
}

/// Configures, and makes the image unless there is one of the same configuration.
fn build(
    trees: &Trees,
    lane: &Lane,
    recipe: &Recipe,
    cache: &Cache<'_>,
    talk: &Talk<'_>,
) -> Result<Kernel, KernelError> {
    lane.check_out(trees, &recipe.tree)?;
    let (source, objects) = (lane.source(), lane.objects());
    let what = &recipe.source;
    let ccache = tools::has_ccache().then(|| cache.builds().join("ccache"));
    let ccache = ccache.as_deref();
    let (target, log) = (&recipe.target, lane.log());
    let make = Make { source: &source, objects: &objects, target, log, what, ccache, talk };
    let config = configure(trees, lane, &make, recipe)?;
    let outcome = recipe.key_of_outcome(&config);
    if let Some(kernel) = record::find(cache, &outcome, &recipe.source)? {
        return Ok(kernel);
    }
    cache.note(&format!("building {}; the log is {}", recipe.source, printable(&lane.log())));
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let (image, path) = target.image();
    make.run(&[&format!("-j{jobs}"), image], &[])?;
    (talk.status)("");
    let path = objects.join(path);
    let image = fs::read(&path).map_err(|error| BuildError::Cache {
        action: "read",
        path: printable(&path),
        error,
    })?;
    let kernel = cache.put(&image, Some(config.as_bytes()), &recipe.source)?;
    record::remember(cache, &outcome, &kernel)?;
    Ok(kernel)
}
