//! Extracts the diffs from mails and mailboxes, and the position of a mail in its series.
//!
//! A mailbox is split at the same lines as `git mailsplit` does. The space-stuffing and line breaks
//! of `format=flowed` (RFC 3676) are undone.

use mailparse::{DispositionType, MailHeaderMap, ParsedMail, parse_mail};

use super::Diff;
use ktax_host::text::escape;
use ktax_model::{Error, Result};

/// Depth to which mails that are attached to mails are read.
const MAX_DEPTH: usize = 3;

/// A mail: its subject, and its texts that have a diff.
pub(super) struct Mail {
    pub subject: MailSubject,
    pub diffs: Vec<Vec<u8>>,
}

/// Returns whether bytes begin with the header of a mail. A diff and the output of `git show` do
/// not.
pub(super) fn is_mail(bytes: &[u8]) -> bool {
    let mut has_field = false;
    for line in bytes.split(|byte| *byte == b'\n').take(500) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            break;
        }
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            continue;
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return false };
        let name = &line[..colon];
        if name.is_empty() || !name.iter().all(|byte| byte.is_ascii_graphic()) {
            return false;
        }
        let fields: [&[u8]; 5] = [b"from", b"subject", b"date", b"message-id", b"content-type"];
        has_field |= fields.contains(&name.to_ascii_lowercase().as_slice());
    }
    has_field
}

impl Mail {
    pub(super) fn read(bytes: &[u8]) -> Result<Mail> {
        let mail = parse_mail(bytes).map_err(unreadable)?;
        let subject = mail.headers.get_first_value("Subject").unwrap_or_default();
        let mut diffs = Vec::new();
        collect_diffs(&mail, MAX_DEPTH, &mut diffs)?;
        Ok(Mail { subject: MailSubject::parse(&subject), diffs })
    }
}

/// Collects the distinct texts with a diff in a part and its subparts.
fn collect_diffs(part: &ParsedMail<'_>, depth: usize, diffs: &mut Vec<Vec<u8>>) -> Result<()> {
    for below in &part.subparts {
        collect_diffs(below, depth, diffs)?;
    }
    if !part.subparts.is_empty() || !may_have_diff(part) {
        return Ok(());
    }
    let mut text = part.get_body_raw().map_err(unreadable)?;
    if is_mail(&text) && depth > 0 && is_attached(part) {
        let inner = parse_mail(&text).map_err(unreadable)?;
        return collect_diffs(&inner, depth - 1, diffs);
    }
    let params = &part.ctype.params;
    let is_set = |name: &str, value: &str| {
        params.get(name).is_some_and(|found| found.eq_ignore_ascii_case(value))
    };
    text = without_crlf(text);
    if is_set("format", "flowed") {
        text = undo_flowed(text, is_set("delsp", "yes"));
    }
    let has_diff = match Diff::read(&text) {
        Ok(diff) => !diff.files.is_empty(),
        // Keep a damaged diff, so that the user gets an error.
        Err(_) => true,
    };
    if has_diff && !diffs.contains(&text) {
        diffs.push(text);
    }
    Ok(())
}

fn is_attached(part: &ParsedMail<'_>) -> bool {
    let disposition = part.get_content_disposition();
    part.ctype.mimetype.starts_with("message/")
        || disposition.disposition == DispositionType::Attachment
        || disposition.params.contains_key("filename")
        || part.ctype.params.contains_key("name")
}

/// Returns whether a part can have a diff: it is text, or a file with the name of a patch. HTML is
/// not read, because it repeats the text.
fn may_have_diff(part: &ParsedMail<'_>) -> bool {
    let kind = part.ctype.mimetype.as_str();
    let disposition = part.get_content_disposition();
    let names = [disposition.params.get("filename"), part.ctype.params.get("name")];
    let ends = [".patch", ".diff", ".txt", ".mbox", ".mbx", ".eml"];
    let is_named = names
        .into_iter()
        .flatten()
        .any(|name| ends.iter().any(|end| name.to_ascii_lowercase().ends_with(end)));
    let is_text = kind.starts_with("text/") && kind != "text/html" && kind != "text/calendar";
    is_text || kind == "message/rfc822" || is_named || kind.ends_with("-patch")
}

/// Removes carriage returns that a mail transport has added: then the headers of the diff have
/// them, too. In a patch for a file with CRLF, only the lines of the file have carriage returns.
pub(super) fn without_crlf(text: Vec<u8>) -> Vec<u8> {
    let lines = || text.split_inclusive(|byte| *byte == b'\n');
    let is_header = |line: &&[u8]| line.starts_with(b"@@ -") || line.starts_with(b"+++ ");
    if !lines().filter(is_header).any(|line| line.ends_with(b"\r\n")) {
        return text;
    }
    let mut clean = Vec::with_capacity(text.len());
    for line in lines() {
        match line.strip_suffix(b"\r\n") {
            Some(content) => {
                clean.extend(content);
                clean.push(b'\n');
            }
            None => clean.extend(line),
        }
    }
    clean
}

fn unreadable(error: mailparse::MailParseError) -> Error {
    Error::user(format!("its mail cannot be read: {}", escape(&error.to_string())))
        .next("give the plain diff")
}

/// Splits a mailbox into mails. Bytes that are no mailbox are one mail.
pub(super) fn split_mailbox(bytes: &[u8]) -> Vec<&[u8]> {
    let mut starts = Vec::new();
    let mut start = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if is_from_line(line) {
            starts.push((start, start + line.len()));
        }
        start += line.len();
    }
    if starts.first().is_none_or(|(start, _)| *start > 0) {
        starts.insert(0, (0, 0));
    }
    let ends = starts.iter().skip(1).map(|(next, _)| *next).chain([bytes.len()]);
    starts.iter().zip(ends).map(|((_, body), end)| &bytes[*body..end]).collect()
}

/// Returns whether a line separates mails: it begins with `From ` and ends with a time and a year.
/// A line of text may also begin with `From `.
fn is_from_line(line: &[u8]) -> bool {
    let Some(rest) = line.strip_prefix(b"From ") else { return false };
    let Some(colon) = rest.iter().rposition(|byte| *byte == b':') else { return false };
    let digit = |index: usize| rest.get(index).is_some_and(u8::is_ascii_digit);
    let has_time = colon >= 2 && digit(colon - 1) && digit(colon - 2);
    if !(has_time && digit(colon + 1) && digit(colon + 2)) {
        return false;
    }
    let after = String::from_utf8_lossy(&rest[colon + 3..]);
    let mut numbers = after.split_whitespace().filter_map(|word| word.parse::<u32>().ok());
    numbers.any(|year| year >= 1970)
}

/// Removes the `>` that mailboxes put before a line that would separate mails: `>From `.
pub(super) fn unquote_from_lines(mail: &[u8]) -> Vec<u8> {
    let lines = mail.split_inclusive(|byte| *byte == b'\n');
    let unquote = |line: &'_ [u8]| line.strip_prefix(b">").is_some_and(is_from_line);
    lines.flat_map(|line| &line[usize::from(unquote(line))..]).copied().collect()
}

/// Undoes `format=flowed`. Mail programs also label patches as flowed that they did not change, so
/// this tries several readings, and takes the first whose hunks are complete.
fn undo_flowed(text: Vec<u8>, is_space_deleted: bool) -> Vec<u8> {
    let unstuffed = unstuff(&text);
    let readings = [join_flowed(&unstuffed, is_space_deleted), unstuffed];
    readings.into_iter().find(|reading| is_complete_diff(reading)).unwrap_or(text)
}

fn is_complete_diff(text: &[u8]) -> bool {
    Diff::read(text).is_ok_and(|diff| !diff.files.is_empty())
}

/// Removes the space in front of lines that begin with one.
fn unstuff(text: &[u8]) -> Vec<u8> {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    lines.flat_map(|line| line.strip_prefix(b" ").unwrap_or(line)).copied().collect()
}

/// Joins lines that end with a space to the next one.
fn join_flowed(text: &[u8], is_space_deleted: bool) -> Vec<u8> {
    let mut joined = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let content = line.strip_suffix(b"\n").unwrap_or(line);
        let content = content.strip_suffix(b"\r").unwrap_or(content);
        // The line before a signature ends with a space, too, and is not broken.
        match content.strip_suffix(b" ").filter(|_| content != b"-- ") {
            Some(before) if is_space_deleted => joined.extend(before),
            Some(_) => joined.extend(content),
            None => joined.extend(line),
        }
    }
    joined
}

/// A mail's place in a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SeriesPosition {
    pub version: u32,
    pub total: u32,
    /// 0 is the cover letter.
    pub number: u32,
}

/// Parsed subject of a mail.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct MailSubject {
    pub position: Option<SeriesPosition>,
    pub is_reply: bool,
    /// The subject without its brackets.
    pub title: String,
}

impl MailSubject {
    pub(super) fn parse(text: &str) -> MailSubject {
        let mut rest = text.trim();
        let mut subject = MailSubject::default();
        let mut version = 1;
        loop {
            let reply = ["re:", "fwd:", "fw:", "aw:"].iter().find(|word| {
                rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
            });
            if let Some(word) = reply {
                subject.is_reply = true;
                rest = rest[word.len()..].trim_start();
                continue;
            }
            let Some((tags, after)) = rest.strip_prefix('[').and_then(|tags| tags.split_once(']'))
            else {
                break;
            };
            for tag in tags.split(|c: char| c.is_whitespace() || c == ',') {
                version = version_in(tag).unwrap_or(version);
                let position = tag.split_once('/').and_then(|(number, total)| {
                    Some((number.parse::<u32>().ok()?, total.parse::<u32>().ok()?))
                });
                if let Some((number, total)) = position.filter(|(number, total)| number <= total) {
                    subject.position = Some(SeriesPosition { version, total, number });
                }
            }
            rest = after.trim_start();
        }
        // The version may be after the number.
        if let Some(position) = &mut subject.position {
            position.version = version;
        }
        subject.title = rest.to_owned();
        subject
    }
}

/// Parses the version in a tag: `v2`, `PATCHv2`.
fn version_in(tag: &str) -> Option<u32> {
    let digits = tag.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let letters = &tag[..tag.len() - digits.len()];
    let is_version = letters.ends_with(['v', 'V']) && !digits.is_empty();
    is_version.then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mailbox_is_split_where_git_splits_it() {
        let text = b"From 1234 Mon Sep 17 00:00:00 2001\nSubject: a\n\nFrom here on, it is\n\
            From git@z Thu Jan  1 00:00:00 1970\nSubject: b\n\n>From x Thu Jan  1 00:00:00 1970\n";
        let mails = split_mailbox(text);
        assert_eq!(mails.len(), 2);
        assert_eq!(mails[0], b"Subject: a\n\nFrom here on, it is\n");
        assert_eq!(
            unquote_from_lines(mails[1]),
            b"Subject: b\n\nFrom x Thu Jan  1 00:00:00 1970\n"
        );
        assert_eq!(split_mailbox(b"Subject: a\n"), [b"Subject: a\n"]);
        assert_eq!(split_mailbox(b""), [b""]);
    }

    fn series_position(version: u32, number: u32, total: u32) -> Option<SeriesPosition> {
        Some(SeriesPosition { version, total, number })
    }

    #[test]
    fn subjects_have_a_position_a_version_and_a_title() {
        for (text, position, title) in [
            ("[PATCH v2 3/7] mm: a", series_position(2, 3, 7), "mm: a"),
            ("[PATCH 03/17 v4] mm: a", series_position(4, 3, 17), "mm: a"),
            ("[RFC][PATCHv3 net-next,1/2] [x] a", series_position(3, 1, 2), "a"),
            ("[PATCH RESEND v10 0/2] cover", series_position(10, 0, 2), "cover"),
            ("[PATCH] mm: a", None, "mm: a"),
            ("mm: a [1/2]", None, "mm: a [1/2]"),
            ("[PATCH 3/2] a", None, "a"),
            ("[PATCH", None, "[PATCH"),
        ] {
            let expected = MailSubject { position, is_reply: false, title: title.to_owned() };
            assert_eq!(MailSubject::parse(text), expected, "{text}");
        }
        let reply = MailSubject::parse("Re: [PATCH v2 1/2] a");
        assert!(reply.is_reply && reply.position == series_position(2, 1, 2));
    }
}
