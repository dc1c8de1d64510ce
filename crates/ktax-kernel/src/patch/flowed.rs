//! Undoes `format=flowed` (RFC 3676), in which mail programs stuff and break lines.

use super::diff::Diff;

/// The text as it was before the mail program made it flow. Programs label patches as flowed that
/// they left alone, so the first reading whose hunks are whole is the right one.
pub(super) fn undone(text: Vec<u8>, is_space_deleted: bool) -> Vec<u8> {
    let unstuffed = unstuffed(&text);
    let readings = [joined(&unstuffed, is_space_deleted), unstuffed];
    readings.into_iter().find(|reading| is_whole(reading)).unwrap_or(text)
}

fn is_whole(text: &[u8]) -> bool {
    Diff::read(text).is_ok_and(|diff| !diff.files.is_empty())
}

/// Removes the space in front of lines that begin with one.
fn unstuffed(text: &[u8]) -> Vec<u8> {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    lines.flat_map(|line| line.strip_prefix(b" ").unwrap_or(line)).copied().collect()
}

/// Joins lines that end with a space to the next one.
fn joined(text: &[u8], is_space_deleted: bool) -> Vec<u8> {
    let mut joined = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let content = line.strip_suffix(b"\n").unwrap_or(line);
        let content = content.strip_suffix(b"\r").unwrap_or(content);
        // The line before a signature is no broken one.
        match content.strip_suffix(b" ").filter(|_| content != b"-- ") {
            Some(before) if is_space_deleted => joined.extend(before),
            Some(_) => joined.extend(content),
            None => joined.extend(line),
        }
    }
    joined
}
