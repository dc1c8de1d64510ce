//! Comparisons of guests of a KVM host.

mod alone;
mod compared;
pub mod header;
mod records;
mod view;

pub use records::records;
pub use view::view;
