//! Carries out a Plan. A [`Driver`] makes the Boots and Runs of the Plan, and writes each result to
//! disk before the next Run, so that a killed run resumes after its last complete file. [`rundir`]
//! is the only reader and writer of a run directory, [`store`] keeps measurements for reuse, and
//! [`index`] finds them.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use ktax_run::rundir::AnyRunDir;
//!
//! let run = AnyRunDir::open(Path::new("ktax-1"));
//! assert!(run.is_ok());
//! ```

mod counts;
mod driver;
pub mod index;
mod printed;
pub mod rundir;
pub mod store;
mod times;

pub use counts::{CountsBoots, traced};
pub use driver::{Boots, Driver, Ended, Event, ReadyBoot, RunResult, Timing};
pub use times::{TimesDriver, named_files, run_natively};
