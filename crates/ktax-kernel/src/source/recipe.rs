//! Recipe of a kernel: its tree with patches, its options and its compiler; and the cache's records
//! of builds, by a hash of the recipe.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use super::config::{Options, StartConfig};
use super::make::compiler_versions;
use super::tree::{Tree, Trees, not_a_tree, package_tree, repository};
use crate::cache::{Cache, Kernel};
use crate::error::unreadable;
use crate::patch::{self, Patch};
use crate::spec::KernelSpec;
use crate::talk::Talk;
use crate::target::Target;
use ktax_host::disk::{is_sha256, read_limited, read_own, sha256_of_parts};
use ktax_host::text::escape_path;
use ktax_model::{Error, Result, Subject};

/// A part of every key. Change it when ktax builds another kernel from the same inputs.
const RECIPE: &str = "1";

/// Everything that a kernel is built from.
pub(super) struct Recipe {
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
    /// Reads what a Subject asks for: the files that it names first, because they can be refused
    /// before a source is downloaded; then the tree, to which the patches are applied.
    pub(super) fn read(
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

    /// The name of the lane it is built in: the kernel's version, and the target if it is foreign.
    pub(super) fn lane(&self, trees: &Trees) -> Result<String> {
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

/// Contents of the files that a Subject names.
struct SubjectFiles<'a> {
    start: StartConfig,
    options: Options,
    /// Each patch with the file that it is from.
    patches: Vec<(&'a Path, Patch)>,
}

impl SubjectFiles<'_> {
    fn read<'a>(target: &Target, subject: &'a Subject) -> Result<SubjectFiles<'a>> {
        let start = StartConfig::named(subject.start_config.as_deref(), target)?;
        let options = Options::read(target.options)?.with(&Options::from_texts(&subject.config)?);
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

/// The tree that the specification names, and its name for messages.
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

/// More than a patch has. Some files have no end, such as `/dev/zero`.
const PATCH_MAX: u64 = 64 << 20;

/// The patches of ktax by their paths in its source tree.
const BUILT_IN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/patches.rs"));

/// Whether the path names a patch that is in the binary, and no file.
pub fn is_built_in(path: &Path) -> bool {
    !path.exists() && built_in_patch(path).is_some()
}

/// The bytes of a patch: of the file of that name, else of the one that is built in.
pub fn patch(path: &Path) -> io::Result<Vec<u8>> {
    match read_limited(path, PATCH_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            built_in_patch(path).map(|text| text.as_bytes().to_vec()).ok_or(error)
        }
        read => read,
    }
}

/// The patches in the file of that name, in the order in which they apply.
fn read_patches(path: &Path) -> Result<Vec<Patch>> {
    let wanted = "a patch, such as `git format-patch` or `b4 am` writes";
    let bytes = patch(path).map_err(|error| unreadable(path, error, wanted))?;
    patch::read(&bytes).map_err(|reason| {
        Error::user(format!("cannot use the patch {}: {reason}", escape_path(path)))
    })
}

fn built_in_patch(path: &Path) -> Option<&'static str> {
    BUILT_IN.iter().find(|(known, _)| path == Path::new(known)).map(|(_, text)| *text)
}

const RECORD_MAX: u64 = 4 << 10;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BuildRecord {
    image_sha256: String,
    config_sha256: String,
}

fn record_path(cache: &Cache<'_>, key: &str) -> PathBuf {
    cache.builds().join("by-recipe").join(format!("{key}.json"))
}

/// The Kernel that was built under this key, if the cache has it whole.
pub(super) fn find_build(cache: &Cache<'_>, key: &str, source: &str) -> Result<Option<Kernel>> {
    let bytes = read_own(&record_path(cache, key), RECORD_MAX).unwrap_or_default();
    let Ok(record) = serde_json::from_slice::<BuildRecord>(&bytes) else { return Ok(None) };
    if !is_sha256(&record.image_sha256) || !is_sha256(&record.config_sha256) {
        return Ok(None);
    }
    cache.find(&record.image_sha256, Some(&record.config_sha256), source)
}

/// Writes a record, so that [`find_build`] finds it.
pub(super) fn remember_build(cache: &Cache<'_>, key: &str, kernel: &Kernel) -> Result<()> {
    let record = BuildRecord {
        image_sha256: kernel.identity.sha256.clone(),
        config_sha256: kernel.identity.config_sha256.clone().unwrap_or_default(),
    };
    cache.write_json(&record_path(cache, key), &record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_patch_of_the_tree_is_in_the_binary_and_a_file_wins() {
        assert!(BUILT_IN.len() >= 4);
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (path, text) in BUILT_IN {
            assert_eq!(std::fs::read_to_string(tree.join(path)).unwrap(), *text);
            // The tests run where there is no such file.
            assert!(is_built_in(Path::new(path)) && built_in_patch(Path::new(path)).is_some());
            assert!(!is_built_in(&tree.join(path)), "a file wins");
        }
        let missing = patch(Path::new("kernels/patches/no-such.patch")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
