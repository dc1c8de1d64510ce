//! ktax says what a Linux kernel change costs.
//!
//! ```text
//!  experiment.toml / flags + workloads/*/*.toml
//!       │ plan       Request ─► Plan              plan.json
//!       ▼
//!       │ run        Step ─► Boot ─► Runs         boots/NNN-side/…
//!       ▼
//!       │ analyse    run directory ─► Comparison  comparison.json
//!       ▼
//!       └ report     Comparison ─► text, JSON, CSV, Markdown
//! ```
//!
//! [`cmd`] is the only place where the phases are joined.

pub mod analyse;
pub mod cmd;
pub mod disk;
pub mod engine;
pub mod exits;
pub mod kernel;
pub mod kvmhost;
pub mod model;
pub mod plan;
pub mod report;
pub mod run;
pub mod rundir;
pub mod stats;
pub mod text;
pub mod vmm;
pub mod wire;
