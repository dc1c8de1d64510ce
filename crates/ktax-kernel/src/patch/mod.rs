//! Reads patches as they come: plain diffs, mails, and mailboxes of a series.
//!
//! ```text
//! file ─► mbox ─► mails ─► text parts ─► diff ─► series in its order ─► Patch, Patch, …
//!   └───────────── plain diff ────────────┘
//! ```
//!
//! A diff keeps the bytes that the sender's git wrote: transfer encodings, CRLF and
//! `format=flowed` are undone, and nothing else changes. git applies it; here it is only read far
//! enough to refuse what cannot apply before anything is downloaded.

mod diff;
mod error;
mod flowed;
mod functions;
mod mail;
mod mbox;
mod series;
mod subject;
#[cfg(test)]
mod tests;
mod tree;

pub use diff::{Diff, FileDiff, Hunk};
pub use error::PatchError;
pub use functions::{SourceFunction, definitions_in};
pub use series::{Patch, read};
