//! The running kernel. The guest's own programs run on it as plain processes. What a Side changes
//! on it is written down first, and put back.

pub mod changer;
pub mod error;
pub mod journal;
mod programs;
pub mod replayed;
mod setting;
pub mod settings;
#[cfg(test)]
mod tests;
pub mod timed;

pub use programs::Host;
pub use setting::Setting;
