//! Options of a kernel configuration: parses, merges, compares and writes them.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::error::unreadable;
use crate::target::Target;
use ktax_host::disk::read_limited;
use ktax_host::text::escape;
use ktax_model::{Element, Error, Result};

/// The largest fragment or config that ktax reads, in bytes.
const FRAGMENT_MAX: u64 = 4 << 20;

/// Options by name, without `CONFIG_`. Values are as in a .config; `n` stands for "is not set".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Options(BTreeMap<String, String>);

impl Options {
    /// The options that the user gave. Each text is `CONFIG_NAME=VALUE` or the path of a file of
    /// such lines. The last value of an option counts.
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

    /// These options and those of `other`, whose values win.
    pub(super) fn with(mut self, other: &Options) -> Options {
        self.0.extend(other.0.clone());
        self
    }

    /// The text of a .config.
    pub(super) fn text(&self) -> String {
        let write_line = |(name, value): (&String, &String)| match value.as_str() {
            "n" => format!("# CONFIG_{name} is not set\n"),
            value => format!("CONFIG_{name}={value}\n"),
        };
        self.0.iter().map(write_line).collect()
    }

    /// The options of `wanted` with another value here: name, value in `wanted`, value here.
    pub(super) fn unlike(&self, wanted: &Options) -> Vec<(String, String, String)> {
        let here = |name: &String| self.value(name).to_owned();
        let unlike = wanted.0.iter().filter(|(name, value)| here(name) != **value);
        unlike.map(|(name, value)| (name.clone(), value.clone(), here(name))).collect()
    }

    /// The names, sorted.
    fn into_names(self) -> Vec<String> {
        self.0.into_keys().collect()
    }

    /// The value of an option, or `n` if it is not mentioned.
    pub(super) fn value(&self, name: &str) -> &str {
        self.0.get(name).map_or("n", String::as_str)
    }
}

fn not_an_option(text: &str) -> Error {
    Error::user(format!("`{}` is not an option", escape(text)))
        .next("give CONFIG_NAME=VALUE, or a file of such lines")
}

/// Reads a file of options.
fn read_options_file(path: &Path) -> Result<String> {
    let unreadable = |error| unreadable(path, error, "a file of CONFIG_NAME=VALUE lines");
    let bytes = read_limited(path, FRAGMENT_MAX).map_err(unreadable)?;
    String::from_utf8(bytes).map_err(|error| unreadable(io::Error::other(error)))
}

/// The name and the value in one line. `None` if the line is not an option.
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
    let is_sound = is_plain || is_text && !value.contains(char::is_control);
    (is_name && is_sound).then(|| (name.to_owned(), value.to_owned()))
}

/// The start of a configuration, before the options.
pub(super) enum StartConfig {
    /// The small base configuration, with this text.
    Base(&'static str),
    /// The default configuration of the architecture.
    Defconfig,
    /// A whole .config.
    Config(String),
}

impl StartConfig {
    /// The start that the user named: `base`, `defconfig`, `running_config` or a file.
    pub(super) fn named(name: Option<&str>, target: &Target) -> Result<StartConfig> {
        match name {
            None | Some("base") => Ok(StartConfig::Base(target.base())),
            Some("defconfig") => Ok(StartConfig::Defconfig),
            Some("running") => running_config().map(StartConfig::Config),
            Some(path) => read_options_file(Path::new(path)).map(StartConfig::Config),
        }
    }

    /// Number of files that a first build compiles: 1003 of Linux 6.1 with the small configuration.
    /// Other configurations are too different for a number.
    pub(super) fn usual_files(&self) -> Option<usize> {
        matches!(self, StartConfig::Base(_)).then_some(1003)
    }

    /// A text that stands for it in the key.
    pub(super) fn text(&self) -> &str {
        match self {
            StartConfig::Base(base) => base,
            StartConfig::Defconfig => "defconfig",
            StartConfig::Config(text) => text,
        }
    }
}

/// The config of the running kernel, from the distribution's file in /boot.
fn running_config() -> Result<String> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    read_options_file(&Path::new("/boot").join(format!("config-{release}")))
}

/// The options that have another value in `change` than in `base`, in Kconfig's order, which puts
/// most options behind their dependencies. `base` and `change` are texts of .configs.
pub fn options_between(base: &str, change: &str) -> Result<Vec<Element>> {
    let (base, order) = (Options::read(base)?, [change, base]);
    let change = Options::read(change)?;
    let mut elements: Vec<Element> = Vec::new();
    for line in order.iter().flat_map(|text| text.lines()) {
        // An option that only one of them mentions is off in the other.
        let Some(name) = Options::read(line)?.into_names().pop() else { continue };
        let (was, now) = (base.value(&name), change.value(&name));
        let element = Element {
            name: format!("CONFIG_{name}={now}"),
            title: format!("instead of {was}"),
            is_merge: false,
        };
        if was != now && !elements.iter().any(|other| other.name == element.name) {
            elements.push(element);
        }
    }
    Ok(elements)
}

/// The configuration `base` with some differences applied, as the text of a .config.
pub fn with_options(base: &str, elements: &[Element]) -> Result<String> {
    let changed: Vec<String> = elements.iter().map(|element| element.name.clone()).collect();
    Ok(Options::read(base)?.with(&Options::from_texts(&changed)?).text())
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
        let here = Options::read("CONFIG_SMP=y\n").unwrap();
        let unlike = [("NR_CPUS", "8", "n"), ("SMP", "n", "y")];
        let owned = unlike.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned()));
        assert_eq!(here.unlike(&wanted), owned);
        assert!(options(&["CONFIG_SMP=n"]).unlike(&options(&["CONFIG_SMP=n"])).is_empty());
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
        let whole = Options::read(&with_options(base, &elements).unwrap()).unwrap();
        assert!(whole.unlike(&Options::read(change).unwrap()).is_empty());
        assert!(options_between(base, base).unwrap().is_empty());
        let half = with_options(base, &elements[..2]).unwrap();
        assert!(half.contains("CONFIG_NEW=m\n") && half.contains("CONFIG_HZ=250\n"), "{half}");
    }
}
