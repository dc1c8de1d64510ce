use crate::text::{escape, shell_line};

/// A command as one would type it, harmless on a terminal.
pub fn command_line(words: &[String]) -> String {
    escape(&shell_line(words))
}
