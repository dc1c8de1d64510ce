use serde::Deserialize;

use super::asked::Experiment;
use super::counts::CountsExperiment;
use super::error::{PlanError, printable_line};
use super::layouts;
use crate::model::{Machine, Subject};
use crate::text::{escape, escape_lines};

/// A ledger file: a base, and what may be added to it, one at a time.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ledger {
    /// One line for people.
    pub title: String,
    /// Why it is worth asking, for people who read the file.
    #[serde(default)]
    pub why: String,
    /// Layouts per Side.
    #[serde(default = "default_layouts")]
    pub layouts: u32,
    /// What the Layouts are drawn from.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Changes below this many percent get no verdict.
    #[serde(default = "default_threshold_percent")]
    pub threshold_percent: f64,
    /// Rows by name; all of them where absent.
    #[serde(default)]
    pub workloads: Option<Vec<String>>,
    /// The shape of the computer.
    #[serde(default)]
    pub machine: Machine,
    /// What each addition is measured against.
    pub base: Subject,
    /// What is added.
    pub add: Vec<Addition>,
}

/// What is added to the base.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Addition {
    /// What it is called.
    pub name: String,
    /// Parameters behind the base's.
    #[serde(default)]
    pub boot_line: String,
    /// Options after the base's, of a Kernel from source.
    #[serde(default)]
    pub config: Vec<String>,
    /// Patches after the base's, of a Kernel from source.
    #[serde(default)]
    pub patches: Vec<String>,
}

fn default_layouts() -> u32 {
    layouts::DEFAULT
}

fn default_seed() -> u64 {
    1
}

fn default_threshold_percent() -> f64 {
    0.1
}

/// The name of all additions at once.
pub const TOGETHER: &str = "together";

impl Ledger {
    /// Parses a ledger file; `path` is for messages.
    pub fn parse(text: &str, path: &str) -> Result<Ledger, PlanError> {
        let refuse = |reason: String| PlanError::Ledger { path: path.to_owned(), reason };
        let ledger: Ledger = toml::from_str(text)
            .map_err(|error| refuse(escape_lines(error.to_string().trim_end())))?;
        let mut names: Vec<&str> = ledger.add.iter().map(|addition| &*addition.name).collect();
        let is_name = |name: &&str| {
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_=.,+".contains(&b);
            !name.is_empty() && name.len() <= 60 && name.bytes().all(plain)
        };
        if names.contains(&TOGETHER) {
            return Err(refuse(format!(
                "{TOGETHER:?} is the name of the row of all additions; choose another name"
            )));
        }
        if let Some(bad) = names.iter().find(|name| !is_name(name)) {
            let bad = escape(bad);
            return Err(refuse(format!(
                "{bad:?} is not a valid name; use letters, digits and -_=.,+"
            )));
        }
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(refuse(format!("{} is added twice", twice[0])));
        }
        let is_nothing = |one: &&Addition| {
            one.boot_line.trim().is_empty() && one.config.is_empty() && one.patches.is_empty()
        };
        if let Some(nothing) = ledger.add.iter().find(is_nothing) {
            return Err(refuse(format!("{} adds nothing", nothing.name)));
        }
        if names.is_empty() {
            return Err(refuse("the list `add` is empty".into()));
        }
        for (_, experiment) in ledger.experiments() {
            experiment.method.check()?;
            printable_line("the title", &experiment.title)?;
            if !(0.0..=100.0).contains(&experiment.threshold_percent) {
                let threshold_percent = experiment.threshold_percent;
                return Err(PlanError::Threshold { threshold_percent });
            }
        }
        Ok(ledger)
    }

    /// An Experiment for each addition, by its name, and one for all of them, if there are several.
    pub fn experiments(&self) -> Vec<(String, Experiment<CountsExperiment>)> {
        let each = self.add.iter().map(|one| (one.name.clone(), vec![one]));
        let all = (self.add.len() > 1).then(|| (TOGETHER.to_owned(), self.add.iter().collect()));
        each.chain(all)
            .map(|(name, added)| (name.clone(), self.experiment(&name, &added)))
            .collect()
    }

    fn experiment(&self, name: &str, added: &[&Addition]) -> Experiment<CountsExperiment> {
        let mut change = self.base.clone();
        for addition in added {
            change.boot_line = format!("{} {}", change.boot_line, addition.boot_line);
            change.config.extend(addition.config.clone());
            change.patches.extend(addition.patches.clone());
        }
        change.boot_line = change.boot_line.trim().to_owned();
        Experiment {
            title: format!("{}: {name}", self.title),
            seed: self.seed,
            threshold_percent: self.threshold_percent,
            method: CountsExperiment {
                layouts: self.layouts,
                workloads: self.workloads.clone(),
                machine: self.machine.clone(),
                ..CountsExperiment::between(self.base.clone(), change)
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        title = "t"
        base = { kernel = "k", boot_line = "quiet" }
        add = [{ name = "a", boot_line = "a=1" }, { name = "b", config = ["CONFIG_B=y"] }]
    "#;

    #[test]
    fn each_is_added_alone_and_then_all() {
        let all = Ledger::parse(TEXT, "t.toml").unwrap().experiments();
        let of = |at: usize| (all[at].0.as_str(), all[at].1.method.change.boot_line.as_str());
        assert_eq!(
            [of(0), of(1), of(2)],
            [("a", "quiet a=1"), ("b", "quiet"), (TOGETHER, "quiet a=1")]
        );
        assert_eq!(all[2].1.method.change.config, ["CONFIG_B=y"]);
        assert!(all.iter().all(|(_, experiment)| experiment.method.base.boot_line == "quiet"));
    }

    #[test]
    fn a_file_that_says_nothing_sensible_is_refused() {
        for (from, to) in [
            ("name = \"b\"", "name = \"a\""),
            ("name = \"b\"", "name = \"../b\""),
            ("name = \"b\"", "name = \"together\""),
            ("title = \"t\"", "titel = \"t\""),
            ("config = [\"CONFIG_B=y\"]", "config = []"),
        ] {
            let error = Ledger::parse(&TEXT.replace(from, to), "t.toml").unwrap_err();
            assert!(matches!(error, PlanError::Ledger { .. }), "{error}");
        }
        let reserved = TEXT.replace("name = \"b\"", "name = \"together\"");
        let error = Ledger::parse(&reserved, "t.toml").unwrap_err().to_string();
        assert!(error.contains("is the name of the row of all additions"), "{error}");
    }
}
