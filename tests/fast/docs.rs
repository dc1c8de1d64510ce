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
