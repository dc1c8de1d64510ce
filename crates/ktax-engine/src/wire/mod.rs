//! The only parser of what the guest prints: `docs/wire.md`. Its input is untrusted.

mod answer;
mod answers;
mod console;
mod files;
mod hello;
mod lines;
mod order;
mod printed;
mod symbols;
mod trace;

pub use answer::{Answer, Done, parse_answer};
pub use answers::{is_finished, split_answers};
pub use console::{panic_message, panic_that_stays, tail};
pub use files::parse_files;
pub use hello::{Hello, parse_hello};
pub use order::{SYMBOLS_ORDER, VARIABLES_ORDER, arguments, order};
pub use printed::{Printed, PrintedText, parse_printed};
pub use symbols::{parse_symbols, parse_variables};
pub use trace::parse_trace;

use thiserror::Error;

/// The first line of everything that the guest prints; it has the version of the format.
pub const VERSION: &str = "ktax 1";

/// Why the guest's output is refused. Quoted text is escaped.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum WireError {
    #[error("the guest printed nothing")]
    Nothing,
    #[error("line {line} is malformed: {quote}")]
    Line { line: usize, quote: String },
    #[error("line {line} is longer than {limit} bytes")]
    LongLine { line: usize, limit: usize },
    #[error("the output ends early, after line {line}")]
    Truncated { line: usize },
    #[error("it has more than {limit} lines of one kind")]
    TooMany { limit: usize },
    #[error("the answer is for {found:?}, but the order was for {asked:?}")]
    OtherWorkload { asked: String, found: String },
    #[error("the symbol table has no kernel functions; check that kernel.kptr_restrict is not 2")]
    NoSymbols,
}
