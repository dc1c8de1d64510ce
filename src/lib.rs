//! ktax measures what a Linux kernel change costs.
//!
//! ```text
//!  experiment.toml / flags + workloads/*/*.toml
//!       │ plan       Experiment ─► Plan            plan.json        (counts | times | guests)
//!       ▼
//!       │ run        Step ─► Boot ─► Runs          run directory
//!       ▼
//!       │ analyse    run directory ─► Comparison   comparison.json
//!       ▼
//!       └ report     Comparison ─► text, JSON, CSV, Markdown
//! ```
//!
//! [`flow`] joins the phases of all methods; [`cmd`] parses arguments and prints. This example
//! counts the instructions that audit adds to the shortest system call:
//!
//! ```
//! use ktax::flow::{self, Session, SilentObserver};
//! use ktax::plan::Experiment;
//! use ktax::report::{TEXT, TextOptions, render};
//!
//! # fn main() -> Result<(), flow::Error> {
//! let experiment = Experiment::parse(
//!     r#"
//!     title = "What does audit cost a system call?"
//!     workloads = ["getppid"]
//!     layouts = 1
//!     base = { kernel = "debian:cloud-amd64", boot_line = "audit=0" }
//!     change = { kernel = "debian:cloud-amd64", boot_line = "audit=1" }
//!     "#,
//!     "example",
//! )?;
//! # let dir = tempfile::tempdir()?;
//! # let out = dir.path().join("run");
//! let session = Session::new(&SilentObserver)?;
//! let plan = flow::plan(&experiment, &session)?;
//! let comparison = flow::compare(&out, plan, &session)?.expect("no one stops this run");
//! print!("{}", render(&comparison, TEXT, TextOptions::default())?);
//! # assert_eq!(comparison.rows[0].row, "getppid");
//! # assert!(comparison.rows[0].effects()[0].base > 100.0);
//! # Ok(())
//! # }
//! ```

pub mod flow;

// The interface for programs.
pub use ktax_analyse as analyse;
pub use ktax_model as model;
pub use ktax_plan as plan;
pub use ktax_report as report;
pub use ktax_run::{rundir, store};

// Internals, public for the binary, the tests and the benches; they may change at any time.
#[doc(hidden)]
pub mod cmd;
#[doc(hidden)]
pub use ktax_engine::{self as engine, wire};
#[doc(hidden)]
pub use ktax_exits::{self as exits, kvmhost, vmm};
#[doc(hidden)]
pub use ktax_host::{cache, disk, text};
#[doc(hidden)]
pub use ktax_kernel::{self as kernel, patch};
#[doc(hidden)]
pub use ktax_program::{self as program, compile};
#[doc(hidden)]
pub use ktax_run::{self as run, index};
#[doc(hidden)]
pub use ktax_stats as stats;
