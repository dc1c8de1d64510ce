//! Exit tables: where a virtual machine's time went. [`files`] reads what kernels and tracers
//! wrote, `live` records on this machine's KVM. [`vmm`] is a small virtual machine monitor whose
//! guests leave a known number of times. [`kvmhost`] is a KVM host within QEMU, of this and of
//! other architectures. All of it ends in an [`ExitTable`](ktax_model::ExitTable).
//!
//! ```
//! assert!(ktax_exits::files::kind("no table of exits").is_none());
//! ```
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
pub mod files;
pub mod kvmhost;
pub mod live;
mod recording;
mod table;
pub mod vmm;

pub use recording::Reason;
pub use table::{Per, subtract_tables};
