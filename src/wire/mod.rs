//! The only parser of what the guest prints: `docs/wire.md`. Its input is untrusted.

mod answer;
mod answers;
mod console;
mod hello;
mod lines;
mod order;
mod symbols;

pub use answer::{Answer, Done, parse_answer};
pub use answers::{is_finished, split_answers};
pub use console::{panic_message, tail};
pub use hello::{Hello, parse_hello};
pub use order::{SYMBOLS_ORDER, arguments, order};
pub use symbols::parse_symbols;

use thiserror::Error;

/// The version in the first line of everything that is said.
pub const VERSION: &str = "ktax 1";

/// Why the guest's words are refused. Quoted text is escaped.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum WireError {
    #[error("nothing was said")]
    Nothing,
    #[error("line {line} is not of the format: {quote}")]
    Line { line: usize, quote: String },
    #[error("line {line} is longer than {limit} bytes")]
    LongLine { line: usize, limit: usize },
    #[error("it ends early, after line {line}")]
    Truncated { line: usize },
    #[error("more than {limit} lines of one kind")]
    TooMany { limit: usize },
    #[error("it answers {found:?} to {asked:?}")]
    OtherWorkload { asked: String, found: String },
    #[error("the symbol table has no kernel functions: is kernel.kptr_restrict 2?")]
    NoSymbols,
}
