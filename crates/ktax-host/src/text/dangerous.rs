/// Whether a terminal may do something other than print `c`, or print nothing.
///
/// That is: C0, DEL, C1, line and paragraph separators, bidirectional controls, and characters of
/// no width, which make two different texts look alike.
pub fn is_dangerous(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}
