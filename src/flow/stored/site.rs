//! All that the store has to show, as pages that link to each other.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::error::StoredError;
use super::history::HistoryOrder;
use super::log::LogOrder;
use super::open::Stored;
use crate::disk::write_atomically;
use crate::flow::context::OrHost;
use crate::flow::error::Error;
use crate::model::{History, HistoryLine};
use crate::report::{HTML, Listed, Report, TextOptions, render, site_index, sparkline};
use crate::text::short_hashes;

/// Its first page.
const INDEX: &str = "index.html";

/// Its other pages.
const RESULTS: &str = "results";
const HISTORY: &str = "history";

/// Every page of ktax has this.
const MARK: &str = "content=\"ktax ";

impl Stored {
    /// Writes the pages into a directory, and says how many. The same store gives the same pages:
    /// those of results that are gone are removed.
    ///
    /// # Errors
    /// The directory has something else in it, or cannot be written.
    pub fn site(&self, dir: &Path) -> Result<usize, Error> {
        check(dir)?;
        let (mut results, mut histories) = (Vec::new(), Vec::new());
        for stored in self.log(&LogOrder::default())? {
            let saved = self.store.read_result(&self.store.result_path(&stored.object))?;
            let file = format!("{RESULTS}/{}.html", short_hashes(&stored.object));
            write(dir, &file, &render(&saved, HTML, TextOptions::default())?)?;
            let title = saved.view().title;
            let (answer, beside) = (stored.headline, stored.kept_on);
            results.push(Listed { file, title, answer, beside });
        }
        for history in self.histories()? {
            let file = format!("{HISTORY}/{}.html", file_name(&history.lines[0].row));
            write(dir, &file, &render(&history, HTML, TextOptions::default())?)?;
            let longest = history.lines.iter().max_by_key(|line| line.points.len());
            let beside = longest.map(sparkline).unwrap_or_default();
            let (title, answer) = (history.lines[0].row.clone(), history.view().headline);
            histories.push(Listed { file, title, answer, beside });
        }
        write(dir, INDEX, &site_index(&results, &histories))?;
        let written = results.iter().chain(&histories).map(|it| dir.join(&it.file)).collect();
        remove_others(dir, &written)?;
        Ok(results.len() + histories.len() + 1)
    }

    /// One for each row that was measured on two kernels.
    fn histories(&self) -> Result<Vec<History>, Error> {
        let all = match self.history(&HistoryOrder::usual()) {
            Err(Error::Stored(StoredError::Empty)) => return Ok(Vec::new()),
            all => all?,
        };
        let History { metric, function, threshold_percent, lines } = all;
        let is_row = |one: &HistoryLine, other: &HistoryLine| one.row == other.row;
        let of_row = |lines: &[HistoryLine]| History {
            metric: metric.clone(),
            function: function.clone(),
            threshold_percent,
            lines: lines.to_vec(),
        };
        let has_two = |history: &History| history.lines.iter().any(|it| it.points.len() > 1);
        Ok(lines.chunk_by(is_row).map(of_row).filter(has_two).collect())
    }
}

/// An empty directory, or one that was written before.
fn check(dir: &Path) -> Result<(), Error> {
    let is_empty = fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none());
    let first = fs::read_to_string(dir.join(INDEX)).unwrap_or_default();
    match is_empty || first.contains(MARK) {
        true => Ok(()),
        false => Err(StoredError::NoSite { path: dir.display().to_string() })?,
    }
}

fn write(dir: &Path, file: &str, text: &str) -> Result<(), Error> {
    let path = dir.join(file);
    let next = "give the path of a directory that you may write";
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| write_atomically(&path, text.as_bytes()))
        .context(format!("cannot write {}", path.display()), next)
}

/// Pages that were written before and are no part of the site any more.
fn remove_others(dir: &Path, written: &BTreeSet<PathBuf>) -> Result<(), Error> {
    for folder in [RESULTS, HISTORY] {
        // A site without one of them has nothing there.
        let Ok(entries) = fs::read_dir(dir.join(folder)) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            let is_page = || fs::read_to_string(&path).is_ok_and(|text| text.contains(MARK));
            if !written.contains(&path) && path.extension() == Some("html".as_ref()) && is_page() {
                let next = "remove it yourself";
                let what = format!("cannot remove {}", path.display());
                fs::remove_file(&path).context(what, next)?;
            }
        }
    }
    Ok(())
}

/// A row's name may have what no file and no link should have.
fn file_name(row: &str) -> String {
    let usual = |c: char| if c.is_ascii_alphanumeric() || "._-=".contains(c) { c } else { '_' };
    row.chars().map(usual).collect()
}
