use super::error::LiveError;
use crate::exits::recording::Recording;

/// Where events are added up.
pub(super) trait Source {
    /// As the output calls it.
    fn name(&self) -> &'static str;
    /// Takes what has come; to be called some times a second.
    fn poll(&mut self) -> Result<(), LiveError>;
    /// All so far.
    fn recording(&self) -> Result<Recording, LiveError>;
    /// Takes the last and lets go of the kernel.
    fn finish(self: Box<Self>) -> Result<Recording, LiveError>;
}

/// CLOCK_MONOTONIC, which is also the kernel's stamp of every event here.
pub(super) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
