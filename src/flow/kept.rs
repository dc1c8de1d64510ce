//! Results on disk: the JSON, and the reports beside it.

use std::path::Path;

use super::context::OrHost;
use super::error::Error;
use crate::disk::write_atomically;
use crate::report::{FORMATS, JSON, Report, TextOptions, render};

/// What is kept of a search.
pub(super) const BISECTION: &str = "bisection.json";

/// What is kept of a ledger.
pub(super) const LEDGER: &str = "ledger.json";

/// What is kept of an experiment that was counted and timed.
pub(super) const VALIDATION: &str = "validation.json";

/// The report of each format that has a file beside the result, with the name of that file.
pub(super) fn reports(of: &dyn Report) -> Result<Vec<(&'static str, String)>, Error> {
    let files = FORMATS.iter().filter_map(|format| Some((format.file?, *format)));
    files.map(|(name, format)| Ok((name, render(of, format, TextOptions::default())?))).collect()
}

/// Keeps a result in a directory: as JSON under its name, and the reports.
pub(super) fn keep(root: &Path, name: &str, of: &dyn Report) -> Result<(), Error> {
    let json = render(of, JSON, TextOptions::default())?;
    for (name, text) in [(name, json)].into_iter().chain(reports(of)?) {
        let path = root.join(name);
        write_atomically(&path, text.as_bytes())
            .context(format!("cannot write {}", path.display()), "free some disk space")?;
    }
    Ok(())
}
