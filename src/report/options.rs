/// How text looks on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// Columns that a line may have; less than 40 counts as 40.
    pub width: u16,
    /// Whether verdicts are coloured.
    pub colour: bool,
}

impl Default for TextOptions {
    /// What a document has: 100 columns, no colour.
    fn default() -> Self {
        TextOptions { width: 100, colour: false }
    }
}
