//! Access of all other crates to the machine that ktax runs on: files, locks, the cache and texts.
//!
//! [`disk`] writes files whole or not at all, locks files, and reads files up to a limit. [`cache`]
//! keeps all files that ktax can make again within one budget. [`text`] makes untrusted text safe
//! for a terminal, Markdown, CSV and JSON. Nothing in this crate depends on what ktax measures.
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
