//! Call paths of a row for other programs: a file for each form, whose names and numbers are what
//! those programs read. Names of functions have letters, digits and `_.$[]+-` alone.
//!
//! A new form is a file with an `EXPORT` in it, and a line in the list below.

mod callgrind;
mod export;
mod folded;
mod lkp;
mod pprof;
mod stacks;
mod svg;

pub use export::Export;

/// All forms.
pub const EXPORTS: [Export; 5] =
    [folded::EXPORT, pprof::EXPORT, callgrind::EXPORT, lkp::EXPORT, svg::EXPORT];
