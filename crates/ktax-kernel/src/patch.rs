//! Reads patches as they come: plain diffs, mails, and mailboxes of a series.
//!
//! ```text
//! file ─► mbox ─► mails ─► text parts ─► diff ─► series in its order ─► Patch, Patch, …
//!   └───────────── plain diff ────────────┘
//! ```
//!
//! A diff keeps the bytes that the sender's git wrote: transfer encodings, CRLF and
//! `format=flowed` are undone, and nothing else changes. git applies it; here it is only read far
//! enough to refuse what cannot apply before anything is downloaded.

mod diff;
mod functions;
mod mail;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use ktax_host::text::escape;
use ktax_model::{Error, Result};
use mail::{Mail, SeriesPosition, is_mail, without_crlf};

pub use diff::{Diff, FileDiff, Hunk};
pub use functions::{SourceFunction, definitions_in};

/// One patch: a diff that git applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// Place in the series and title, for messages: `3/7 mm: …`. Empty for a plain diff.
    pub name: String,
    /// The bytes for `git apply`.
    pub bytes: Vec<u8>,
    pub diff: Diff,
}

/// The patches of a file, in the order of their series. Cover letters and replies are skipped.
pub fn read(bytes: &[u8]) -> Result<Vec<Patch>> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let first = bytes.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(0);
    let mails = mail::split_mailbox(&bytes[first..]);
    let patches = match is_mail(mails[0]) {
        true => patches_in_mails(&mails)?,
        false => parse_patch("", without_crlf(bytes.to_vec()))?.into_iter().collect(),
    };
    if patches.is_empty() {
        return Err(Error::user("it contains no diff")
            .next("give a file that `git format-patch`, `git diff` or `b4 am` wrote"));
    }
    Ok(patches)
}

/// A patch with this name; `None` if the text has no diff.
fn parse_patch(name: &str, bytes: Vec<u8>) -> Result<Option<Patch>> {
    let diff = Diff::read(&bytes).map_err(|line| {
        let suffix = if name.is_empty() { String::new() } else { format!(" of {name:?}") };
        Error::user(format!(
            "line {line} of the diff{suffix} does not belong to its hunk, so a mail program has \
             probably wrapped or cut lines"
        ))
        .next("download the original, such as with `b4 am`")
    })?;
    let Some(first) = diff.files.first() else { return Ok(None) };
    if !diff.files.iter().any(|file| diff::may_contain(&file.path)) {
        let problem = format!(
            "it changes {}, and no directory of a kernel tree contains that",
            escape(&first.path)
        );
        return Err(Error::user(problem).next(
            "create the patch in the top directory of a kernel tree, such as with \
             `git format-patch -1`",
        ));
    }
    Ok(Some(Patch { name: name.to_owned(), bytes, diff }))
}

fn patches_in_mails(mails: &[&[u8]]) -> Result<Vec<Patch>> {
    let mut found: Vec<(Option<SeriesPosition>, Vec<Patch>)> = Vec::new();
    let is_alone = mails.len() == 1;
    for mail in mails {
        let mail = Mail::read(&mail::unquote_from_lines(mail))?;
        // Replies in a thread quote the patches; the user meant a reply that is alone.
        if mail.subject.is_reply && !is_alone {
            continue;
        }
        let position = mail.subject.position;
        let name = match position {
            Some(SeriesPosition { number, total, .. }) => {
                format!("{number}/{total} {}", escape(&mail.subject.title))
            }
            None => escape(&mail.subject.title),
        };
        let mut patches = Vec::new();
        for diff in mail.diffs {
            patches.extend(parse_patch(&name, diff)?);
        }
        match (patches.is_empty(), position) {
            (true, Some(position)) if position.number > 0 && !is_alone => {
                return Err(Error::user(format!("the mail {name:?} contains no diff"))
                    .next("download the series again, such as with `b4 am`"));
            }
            (true, _) => {}
            // The list and the copy to the reader bring a mail twice.
            (false, _) if found.iter().any(|known| is_same(known, position, &patches)) => {}
            (false, _) => found.push((position, patches)),
        }
    }
    in_order(found)
}

fn is_same(
    (known_position, known): &(Option<SeriesPosition>, Vec<Patch>),
    position: Option<SeriesPosition>,
    patches: &[Patch],
) -> bool {
    let diffs =
        |patches: &[Patch]| patches.iter().map(|patch| patch.diff.clone()).collect::<Vec<_>>();
    *known_position == position && diffs(known) == diffs(patches)
}

/// The patches in the order of their numbers; as they stand in the file if one has no number.
fn in_order(mut found: Vec<(Option<SeriesPosition>, Vec<Patch>)>) -> Result<Vec<Patch>> {
    let positions: Option<Vec<SeriesPosition>> =
        found.iter().map(|(position, _)| *position).collect();
    if let Some(mut positions) = positions {
        let series: BTreeSet<(u32, u32)> =
            positions.iter().map(|position| (position.version, position.total)).collect();
        if series.len() > 1 {
            let names = series.iter().map(|(version, total)| format!("v{version} of {total}"));
            let series = names.collect::<Vec<_>>().join(", ");
            return Err(Error::user(format!("it contains several series ({series})")).next(
                "keep one of them, such as with `b4 am`, which writes the newest version alone",
            ));
        }
        positions.sort();
        for pair in positions.windows(2) {
            let (SeriesPosition { number, total, .. }, next) = (pair[0], pair[1].number);
            if next == number {
                return Err(Error::user(format!(
                    "it contains two different patches {number}/{total}"
                ))
                .next("keep one of them, or download one version of the series with `b4 am`"));
            }
            if next > number + 1 {
                return Err(Error::user(format!(
                    "it contains other patches of the series, but not {}/{total}",
                    number + 1
                ))
                .next("add that mail, or give each patch as a file of its own"));
            }
        }
        found.sort_by_key(|(position, _)| *position);
    }
    Ok(found.into_iter().flat_map(|(_, patches)| patches).collect())
}
