/// What goes on while commands or rows run several times, for whoever wants to show it.
#[derive(Debug, Clone, Copy)]
pub enum Moment<'a> {
    /// This one runs.
    Runs(&'a str),
    /// One of its runs ended.
    Done,
}
