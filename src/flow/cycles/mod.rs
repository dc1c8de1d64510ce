//! What a machine takes: measured, estimated, and whether that is right.

mod calibrate;
mod error;
mod estimate;
mod validate;

pub use calibrate::{CalibrateOrder, calibrate};
pub use error::{CalibrateError, EstimateError};
pub use estimate::{calibrated, estimate};
pub use validate::{validate, validate_results};
