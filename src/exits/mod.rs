//! Exit tables: where a virtual machine's time went.
//!
//! ```text
//! a file    ─► files/  e500   (arch/powerpc/kvm/timing.c: debugfs, µs and ticks) ─┐
//!                      hv     (book3s HV `timings`: debugfs, ns)                  │
//!                      trace  (text of perf script, trace-cmd, ftrace) ─► fold ─┐ │
//! a live VM ─► live/   kernel (eBPF, which adds up as fold does) ───────────────┤ ├─► ExitTable
//!                      ring   (perf's ring buffers) ─────────────────────► fold ─┤ │
//!                                                      Recording ─► table ───────┘─┘
//! ```

mod architecture;
mod cumulative;
pub mod files;
mod fold;
pub mod live;
mod recording;
mod scause;
mod table;

pub use cumulative::{SinceError, since};
pub use recording::Reason;
pub use table::Per;
