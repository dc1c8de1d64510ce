//! Reads scripts: the interpreter in the first line, and the programs that a shell script calls.
//! Words are guessed to be programs without running the script. A wrong guess adds an unneeded file
//! to the guest; a missed program makes the script fail.

use std::collections::BTreeSet;
use std::path::Path;

use ktax_host::text::escape_path;
use ktax_model::{Error, Result};

/// Maximum number of bytes of the first line that Linux reads.
const MAX_LINE_BYTES: usize = 256;

/// Words after `#!`: the interpreter and at most one argument. `None` if the file does not begin
/// with `#!`.
pub(super) fn interpreter(bytes: &[u8], path: &Path) -> Result<Option<Vec<String>>> {
    let Some(rest) = bytes.strip_prefix(b"#!") else { return Ok(None) };
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(&line[..line.len().min(MAX_LINE_BYTES)]).into_owned();
    // Do not trim a carriage return: Linux takes it as a part of the name.
    let line = line.trim_matches([' ', '\t']);
    let (program, argument) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    if !program.starts_with('/') {
        let path = escape_path(path);
        return Err(Error::user(format!("{path} begins with `#!`, but names no interpreter"))
            .next("write `#!/bin/sh` in its first line"));
    }
    let argument = Some(argument.trim()).filter(|argument| !argument.is_empty());
    Ok(Some([Some(program), argument].into_iter().flatten().map(str::to_owned).collect()))
}

/// Command that `env` executes: `python3` of `env python3` and of `env -S python3 -u`. `None` for
/// other programs than `env`.
pub(super) fn command_of_env(words: &[String]) -> Option<&str> {
    let (program, rest) = words.split_first()?;
    let is_env = Path::new(program).file_name().is_some_and(|name| name == "env");
    let mut rest = rest.iter().flat_map(|word| word.split_whitespace());
    is_env.then(|| rest.find(|word| !word.starts_with('-') && !word.contains('=')))?
}

/// Built-in commands and keywords of shells, which are not programs.
const BUILT_INS: [&str; 34] = [
    "alias", "bg", "break", "case", "cd", "continue", "done", "echo", "esac", "eval", "exit",
    "export", "false", "fg", "fi", "for", "function", "in", "kill", "local", "printf", "pwd",
    "read", "return", "set", "shift", "source", "test", "trap", "true", "umask", "unset", "wait",
    "select",
];

/// Keywords and built-in commands that are followed by a command.
const COMMAND_PREFIXES: [&str; 11] =
    ["!", "command", "do", "elif", "else", "exec", "if", "then", "time", "until", "while"];

/// Programs that execute another command, which follows their options and arguments.
const WRAPPERS: [&str; 10] =
    ["chrt", "env", "nice", "nohup", "setarch", "setsid", "stdbuf", "taskset", "timeout", "xargs"];

/// Returns true for the file name of a shell.
pub(super) fn is_shell(name: &str) -> bool {
    matches!(name, "sh" | "ash" | "bash" | "dash" | "ksh" | "mksh" | "zsh")
}

/// Arguments of a wrapper that may be its command: `5` and `ls` of `nice -n 5 ls`. Empty for other
/// commands.
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
    /// Names and paths of commands, without those that depend on variables.
    pub commands: BTreeSet<String>,
    /// Words that may be files.
    pub arguments: BTreeSet<String>,
}

/// Finds the words of a script that name programs and files.
pub(super) fn read_script(script: &str) -> ShellWords {
    let mut words = WordReader::default();
    let mut here_documents: Vec<String> = Vec::new();
    let mut lines = script.lines();
    while let Some(line) = lines.next() {
        here_documents.extend(words.read_line(line));
        for end in here_documents.drain(..) {
            let is_before_end = |line: &&str| line.trim_start_matches('\t') != end;
            lines.by_ref().take_while(is_before_end).for_each(drop);
        }
    }
    words.found
}

/// Role of a word.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum WordRole {
    #[default]
    Command,
    /// File of a redirection.
    File,
    /// Word that ends a here-document.
    DocumentEnd,
    Argument,
    /// Argument of a wrapper, which may be a command.
    WrapperArgument,
}

#[derive(Debug, Default)]
struct WordReader {
    found: ShellWords,
    /// Role of the next word.
    role: WordRole,
    /// Role of the word after the operand of a redirection.
    role_after_redirection: WordRole,
    /// True within single quotes, which may span lines.
    is_single_quoted: bool,
    /// True within double quotes, which may span lines.
    is_double_quoted: bool,
    /// For each open parenthesis, whether it is within double quotes.
    open_parentheses: Vec<bool>,
    /// True if the last line ended with a backslash, so that the command continues.
    is_continued: bool,
    word: String,
    /// Words that end the here-documents that begin after this line.
    document_ends: Vec<String>,
}

impl WordReader {
    /// Reads a line, and returns the words that end the here-documents that begin after it.
    fn read_line(&mut self, line: &str) -> Vec<String> {
        if !self.is_continued && !self.is_single_quoted && !self.is_double_quoted {
            self.role = WordRole::Command;
        }
        self.is_continued = line.ends_with('\\');
        let mut characters = line.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\'' if self.is_single_quoted => self.is_single_quoted = false,
                _ if self.is_single_quoted => {}
                '"' => self.is_double_quoted = !self.is_double_quoted,
                // Keep the `$` of a variable, so that the word is not taken for a name.
                '$' if characters.peek() == Some(&'{') => {
                    self.word.push('$');
                    characters.by_ref().take_while(|next| *next != '}').for_each(drop);
                }
                '$' if characters.next_if_eq(&'(').is_some() => self.open_parenthesis(),
                '`' => self.end_command(),
                _ if self.is_double_quoted => self.word.push(character),
                '\'' if self.role != WordRole::DocumentEnd => self.is_single_quoted = true,
                '#' if self.word.is_empty() => break,
                '\'' | '\\' => {}
                '<' if characters.next_if_eq(&'<').is_some() => {
                    characters.next_if_eq(&'-');
                    self.end_word();
                    (self.role_after_redirection, self.role) = (self.role, WordRole::DocumentEnd);
                }
                '<' | '>' => {
                    characters.next_if(|next| matches!(next, '>' | '&'));
                    // Digits before the operator are the number of a file descriptor.
                    self.word.retain(|c| !c.is_ascii_digit());
                    self.end_word();
                    (self.role_after_redirection, self.role) = (self.role, WordRole::File);
                }
                '(' => self.open_parenthesis(),
                ')' => {
                    self.end_command();
                    self.is_double_quoted = self.open_parentheses.pop().unwrap_or_default();
                }
                ';' | '&' | '|' | '{' | '}' => self.end_command(),
                _ if character.is_whitespace() => self.end_word(),
                _ => self.word.push(character),
            }
        }
        self.end_word();
        std::mem::take(&mut self.document_ends)
    }

    fn open_parenthesis(&mut self) {
        self.end_command();
        self.open_parentheses.push(std::mem::take(&mut self.is_double_quoted));
    }

    fn end_command(&mut self) {
        self.end_word();
        self.role = WordRole::Command;
    }

    fn end_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        match self.role {
            WordRole::Command => self.add_command_word(word),
            WordRole::WrapperArgument => self.add_command(word),
            WordRole::Argument => self.add_argument(word),
            WordRole::File => {
                self.add_argument(word);
                self.role = self.role_after_redirection;
            }
            WordRole::DocumentEnd => {
                self.document_ends.push(word);
                self.role = self.role_after_redirection;
            }
        }
    }

    fn add_command_word(&mut self, word: String) {
        if COMMAND_PREFIXES.contains(&word.as_str()) || is_assignment(&word) {
            return;
        }
        let is_wrapper = WRAPPERS.contains(&word.as_str());
        self.role = if is_wrapper { WordRole::WrapperArgument } else { WordRole::Argument };
        self.add_command(word);
    }

    fn add_command(&mut self, word: String) {
        let is_number = word.bytes().all(|b| b.is_ascii_digit());
        if is_name(&word) && !is_number && !BUILT_INS.contains(&word.as_str()) {
            self.found.commands.insert(word);
        }
    }

    fn add_argument(&mut self, word: String) {
        if is_name(&word) {
            self.found.arguments.insert(word);
        }
    }
}

fn is_name(word: &str) -> bool {
    let is_name_character = |c: char| c.is_ascii_alphanumeric() || "._+-/".contains(c);
    word.chars().all(is_name_character)
        && word.contains(char::is_alphanumeric)
        && !word.starts_with('-')
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
        assert_eq!(error.message(), "script begins with `#!`, but names no interpreter");
    }

    #[test]
    fn env_names_the_program_in_its_argument() {
        let words = |text: &str| interpreter_of(text).unwrap().unwrap();
        assert_eq!(command_of_env(&words("#!/usr/bin/env python3")), Some("python3"));
        assert_eq!(command_of_env(&words("#!/usr/bin/env -S A=1 perl -w")), Some("perl"));
        assert_eq!(command_of_env(&words("#!/bin/sh -e")), None);
    }

    fn commands_in(script: &str) -> Vec<String> {
        read_script(script).commands.into_iter().collect()
    }

    #[test]
    fn words_in_the_positions_of_commands_are_programs() {
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
    fn here_documents_are_not_searched() {
        assert_eq!(commands_in("cat <<EOF > file\nfind it\nEOF\nls"), ["cat", "ls"]);
        assert_eq!(commands_in("cat <<-'END'\n\tfind\n\tEND\nls"), ["cat", "ls"]);
        assert_eq!(commands_in("cat <<A <<B\nfind\nA\nmake\nB\nls"), ["cat", "ls"]);
        assert_eq!(commands_in("cat <<EOF\nnever ended"), ["cat"]);
    }

    #[test]
    fn quoted_text_of_several_lines_is_not_searched() {
        assert_eq!(commands_in("awk '\n  find\n  make' file\nls"), ["awk", "ls"]);
        assert_eq!(
            commands_in("cat \"\n  find <<E $(make \"x\")\n E\" file\nls"),
            ["cat", "ls", "make"]
        );
    }
}
