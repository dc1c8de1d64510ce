use maud::{Escaper, Render};
use std::fmt::Write;

use ktax_host::text::escape;

/// Text from outside: what could reorder a line or hide in it is made visible, and markup is none.
pub struct Text<'a>(&'a str);

/// Text as it may stand in a page.
pub fn t(text: &str) -> Text<'_> {
    Text(text)
}

impl Render for Text<'_> {
    fn render_to(&self, buffer: &mut String) {
        // Writing to a String cannot fail.
        let _ = Escaper::new(buffer).write_str(&escape(self.0));
    }
}
