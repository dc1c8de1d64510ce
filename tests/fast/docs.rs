//! Every command in the documents is a command line of ktax, and every document that is named is
//! there. What the commands print is compared in `tests/boots/docs.rs`.

use std::fs;

use ktax::flow::{Limit, limits};

use crate::common::page::{Block, Kind, name_of_a_document, pages, root, sources};
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
    // Command substitutions count as values.
    let plain = match (line.find("$("), line.find(')')) {
        (Some(start), Some(end)) => format!("{}1{}", &line[..start], &line[end + 1..]),
        _ => line.to_owned(),
    };
    let words = shlex::split(&plain).unwrap_or_else(|| panic!("{line} is no command line"));
    let words = words.into_iter().skip(1).take_while(|word| !ENDS.contains(&word.as_str()));
    words.chain(["--help".to_owned()]).collect()
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

/// Measurements of a build of ktax are in one place, below the experiment: another build has other
/// numbers, and a page has no numbers of its own.
#[test]
fn a_row_of_an_answer_is_on_a_page_as_it_is_below_the_experiment() {
    let mut wrong = Vec::new();
    for mut page in pages() {
        for block in page.blocks().into_iter().filter(|block| block.kind == Kind::Answer) {
            let command = block.commands().remove(0);
            let expected = format!("$ {command}\n{}", answer_of_row(&command));
            if std::env::var_os("BLESS").is_some() {
                page.replace(&block, &expected);
                page.write();
            } else if block.text != expected {
                wrong.push(format!("{}:\n{}\nnow:\n{expected}", page.name(), block.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The paragraphs about one row in the answer that `ktax compare NAME -w ROW` gave.
fn answer_of_row(command: &str) -> String {
    let words: Vec<&str> = command.split(' ').collect();
    let (file, row) = (words[2], words[4]);
    let path = root().join("experiments").join(file).with_extension("toml");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, answer) = text.split_once("written by `make answers`:\n").unwrap();
    let plain =
        |line: &str| line.trim_start_matches('#').strip_prefix(' ').unwrap_or("").to_owned();
    let answer = answer.lines().map(plain).collect::<Vec<_>>().join("\n");
    let paragraphs: Vec<&str> = answer.split("\n\n").collect();
    let title = paragraphs.iter().position(|text| text.ends_with('?')).unwrap();
    let is_of = |text: &str, row: &str| text.starts_with(&format!("{row},"));
    let first = paragraphs.iter().position(|text| is_of(text, row)).unwrap();
    let is_next = |text: &&str| text.starts_with("raw:") || text.starts_with("Events lost");
    let length = 1 + paragraphs[first + 1..].iter().position(is_next).unwrap();
    let of_other = |line: &&str| line.starts_with("raw:") && !line.starts_with(&format!("{row} "));
    let table = paragraphs.iter().find(|text| text.contains("\nworkload")).unwrap();
    let table: Vec<&str> = table.lines().filter(|line| !of_other(line)).collect();
    let table = table.join("\n");
    let mut shown = vec![paragraphs[title], paragraphs[title + 2], table.as_str()];
    shown.extend(&paragraphs[first..first + length]);
    shown.push(paragraphs.last().unwrap().trim_end());
    shown.join("\n\n") + "\n"
}

/// The comparison of 2008, whose answer is below its experiment.
#[test]
fn the_page_says_of_the_magic_page_what_its_answer_says() {
    let read = |file: &str| std::fs::read_to_string(root().join(file)).unwrap();
    let answer = read("experiments/magic-page.toml");
    let line =
        answer.lines().find_map(|line| line.strip_prefix("# raw:all=2000: faster (-")).unwrap();
    let percent = line.trim_end_matches(')');
    let sentence = format!("The total time falls by {percent}.");
    assert!(read("docs/exits.md").contains(&sentence), "{sentence}");
}

// The page of limits has the numbers of the program, and every other page that is about them links
// to it.

const HEAD: &str = "| What | Bounds | Default |\n|---|---|---|\n";

#[test]
fn the_page_of_limits_is_the_table_of_the_program() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/limits.md");
    let page = fs::read_to_string(path).unwrap();
    let row = |limit: Limit| format!("| {} | {} | {} |\n", limit.what, limit.bounds, limit.usual);
    let rows: String = limits().into_iter().map(row).collect();
    let (before, rest) = page.split_once(HEAD).unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap_or_else(|| rest.split_once('\n').unwrap());
    let wanted = format!("{before}{HEAD}{rows}\n{after}");
    if std::env::var_os("BLESS").is_some() {
        fs::write(path, &wanted).unwrap();
    }
    let page = fs::read_to_string(path).unwrap();
    assert!(
        page == wanted,
        "type: BLESS=1 cargo test --test fast -- docs::the_page_of_limits\n{wanted}"
    );
}

#[test]
fn pages_about_limits_link_to_theirs() {
    for page in ["compare.md", "store.md", "cpus.md", "campaign.md", "time.md"] {
        let text = fs::read_to_string(format!("{}/docs/{page}", env!("CARGO_MANIFEST_DIR")));
        assert!(text.unwrap().contains("(limits.md)"), "{page}");
    }
}
