//! Results that ktax wrote, to be printed again.

use std::path::Path;

use super::error::Error;
use crate::disk::read_limited;
use crate::report::{self, Saved};
use crate::rundir::AnyRunDir;
use crate::text::escape;

/// A result has never been a hundredth of this.
const FILE_MAX: u64 = 1 << 30;

/// The results of a file, or that of a directory: of a run, a search or a ledger.
///
/// # Errors
/// There is none, or the file is none of ktax's.
pub fn saved(path: &Path) -> Result<Vec<Saved>, Error> {
    if !path.is_dir() {
        return file(path);
    }
    let finished = ["bisection.json", "ledger.json"].map(|name| path.join(name));
    match finished.iter().find(|path| path.is_file()) {
        Some(path) => file(path),
        None => Ok(vec![Saved::Comparison(Box::new(comparison(path)?))]),
    }
}

fn comparison(path: &Path) -> Result<crate::model::Comparison, Error> {
    AnyRunDir::open(path)?.comparison()?.ok_or_else(|| {
        let path = path.display();
        Error::usage(format!("{path} has no comparison yet; make it with `ktax analyse {path}`"))
    })
}

fn file(path: &Path) -> Result<Vec<Saved>, Error> {
    let shown = path.display().to_string();
    let wanted = "a run directory, or of a file that ktax wrote";
    let unreadable = |reason| Error::Unreadable { path: shown.clone(), reason, wanted };
    let bytes = read_limited(path, FILE_MAX).map_err(unreadable)?;
    report::parse(&String::from_utf8_lossy(&bytes)).map_err(|reason| {
        Error::usage(format!(
            "cannot print {shown}: {}; give a file that ktax wrote with --json",
            escape(&reason)
        ))
    })
}
