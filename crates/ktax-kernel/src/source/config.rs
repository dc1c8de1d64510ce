//! Configurations of kernels: parses, merges, compares and writes options, configures a kernel with
//! Kconfig, and checks that Kconfig accepted all options. If not, finds the reason in the tree's
//! Kconfig files.

use super::Recipe;
use super::make::{Lane, Make};
use super::tree::Trees;
use crate::spec::Target;
use crate::{cache_error, unreadable};
use ktax_host::disk::{read_limited, sha256_of_parts};
use ktax_host::text::{did_you_mean, escape, nearest};
use ktax_model::{Element, Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The largest fragment or config that ktax reads, in bytes.
const FRAGMENT_MAX: u64 = 4 << 20;

/// Options by name, without `CONFIG_`. Values are as in a .config; `n` stands for "is not set".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Options(BTreeMap<String, String>);

impl Options {
    /// Reads the user's options. Each text is `CONFIG_NAME=VALUE`, or the path of a file of such
    /// lines. The last value of an option counts.
    pub(super) fn from_texts(texts: &[String]) -> Result<Options> {
        let mut options = Options::default();
        for text in texts {
            match parse_line(text) {
                Some((name, value)) => drop(options.0.insert(name, value)),
                None if text.contains('=') => return Err(not_an_option(text)),
                None => options.0.extend(Options::read(&read_options_file(Path::new(text))?)?.0),
            }
        }
        Ok(options)
    }

    /// Parses a fragment or a .config. Skips comments and empty lines.
    pub(super) fn read(text: &str) -> Result<Options> {
        let mut options = BTreeMap::new();
        for text in text.lines().map(str::trim) {
            match parse_line(text) {
                Some((name, value)) => drop(options.insert(name, value)),
                None if text.is_empty() || text.starts_with('#') => {}
                None => return Err(not_an_option(&text.chars().take(100).collect::<String>())),
            }
        }
        Ok(Options(options))
    }

    /// Adds the options of `other`, whose values replace those of `self`.
    pub(super) fn overridden_by(mut self, other: &Options) -> Options {
        self.0.extend(other.0.clone());
        self
    }

    /// Formats the options as a .config.
    pub(super) fn text(&self) -> String {
        let write_line = |(name, value): (&String, &String)| match value.as_str() {
            "n" => format!("# CONFIG_{name} is not set\n"),
            value => format!("CONFIG_{name}={value}\n"),
        };
        self.0.iter().map(write_line).collect()
    }

    /// Returns the options of `wanted` that have another value in `self`: the name, the value in
    /// `wanted`, and the value in `self`.
    pub(super) fn differences(&self, wanted: &Options) -> Vec<(String, String, String)> {
        let found = |name: &String| self.value(name).to_owned();
        let different = wanted.0.iter().filter(|(name, value)| found(name) != **value);
        different.map(|(name, value)| (name.clone(), value.clone(), found(name))).collect()
    }

    /// Returns the sorted names.
    fn into_names(self) -> Vec<String> {
        self.0.into_keys().collect()
    }

    /// Returns the value of an option; `n` for an option that is not listed.
    pub(super) fn value(&self, name: &str) -> &str {
        self.0.get(name).map_or("n", String::as_str)
    }
}

fn not_an_option(text: &str) -> Error {
    Error::user(format!("`{}` is not an option", escape(text)))
        .next("give CONFIG_NAME=VALUE, or a file of such lines")
}

fn read_options_file(path: &Path) -> Result<String> {
    let unreadable = |error| unreadable(path, error, "a file of CONFIG_NAME=VALUE lines");
    let bytes = read_limited(path, FRAGMENT_MAX).map_err(unreadable)?;
    String::from_utf8(bytes).map_err(|error| unreadable(io::Error::other(error)))
}

/// Parses the name and the value in a line. `None` if the line is not an option.
fn parse_line(text: &str) -> Option<(String, String)> {
    let unset = text.strip_prefix("# ").and_then(|text| text.strip_suffix(" is not set"));
    let (name, value) = match unset {
        Some(name) => (name, "n"),
        None => text.split_once('=')?,
    };
    let name = name.strip_prefix("CONFIG_")?;
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let is_text = value.len() >= 2 && value.starts_with('"') && value.ends_with('"');
    let is_plain = !value.is_empty()
        && value.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
    let is_value = is_plain || is_text && !value.contains(char::is_control);
    (is_name && is_value).then(|| (name.to_owned(), value.to_owned()))
}

/// The configuration that the options are added to.
pub(super) enum StartConfig {
    /// The small base configuration, with this text.
    Base(&'static str),
    /// The default configuration of the architecture.
    Defconfig,
    /// A whole .config.
    Config(String),
}

impl StartConfig {
    /// Returns the start that the user named: `base`, `defconfig`, `running` or a file.
    pub(super) fn named(name: Option<&str>, target: &Target) -> Result<StartConfig> {
        match name {
            None | Some("base") => Ok(StartConfig::Base(target.base())),
            Some("defconfig") => Ok(StartConfig::Defconfig),
            Some("running") => running_config().map(StartConfig::Config),
            Some(path) => read_options_file(Path::new(path)).map(StartConfig::Config),
        }
    }

    /// Returns the usual number of files that a first build compiles: 1003 for Linux 6.1 with the
    /// base configuration. `None` for other configurations, whose numbers differ too much.
    pub(super) fn usual_files(&self) -> Option<usize> {
        matches!(self, StartConfig::Base(_)).then_some(1003)
    }

    /// Returns the text of the start that is part of the key.
    pub(super) fn text(&self) -> &str {
        match self {
            StartConfig::Base(base) => base,
            StartConfig::Defconfig => "defconfig",
            StartConfig::Config(text) => text,
        }
    }
}

/// Reads the config of the running kernel from the distribution's file in /boot.
fn running_config() -> Result<String> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    read_options_file(&Path::new("/boot").join(format!("config-{release}")))
}

/// Returns the options that have another value in `change` than in `base`, in the order of Kconfig,
/// in which most options follow their dependencies. `base` and `change` are texts of .configs.
pub fn options_between(base: &str, change: &str) -> Result<Vec<Element>> {
    let texts = [change, base];
    let (base, change) = (Options::read(base)?, Options::read(change)?);
    let mut elements: Vec<Element> = Vec::new();
    for line in texts.iter().flat_map(|text| text.lines()) {
        // An option that only one configuration lists is off in the other.
        let Some(name) = Options::read(line)?.into_names().pop() else { continue };
        let (old, new) = (base.value(&name), change.value(&name));
        let element = Element {
            name: format!("CONFIG_{name}={new}"),
            title: format!("instead of {old}"),
            is_merge: false,
        };
        if old != new && !elements.iter().any(|other| other.name == element.name) {
            elements.push(element);
        }
    }
    Ok(elements)
}

/// Applies some differences to the configuration `base`, and returns the text of a .config.
pub fn with_options(base: &str, elements: &[Element]) -> Result<String> {
    let changed: Vec<String> = elements.iter().map(|element| element.name.clone()).collect();
    Ok(Options::read(base)?.overridden_by(&Options::from_texts(&changed)?).text())
}

/// Writes the .config of a recipe in the lane's object tree, and returns its text. Runs Kconfig
/// only if its inputs have changed since the last build in this lane.
pub(super) fn configure(
    trees: &Trees,
    lane: &Lane,
    make: &Make<'_>,
    recipe: &Recipe,
) -> Result<String> {
    let (path, stamp) = (make.objects.join(".config"), lane.path("configured"));
    let (kconfig, options) = (trees.list(&recipe.tree, is_kconfig_input)?, recipe.options.text());
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

/// Returns whether Kconfig reads or runs this file of the tree.
fn is_kconfig_input(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_below = |dir: &str| path.starts_with(dir) || path.contains(&format!("/{dir}"));
    let has_name = name.starts_with("Kconfig") || name == "Makefile";
    has_name || is_below("scripts/") || is_below("configs/")
}

/// Runs Kconfig, which writes the .config.
fn run_kconfig(make: &Make<'_>, recipe: &Recipe, path: &Path) -> Result<()> {
    let wanted = recipe.options.text();
    match &recipe.start {
        StartConfig::Base(base) => {
            let file = make.objects.join("ktax.config");
            write_text(&file, &Options::read(base)?.overridden_by(&recipe.options).text())?;
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
    match config.differences(&recipe.options).into_iter().next() {
        None => Ok(()),
        Some((name, wanted, found)) => {
            let why =
                why_refused(&make.source, make.target.arch_directory(), &name, &wanted, &config);
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
    /// File and line, for messages.
    location: String,
    name: String,
    depends: Vec<String>,
    selects: Vec<String>,
    has_prompt: bool,
    is_bool: bool,
}

/// Describes why Kconfig did not accept an option: a dependency is not set, another option selects
/// it, or the tree does not have it. `arch` is the target's directory below `arch/`.
fn why_refused(tree: &Path, arch: &str, name: &str, wanted: &str, config: &Options) -> String {
    let mut entries = Vec::new();
    collect_entries((tree, arch), tree, &mut entries);
    let definitions: Vec<&ConfigEntry> =
        entries.iter().filter(|entry| entry.name == name).collect();
    if definitions.is_empty() {
        let near = did_you_mean(nearest(name, entries.iter().map(|entry| entry.name.as_str())));
        return format!(
            "this tree has no option {name}{near}; run `make menuconfig` and press `/` to search"
        );
    }
    let selecting = |entry: &&ConfigEntry| {
        entry.selects.iter().any(|selected| selected == name) && config.value(&entry.name) != "n"
    };
    let selectors: Vec<&str> =
        entries.iter().filter(selecting).map(|entry| entry.name.as_str()).collect();
    if wanted == "n" && !selectors.is_empty() {
        return format!("it is selected by {}; turn that off too", selectors.join(", "));
    }
    let location = &definitions[0].location;
    if definitions.iter().any(|entry| entry.is_bool) && !matches!(wanted, "y" | "n") {
        return format!("it can only be y or n ({location})");
    }
    let depends: Vec<&str> =
        definitions.iter().flat_map(|entry| entry.depends.iter().map(String::as_str)).collect();
    match (depends.is_empty(), definitions.iter().any(|entry| entry.has_prompt)) {
        (false, _) => unmet_dependency(&depends.join(" && "), location, config),
        (true, false) => {
            format!("it cannot be set directly: another option must select it ({location})")
        }
        (true, true) => {
            format!("a menu or `if` around it is off, or the value is out of range; see {location}")
        }
    }
}

/// Describes the part of a dependency that is not met.
fn unmet_dependency(expression: &str, location: &str, config: &Options) -> String {
    let unset = unset_symbols(expression, config);
    let missing = match &unset[..] {
        [] => "; change those options too".into(),
        [symbol] => format!(", but {symbol} is not set; set {symbol} too"),
        several => format!(", but {} are not set; set those that it needs", several.join(" and ")),
    };
    format!("it depends on {} ({location}){missing}", escape(expression))
}

/// Returns the symbols of an expression that are not set.
fn unset_symbols<'a>(expression: &'a str, config: &Options) -> Vec<&'a str> {
    let is_symbol = |word: &&str| word.starts_with(|c: char| c.is_ascii_uppercase());
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let mut unset: Vec<&str> =
        words.filter(is_symbol).filter(|word| config.value(word) == "n").collect();
    unset.sort_unstable();
    unset.dedup();
    unset
}

/// Collects the entries of all Kconfig files below a directory, without those of other
/// architectures.
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

/// Collects the entries of a Kconfig file.
fn read_entries(root: &Path, path: &PathBuf, entries: &mut Vec<ConfigEntry>) {
    let text = fs::read_to_string(path).unwrap_or_default();
    let relative = path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
    let mut is_in_entry = false;
    for (number, line) in text.lines().enumerate() {
        let (word, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        let rest = rest.trim();
        match (word, is_in_entry) {
            ("config" | "menuconfig", _) => {
                is_in_entry = true;
                entries.push(ConfigEntry {
                    location: format!("{}:{}", escape(&relative), number + 1),
                    name: rest.to_owned(),
                    depends: Vec::new(),
                    selects: Vec::new(),
                    has_prompt: false,
                    is_bool: false,
                });
            }
            ("choice" | "menu" | "endmenu" | "if" | "endif" | "source" | "comment", _) => {
                is_in_entry = false;
            }
            (_, true) => {
                read_attribute(entries.last_mut().expect("an entry has begun"), word, rest)
            }
            _ => {}
        }
    }
}

/// Adds one line to an entry.
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
    use proptest::prelude::*;

    use super::*;

    fn options(texts: &[&str]) -> Options {
        Options::from_texts(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
            .unwrap()
    }

    #[test]
    fn the_last_value_counts_and_a_missing_option_is_not_set() {
        let wanted = options(&["CONFIG_SMP=y", "CONFIG_SMP=n", "CONFIG_NR_CPUS=8"]);
        assert_eq!(wanted.text(), "CONFIG_NR_CPUS=8\n# CONFIG_SMP is not set\n");
        let found = Options::read("CONFIG_SMP=y\n").unwrap();
        let expected = [("NR_CPUS", "8", "n"), ("SMP", "n", "y")];
        let owned = expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned()));
        assert_eq!(found.differences(&wanted), owned);
        assert!(options(&["CONFIG_SMP=n"]).differences(&options(&["CONFIG_SMP=n"])).is_empty());
    }

    #[test]
    fn a_text_that_is_not_an_option_is_refused() {
        for text in ["SMP=y", "CONFIG_=y", "CONFIG_A B=y", "CONFIG_A=", "CONFIG_A=$(id)", "A=\"x"] {
            let error = Options::from_texts(&[text.to_owned()]).unwrap_err();
            assert!(error.message().ends_with("` is not an option"), "{text}: {error}");
        }
        let missing = Options::from_texts(&["no/such/fragment".to_owned()]).unwrap_err();
        assert!(missing.message().starts_with("cannot read no/such/fragment: "), "{missing}");
    }

    proptest! {
        #[test]
        fn written_options_are_read_back(text in "(# )?CONFIG_[A-Z]{0,4}(=| is )[yn\" a-t]{0,6}")
        {
            if let Ok(options) = Options::from_texts(&[text]) {
                prop_assert_eq!(Options::read(&options.text()).unwrap(), options);
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC*|.*") {
            let _ = Options::read(&text);
        }
    }

    #[test]
    fn differences_are_in_kconfigs_order_and_lead_from_one_to_the_other() {
        let base = "# CONFIG_Z is not set\nCONFIG_HZ=250\nCONFIG_ONLY=y\nCONFIG_SAME=y\n";
        let change = "CONFIG_Z=y\nCONFIG_NEW=m\nCONFIG_HZ=100\nCONFIG_SAME=y\n";
        let elements = options_between(base, change).unwrap();
        let names: Vec<&str> = elements.iter().map(|element| element.name.as_str()).collect();
        assert_eq!(names, ["CONFIG_Z=y", "CONFIG_NEW=m", "CONFIG_HZ=100", "CONFIG_ONLY=n"]);
        assert_eq!(elements[2].title, "instead of 250");
        let merged = Options::read(&with_options(base, &elements).unwrap()).unwrap();
        assert!(merged.differences(&Options::read(change).unwrap()).is_empty());
        assert!(options_between(base, base).unwrap().is_empty());
        let half = with_options(base, &elements[..2]).unwrap();
        assert!(half.contains("CONFIG_NEW=m\n") && half.contains("CONFIG_HZ=250\n"), "{half}");
    }

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
