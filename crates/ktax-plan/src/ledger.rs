//! Ledgers, and chains of the elements between two Subjects.

use ktax_host::text::{escape, shell_path};
use ktax_model::{AlreadyOn, Chain, Element, Method, Subject, Warning, boot_parameters};

use crate::defaults::{AdditionParts, ineffective_parameters, parts_already_on};
use crate::experiment::{Error, Experiment, method_of, misplaced_key_error};
use crate::file::{Addition, ExperimentFile, SubjectKeys};

/// A ledger file: a base, and additions to it, one at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Ledger {
    /// Title in one line.
    pub title: String,
    /// Purpose of the ledger, for readers of the file.
    pub why: String,
    /// Name and Experiment of each addition; if there are several, also of all additions at once.
    pub experiments: Vec<(String, Experiment)>,
    /// Words of the command line that measures this ledger; may be empty.
    pub again: Vec<String>,
    /// Keys of the file and the flags.
    file: ExperimentFile,
}

/// Name of the row of all additions at once.
pub const ALL_ADDITIONS: &str = "together";

impl Ledger {
    /// Parses and checks a ledger file; `path` is for messages.
    pub fn parse(text: &str, path: &str) -> Result<Ledger, Error> {
        Ledger::from_file(Ledger::read(text, path)?, path)
    }

    /// Parses a ledger file, whose keys flags may change; `path` is for messages.
    pub fn read(text: &str, path: &str) -> Result<ExperimentFile, Error> {
        let refuse = |reason: String| ledger_error(path, &reason);
        let file = ExperimentFile::read(text).map_err(refuse)?;
        match file.add.is_empty() {
            true => Err(Error::user(format!(
                "{path} is an experiment: it has no additions. Run it with `ktax compare {}`",
                shell_path(path)
            ))),
            false => Ok(file),
        }
    }

    /// Checks the keys of a ledger; `path` is for messages.
    pub fn from_file(file: ExperimentFile, path: &str) -> Result<Ledger, Error> {
        let refuse = |reason: String| ledger_error(path, &reason);
        check_additions(&file).map_err(refuse)?;
        if let Some(addition) = file.add.iter().find(|addition| !addition.features.is_empty())
            && method_of(&file) != Method::Guests
        {
            let key = format!("with (of {})", addition.name);
            return Err(misplaced_key_error(&key, "host = \"kvm\"", "the exact engine"));
        }
        let experiments = addition_experiments(&file, path)?;
        let (title, why) = (file.title.clone().unwrap_or_default(), file.why.clone());
        Ok(Ledger { title, why, experiments, again: Vec::new(), file })
    }

    /// Sets the words of the command line for this ledger.
    pub fn with_command(self, again: Vec<String>) -> Ledger {
        Ledger { again, ..self }
    }

    /// Finds the parts of the additions that the base already has. `config` is the text of the
    /// base's configuration.
    pub fn already_on(&self, config: &str) -> Vec<AlreadyOn> {
        let line = self.file.base.boot_line.as_deref().unwrap_or_default();
        let additions = self.file.add.iter();
        additions
            .flat_map(|addition| parts_already_on(&addition_parts(addition), line, config))
            .collect()
    }

    /// Warnings about parameters that have no effect on the base's kernel, with the names of their
    /// additions. `config` is the text of the base's configuration.
    pub fn ineffective_parameters(&self, config: &str) -> Vec<(String, Warning)> {
        let warnings_of_addition = |addition: &Addition| {
            let name = addition.name.clone();
            let parameters = ineffective_parameters(&addition_parts(addition), config);
            parameters.into_iter().map(move |(parameter, reason)| {
                let fact = format!("{parameter} does nothing on this kernel: {reason}");
                let next_step = "use a kernel that is built with it".to_owned();
                (name.clone(), Warning { fact, next_step })
            })
        };
        self.file.add.iter().flat_map(warnings_of_addition).collect()
    }

    /// Copy whose base has the replacements of these parts, so that the parts are off.
    pub fn without_parts(self, already_on: &[AlreadyOn]) -> Result<Ledger, Error> {
        let mut file = self.file;
        for replacement in already_on.iter().flat_map(|part| part.replacement.split_whitespace()) {
            let base = &mut file.base;
            if replacement.starts_with("CONFIG_") {
                base.config.push(replacement.to_owned());
                continue;
            }
            let line = base.boot_line.take().unwrap_or_default();
            base.boot_line = Some(format!("{line} {replacement}").trim().to_owned());
        }
        let experiments = addition_experiments(&file, "the ledger")?;
        Ok(Ledger { experiments, file, ..self })
    }
}

fn ledger_error(path: &str, reason: &str) -> Error {
    Error::user(format!("{path} is not a ledger file: {reason}. `ktax ledger --help` shows one"))
}

fn addition_parts(addition: &Addition) -> AdditionParts<'_> {
    let Addition { name, boot_line, config, .. } = addition;
    AdditionParts { name, boot_line, config }
}

/// Name and Experiment of each addition; if there are several, also of all additions at once.
fn addition_experiments(
    file: &ExperimentFile,
    path: &str,
) -> Result<Vec<(String, Experiment)>, Error> {
    let refuse = |reason: String| ledger_error(path, &reason);
    let single = file.add.iter().map(|addition| (addition.name.as_str(), vec![addition]));
    let all = (file.add.len() > 1).then(|| (ALL_ADDITIONS, file.add.iter().collect()));
    let experiments = single.chain(all).map(|(name, additions)| {
        let change = keys_with_additions(&file.base, &additions).map_err(refuse)?;
        Ok((name.to_owned(), addition_experiment(file, name, change)?))
    });
    experiments.collect()
}

/// Refuses a ledger whose keys or additions cannot be measured.
fn check_additions(file: &ExperimentFile) -> Result<(), String> {
    let mut names: Vec<&str> = file.add.iter().map(|addition| &*addition.name).collect();
    let is_name = |name: &&str| {
        let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_=.,+".contains(&b);
        !name.is_empty() && name.len() <= 60 && name.bytes().all(is_allowed)
    };
    if file.change.is_some() {
        return Err("the change of a ledger is the base with an addition; remove `change`".into());
    }
    if method_of(file) == Method::Times {
        return Err("times do not add up; remove `engine`".into());
    }
    if !file.sweep.is_empty() {
        return Err("a ledger has one base; remove `sweep`, and set one value of it".into());
    }
    if names.contains(&ALL_ADDITIONS) {
        return Err(format!(
            "{ALL_ADDITIONS:?} is the name of the row of all additions; choose another name"
        ));
    }
    if let Some(name) = names.iter().find(|name| !is_name(name)) {
        let name = escape(name);
        return Err(format!("{name:?} is not a valid name; use letters, digits and -_=.,+"));
    }
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("{} is added twice", twice[0]));
    }
    let is_empty = |addition: &&Addition| {
        let Addition {
            boot_line, config, patches, features, sysctl, modules, files, setup, ..
        } = addition;
        let lists = [config, patches, features, modules, files];
        boot_line.trim().is_empty()
            && lists.iter().all(|list| list.is_empty())
            && sysctl.is_empty()
            && setup.is_none()
    };
    match file.add.iter().find(is_empty) {
        Some(empty) => Err(format!("{} adds nothing", empty.name)),
        None => Ok(()),
    }
}

/// Keys of the base with these additions.
fn keys_with_additions(base: &SubjectKeys, additions: &[&Addition]) -> Result<SubjectKeys, String> {
    let mut change = base.clone();
    for Addition { name, boot_line, config, patches, features, sysctl, modules, files, setup } in
        additions
    {
        change.sysctl.extend(sysctl.clone());
        change.modules.extend(modules.clone());
        change.files.extend(files.clone());
        if let Some(commands) = setup {
            let base_setup = change.setup.take().map(|setup| format!("{setup}\n"));
            change.setup = Some(base_setup.unwrap_or_default() + commands);
        }
        let base_line = change.boot_line.unwrap_or_default();
        change.boot_line = Some(format!("{base_line} {boot_line}").trim().to_owned());
        change.boot_line = change.boot_line.filter(|line| !line.is_empty());
        change.config.extend(config.clone());
        change.patches.extend(patches.clone());
        if let Some(feature) = features.iter().find(|name| !base.without.contains(name)) {
            let feature = escape(feature);
            return Err(format!(
                "{name} adds {feature:?}, which the base has already; list it in `without` of the \
                 base"
            ));
        }
        change.without.retain(|feature| !features.contains(feature));
    }
    Ok(change)
}

fn addition_experiment(
    file: &ExperimentFile,
    name: &str,
    change: SubjectKeys,
) -> Result<Experiment, Error> {
    let title = file.title.as_ref().map(|title| format!("{title}: {name}"));
    // Allow equal sides: an addition that the base already has measures as free.
    Experiment::from_file(&ExperimentFile {
        title,
        same: Some(true),
        add: Vec::new(),
        change: Some(change),
        ..file.clone()
    })
}

/// Kind of the elements between two Subjects. Fails if the Subjects are equal, if they differ in
/// more than one kind, or if the difference is not a chain of elements.
pub fn chain(base: &Subject, change: &Subject) -> Result<Chain, Error> {
    let refuse = |reason: &str| Err(Error::user(format!("cannot bisect: {reason}")));
    let mut kinds = Vec::new();
    if base.kernel != change.kernel || base.tree != change.tree {
        if base.revision().is_none() || change.revision().is_none() || base.tree != change.tree {
            return refuse(
                "ktax knows no commits between these kernels; name each as git:REVISION of one \
                 --tree",
            );
        }
        kinds.push(Chain::Commits);
    }
    if (&base.config, &base.start_config) != (&change.config, &change.start_config) {
        kinds.push(Chain::Options);
    }
    if base.patches != change.patches {
        if !change.patches.starts_with(&base.patches) {
            return refuse(
                "the change's patches do not begin with the base's; list the base's patches first",
            );
        }
        kinds.push(Chain::Patches);
    }
    if base.boot_line != change.boot_line {
        if added_parameters(base, change).is_none() {
            return refuse(
                "the change's boot line does not begin with the base's; write the base's \
                 parameters first",
            );
        }
        kinds.push(Chain::Parameters);
    }
    if base.settings_only() != change.settings_only() {
        return refuse(
            "the sides differ in sysctl, modules, disk, files or setup, which is no chain of \
             steps; give both sides the same, or use `ktax ledger` with an addition for each part",
        );
    }
    match kinds[..] {
        [chain] => Ok(chain),
        [] => refuse("base and change are the same; change one thing between them"),
        _ => {
            let words: Vec<&str> = kinds.iter().map(|kind| kind.nouns().1).collect();
            refuse(&format!(
                "base and change differ in {}; let them differ in only one",
                words.join(" and ")
            ))
        }
    }
}

/// Parameters that the change's boot line adds; `None` if the line does not begin with the base's
/// boot line.
fn added_parameters<'a>(base: &Subject, change: &'a Subject) -> Option<Vec<&'a str>> {
    let base_parameters = boot_parameters(&base.boot_line);
    let parameters = boot_parameters(&change.boot_line);
    parameters.starts_with(&base_parameters).then(|| parameters[base_parameters.len()..].to_vec())
}

/// Elements of a chain of patches or parameters; empty for chains whose elements the Subjects do
/// not list.
pub fn elements(chain: Chain, base: &Subject, change: &Subject) -> Vec<Element> {
    let element =
        |name: &str| Element { name: name.to_owned(), title: String::new(), is_merge: false };
    match chain {
        Chain::Patches => {
            change.patches[base.patches.len()..].iter().map(|patch| element(patch)).collect()
        }
        Chain::Parameters => {
            added_parameters(base, change).unwrap_or_default().into_iter().map(element).collect()
        }
        Chain::Commits | Chain::Options => Vec::new(),
    }
}

/// Subject after these elements, of which there is at least one. For options, `config` is the path
/// of the configuration with these options.
pub fn subject_after(chain: Chain, base: &Subject, elements: &[Element], config: &str) -> Subject {
    let mut subject = base.clone();
    let names = || elements.iter().map(|element| element.name.clone());
    match chain {
        Chain::Commits => {
            subject.kernel = names().next_back().map_or(subject.kernel, |id| format!("git:{id}"));
        }
        Chain::Options => {
            subject.config = Vec::new();
            subject.start_config = Some(config.to_owned());
        }
        Chain::Patches => subject.patches.extend(names()),
        Chain::Parameters => {
            let words: Vec<String> = names().collect();
            subject.boot_line = format!("{} {}", subject.boot_line, words.join(" ")).trim().into();
        }
    }
    subject
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ExperimentMethod;

    const TEXT: &str = r#"
        title = "t"
        base = { kernel = "k", boot_line = "quiet" }
        add = [{ name = "a", boot_line = "a=1" }, { name = "b", config = ["CONFIG_B=y"] }]
    "#;

    #[test]
    fn additions_are_measured_alone_and_all_at_once() {
        let all = Ledger::parse(TEXT, "t.toml").unwrap().experiments;
        let counted = |index: usize| match &all[index].1.method {
            ExperimentMethod::Counts(counts) => counts,
            other => panic!("{other:?}"),
        };
        let name_and_line = |index: usize| {
            (all[index].0.as_str(), counted(index).asked.subjects.change.boot_line.as_str())
        };
        assert_eq!(
            [name_and_line(0), name_and_line(1), name_and_line(2)],
            [("a", "quiet a=1"), ("b", "quiet"), (ALL_ADDITIONS, "quiet a=1")]
        );
        assert_eq!(counted(2).asked.subjects.change.config, ["CONFIG_B=y"]);
        assert!((0..3).all(|index| counted(index).asked.subjects.base.boot_line == "quiet"));
        assert_eq!(all[0].1.title, "t: a");
    }

    #[test]
    fn invalid_ledgers_are_refused() {
        for (from, to) in [
            ("name = \"b\"", "name = \"a\""),
            ("name = \"b\"", "name = \"../b\""),
            ("name = \"b\"", "name = \"together\""),
            ("title = \"t\"", "titel = \"t\""),
            ("config = [\"CONFIG_B=y\"]", "config = []"),
            ("base =", "change = { kernel = \"k\" }\n        base ="),
            ("base =", "engine = \"kvm\"\n        base ="),
            ("add =", "ad ="),
        ] {
            let error = Ledger::parse(&TEXT.replace(from, to), "t.toml").unwrap_err();
            assert!(error.to_string().contains("is not a ledger file: "), "{error}");
        }
        let reserved = TEXT.replace("name = \"b\"", "name = \"together\"");
        let error = Ledger::parse(&reserved, "t.toml").unwrap_err().to_string();
        assert!(error.contains("is the name of the row of all additions"), "{error}");
    }

    const GUESTS: &str = r#"
        title = "t"
        host = "kvm"
        workloads = ["boot"]
        base = { kernel = "k", cpus = 2, without = ["kvmclock", "kvm-steal-time"] }
        add = [
            { name = "clock", with = ["kvmclock"] }, { name = "steal", with = ["kvm-steal-time"] },
        ]
    "#;

    #[test]
    fn additions_give_guests_features_that_the_base_hides() {
        let all = Ledger::parse(GUESTS, "t.toml").unwrap().experiments;
        let without = |index: usize| match &all[index].1.method {
            ExperimentMethod::Guests(guests) => {
                guests.asked.change.as_ref().unwrap().subject.hidden_features.join(" ")
            }
            other => panic!("{other:?}"),
        };
        assert_eq!([without(0), without(1), without(2)], ["kvm-steal-time", "kvmclock", ""]);
        let there = GUESTS.replace("with = [\"kvmclock\"]", "with = [\"kvm-pv-ipi\"]");
        let error = Ledger::parse(&there, "t.toml").unwrap_err().to_string();
        assert!(error.contains("\"kvm-pv-ipi\", which the base has already"), "{error}");
        let never = GUESTS.replace("kvm-steal-time", "kvm-pv-eoi");
        let error = Ledger::parse(&never, "t.toml").unwrap_err();
        assert!(error.to_string().contains("differ only in kvm-pv-eoi"), "{error}");
        let swept = format!("{GUESTS}\n[sweep]\ncpus = [2, 4]");
        let error = Ledger::parse(&swept, "t.toml").unwrap_err().to_string();
        assert!(error.contains("remove `sweep`"), "{error}");
        let counted = GUESTS.replace("host = \"kvm\"", "").replace("cpus = 2, ", "");
        let counted = counted.replace("without = [\"kvmclock\", \"kvm-steal-time\"]", "");
        let error = Ledger::parse(&counted, "t.toml").unwrap_err();
        assert!(error.to_string().contains(" only applies to "), "{error}");
    }
}

#[cfg(test)]
mod chain_tests {
    use super::*;

    fn git(revision: &str) -> Subject {
        Subject { tree: Some("linux".into()), ..Subject::new(&format!("git:{revision}"), "quiet") }
    }

    #[test]
    fn the_chain_is_the_only_difference() {
        let base = git("a");
        let options = Subject { config: vec!["CONFIG_A=y".into()], ..base.clone() };
        let patches = Subject { patches: vec!["1".into(), "2".into()], ..base.clone() };
        let line = Subject { boot_line: "quiet pti=on audit=1".into(), ..base.clone() };
        for (change, expected) in [
            (git("b"), Chain::Commits),
            (options.clone(), Chain::Options),
            (patches.clone(), Chain::Patches),
            (line.clone(), Chain::Parameters),
        ] {
            assert_eq!(chain(&base, &change).unwrap(), expected);
        }
        let two = Subject { patches: patches.patches.clone(), ..options };
        let back = |change: &Subject| chain(change, &base);
        for wrong in [chain(&base, &base), chain(&base, &two), back(&patches), back(&line)] {
            assert!(wrong.unwrap_err().to_string().starts_with("cannot bisect: "));
        }
        let setup = Subject { setup: Some("true".into()), ..base.clone() };
        let reason = chain(&base, &setup).unwrap_err().to_string();
        assert!(reason.contains("differ in sysctl, modules, disk, files or setup"), "{reason}");
        let file = Subject::new("bzImage", "quiet");
        assert!(chain(&base, &file).is_err());
    }

    #[test]
    fn a_quoted_space_does_not_separate_parameters() {
        let line = "quiet  dyndbg=\"file a.c +p\" audit=1";
        assert_eq!(boot_parameters(line), ["quiet", "dyndbg=\"file a.c +p\"", "audit=1"]);
    }

    #[test]
    fn the_base_with_all_elements_is_the_change() {
        let base = git("a");
        let patches = Subject { patches: vec!["1".into(), "2".into()], ..base.clone() };
        let line = Subject { boot_line: "quiet pti=on audit=1".into(), ..base.clone() };
        for (change, chain) in [(&patches, Chain::Patches), (&line, Chain::Parameters)] {
            let elements = elements(chain, &base, change);
            assert_eq!(elements.len(), 2);
            assert_eq!(&subject_after(chain, &base, &elements, ""), change);
        }
    }
}
