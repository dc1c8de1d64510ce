//! Exit tables: where a virtual machine's time went. [`files`] reads files of kernels and tracers,
//! and `live` records this machine's KVM. [`vmm`] is a small virtual machine monitor whose guests
//! exit a known number of times. [`kvmhost`] runs KVM hosts in QEMU, also on other architectures.
//! All results are [`ExitTable`](ktax_model::ExitTable)s.
//!
//! ktax runs on x86-64 only: `live` and [`vmm`] rely on that, while [`files`] reads the files of
//! any machine.
//!
//! ```
//! assert!(ktax_exits::files::detect_kind("no table of exits").is_none());
//! ```
//!
//! ```text
//! a file    ─► files/  e500   (arch/powerpc/kvm/timing.c: debugfs, µs and ticks) ─┐
//!                      hv     (book3s HV `timings`: debugfs, ns)                  │
//!                      trace  (text of perf script, trace-cmd, ftrace) ─► fold ─┐ │
//! a live VM ─► live/   kernel (eBPF: adds up events as fold does) ──────────────┤ ├─► ExitTable
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
pub use table::{TableScope, subtract_tables};
