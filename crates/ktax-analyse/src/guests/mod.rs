//! Guests: Layouts of both Sides, paired, judged by the exact rule.

mod gather;
mod rows;

pub use rows::guests;
