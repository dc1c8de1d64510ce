//! What only guests of a KVM host have.

mod comparison;
mod kind;
mod plan;
mod sample;

pub use comparison::{EXITS, GUEST_TIME, GuestsComparison, GuestsEvidence, TIME};
pub use kind::RawKind;
pub use plan::{GuestRow, GuestSide, GuestSubject, GuestWork, GuestsPlan, HostKind};
pub use sample::GuestSample;
