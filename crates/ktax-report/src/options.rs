/// How text looks on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// Columns that a line may have; less than 40 counts as 40.
    pub width: u16,
    /// Whether verdicts are coloured.
    pub colour: bool,
    /// Whether nothing but ASCII is printed.
    pub ascii: bool,
}

impl Default for TextOptions {
    /// What a document has: 100 columns, no colour, every character.
    fn default() -> Self {
        TextOptions { width: 100, colour: false, ascii: false }
    }
}
