//! Configures a kernel, and checks that Kconfig accepted all options.

use std::fs;
use std::path::Path;

use super::kconfig;
use super::lane::Lane;
use super::make::Make;
use super::options::Options;
use super::recipe::Recipe;
use super::start::Start;
use super::trees::Trees;
use crate::error::BuildError;
use ktax_host::disk::sha256_of_parts;
use ktax_host::text::escape_path;

/// Writes the .config of a recipe in the lane's object tree, and returns its text. Runs Kconfig
/// only if its inputs have changed since the last build in this lane.
///
/// # Errors
/// [`BuildError::Dropped`] if Kconfig sets an option to another value than the user.
pub(super) fn configure(
    trees: &Trees,
    lane: &Lane,
    make: &Make<'_>,
    recipe: &Recipe,
) -> Result<String, BuildError> {
    let (path, stamp) = (make.objects.join(".config"), lane.configured());
    let (kconfig, options) = (trees.list(&recipe.tree, is_of_kconfig)?, recipe.options.text());
    let inputs = sha256_of_parts(&[&kconfig, recipe.start.text(), &options, &recipe.compiler]);
    let last = fs::read_to_string(&path).unwrap_or_default();
    if fs::read_to_string(&stamp).is_ok_and(|stamp| stamp == sha256_of_parts(&[&inputs, &last])) {
        return Ok(last);
    }
    ask(make, recipe, &path)?;
    let text = read(&path)?;
    check(make, recipe, &text)?;
    write(&stamp, &sha256_of_parts(&[&inputs, &text]))?;
    Ok(text)
}

/// Whether Kconfig reads or runs this file of the tree.
fn is_of_kconfig(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_part = |part: &str| path.starts_with(part) || path.contains(&format!("/{part}"));
    name.starts_with("Kconfig") || name == "Makefile" || is_part("scripts/") || is_part("configs/")
}

/// Runs Kconfig, which writes the .config.
fn ask(make: &Make<'_>, recipe: &Recipe, path: &Path) -> Result<(), BuildError> {
    let wanted = recipe.options.text();
    match &recipe.start {
        Start::Base(base) => {
            let file = make.objects.join("ktax.config");
            write(&file, &Options::read(base)?.with(&recipe.options).text())?;
            make.run(&["allnoconfig"], &[("KCONFIG_ALLCONFIG", &file)])
        }
        Start::Defconfig => {
            make.run(&["defconfig"], &[])?;
            write(path, &(read(path)? + &wanted))?;
            make.run(&["olddefconfig"], &[])
        }
        Start::Config(text) => {
            write(path, &format!("{text}\n{wanted}"))?;
            make.run(&["olddefconfig"], &[])
        }
    }
}

/// Checks that the .config has the options of the recipe.
fn check(make: &Make<'_>, recipe: &Recipe, text: &str) -> Result<(), BuildError> {
    let config = Options::read(text)?;
    match config.unlike(&recipe.options).into_iter().next() {
        None => Ok(()),
        Some((name, wanted, found)) => {
            let why = kconfig::why(&make.source, make.target.directory(), &name, &wanted, &config);
            Err(BuildError::Dropped { name: format!("CONFIG_{name}"), wanted, found, why })
        }
    }
}

fn read(path: &Path) -> Result<String, BuildError> {
    fs::read_to_string(path).map_err(|error| BuildError::Cache {
        action: "read",
        path: escape_path(path),
        error,
    })
}

fn write(path: &Path, text: &str) -> Result<(), BuildError> {
    fs::write(path, text).map_err(|error| BuildError::Cache {
        action: "write",
        path: escape_path(path),
        error,
    })
}
