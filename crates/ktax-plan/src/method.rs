use super::file::ExperimentFile;
use ktax_engine::Measures;

/// The three methods, before anything else is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The engine counts, as the usual one does.
    Counts,
    /// The engine measures times.
    Times,
    /// `host = "…"`
    Guests,
}

impl Method {
    /// The only place that decides what kind of experiment it is.
    pub fn of(file: &ExperimentFile) -> Method {
        match (file.host, file.engine.map(|engine| engine.measures)) {
            (Some(_), _) => Method::Guests,
            (None, Some(Measures::Times { .. })) => Method::Times,
            (None, Some(Measures::Counts { .. }) | None) => Method::Counts,
        }
    }
}
