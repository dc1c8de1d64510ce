//! Takes the diff out of a mail.

use mailparse::{DispositionType, MailHeaderMap, ParsedMail, parse_mail};

use super::diff::Diff;
use super::error::PatchError;
use super::flowed;
use super::subject::Subject;
use ktax_host::text::escape;

/// A mail may be attached to a mail, but not much deeper.
const DEEPEST: usize = 3;

/// One mail: what its subject says, and the texts in it that have a diff.
pub(super) struct Mail {
    pub subject: Subject,
    pub diffs: Vec<Vec<u8>>,
}

/// Whether bytes begin with the head of a mail. A diff, or what `git show` prints, does not.
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
    /// # Errors
    /// [`PatchError::Mail`] if the mail is none.
    pub(super) fn read(bytes: &[u8]) -> Result<Mail, PatchError> {
        let mail = parse_mail(bytes).map_err(unreadable)?;
        let subject = mail.headers.get_first_value("Subject").unwrap_or_default();
        let mut diffs = Vec::new();
        collect(&mail, DEEPEST, &mut diffs)?;
        Ok(Mail { subject: Subject::parse(&subject), diffs })
    }
}

/// Adds the texts with a diff of a part and those below it, each once.
fn collect(
    part: &ParsedMail<'_>,
    deepest: usize,
    diffs: &mut Vec<Vec<u8>>,
) -> Result<(), PatchError> {
    for below in &part.subparts {
        collect(below, deepest, diffs)?;
    }
    if !part.subparts.is_empty() || !may_have_diff(part) {
        return Ok(());
    }
    let mut text = part.get_body_raw().map_err(unreadable)?;
    if is_mail(&text) && deepest > 0 && is_attached(part) {
        let inner = parse_mail(&text).map_err(unreadable)?;
        return collect(&inner, deepest - 1, diffs);
    }
    let params = &part.ctype.params;
    let is_set = |name: &str, value: &str| {
        params.get(name).is_some_and(|found| found.eq_ignore_ascii_case(value))
    };
    text = without_crlf(text);
    if is_set("format", "flowed") {
        text = flowed::undone(text, is_set("delsp", "yes"));
    }
    let has_diff = match Diff::read(&text) {
        Ok(diff) => !diff.files.is_empty(),
        // It is one, and somebody has to hear that it is damaged.
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

/// Whether a part is read: text, or a file that is called a patch. HTML repeats the text.
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

/// Removes the carriage returns that a transport has added: those are at the heads of the diff
/// too. In a patch of a file with CRLF only the lines of the file have them.
pub(super) fn without_crlf(text: Vec<u8>) -> Vec<u8> {
    let lines = || text.split_inclusive(|byte| *byte == b'\n');
    let is_head = |line: &&[u8]| line.starts_with(b"@@ -") || line.starts_with(b"+++ ");
    if !lines().filter(is_head).any(|line| line.ends_with(b"\r\n")) {
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

fn unreadable(error: mailparse::MailParseError) -> PatchError {
    PatchError::Mail { reason: escape(&error.to_string()) }
}
