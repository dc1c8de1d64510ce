//! Times: pairs of Boots, until there are enough.

mod driver;

pub use driver::{TimesDriver, TimesError};
