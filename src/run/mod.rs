//! Carries out a Plan, and puts each result on disk before the next one starts.

mod counts;
mod driver;
mod event;
mod files;
mod first;
mod guests;
mod missing;
mod native;
mod numbers;
mod steps;
mod suites;
mod times;
mod timing;

pub use counts::{CountsBoots, traced};
pub use driver::{Boots, Driver, Made, ReadyBoot};
pub use event::{Ended, Event};
pub use files::named_files;
pub use native::run_natively;
pub use times::{TimesDriver, TimesError};
pub use timing::Timing;
