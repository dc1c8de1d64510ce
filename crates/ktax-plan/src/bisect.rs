//! Differences between two Subjects as a chain of steps: each place on the chain is a Subject.

use super::error::Error;
use ktax_model::boot_line::parameters;
use ktax_model::{Chain, Element, Subject};

/// Kind of the elements between two Subjects. Fails if they are equal, differ in more than one kind
/// of thing, or in something that is no chain.
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
    if base.settings_alone() != change.settings_alone() {
        return refuse(
            "the sides differ in sysctl, modules, disk, files or setup, which is no chain of \
             steps; give both sides the same, or use `ktax ledger` with an addition for each part",
        );
    }
    match kinds[..] {
        [chain] => Ok(chain),
        [] => refuse("base and change are the same; change one thing between them"),
        _ => {
            let words: Vec<&str> = kinds.iter().map(|kind| kind.words().1).collect();
            refuse(&format!(
                "base and change differ in {}; let them differ in only one",
                words.join(" and ")
            ))
        }
    }
}

/// Parameters that the change's boot line adds; `None` if it does not begin with the base's.
fn added_parameters<'a>(base: &Subject, change: &'a Subject) -> Option<Vec<&'a str>> {
    let (before, after) = (parameters(&base.boot_line), parameters(&change.boot_line));
    after.starts_with(&before).then(|| after[before.len()..].to_vec())
}

/// Elements of a chain that the Subjects themselves have: patches or parameters.
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

/// The Subject after these elements, at least one. For options, `config` is the file that holds
/// them.
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

    fn git(revision: &str) -> Subject {
        Subject { tree: Some("linux".into()), ..Subject::new(&format!("git:{revision}"), "quiet") }
    }

    #[test]
    fn what_differs_is_the_chain() {
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
    fn a_quoted_space_parts_no_parameters() {
        let line = "quiet  dyndbg=\"file a.c +p\" audit=1";
        assert_eq!(parameters(line), ["quiet", "dyndbg=\"file a.c +p\"", "audit=1"]);
    }

    #[test]
    fn the_last_place_of_a_chain_is_the_change() {
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
