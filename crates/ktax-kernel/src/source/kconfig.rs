//! Has Kconfig configure a kernel, checks that it accepted all options, and explains from the
//! tree's Kconfig files why it did not.

use std::fs;
use std::path::{Path, PathBuf};

use super::make::{Lane, Make};
use super::options::{Options, StartConfig};
use super::recipe::Recipe;
use super::tree::Trees;
use crate::error::cache_error;
use ktax_host::disk::sha256_of_parts;
use ktax_host::text::{escape, nearest};
use ktax_model::{Error, ErrorKind, Result};

/// Writes the .config of a recipe in the lane's object tree, and returns its text. Runs Kconfig
/// only if its inputs have changed since the last build in this lane.
pub(super) fn configure(
    trees: &Trees,
    lane: &Lane,
    make: &Make<'_>,
    recipe: &Recipe,
) -> Result<String> {
    let (path, stamp) = (make.objects.join(".config"), lane.configured());
    let (kconfig, options) = (trees.list(&recipe.tree, is_of_kconfig)?, recipe.options.text());
    let inputs = sha256_of_parts(&[&kconfig, recipe.start.text(), &options, &recipe.compiler]);
    let last = fs::read_to_string(&path).unwrap_or_default();
    if fs::read_to_string(&stamp).is_ok_and(|stamp| stamp == sha256_of_parts(&[&inputs, &last])) {
        return Ok(last);
    }
    run_kconfig(make, recipe, &path)?;
    let text = read_text(&path)?;
    check_accepted(make, recipe, &text)?;
    write_text(&stamp, &sha256_of_parts(&[&inputs, &text]))?;
    Ok(text)
}

/// Whether Kconfig reads or runs this file of the tree.
fn is_of_kconfig(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_part = |part: &str| path.starts_with(part) || path.contains(&format!("/{part}"));
    name.starts_with("Kconfig") || name == "Makefile" || is_part("scripts/") || is_part("configs/")
}

/// Runs Kconfig, which writes the .config.
fn run_kconfig(make: &Make<'_>, recipe: &Recipe, path: &Path) -> Result<()> {
    let wanted = recipe.options.text();
    match &recipe.start {
        StartConfig::Base(base) => {
            let file = make.objects.join("ktax.config");
            write_text(&file, &Options::read(base)?.with(&recipe.options).text())?;
            make.run(&["allnoconfig"], &[("KCONFIG_ALLCONFIG", &file)])
        }
        StartConfig::Defconfig => {
            make.run(&["defconfig"], &[])?;
            write_text(path, &(read_text(path)? + &wanted))?;
            make.run(&["olddefconfig"], &[])
        }
        StartConfig::Config(text) => {
            write_text(path, &format!("{text}\n{wanted}"))?;
            make.run(&["olddefconfig"], &[])
        }
    }
}

/// Checks that the .config has the options of the recipe.
fn check_accepted(make: &Make<'_>, recipe: &Recipe, text: &str) -> Result<()> {
    let config = Options::read(text)?;
    match config.unlike(&recipe.options).into_iter().next() {
        None => Ok(()),
        Some((name, wanted, found)) => {
            let why = why_refused(&make.source, make.target.directory(), &name, &wanted, &config);
            Err(Error::user(format!(
                "Kconfig does not accept CONFIG_{name}={wanted} and sets it to {found}: {why}"
            ))
            .kind(ErrorKind::Unbuildable))
        }
    }
}

fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| cache_error("read", path, error))
}

fn write_text(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| cache_error("write", path, error))
}

/// One definition of an option in a Kconfig file.
struct ConfigEntry {
    place: String,
    name: String,
    depends: Vec<String>,
    selects: Vec<String>,
    has_prompt: bool,
    is_bool: bool,
}

/// The reason in words: a dependency that is not set, another option that selects it, or that the
/// option does not exist. `arch` is the directory below `arch/` of the target.
fn why_refused(tree: &Path, arch: &str, name: &str, wanted: &str, config: &Options) -> String {
    let mut entries = Vec::new();
    collect_entries((tree, arch), tree, &mut entries);
    let own: Vec<&ConfigEntry> = entries.iter().filter(|entry| entry.name == name).collect();
    if own.is_empty() {
        let near = nearest(name, entries.iter().map(|entry| entry.name.as_str()));
        let near = near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
        return format!(
            "this tree has no option {name}{near}; run `make menuconfig` and press `/` to search"
        );
    }
    let selecting = |entry: &&ConfigEntry| {
        entry.selects.iter().any(|selected| selected == name) && config.value(&entry.name) != "n"
    };
    let by: Vec<&str> = entries.iter().filter(selecting).map(|entry| entry.name.as_str()).collect();
    if wanted == "n" && !by.is_empty() {
        return format!("it is selected by {}; turn that off too", by.join(", "));
    }
    let place = &own[0].place;
    if own.iter().any(|entry| entry.is_bool) && !matches!(wanted, "y" | "n") {
        return format!("it can only be y or n ({place})");
    }
    let depends: Vec<&str> =
        own.iter().flat_map(|entry| entry.depends.iter().map(String::as_str)).collect();
    match (depends.is_empty(), own.iter().any(|entry| entry.has_prompt)) {
        (false, _) => unmet_dependency(&depends.join(" && "), place, config),
        (true, false) => {
            format!("it cannot be set directly: another option must select it ({place})")
        }
        (true, true) => {
            format!("a menu or `if` around it is off, or the value is out of range; see {place}")
        }
    }
}

/// Message that names the part of a dependency that is not met.
fn unmet_dependency(expression: &str, place: &str, config: &Options) -> String {
    let unset = unset_symbols(expression, config);
    let missing = match &unset[..] {
        [] => "; change those options too".into(),
        [one] => format!(", but {one} is not set; set {one} too"),
        several => format!(", but {} are not set; set those that it needs", several.join(" and ")),
    };
    format!("it depends on {} ({place}){missing}", escape(expression))
}

/// The symbols of an expression that are not set.
fn unset_symbols<'a>(expression: &'a str, config: &Options) -> Vec<&'a str> {
    let is_symbol = |word: &&str| word.starts_with(|c: char| c.is_ascii_uppercase());
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let mut unset: Vec<&str> =
        words.filter(is_symbol).filter(|word| config.value(word) == "n").collect();
    unset.sort_unstable();
    unset.dedup();
    unset
}

fn collect_entries((root, arch): (&Path, &str), directory: &Path, entries: &mut Vec<ConfigEntry>) {
    let Ok(listed) = fs::read_dir(directory) else { return };
    for entry in listed.filter_map(Result::ok) {
        let (path, name) = (entry.path(), entry.file_name());
        let Ok(kind) = entry.file_type() else { continue };
        let is_foreign = directory.ends_with("arch") && name != arch;
        let is_test =
            directory == root.join("scripts/kconfig") || directory == root && name == "tools";
        if kind.is_dir() && !is_foreign && !is_test {
            collect_entries((root, arch), &path, entries);
        } else if kind.is_file() && name.to_string_lossy().starts_with("Kconfig") {
            read_entries(root, &path, entries);
        }
    }
}

fn read_entries(root: &Path, path: &PathBuf, entries: &mut Vec<ConfigEntry>) {
    let text = fs::read_to_string(path).unwrap_or_default();
    let relative = path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
    let mut open = false;
    for (number, line) in text.lines().enumerate() {
        let (word, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        let rest = rest.trim();
        match (word, open) {
            ("config" | "menuconfig", _) => {
                open = true;
                entries.push(ConfigEntry {
                    place: format!("{}:{}", escape(&relative), number + 1),
                    name: rest.to_owned(),
                    depends: Vec::new(),
                    selects: Vec::new(),
                    has_prompt: false,
                    is_bool: false,
                });
            }
            ("choice" | "menu" | "endmenu" | "if" | "endif" | "source" | "comment", _) => {
                open = false;
            }
            (_, true) => read_attribute(entries.last_mut().expect("one is open"), word, rest),
            _ => {}
        }
    }
}

fn read_attribute(entry: &mut ConfigEntry, word: &str, rest: &str) {
    entry.is_bool |= matches!(word, "bool" | "def_bool");
    match word {
        "depends" => entry.depends.push(rest.trim_start_matches("on").trim().to_owned()),
        "select" => entry.selects.push(rest.split_whitespace().next().unwrap_or("").to_owned()),
        "bool" | "tristate" | "int" | "string" | "hex" | "prompt" if rest.starts_with('"') => {
            entry.has_prompt = true;
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_named() {
        let tree = tempfile::tempdir().unwrap();
        let text =
            "config A\n\tbool \"a\"\n\tdepends on B && C\n\tselect D if B\n\nconfig D\n\tbool\n";
        fs::write(tree.path().join("Kconfig"), text).unwrap();
        let config = Options::read("CONFIG_C=y\n").unwrap();
        let message = why_refused(tree.path(), "x86", "A", "y", &config);
        assert_eq!(message, "it depends on B && C (Kconfig:1), but B is not set; set B too");
        let message = why_refused(tree.path(), "x86", "D", "y", &config);
        assert!(message.starts_with("it cannot be set"), "{message}");
        let on = Options::read("CONFIG_A=y\nCONFIG_D=y\n").unwrap();
        assert_eq!(
            why_refused(tree.path(), "x86", "D", "n", &on),
            "it is selected by A; turn that off too"
        );
        fs::write(tree.path().join("Kconfig.net"), "config NETFILTER\n").unwrap();
        let message = why_refused(tree.path(), "x86", "NETFLITER", "y", &on);
        assert!(
            message.starts_with("this tree has no option NETFLITER (did you mean NETFILTER?);")
        );
    }
}
