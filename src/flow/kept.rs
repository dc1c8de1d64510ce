//! Results on disk: the JSON, and the reports beside it.

use std::path::Path;

use super::context::OrHost;
use super::error::Error;
use crate::disk::write_atomically;
use crate::report::{CSV, Format, JSON, MARKDOWN, Report, TEXT, TextOptions, render};

/// What is kept of a search.
pub(super) const BISECTION: &str = "bisection.json";

/// What is kept of a ledger.
pub(super) const LEDGER: &str = "ledger.json";

/// The reports that are kept beside a result.
const KEPT: [(&str, Format); 3] =
    [("report.txt", TEXT), ("report.csv", CSV), ("report.md", MARKDOWN)];

/// Each with the name of its file.
pub(super) fn reports(of: &dyn Report) -> Result<Vec<(&'static str, String)>, Error> {
    let report = |(name, format)| Ok((name, render(of, format, TextOptions::default())?));
    KEPT.into_iter().map(report).collect()
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
