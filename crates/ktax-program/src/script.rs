//! Reads scripts: the interpreter in their first line, and the programs that a shell script calls,
//! as far as its words say. A word too many costs a file in the guest; one too few is a program
//! that the script does not find.

use std::collections::BTreeSet;
use std::path::Path;

use ktax_host::text::escape_path;
use ktax_model::{Error, Result};

/// Most bytes of the first line that Linux reads.
const LONGEST_LINE: usize = 256;

/// The words behind `#!`: the interpreter and at most one argument; `None` if it is no script.
pub(super) fn interpreter(bytes: &[u8], path: &Path) -> Result<Option<Vec<String>>> {
    let Some(rest) = bytes.strip_prefix(b"#!") else { return Ok(None) };
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(&line[..line.len().min(LONGEST_LINE)]).into_owned();
    // A carriage return is a part of the name, as in Linux.
    let line = line.trim_matches([' ', '\t']);
    let (program, argument) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    if !program.starts_with('/') {
        let path = escape_path(path);
        return Err(Error::user(format!("{path} begins with `#!` and names no interpreter"))
            .next("write `#!/bin/sh`"));
    }
    let argument = Some(argument.trim()).filter(|argument| !argument.is_empty());
    Ok(Some([Some(program), argument].into_iter().flatten().map(str::to_owned).collect()))
}

/// The command behind `env`: `env python3`, `env -S python3 -u`.
pub(super) fn command_behind_env(words: &[String]) -> Option<&str> {
    let (program, rest) = words.split_first()?;
    let is_env = Path::new(program).file_name().is_some_and(|name| name == "env");
    let mut rest = rest.iter().flat_map(|word| word.split_whitespace());
    is_env.then(|| rest.find(|word| !word.starts_with('-') && !word.contains('=')))?
}

/// Words that a shell executes itself, or that are no commands.
const BUILT_IN: [&str; 34] = [
    "alias", "bg", "break", "case", "cd", "continue", "done", "echo", "esac", "eval", "exit",
    "export", "false", "fg", "fi", "for", "function", "in", "kill", "local", "printf", "pwd",
    "read", "return", "set", "shift", "source", "test", "trap", "true", "umask", "unset", "wait",
    "select",
];

/// Words behind which another command stands.
const BEFORE_COMMANDS: [&str; 11] =
    ["!", "command", "do", "elif", "else", "exec", "if", "then", "time", "until", "while"];

/// Commands behind which another command stands, after options and values of their own.
const WRAPPERS: [&str; 10] =
    ["chrt", "env", "nice", "nohup", "setarch", "setsid", "stdbuf", "taskset", "timeout", "xargs"];

/// Returns whether a program is a shell, by its file's name.
pub(super) fn is_shell(name: &str) -> bool {
    matches!(name, "sh" | "ash" | "bash" | "dash" | "ksh" | "mksh" | "zsh")
}

/// The words that may be the command behind a wrapper: those of `nice -n 5 ls`.
pub(super) fn wrapped_commands(command: &str, arguments: &[String]) -> BTreeSet<String> {
    let name = command.rsplit('/').next().unwrap_or_default();
    let is_word = |word: &&String| !word.starts_with('-') && !word.contains('=');
    match WRAPPERS.contains(&name) {
        true => arguments.iter().filter(is_word).cloned().collect(),
        false => BTreeSet::new(),
    }
}

/// Words of a script that name programs and files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ShellWords {
    /// Commands, as a shell looks them up; not those that only running it would tell.
    pub commands: BTreeSet<String>,
    /// Words that may be files.
    pub arguments: BTreeSet<String>,
}

pub(super) fn read_script(script: &str) -> ShellWords {
    let mut words = WordReader::default();
    let mut here_documents: Vec<String> = Vec::new();
    let mut lines = script.lines();
    while let Some(line) = lines.next() {
        here_documents.extend(words.line(line));
        for end in here_documents.drain(..) {
            let is_more = |line: &&str| line.trim_start_matches('\t') != end;
            lines.by_ref().take_while(is_more).for_each(drop);
        }
    }
    words.found
}

/// Role of the next word.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum WordPlace {
    #[default]
    Command,
    /// A file that is read or written.
    File,
    /// The word that ends a here-document.
    Document,
    Argument,
    /// An argument that may be a command.
    Wrapped,
}

#[derive(Debug, Default)]
struct WordReader {
    found: ShellWords,
    place: WordPlace,
    /// Role of the words behind the name of a file.
    before: WordPlace,
    /// True if the reader is within '…', which may go on in the next line.
    is_quoted: bool,
    /// True if the reader is within "…", where only what expands is of interest.
    is_text: bool,
    /// For each open parenthesis, whether it stands within "…".
    open: Vec<bool>,
    goes_on: bool,
    word: String,
    /// Words that end the here-documents that begin behind this line.
    documents: Vec<String>,
}

impl WordReader {
    /// Reads a line, and returns what ends the here-documents that begin behind it.
    fn line(&mut self, line: &str) -> Vec<String> {
        if !self.goes_on && !self.is_quoted && !self.is_text {
            self.place = WordPlace::Command;
        }
        self.goes_on = line.ends_with('\\');
        let mut characters = line.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\'' if self.is_quoted => self.is_quoted = false,
                _ if self.is_quoted => {}
                '"' => self.is_text = !self.is_text,
                // A variable is not a name.
                '$' if characters.peek() == Some(&'{') => {
                    self.word.push('$');
                    characters.by_ref().take_while(|next| *next != '}').for_each(drop);
                }
                '$' if characters.next_if_eq(&'(').is_some() => self.opened(),
                '`' => self.separated(),
                _ if self.is_text => self.word.push(character),
                '\'' if self.place != WordPlace::Document => self.is_quoted = true,
                '#' if self.word.is_empty() => break,
                '\'' | '\\' => {}
                '<' if characters.next_if_eq(&'<').is_some() => {
                    characters.next_if_eq(&'-');
                    self.end_of_word();
                    (self.before, self.place) = (self.place, WordPlace::Document);
                }
                '<' | '>' => {
                    characters.next_if(|next| matches!(next, '>' | '&'));
                    // The number of a file descriptor is not a word.
                    self.word.retain(|c| !c.is_ascii_digit());
                    self.end_of_word();
                    (self.before, self.place) = (self.place, WordPlace::File);
                }
                '(' => self.opened(),
                ')' => {
                    self.separated();
                    self.is_text = self.open.pop().unwrap_or_default();
                }
                ';' | '&' | '|' | '{' | '}' => self.separated(),
                _ if character.is_whitespace() => self.end_of_word(),
                _ => self.word.push(character),
            }
        }
        self.end_of_word();
        std::mem::take(&mut self.documents)
    }

    fn opened(&mut self) {
        self.separated();
        self.open.push(std::mem::take(&mut self.is_text));
    }

    fn separated(&mut self) {
        self.end_of_word();
        self.place = WordPlace::Command;
    }

    fn end_of_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        match self.place {
            WordPlace::Command => self.command(word),
            WordPlace::Wrapped => self.add(word),
            WordPlace::Argument => self.argument(word),
            WordPlace::File => {
                self.argument(word);
                self.place = self.before;
            }
            WordPlace::Document => {
                self.documents.push(word);
                self.place = self.before;
            }
        }
    }

    fn command(&mut self, word: String) {
        if BEFORE_COMMANDS.contains(&word.as_str()) || is_assignment(&word) {
            return;
        }
        let is_wrapper = WRAPPERS.contains(&word.as_str());
        self.place = if is_wrapper { WordPlace::Wrapped } else { WordPlace::Argument };
        self.add(word);
    }

    fn add(&mut self, word: String) {
        let is_number = word.bytes().all(|b| b.is_ascii_digit());
        if is_name(&word) && !is_number && !BUILT_IN.contains(&word.as_str()) {
            self.found.commands.insert(word);
        }
    }

    fn argument(&mut self, word: String) {
        if is_name(&word) {
            self.found.arguments.insert(word);
        }
    }
}

fn is_name(word: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "._+-/".contains(c);
    word.chars().all(is_of_name) && word.contains(char::is_alphanumeric) && !word.starts_with('-')
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interpreter_of(text: &str) -> Result<Option<Vec<String>>> {
        interpreter(text.as_bytes(), Path::new("script"))
    }

    #[test]
    fn an_interpreter_has_at_most_one_argument() {
        assert_eq!(interpreter_of("#!/bin/sh\necho").unwrap().unwrap(), ["/bin/sh"]);
        assert_eq!(interpreter_of("#! /bin/sh -e -u \n").unwrap().unwrap(), ["/bin/sh", "-e -u"]);
        assert_eq!(interpreter_of("echo\n").unwrap(), None);
        assert_eq!(interpreter_of("#!/bin/sh\r\n").unwrap().unwrap(), ["/bin/sh\r"]);
        let error = interpreter_of("#!\n").unwrap_err();
        assert_eq!(error.message(), "script begins with `#!` and names no interpreter");
    }

    #[test]
    fn env_names_the_program_in_its_argument() {
        let words = |text: &str| interpreter_of(text).unwrap().unwrap();
        assert_eq!(command_behind_env(&words("#!/usr/bin/env python3")), Some("python3"));
        assert_eq!(command_behind_env(&words("#!/usr/bin/env -S A=1 perl -w")), Some("perl"));
        assert_eq!(command_behind_env(&words("#!/bin/sh -e")), None);
    }

    fn commands_in(script: &str) -> Vec<String> {
        read_script(script).commands.into_iter().collect()
    }

    #[test]
    fn the_words_at_the_places_of_commands_are_programs() {
        let script = r#"#!/bin/sh
            # rm -rf everything
            A=1 B=2 git status | wc -l > out && sort < in 2>err; tar cf - .
            if ! grep -q x file; then ./local/tool "a b"; fi
            for name in gcc cc; do stat "$name"; done
            timeout -k 5 10 make -j2 &
            echo "$(uname -r)" `date`; 'quoted; find' $dynamic
            sqlite3 data \
                dropdb
        "#;
        let wanted = [
            "./local/tool",
            "date",
            "git",
            "grep",
            "make",
            "sort",
            "sqlite3",
            "stat",
            "tar",
            "timeout",
            "uname",
            "wc",
        ];
        assert_eq!(commands_in(script), wanted);
    }

    #[test]
    fn other_words_may_be_files() {
        let found = read_script("sort -k 2 < data.txt > out 2>&1 | tee -a ./log $x");
        let found: Vec<&str> = found.arguments.iter().map(String::as_str).collect();
        assert_eq!(found, ["./log", "1", "2", "data.txt", "out"]);
    }

    #[test]
    fn a_here_document_is_no_script() {
        assert_eq!(commands_in("cat <<EOF > file\nfind it\nEOF\nls"), ["cat", "ls"]);
        assert_eq!(commands_in("cat <<-'END'\n\tfind\n\tEND\nls"), ["cat", "ls"]);
        assert_eq!(commands_in("cat <<A <<B\nfind\nA\nmake\nB\nls"), ["cat", "ls"]);
        assert_eq!(commands_in("cat <<EOF\nnever ended"), ["cat"]);
    }

    #[test]
    fn text_of_several_lines_is_not_searched() {
        assert_eq!(commands_in("awk '\n  find\n  make' file\nls"), ["awk", "ls"]);
        assert_eq!(
            commands_in("cat \"\n  find <<E $(make \"x\")\n E\" file\nls"),
            ["cat", "ls", "make"]
        );
    }
}
