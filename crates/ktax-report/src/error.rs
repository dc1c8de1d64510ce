use thiserror::Error;

/// Why a report cannot be made. No result that ktax writes gets here.
#[derive(Debug, Error)]
pub enum ReportError {
    /// A value that JSON cannot hold.
    #[error("cannot write as JSON: {0}; make it again, a comparison with `ktax analyse DIR`")]
    Json(#[from] serde_json::Error),
    /// A table that CSV cannot hold.
    #[error("cannot write as CSV: {0}; make it again, a comparison with `ktax analyse DIR`")]
    Csv(String),
}
