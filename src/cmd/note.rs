/// Tells the user something; one who does not listen (`2>&1 | head`) is no error. What comes from
/// files does nothing to a terminal.
macro_rules! note {
    ($($text:tt)*) => {{
        use std::io::Write;
        let text = std::fmt::format(format_args!($($text)*));
        let text = crate::text::escape_lines(&text);
        let text = if crate::cmd::locale::is_ascii() { crate::text::ascii(&text) } else { text };
        let _ = writeln!(std::io::stderr(), "{text}");
    }};
}

pub(crate) use note;

/// Says where the files of a run are.
pub fn say_where(out: &std::path::Path) {
    note!("ktax: everything is in {}", crate::text::shell_path(out));
}
