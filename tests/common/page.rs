//! The documents, and the blocks of commands in them.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Purpose of a block for a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Again,
    Long,
    Here,
    Answer,
    File,
    Commands,
    Other,
}

/// Text between two fences.
pub struct Block {
    pub kind: Kind,
    /// The last of the words behind the fence: of a file its name.
    pub argument: String,
    pub text: String,
    /// Which block of the page it is.
    number: usize,
    range: Range<usize>,
}

/// One document.
pub struct Page {
    path: PathBuf,
    text: String,
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// README.md, METHODOLOGY.md and all of docs/.
pub fn pages() -> Vec<Page> {
    let mut paths = vec![root().join("README.md"), root().join("METHODOLOGY.md")];
    paths.extend(below(&root().join("docs"), &["md"]));
    paths.into_iter().map(Page::read).collect()
}

/// Files that may name a document.
pub fn sources() -> Vec<(PathBuf, String)> {
    let mut paths: Vec<PathBuf> =
        ["README.md", "METHODOLOGY.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
            .map(|name| root().join(name))
            .into();
    for dir in
        ["src", "crates", "guest", "plugin", "experiments", "ledgers", "workloads", "kernels"]
    {
        paths.extend(below(&root().join(dir), &["rs", "c", "h", "toml", "config"]));
    }
    let read = |path: PathBuf| (path.clone(), fs::read_to_string(path).unwrap());
    paths.into_iter().map(read).collect()
}

/// The file that begins this text, if it is a document.
pub fn name_of_a_document(text: &str) -> Option<String> {
    let is_of_name = |c: &char| c.is_ascii_alphanumeric() || "-_.".contains(*c);
    let name: String = text.chars().take_while(is_of_name).collect();
    name.find(".md").map(|end| name[..end + 3].to_owned())
}

fn below(dir: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(below(&path, extensions));
        } else if path.extension().is_some_and(|found| extensions.iter().any(|e| found == *e)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

impl Page {
    fn read(path: PathBuf) -> Page {
        let text = fs::read_to_string(&path).unwrap();
        Page { path, text }
    }

    pub fn name(&self) -> String {
        self.path.strip_prefix(root()).unwrap().display().to_string()
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Blocks in their order.
    pub fn blocks(&self) -> Vec<Block> {
        let (mut found, mut open, mut offset) = (Vec::new(), None, 0);
        for line in self.text.split_inclusive('\n') {
            let end = offset + line.len();
            match (open.take(), line.strip_prefix("```")) {
                (None, Some(words)) => open = Some((words.trim().to_owned(), end)),
                (Some((words, start)), Some(_)) => {
                    found.push(self.block(found.len(), &words, start..offset));
                }
                (still, _) => open = still,
            }
            offset = end;
        }
        assert!(open.is_none(), "{}: a block does not end", self.name());
        found
    }

    fn block(&self, number: usize, words: &str, range: Range<usize>) -> Block {
        let words: Vec<&str> = words.split(' ').collect();
        let kind = match words[..] {
            ["console"] => Kind::Again,
            ["console", "long"] => Kind::Long,
            ["console", "here"] => Kind::Here,
            ["console", "answer"] => Kind::Answer,
            ["toml", _] => Kind::File,
            ["sh"] => Kind::Commands,
            ["console", ..] => panic!("{}: no such block: {words:?}", self.name()),
            _ => Kind::Other,
        };
        let argument = words.last().map(|&word| word.to_owned()).unwrap_or_default();
        let text = self.text[range.clone()].to_owned();
        Block { kind, argument, text, number, range }
    }

    /// Puts this text in the place of a block. Its number stays, its place does not.
    pub fn replace(&mut self, block: &Block, text: &str) {
        let range = self.blocks()[block.number].range.clone();
        self.text.replace_range(range, text);
    }

    pub fn write(&self) {
        fs::write(&self.path, &self.text).unwrap();
    }
}

impl Block {
    /// The commands, each of which may go on on further lines.
    pub fn commands(&self) -> Vec<String> {
        let mut commands: Vec<String> = Vec::new();
        let mut goes_on = false;
        for line in self.text.lines() {
            match line.strip_prefix("$ ") {
                Some(command) => commands.push(command.to_owned()),
                None if goes_on => *commands.last_mut().unwrap() += &format!("\n{line}"),
                None => continue,
            }
            goes_on = line.ends_with('\\');
        }
        commands
    }

    /// The command lines of ktax in it.
    pub fn lines_of_ktax(&self) -> Vec<String> {
        let lines = match self.kind {
            Kind::Again | Kind::Long | Kind::Here | Kind::Answer => self.commands(),
            Kind::Commands => self.text.replace("\\\n", " ").lines().map(str::to_owned).collect(),
            Kind::File | Kind::Other => return Vec::new(),
        };
        let plain = |line: String| line.replace("\\\n", " ");
        lines.into_iter().map(plain).filter_map(|line| without_prefix(&line)).collect()
    }
}

/// A command line from `ktax` on, whatever starts it: `sudo`, `chrt -f 10`.
fn without_prefix(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let start = words.iter().take(4).position(|word| *word == "ktax")?;
    Some(words[start..].join(" "))
}
