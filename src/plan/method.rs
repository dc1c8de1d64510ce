use super::file::{EngineName, ExperimentFile};

/// The three methods, before anything else is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// `engine = "exact"`
    Counts,
    /// `engine = "host"` or `"kvm"`
    Times,
    /// `host = "…"`
    Guests,
}

impl Method {
    /// The only place that decides what kind of experiment it is.
    pub fn of(file: &ExperimentFile) -> Method {
        match (file.host, file.engine) {
            (Some(_), _) => Method::Guests,
            (None, Some(EngineName::Host | EngineName::Kvm)) => Method::Times,
            (None, Some(EngineName::Exact) | None) => Method::Counts,
        }
    }
}
