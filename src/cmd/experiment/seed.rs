use std::hash::{BuildHasher, RandomState};

/// A seed that nobody chose, for the order of what is timed: with the same for everybody, everybody
/// would have the same luck. 32 bits, so that it can be typed again.
pub fn drawn() -> u64 {
    // The standard library seeds it from the operating system.
    RandomState::new().hash_one(()) >> 32
}
