//! Results that were saved as JSON, to be printed again.

mod kind;
mod parse;

pub use kind::Saved;
pub use parse::parse;
