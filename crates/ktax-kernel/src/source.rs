//! Builds kernels from source, and finds what differs between two sources.
//!
//! ```text
//! directory ┐
//! revision  ├─► tree (git) ─► patched tree ─┐
//! package   ┘      start + options ─────────┴─► key ─► cached? ─► lane: check out, make ─► Kernel
//! ```
//!
//! The key is a hash of all that a kernel depends on: the content of the tree, the start of the
//! configuration, the options, the compiler and the architecture. The cache has one kernel for each
//! key, whatever the source was called. It also has one for each finished configuration, because
//! different options can lead to the same one.

mod config;
mod make;
mod recipe;
#[cfg(test)]
mod tests;
mod tree;

use std::fs;

use crate::cache::{Cache, Kernel};
use crate::error::cache_error;
use crate::spec::KernelSpec;
use crate::talk::Talk;
use crate::target::Target;
use config::configure;
use ktax_host::text::{counted, escape_path};
use ktax_model::{Result, Subject};
use make::{Lane, Make, compiled_before};
use recipe::Recipe;
use tree::Trees;

pub use config::{options_between, with_options};
pub(crate) use recipe::check_files;
pub use recipe::{is_built_in, patch};
pub use tree::{commits, that_touch};

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
    if recipe::find_build(cache, &recipe.key(), &recipe.source)?.is_some() {
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
    if let Some(kernel) = recipe::find_build(cache, &key, &recipe.source)? {
        return Ok(kernel);
    }
    let lane = Lane::take(&builds, &recipe.lane(&trees)?, talk)?;
    // The build that held the lane may have built this kernel.
    if let Some(kernel) = recipe::find_build(cache, &key, &recipe.source)? {
        return Ok(kernel);
    }
    let kernel = build(&trees, &lane, &recipe, cache, talk)?;
    recipe::remember_build(cache, &key, &kernel)?;
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
    let outcome = recipe.key_of_outcome(&config);
    if let Some(kernel) = recipe::find_build(cache, &outcome, &recipe.source)? {
        return Ok(kernel);
    }
    let known = compiled_before(&make.objects);
    let files = match (known, make.usual_files) {
        (0, Some(files)) => format!("about {files} files"),
        (0, None) => "a number of files that is not known before".to_owned(),
        (known, _) => format!("at most {} that changed", counted(known, "file")),
    };
    let size = if known == 0 { ", about 2 GB in the cache" } else { "" };
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
    recipe::remember_build(cache, &outcome, &kernel)?;
    Ok(kernel)
}

/// Checks the tree out and configures it: how to build it, and what Kconfig made of the options.
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
