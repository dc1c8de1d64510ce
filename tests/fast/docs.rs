//! Every command in the documents is a command line of ktax, and every document that is named is
//! there. What the commands print is compared in `tests/boots/docs.rs`.

use crate::common::page::{Block, name_of_a_document, pages, root, sources};
use crate::common::{ktax, run};

#[test]
fn every_command_in_the_documents_is_one() {
    let mut wrong = Vec::new();
    for page in pages() {
        for line in page.blocks().iter().flat_map(Block::lines_of_ktax) {
            let ran = run(ktax().args(asking_for_help(&line)));
            if ran.status != 0 {
                wrong.push(format!("{}: {line}\n{}", page.name(), ran.stderr));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The command line, which ends in a request for help: all that is before it is parsed, and nothing
/// is done.
fn asking_for_help(line: &str) -> Vec<String> {
    const ENDS: [&str; 6] = ["--", "|", "||", "&&", ">", "2>&1"];
    // What a shell puts in the place of a command is a value.
    let plain = match (line.find("$("), line.find(')')) {
        (Some(start), Some(end)) => format!("{}1{}", &line[..start], &line[end + 1..]),
        _ => line.to_owned(),
    };
    let words = shlex::split(&plain).unwrap_or_else(|| panic!("{line} is no command line"));
    let own = words.into_iter().skip(1).take_while(|word| !ENDS.contains(&word.as_str()));
    own.chain(["--help".to_owned()]).collect()
}

#[test]
fn a_document_that_is_named_is_there() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        for name in text.split("docs/").skip(1).filter_map(name_of_a_document) {
            if !root().join("docs").join(&name).exists() {
                wrong.push(format!("{}: docs/{name}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The code spans of a text: what stands between two backticks on a line.
fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

#[test]
fn commands_name_experiments_and_ledgers_that_the_binary_has() {
    let mut wrong = Vec::new();
    for page in pages() {
        let in_blocks = page.blocks().into_iter().flat_map(|block| block.lines_of_ktax());
        let in_text = code_spans(page.text()).map(str::to_owned);
        for command in in_blocks.chain(in_text).filter(|code| code.starts_with("ktax ")) {
            // A reader who installed ktax has no checkout.
            if ["experiments/", "ledgers/"].iter().any(|folder| command.contains(folder)) {
                wrong.push(format!("{}: {command}", page.name()));
            }
        }
    }
    assert!(wrong.is_empty(), "leave out the folder and .toml:\n{}", wrong.join("\n"));
}

#[test]
fn the_list_of_experiments_in_the_documents_is_what_ktax_prints() {
    let listed = run(ktax().arg("experiments")).stdout;
    let page = pages().into_iter().find(|page| page.name() == "docs/experiments.md").unwrap();
    assert!(page.text().contains(&listed), "type make bless; ktax prints\n{listed}");
}

#[test]
fn every_cell_of_the_published_tables_has_a_whole_command() {
    let page = pages().into_iter().find(|page| page.name() == "docs/tables.md").unwrap();
    let mut wrong = Vec::new();
    for command in code_spans(page.text()).filter(|code| code.starts_with("ktax compare ")) {
        let ran = run(ktax().args(asking_for_help(command)));
        let name = command.split(' ').nth(2).unwrap_or_default();
        let has_subject = name.starts_with("--") && command.contains("--kernel ");
        let is_experiment = root().join(format!("experiments/{name}.toml")).exists();
        if ran.status != 0 || command.contains('…') || !(has_subject || is_experiment) {
            wrong.push(command.to_owned());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
