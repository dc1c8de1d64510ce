//! Writes the results of a store as pages that link to each other.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::history::HistoryOrder;
use super::{LogOrder, Stored, StoredError};
use crate::disk::{
    Lock, is_unfinished, read_own_text, remove_unfinished, sha256, write_atomically,
};
use crate::flow::error::{Error, ErrorContext};
use crate::model::{self, History, HistoryLine};
use crate::report::{Document, HTML, Listed, SITE_MARK, TextOptions, site_index, sparkline};
use crate::text::short_hashes;

/// First page.
const INDEX: &str = "index.html";

/// Size limit of the first page, in bytes.
const INDEX_MAX: u64 = 64 << 20;

/// Length limit of a row's name in a file name, of which a file system allows 255 bytes.
const LONGEST: usize = 100;

/// Directories of the other pages.
const RESULTS: &str = "results";
const HISTORY: &str = "history";

impl Stored {
    /// Writes the pages into a directory, and returns their number. The same store gives the same
    /// pages. Pages of results that are gone are removed.
    pub fn site(&self, dir: &Path) -> Result<usize, Error> {
        let before = pages_before(dir)?;
        let _alone = lock_directory(dir)?;
        // Mark the directory as a site before anything can fail.
        write_page(dir, INDEX, &site_index(&[], &[]))?;
        let (mut results, mut histories) = (Vec::new(), Vec::new());
        for stored in self.log(&LogOrder::default())? {
            let saved = self.store.read_result(&self.store.result_path(&stored.object))?;
            let file = format!("{RESULTS}/{}.html", short_hashes(&stored.object));
            let page = [Document::named(&saved.name, &saved)];
            write_page(dir, &file, &(HTML.write)(&page, TextOptions::default())?)?;
            let title = page[0].view().title.clone();
            let (answer, beside) = (stored.headline, stored.kept_on);
            results.push(Listed { file, title, answer, beside });
        }
        for history in self.histories()? {
            let file = format!("{HISTORY}/{}.html", file_name(&history.lines[0].row));
            let page = [Document::named("", &history)];
            write_page(dir, &file, &(HTML.write)(&page, TextOptions::default())?)?;
            let longest = history.lines.iter().max_by_key(|line| line.points.len());
            let beside = longest.map(sparkline).unwrap_or_default();
            let (title, answer) = (history.lines[0].row.clone(), page[0].view().headline.clone());
            histories.push(Listed { file, title, answer, beside });
        }
        write_page(dir, INDEX, &site_index(&results, &histories))?;
        let written = results.iter().chain(&histories).map(|page| dir.join(&page.file)).collect();
        before.difference(&written).try_for_each(|page| remove_page(page))?;
        Ok(results.len() + histories.len() + 1)
    }

    /// Histories of the rows that were measured on two kernels or more.
    fn histories(&self) -> Result<Vec<History>, Error> {
        let history = match self.history(&HistoryOrder::usual()) {
            Err(error) if error.kind == model::ErrorKind::EmptyStore => return Ok(Vec::new()),
            history => history?,
        };
        let History { metric, function, threshold_percent, lines } = history;
        let is_row = |line: &HistoryLine, other: &HistoryLine| line.row == other.row;
        let history_of = |lines: &[HistoryLine]| History {
            metric: metric.clone(),
            function: function.clone(),
            threshold_percent,
            lines: lines.to_vec(),
        };
        let has_two = |history: &History| history.lines.iter().any(|line| line.points.len() > 1);
        Ok(lines.chunk_by(is_row).map(history_of).filter(has_two).collect())
    }
}

/// Locks the directory, and removes unfinished files of a killed process. The directory itself is
/// locked, so that the site has no lock file. `None` if the file system has no locks; then nothing
/// is removed.
fn lock_directory(dir: &Path) -> Result<Option<Lock>, Error> {
    let next = "give the path of a directory that you may write";
    let what = || format!("cannot write {}", dir.display());
    fs::create_dir_all(dir).or_host(what(), next)?;
    let lock = match Lock::take(File::open(dir).or_host(what(), next)?) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            return Err(StoredError::SiteInUse { path: dir.display().to_string() }.into());
        }
        Err(_) => return Ok(None),
        Ok(lock) => lock,
    };
    for folder in [dir.to_owned(), dir.join(RESULTS), dir.join(HISTORY)] {
        match remove_unfinished(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).or_host(what(), next)?;
            }
            _ => {}
        }
    }
    Ok(Some(lock))
}

/// Pages of an earlier site; none if the directory is empty.
fn pages_before(dir: &Path) -> Result<BTreeSet<PathBuf>, Error> {
    let mut names =
        fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let is_empty = names.all(|name| is_unfinished(&name));
    let index = read_own_text(&dir.join(INDEX), INDEX_MAX).unwrap_or_default();
    if !is_empty && !index.contains(SITE_MARK) {
        Err(StoredError::NoSite { path: dir.display().to_string() })?;
    }
    let links = index.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let is_page = |link: &&str| {
        let (folder, file) = link.split_once('/').unwrap_or_default();
        [RESULTS, HISTORY].contains(&folder) && file.ends_with(".html") && !file.contains('/')
    };
    Ok(links.filter(is_page).map(|link| dir.join(link)).collect())
}

fn write_page(dir: &Path, file: &str, text: &str) -> Result<(), Error> {
    let path = dir.join(file);
    let next = "give the path of a directory that you may write";
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| write_atomically(&path, text.as_bytes()))
        .or_host(format!("cannot write {}", path.display()), next)
}

/// Removes a page that no longer belongs to the site.
fn remove_page(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            let what = format!("cannot remove {}", path.display());
            Err(error).or_host(what, "remove it yourself")
        }
        _ => Ok(()),
    }
}

/// File name of a row. Unsafe characters become `_`, and long names are cut; a hash then keeps them
/// apart.
fn file_name(row: &str) -> String {
    let usual = |c: char| if c.is_ascii_alphanumeric() || "._-=,".contains(c) { c } else { '_' };
    let name: String = row.chars().map(usual).take(LONGEST).collect();
    // The rows of ktax have no unsafe character but the colon.
    match name == row.replace(':', "_") && !row.contains('_') {
        true => name,
        false => format!("{name}-{}", short_hashes(&sha256(row))),
    }
}
