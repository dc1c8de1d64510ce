//! A Kernel from source: a tree, patches, options; built in the cache, once.
//!
//! ```text
//! directory ┐
//! revision  ├─► tree (git) ─► patched tree ─┐
//! package   ┘      start + options ─────────┴─► key ─► cached? ─► lane: check out, make ─► Kernel
//! ```
//!
//! The key is what the kernel depends on: the tree's content, the start, the options, the compiler.
//! What is asked for twice is built once, whichever way it is named.

mod error;
mod git;
mod kconfig;
mod lane;
mod make;
mod options;
mod package;
mod record;
mod tools;

pub use error::BuildError;

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::cache::Cache;
use super::error::KernelError;
use super::spec::{KernelSpec, printable};
use super::{Kernel, Talk};
use crate::model::Subject;
use git::{Tree, Trees};
use lane::Lane;
use make::Make;
use options::Options;

/// Changes when the same inputs would make another kernel.
const RECIPE: &str = "1";

/// What boots in the exact engine and has what the workloads need, and little else.
const BASE_CONFIG: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/base.config"));

/// What a configuration begins with.
enum Start {
    /// Nothing but the small base configuration.
    Base,
    /// The architecture's own.
    Defconfig,
    /// A whole .config.
    Config(String),
}

impl Start {
    fn of(name: Option<&str>) -> Result<Start, BuildError> {
        match name {
            None | Some("base") => Ok(Start::Base),
            Some("defconfig") => Ok(Start::Defconfig),
            Some("running") => running().map(Start::Config),
            Some(path) => options::read(Path::new(path)).map(Start::Config),
        }
    }

    fn text(&self) -> &str {
        match self {
            Start::Base => BASE_CONFIG,
            Start::Defconfig => "defconfig",
            Start::Config(text) => text,
        }
    }
}

/// The running kernel's, where the distribution keeps it.
fn running() -> Result<String, BuildError> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    options::read(&Path::new("/boot").join(format!("config-{release}")))
}

/// All that a kernel depends on.
struct Recipe {
    /// For people.
    source: String,
    tree: Tree,
    start: Start,
    options: Options,
    compiler: String,
}

impl Recipe {
    fn key(&self) -> String {
        let mut hash = Sha256::new();
        let options = self.options.text();
        for part in [RECIPE, &self.tree.id, self.start.text(), &options, &self.compiler] {
            hash.update(u64::to_le_bytes(part.len() as u64));
            hash.update(part);
        }
        format!("{:x}", hash.finalize())
    }
}

/// Builds what the Subject asks for, or finds it in the cache.
pub(super) fn obtain(
    spec: &KernelSpec,
    subject: &Subject,
    cache: &Cache<'_>,
    talk: &Talk<'_>,
) -> Result<Kernel, KernelError> {
    tools::check()?;
    let builds = cache.builds();
    let trees = Trees::open(&builds)?;
    let (mut tree, label) = tree(spec, subject, &trees, &builds, cache)?;
    for patch in &subject.patches {
        tree = patched(&trees, &tree, Path::new(patch), &label)?;
    }
    let recipe = Recipe {
        source: format!("{label} ({})", &tree.id[..12]),
        tree,
        start: Start::of(subject.start_config.as_deref())?,
        options: Options::of(&subject.config)?,
        compiler: tools::compiler()?,
    };
    let key = recipe.key();
    if let Some(kernel) = record::find(cache, &key, &recipe.source)? {
        return Ok(kernel);
    }
    let lane = Lane::take(&builds, &label, talk.note)?;
    // Whoever was waited for may have built it.
    if let Some(kernel) = record::find(cache, &key, &recipe.source)? {
        return Ok(kernel);
    }
    cache.note(&format!("building {}; the log is {}", recipe.source, printable(&lane.log())));
    let (image, config) = build(&trees, &lane, &recipe, talk)?;
    let kernel = cache.put(&image, Some(config.as_bytes()), &recipe.source)?;
    record::remember(cache, &key, &kernel)?;
    Ok(kernel)
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
            let directory = directory(Path::new(subject.tree.as_deref().unwrap_or(".")))?;
            let tree = trees.of_revision(&directory, revision)?;
            Ok((tree, format!("git:{}", printable(&directory))))
        }
        KernelSpec::DebianSource(version) => package::tree(version, trees, builds, cache),
        KernelSpec::Debian { .. } | KernelSpec::File(_) => unreachable!("obtained elsewhere"),
    }
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

fn build(
    trees: &Trees,
    lane: &Lane,
    recipe: &Recipe,
    talk: &Talk<'_>,
) -> Result<(Vec<u8>, String), BuildError> {
    lane.check_out(trees, &recipe.tree)?;
    let (source, objects) = (lane.source(), lane.objects());
    let status = |text: &str| (talk.status)(&format!("building {}: {text}", recipe.source));
    let make = Make { source: &source, objects: &objects, log: lane.log(), status: &status };
    let config = configure(&make, recipe)?;
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    make.run(&[&format!("-j{jobs}"), "bzImage"], &[])?;
    (talk.status)("");
    let image = objects.join("arch/x86/boot/bzImage");
    let image = fs::read(&image).map_err(|error| BuildError::Cache {
        action: "read",
        path: printable(&image),
        error,
    })?;
    Ok((image, config))
}

/// Makes the .config, and looks whether all that was asked for is in it.
fn configure(make: &Make<'_>, recipe: &Recipe) -> Result<String, BuildError> {
    let path = make.objects.join(".config");
    let failed = |error| BuildError::Cache { action: "write", path: printable(&path), error };
    let wanted = recipe.options.text();
    match &recipe.start {
        Start::Base => {
            let all = Options::read(BASE_CONFIG)?.with(&recipe.options).text();
            let file = make.objects.join("ktax.config");
            fs::write(&file, all).map_err(failed)?;
            make.run(&["allnoconfig"], &[("KCONFIG_ALLCONFIG", &file)])?;
        }
        Start::Defconfig => {
            make.run(&["defconfig"], &[])?;
            let text = fs::read_to_string(&path).map_err(failed)?;
            fs::write(&path, text + &wanted).map_err(failed)?;
            make.run(&["olddefconfig"], &[])?;
        }
        Start::Config(text) => {
            fs::write(&path, format!("{text}\n{wanted}")).map_err(failed)?;
            make.run(&["olddefconfig"], &[])?;
        }
    }
    let text = fs::read_to_string(&path).map_err(failed)?;
    let config = Options::read(&text)?;
    match config.unlike(&recipe.options).into_iter().next() {
        None => Ok(text),
        Some((name, wanted, found)) => {
            let why = kconfig::why(make.source, &name, &wanted, &config);
            Err(BuildError::Dropped { name: format!("CONFIG_{name}"), wanted, found, why })
        }
    }
}
