//! Carries out a Plan, and puts each result on disk before the next one starts. A [`Driver`] boots
//! what the Plan lists and judges what comes back. [`rundir`] is the only reader and writer of a
//! run directory, [`store`] keeps measurements that are not made twice, and [`index`] finds them
//! again. Whoever is killed goes on where the last whole file is.
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
pub use driver::{Boots, Driver, Ended, Event, Made, ReadyBoot, Timing};
pub use times::{TimesDriver, named_files, run_natively};
