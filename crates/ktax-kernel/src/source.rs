//! Builds kernels from source, and finds what differs between two sources.
//!
//! ```text
//! directory ┐
//! revision  ├─► tree (git) ─► patched tree ─┐
//! package   ┘      start + options ─────────┴─► key ─► cached? ─► lane: check out, make ─► Kernel
//! ```
//!
//! The key is a hash of everything that a kernel depends on: the content of the tree, the start of
//! the configuration, the options, the compiler and the architecture. The cache has one kernel for
//! each key, under any name of the source. A second key is a hash of the finished configuration,
//! because different options can lead to the same configuration.

mod config;
mod make;
#[cfg(test)]
mod tests;
mod tree;

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::cache::{Cache, Kernel};
use crate::patch::{self, Patch};
use crate::spec::{KernelSpec, Target};
use crate::talk::Talk;
use crate::{cache_error, unreadable};
use config::{Options, StartConfig, configure};
use ktax_host::disk::{is_sha256, read_limited, read_own, sha256_of_parts};
use ktax_host::text::{counted, escape_path};
use ktax_model::{Error, Result, Subject};
use make::{Lane, Make, compiled_before, compiler_versions};
use tree::{Tree, Trees, not_a_tree, package_tree, repository};

pub use config::{options_between, with_options};
pub use tree::{commits, commits_touching};

/// Checks the tools, the tree and the patches, and asks Kconfig about the options; builds nothing.
pub(crate) fn check(
    spec: &KernelSpec,
    subject: &Subject,
    cache: &Cache<'_>,
    talk: &Talk<'_>,
) -> Result<()> {
    make::check_tools(&Target::X86_64)?;
    let builds = cache.builds();
    let trees = Trees::open(&builds)?;
    let recipe = Recipe::read(spec, (&Target::X86_64, subject), &trees, (cache, talk))?;
    if find_build(cache, &recipe.key(), &recipe.source)?.is_some() {
        return Ok(());
    }
    let lane = Lane::take(&builds, &recipe.lane(&trees)?, talk)?;
    configure_lane(&trees, &lane, &recipe, talk).map(drop)
}

/// Builds the kernel that the Subject asks for, or finds it in the cache.
pub(crate) fn obtain(
    spec: &KernelSpec,
    (target, subject): (&Target, &Subject),
    cache: &Cache<'_>,
    talk: &Talk<'_>,
) -> Result<Kernel> {
    make::check_tools(target)?;
    let builds = cache.builds();
    let trees = Trees::open(&builds)?;
    let recipe = Recipe::read(spec, (target, subject), &trees, (cache, talk))?;
    let key = recipe.key();
    if let Some(kernel) = find_build(cache, &key, &recipe.source)? {
        return Ok(kernel);
    }
    let lane = Lane::take(&builds, &recipe.lane(&trees)?, talk)?;
    // The build that held the lane before may have built this kernel.
    if let Some(kernel) = find_build(cache, &key, &recipe.source)? {
        return Ok(kernel);
    }
    let kernel = build(&trees, &lane, &recipe, cache, talk)?;
    write_build_record(cache, &key, &kernel)?;
    Ok(kernel)
}

/// Configures the kernel, and builds it unless the cache has one with the same configuration.
fn build(
    trees: &Trees,
    lane: &Lane,
    recipe: &Recipe,
    cache: &Cache<'_>,
    talk: &Talk<'_>,
) -> Result<Kernel> {
    let (make, config) = configure_lane(trees, lane, recipe, talk)?;
    let config_key = recipe.config_key(&config);
    if let Some(kernel) = find_build(cache, &config_key, &recipe.source)? {
        return Ok(kernel);
    }
    let compiled = compiled_before(&make.objects);
    let files = match (compiled, make.usual_files) {
        (0, Some(files)) => format!("about {files} files"),
        (0, None) => "a number of files that is not known before".to_owned(),
        (compiled, _) => format!("at most {} that changed", counted(compiled, "file")),
    };
    let size = if compiled == 0 { ", about 2 GB in the cache" } else { "" };
    cache.note(&format!(
        "building {}: {files}{size}; log: {}",
        recipe.source,
        escape_path(&lane.path("log"))
    ));
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let (image, path) = recipe.target.image();
    make.run(&[&format!("-j{jobs}"), image], &[])?;
    (talk.status)("");
    let path = make.objects.join(path);
    let image = fs::read(&path).map_err(|error| cache_error("read", &path, error))?;
    let kernel = cache.put(&image, Some(config.as_bytes()), &recipe.source)?;
    write_build_record(cache, &config_key, &kernel)?;
    Ok(kernel)
}

/// Checks the tree out and configures it. Returns the build, and the finished configuration.
fn configure_lane<'a>(
    trees: &Trees,
    lane: &Lane,
    recipe: &'a Recipe,
    talk: &'a Talk<'a>,
) -> Result<(Make<'a>, String)> {
    lane.check_out(trees, &recipe.tree)?;
    let make = Make {
        source: lane.path("source"),
        objects: lane.path("objects"),
        target: &recipe.target,
        log: lane.path("log"),
        what: &recipe.source,
        ccache: lane.ccache(),
        usual_files: recipe.start.usual_files(),
        talk,
    };
    let config = configure(trees, lane, &make, recipe)?;
    Ok((make, config))
}

/// A part of every key. Change it when a new ktax builds another kernel from the same inputs.
const RECIPE_VERSION: &str = "1";

/// Everything that a kernel is built from: its tree with patches, its options and its compiler.
struct Recipe {
    pub target: Target,
    /// The name of the source, for messages and the Identity.
    pub source: String,
    /// The tree with its patches.
    pub tree: Tree,
    pub start: StartConfig,
    pub options: Options,
    /// The versions of compiler and linker.
    pub compiler: String,
}

impl Recipe {
    /// Reads the files that a Subject names, and then its tree, to which it applies the patches.
    /// The files come first, so that wrong files are refused before a source is downloaded.
    fn read(
        spec: &KernelSpec,
        (target, subject): (&Target, &Subject),
        trees: &Trees,
        (cache, talk): (&Cache<'_>, &Talk<'_>),
    ) -> Result<Recipe> {
        let SubjectFiles { start, options, patches } = SubjectFiles::read(target, subject)?;
        let (mut tree, label) = named_tree(spec, subject, trees, (cache, talk))?;
        for (file, patch) in &patches {
            tree = trees.patched(&tree, file, patch, &label)?;
        }
        let source = format!("{label} ({})", &tree.id[..12]);
        let compiler = compiler_versions(target)?;
        Ok(Recipe { target: *target, source, tree, start, options, compiler })
    }

    /// Returns the name of the lane: the kernel's version, with the target if that is foreign.
    fn lane(&self, trees: &Trees) -> Result<String> {
        let version = trees.version(&self.tree)?;
        match self.target.is_foreign() {
            true => Ok(format!("{version}-{}", self.target.name)),
            false => Ok(version),
        }
    }

    /// Returns the key of the inputs that the user named.
    fn key(&self) -> String {
        let options = self.options.text();
        sha256_of_parts(&[
            RECIPE_VERSION,
            &self.tree.id,
            self.start.text(),
            &options,
            &self.compiler,
        ])
    }

    /// Returns the key of a finished configuration.
    fn config_key(&self, config: &str) -> String {
        sha256_of_parts(&[RECIPE_VERSION, &self.tree.id, "outcome", config, &self.compiler])
    }
}

/// Contents of the files that a Subject names.
struct SubjectFiles<'a> {
    start: StartConfig,
    options: Options,
    /// Each patch, with its file.
    patches: Vec<(&'a Path, Patch)>,
}

impl SubjectFiles<'_> {
    fn read<'a>(target: &Target, subject: &'a Subject) -> Result<SubjectFiles<'a>> {
        let start = StartConfig::named(subject.start_config.as_deref(), target)?;
        let options =
            Options::read(target.options)?.overridden_by(&Options::from_texts(&subject.config)?);
        let mut patches = Vec::new();
        for file in subject.patches.iter().map(Path::new) {
            patches.extend(read_patches(file)?.into_iter().map(|patch| (file, patch)));
        }
        Ok(SubjectFiles { start, options, patches })
    }
}

/// Checks the files that a Subject names: options, the start of the configuration, and patches.
pub(crate) fn check_files(subject: &Subject) -> Result<()> {
    SubjectFiles::read(&Target::X86_64, subject).map(drop)
}

/// Returns the tree that the specification names, and its name for messages.
fn named_tree(
    spec: &KernelSpec,
    subject: &Subject,
    trees: &Trees,
    (cache, talk): (&Cache<'_>, &Talk<'_>),
) -> Result<(Tree, String)> {
    match spec {
        KernelSpec::Source(path) => {
            let directory = kernel_directory(path)?;
            Ok((trees.directory_tree(&directory)?, format!("src:{}", escape_path(&directory))))
        }
        KernelSpec::Revision(revision) => {
            let directory = repository(Path::new(subject.tree.as_deref().unwrap_or(".")))?;
            let tree = trees.revision_tree(&directory, revision)?;
            Ok((tree, format!("git:{}", escape_path(&directory))))
        }
        KernelSpec::DebianSource(version) => package_tree(version, trees, cache, talk),
        KernelSpec::Debian { .. } | KernelSpec::File(_) => unreachable!("not a source"),
    }
}

fn kernel_directory(path: &Path) -> Result<PathBuf> {
    let not_a_tree = || not_a_tree(escape_path(path));
    let directory = fs::canonicalize(path).map_err(|_| not_a_tree())?;
    let is_tree = ["Kconfig", "Makefile"].iter().all(|file| directory.join(file).is_file());
    if is_tree { Ok(directory) } else { Err(not_a_tree()) }
}

/// The largest patch file, in bytes. Some files have no end, such as `/dev/zero`.
const PATCH_MAX: u64 = 64 << 20;

/// The patches that are part of ktax, by their paths in the source tree of ktax.
const BUILT_IN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/patches.rs"));

/// Returns whether the path names a patch that is part of ktax. A file of that name comes first.
pub fn is_built_in(path: &Path) -> bool {
    !path.exists() && built_in_patch(path).is_some()
}

/// Reads a patch: the file at this path, or else the patch of that name that is part of ktax.
pub fn read_patch(path: &Path) -> io::Result<Vec<u8>> {
    match read_limited(path, PATCH_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            built_in_patch(path).map(|text| text.as_bytes().to_vec()).ok_or(error)
        }
        read => read,
    }
}

/// Reads the patches of a file, in the order in which they apply.
fn read_patches(path: &Path) -> Result<Vec<Patch>> {
    let wanted = "a patch, such as `git format-patch` or `b4 am` writes";
    let bytes = read_patch(path).map_err(|error| unreadable(path, error, wanted))?;
    patch::read(&bytes).map_err(|reason| {
        Error::user(format!("cannot use the patch {}: {reason}", escape_path(path)))
    })
}

fn built_in_patch(path: &Path) -> Option<&'static str> {
    BUILT_IN.iter().find(|(known, _)| path == Path::new(known)).map(|(_, text)| *text)
}

/// The largest record, in bytes.
const RECORD_MAX: u64 = 4 << 10;

/// The record of a built kernel.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BuildRecord {
    image_sha256: String,
    config_sha256: String,
}

fn record_path(cache: &Cache<'_>, key: &str) -> PathBuf {
    cache.builds().join("by-recipe").join(format!("{key}.json"))
}

/// Returns the Kernel that was built for this key; `None` if the cache does not have it intact.
fn find_build(cache: &Cache<'_>, key: &str, source: &str) -> Result<Option<Kernel>> {
    let bytes = read_own(&record_path(cache, key), RECORD_MAX).unwrap_or_default();
    let Ok(record) = serde_json::from_slice::<BuildRecord>(&bytes) else { return Ok(None) };
    if !is_sha256(&record.image_sha256) || !is_sha256(&record.config_sha256) {
        return Ok(None);
    }
    cache.find(&record.image_sha256, Some(&record.config_sha256), source)
}

/// Writes the record by which [`find_build`] finds a kernel.
fn write_build_record(cache: &Cache<'_>, key: &str, kernel: &Kernel) -> Result<()> {
    let record = BuildRecord {
        image_sha256: kernel.identity.sha256.clone(),
        config_sha256: kernel.identity.config_sha256.clone().unwrap_or_default(),
    };
    cache.write_json(&record_path(cache, key), &record)
}
