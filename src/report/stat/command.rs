use crate::text::escape;

/// A command as one would type it, harmless on a terminal.
pub fn command_line(words: &[String]) -> String {
    escape(&typed(words))
}

/// A command as one would type it.
pub fn typed(words: &[String]) -> String {
    let words = words.iter().map(String::as_str);
    shlex::try_join(words.clone()).unwrap_or_else(|_| words.collect::<Vec<_>>().join(" "))
}
