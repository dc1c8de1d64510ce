use super::error::LiveError;
use crate::recording::Recording;

/// Where events are added up.
pub trait Source {
    /// Its name in tables.
    fn name(&self) -> &'static str;
    /// Takes new events; to be called some times a second.
    fn poll(&mut self) -> Result<(), LiveError>;
    /// Returns all so far.
    fn recording(&self) -> Result<Recording, LiveError>;
    /// Takes the last events and detaches from the kernel.
    fn finish(self: Box<Self>) -> Result<Recording, LiveError>;
}

/// CLOCK_MONOTONIC, which is also the kernel's stamp of every event here.
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
