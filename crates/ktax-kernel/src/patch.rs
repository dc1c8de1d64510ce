//! Reads patches from plain diffs, from mails, and from mailboxes of a series.
//!
//! ```text
//! file ─► mbox ─► mails ─► text parts ─► diff ─► sorted series ─► Patch, Patch, …
//!   └───────────── plain diff ────────────┘
//! ```
//!
//! A diff keeps the bytes that the sender's git wrote: transfer encodings, CRLF and `format=flowed`
//! are undone, and nothing else changes. git applies the diff. This module only checks whether the
//! diff can be one of a kernel tree, so that a wrong file is refused before a download.

mod functions;
mod mail;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use ktax_host::text::escape;
use ktax_model::{Error, Result};
use mail::{Mail, SeriesPosition, is_mail, without_crlf};

pub use functions::{SourceFunction, definitions_in};

/// One patch: a diff that git applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// Position in the series, and title, for messages: `3/7 mm: …`. Empty for a plain diff.
    pub name: String,
    /// The bytes for `git apply`.
    pub bytes: Vec<u8>,
    pub diff: Diff,
}

/// Reads the patches in a file, in the order of their series. Skips cover letters and replies.
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

/// Parses a patch; `None` if the text has no diff. `name` is for messages.
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
    if !diff.files.iter().any(|file| may_contain(&file.path)) {
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
        // In a thread, replies quote patches. A reply that is the only mail is the user's patch.
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
            // A reader may get a mail twice: from the list and as a copy.
            (false, _) if found.iter().any(|known| is_same_mail(known, position, &patches)) => {}
            (false, _) => found.push((position, patches)),
        }
    }
    sort_series(found)
}

/// Returns whether a mail with these patches is already known.
fn is_same_mail(
    (known_position, known): &(Option<SeriesPosition>, Vec<Patch>),
    position: Option<SeriesPosition>,
    patches: &[Patch],
) -> bool {
    let diffs =
        |patches: &[Patch]| patches.iter().map(|patch| patch.diff.clone()).collect::<Vec<_>>();
    *known_position == position && diffs(known) == diffs(patches)
}

/// Sorts the patches by their numbers, and refuses an incomplete series. If a mail has no number,
/// the order is that of the file.
fn sort_series(mut found: Vec<(Option<SeriesPosition>, Vec<Patch>)>) -> Result<Vec<Patch>> {
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

// Unified diffs: the files that they change, and checks of their hunks.

/// A unified diff of several files, without the text around them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// The files in the order of the diff.
    pub files: Vec<FileDiff>,
    /// The number of leading path components that `git apply -p` removes: 1 or 0.
    pub strip: usize,
}

/// Changes of a diff to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDiff {
    /// The path in the tree: the new path, or the old path of a file that is removed.
    pub path: String,
    /// The changes; empty for a file that is only renamed, or binary.
    pub hunks: Vec<Hunk>,
}

/// A hunk of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// The text after `@@`: the line that git takes for the head of the function around the hunk.
    pub context: String,
    /// The lines, each with its sign: ` `, `-` or `+`.
    pub lines: Vec<(char, String)>,
}

impl Diff {
    /// Reads a diff, and skips other text. The error is the number, from 1, of a line that does not
    /// fit its hunk.
    pub fn read(text: &[u8]) -> Result<Diff, usize> {
        let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
        let mut reader = DiffReader { lines: &lines, next: 0, files: Vec::new() };
        while reader.next < lines.len() {
            reader.step()?;
        }
        let files = reader.files;
        let strip = strip_count(files.iter().map(|(old, new, _)| (&**old, &**new)));
        let files = files.into_iter().map(|(old, new, hunks)| {
            let path = if new == "/dev/null" { old } else { new };
            FileDiff { path: stripped(&path, strip).to_owned(), hunks }
        });
        Ok(Diff { files: files.collect(), strip })
    }
}

fn stripped(path: &str, strip: usize) -> &str {
    match path.split_once('/').filter(|_| strip == 1) {
        Some((_, rest)) => rest,
        None => path,
    }
}

/// Reads a diff line by line.
struct DiffReader<'a> {
    lines: &'a [&'a [u8]],
    /// Index of the next line.
    next: usize,
    /// Old path, new path and hunks of each file; the paths are as in the diff.
    files: Vec<(String, String, Vec<Hunk>)>,
}

impl DiffReader<'_> {
    fn line(&self, index: usize) -> &[u8] {
        self.lines.get(index).copied().unwrap_or_default()
    }

    /// Reads the headers of one file, one hunk, or one line of other text.
    fn step(&mut self) -> Result<(), usize> {
        let line = self.line(self.next);
        if let Some((old, new)) = git_header(line) {
            // A file that is renamed or binary has no other header.
            self.files.push((old, new, Vec::new()));
        } else if let (Some(old), Some(new)) =
            (header_path(line, b"--- "), header_path(self.line(self.next + 1), b"+++ "))
        {
            if self.line(self.next + 2).starts_with(b"@@ -") {
                let is_known = self.files.last().is_some_and(|(_, _, hunks)| {
                    hunks.is_empty()
                        && git_header(self.line(self.line_before_extended_header())).is_some()
                });
                if is_known {
                    self.files.pop();
                }
                self.files.push((old, new, Vec::new()));
                self.next += 2;
                return Ok(());
            }
        } else if line.starts_with(b"@@ -") && !self.files.is_empty() {
            return self.hunk();
        }
        self.next += 1;
        Ok(())
    }

    /// Returns the index of the line before the extended header of git, which precedes the next
    /// line.
    fn line_before_extended_header(&self) -> usize {
        const EXTENDED: [&[u8]; 9] = [
            b"index ",
            b"old mode ",
            b"new mode ",
            b"new file mode ",
            b"deleted file mode ",
            b"similarity ",
            b"dissimilarity ",
            b"rename ",
            b"copy ",
        ];
        let mut index = self.next;
        while index > 0 && EXTENDED.iter().any(|start| self.line(index - 1).starts_with(start)) {
            index -= 1;
        }
        index.saturating_sub(1)
    }

    fn hunk(&mut self) -> Result<(), usize> {
        let Some((mut old, mut new, context)) = hunk_header(self.line(self.next)) else {
            return Err(self.next + 1);
        };
        self.next += 1;
        let mut lines = Vec::new();
        while old > 0 || new > 0 {
            let line = self.line(self.next);
            // The empty text after the last line feed is not a line.
            let is_end = self.next + 1 >= self.lines.len() && line.is_empty();
            let (sign, text) = match line.split_first() {
                // Mail programs remove the space of an empty line, and git accepts that.
                None if !is_end => (' ', &b""[..]),
                Some((b'\r', [])) => (' ', &b""[..]),
                Some((sign @ (b' ' | b'-' | b'+'), text)) => (char::from(*sign), text),
                Some((b'\\', _)) => {
                    self.next += 1;
                    continue;
                }
                _ => return Err(self.next + 1),
            };
            let (in_old, in_new) = (u64::from(sign != '+'), u64::from(sign != '-'));
            if in_old > old || in_new > new {
                return Err(self.next + 1);
            }
            old -= in_old;
            new -= in_new;
            lines.push((sign, String::from_utf8_lossy(text).into_owned()));
            self.next += 1;
        }
        if let Some((_, _, hunks)) = self.files.last_mut() {
            hunks.push(Hunk { context, lines });
        }
        Ok(())
    }
}

/// Parses the paths in `diff --git a/X b/X`; `None` for names with spaces, which other header lines
/// have, too.
fn git_header(line: &[u8]) -> Option<(String, String)> {
    let text = std::str::from_utf8(line).ok()?.strip_prefix("diff --git ")?;
    let (old, new) = text.trim_end().split_once(' ')?;
    (!new.contains(' ')).then(|| (old.to_owned(), new.to_owned()))
}

/// Parses the path after `--- ` or `+++ `, without the time that diff writes after the path.
fn header_path(line: &[u8], start: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(line.strip_prefix(start)?).into_owned();
    let path = text.split('\t').next().unwrap_or_default().trim_end();
    (!path.is_empty()).then(|| path.trim_matches('"').to_owned())
}

/// Parses `@@ -1,7 +1,6 @@ int f(void)`: the numbers of old and new lines, and the text after them.
fn hunk_header(line: &[u8]) -> Option<(u64, u64, String)> {
    let text = String::from_utf8_lossy(line);
    let (ranges, context) = text.strip_prefix("@@ -")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    let count = |range: &str| match range.split_once(',') {
        Some((start, count)) => start.parse::<u64>().ok().and(count.parse().ok()),
        None => range.parse::<u64>().ok().map(|_| 1),
    };
    Some((count(old)?, count(new)?, context.trim().to_owned()))
}

/// The directories at the top of a kernel tree, since Linux 2.6.
const TOP_DIRECTORIES: &str = "Documentation LICENSES arch block certs crypto drivers firmware fs \
    include init io_uring ipc kernel lib mm net rust samples scripts security sound tools usr virt \
    debian";

const TOP_FILES: &str = "Makefile Kconfig Kbuild MAINTAINERS CREDITS COPYING README REPORTING-BUGS \
    .gitignore .mailmap .gitattributes .clang-format .cocciconfig .rustfmt.toml";

/// Returns whether a kernel tree may have a file at this path.
fn may_contain(path: &str) -> bool {
    let (name, names) = match path.split_once('/') {
        Some((directory, _)) => (directory, TOP_DIRECTORIES),
        None => (path, TOP_FILES),
    };
    names.split(' ').any(|known| known == name)
}

/// Returns the number of leading components to strip from the paths of a diff: 1 for git's `a/` and
/// `b/` and for `linux.orig/`, 0 for a diff of `git diff --no-prefix`.
fn strip_count<'a>(mut paths: impl Iterator<Item = (&'a str, &'a str)>) -> usize {
    let is_bare = |(old, new): (&str, &str)| {
        let path = if new == "/dev/null" { old } else { new };
        let is_same = old == new || old == "/dev/null" || new == "/dev/null";
        is_same && may_contain(path)
    };
    usize::from(!paths.next().is_some_and(is_bare))
}
