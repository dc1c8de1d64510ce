//! What only guests of a KVM host have.

mod comparison;
mod host;
mod kind;
mod plan;
mod sample;

pub use comparison::{EXITS, GUEST_TIME, GuestsComparison, GuestsEvidence, TIME};
pub use host::HostKind;
pub use kind::RawKind;
pub use plan::{GuestRow, GuestSide, GuestSubject, GuestWork, GuestsPlan};
pub use sample::GuestSample;
