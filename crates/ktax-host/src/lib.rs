//! Files, locks, the cache and texts: access to the machine that ktax runs on, for all other
//! crates.
//!
//! [`disk`] writes files whole or not at all, locks them and reads no more of them than a limit.
//! [`cache`] is one budget for all that can be made again. [`text`] makes text from outside safe
//! for a terminal, Markdown, CSV and JSON. Nothing here knows what ktax measures.
//!
//! ```
//! use ktax_host::text;
//!
//! let name = "a row\u{1b}[2J";
//! assert!(!text::escape(name).contains('\u{1b}'));
//! ```

pub mod cache;
pub mod disk;
pub mod text;
