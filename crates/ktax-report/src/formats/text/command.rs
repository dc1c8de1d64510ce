use super::page::Page;
use ktax_host::text::shell_word;

/// The words of a command as a shell takes them, in lines that end in a backslash where one line is
/// too wide. A value stays beside its option.
pub fn command_lines(words: &[String], page: &Page) -> String {
    let mut parts: Vec<String> = Vec::new();
    for word in words {
        let quoted = page.own(&shell_word(word));
        match parts.last_mut().filter(|last| last.starts_with('-') && !word.starts_with('-')) {
            // Room for the margin, the blank and the backslash at the end.
            Some(option)
                if !option.contains(' ')
                    && option.len() + quoted.len() + 7 <= usize::from(page.width) =>
            {
                *option += &format!(" {quoted}");
            }
            _ => parts.push(quoted),
        }
    }
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        // Two columns are for the blank and the backslash at the end.
        let fits = |line: &&mut String| line.len() + part.len() + 3 <= usize::from(page.width);
        match lines.last_mut().filter(fits) {
            Some(line) => *line += &format!(" {part}"),
            None => lines.push(format!("  {}{part}", if lines.is_empty() { "" } else { "  " })),
        }
    }
    lines.join(" \\\n") + "\n"
}
