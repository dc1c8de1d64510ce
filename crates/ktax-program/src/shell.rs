//! Shell scripts: the programs that they call, as far as their words say. A word too many costs a
//! file in the guest; one too few is a program that the script does not find.

use std::collections::BTreeSet;

/// What a shell does itself, or what is no command.
const ITS_OWN: [&str; 34] = [
    "alias", "bg", "break", "case", "cd", "continue", "done", "echo", "esac", "eval", "exit",
    "export", "false", "fg", "fi", "for", "function", "in", "kill", "local", "printf", "pwd",
    "read", "return", "set", "shift", "source", "test", "trap", "true", "umask", "unset", "wait",
    "select",
];

/// Behind these stands another command.
const BEFORE_COMMANDS: [&str; 11] =
    ["!", "command", "do", "elif", "else", "exec", "if", "then", "time", "until", "while"];

/// Behind these, too, but behind options and values of their own.
const WRAPPERS: [&str; 10] =
    ["chrt", "env", "nice", "nohup", "setarch", "setsid", "stdbuf", "taskset", "timeout", "xargs"];

/// Whether a program is a shell, by its file's name.
pub(super) fn is_shell(name: &str) -> bool {
    matches!(name, "sh" | "ash" | "bash" | "dash" | "ksh" | "mksh" | "zsh")
}

/// The words that may be the command behind a wrapper: those of `nice -n 5 ls`.
pub(super) fn wrapped(command: &str, arguments: &[String]) -> BTreeSet<String> {
    let name = command.rsplit('/').next().unwrap_or_default();
    let is_word = |word: &&String| !word.starts_with('-') && !word.contains('=');
    match WRAPPERS.contains(&name) {
        true => arguments.iter().filter(is_word).cloned().collect(),
        false => BTreeSet::new(),
    }
}

/// What a script names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ShellWords {
    /// Commands, as a shell looks them up; not those that only running it would tell.
    pub commands: BTreeSet<String>,
    /// Words that may be files.
    pub arguments: BTreeSet<String>,
}

/// Reads a script's words.
pub(super) fn words(script: &str) -> ShellWords {
    let mut words = Words::default();
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

/// Where the next word stands.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum Place {
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
struct Words {
    found: ShellWords,
    place: Place,
    /// Where a file's name interrupted.
    before: Place,
    /// Within '…', which may go on in the next line.
    is_quoted: bool,
    /// Within "…", where only what expands is of interest.
    is_text: bool,
    /// What each open parenthesis interrupted.
    open: Vec<bool>,
    goes_on: bool,
    word: String,
    /// What ends the here-documents that begin behind this line.
    documents: Vec<String>,
}

impl Words {
    /// Reads a line, and returns what ends the here-documents that begin behind it.
    fn line(&mut self, line: &str) -> Vec<String> {
        if !self.goes_on && !self.is_quoted && !self.is_text {
            self.place = Place::Command;
        }
        self.goes_on = line.ends_with('\\');
        let mut characters = line.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\'' if self.is_quoted => self.is_quoted = false,
                _ if self.is_quoted => {}
                '"' => self.is_text = !self.is_text,
                // A variable is no name.
                '$' if characters.peek() == Some(&'{') => {
                    self.word.push('$');
                    characters.by_ref().take_while(|it| *it != '}').for_each(drop);
                }
                '$' if characters.next_if_eq(&'(').is_some() => self.opened(),
                '`' => self.separated(),
                _ if self.is_text => self.word.push(character),
                '\'' if self.place != Place::Document => self.is_quoted = true,
                '#' if self.word.is_empty() => break,
                '\'' | '\\' => {}
                '<' if characters.next_if_eq(&'<').is_some() => {
                    characters.next_if_eq(&'-');
                    self.end_of_word();
                    (self.before, self.place) = (self.place, Place::Document);
                }
                '<' | '>' => {
                    characters.next_if(|next| matches!(next, '>' | '&'));
                    // The number of a file descriptor is no word.
                    self.word.retain(|c| !c.is_ascii_digit());
                    self.end_of_word();
                    (self.before, self.place) = (self.place, Place::File);
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
        self.place = Place::Command;
    }

    fn end_of_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        match self.place {
            Place::Command => self.command(word),
            Place::Wrapped => self.add(word),
            Place::Argument => self.argument(word),
            Place::File => {
                self.argument(word);
                self.place = self.before;
            }
            Place::Document => {
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
        self.place = if is_wrapper { Place::Wrapped } else { Place::Argument };
        self.add(word);
    }

    fn add(&mut self, word: String) {
        let is_number = word.bytes().all(|b| b.is_ascii_digit());
        if is_name(&word) && !is_number && !ITS_OWN.contains(&word.as_str()) {
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

    fn of(script: &str) -> Vec<String> {
        words(script).commands.into_iter().collect()
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
        assert_eq!(of(script), wanted);
    }

    #[test]
    fn other_words_may_be_files() {
        let found = words("sort -k 2 < data.txt > out 2>&1 | tee -a ./log $x");
        let found: Vec<&str> = found.arguments.iter().map(String::as_str).collect();
        assert_eq!(found, ["./log", "1", "2", "data.txt", "out"]);
    }

    #[test]
    fn a_here_document_is_no_script() {
        assert_eq!(of("cat <<EOF > file\nfind it\nEOF\nls"), ["cat", "ls"]);
        assert_eq!(of("cat <<-'END'\n\tfind\n\tEND\nls"), ["cat", "ls"]);
        assert_eq!(of("cat <<A <<B\nfind\nA\nmake\nB\nls"), ["cat", "ls"]);
        assert_eq!(of("cat <<EOF\nnever ended"), ["cat"]);
    }

    #[test]
    fn text_of_several_lines_is_not_searched() {
        assert_eq!(of("awk '\n  find\n  make' file\nls"), ["awk", "ls"]);
        assert_eq!(of("cat \"\n  find <<E $(make \"x\")\n E\" file\nls"), ["cat", "ls", "make"]);
    }
}
