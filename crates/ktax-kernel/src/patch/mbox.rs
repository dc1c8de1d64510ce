//! Splits a mailbox into mails, at the same lines as `git mailsplit`.

/// The mails of a mailbox; one that is no mailbox is one mail.
pub(super) fn mails(bytes: &[u8]) -> Vec<&[u8]> {
    let mut starts = Vec::new();
    let mut at = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if is_from_line(line) {
            starts.push((at, at + line.len()));
        }
        at += line.len();
    }
    if starts.first().is_none_or(|(start, _)| *start > 0) {
        starts.insert(0, (0, 0));
    }
    let ends = starts.iter().skip(1).map(|(next, _)| *next).chain([bytes.len()]);
    starts.iter().zip(ends).map(|((_, body), end)| &bytes[*body..end]).collect()
}

/// Whether a line separates mails: `From ` and something that ends with a time and a year. A text
/// may begin a line with "From " too.
fn is_from_line(line: &[u8]) -> bool {
    let Some(rest) = line.strip_prefix(b"From ") else { return false };
    let Some(colon) = rest.iter().rposition(|byte| *byte == b':') else { return false };
    let digit = |at: usize| rest.get(at).is_some_and(u8::is_ascii_digit);
    let has_time = colon >= 2 && digit(colon - 1) && digit(colon - 2);
    if !(has_time && digit(colon + 1) && digit(colon + 2)) {
        return false;
    }
    let after = String::from_utf8_lossy(&rest[colon + 3..]);
    let mut numbers = after.split_whitespace().filter_map(|word| word.parse::<u32>().ok());
    numbers.any(|year| year >= 1970)
}

/// Undoes the quoting of mailboxes: `>From `, which would have separated mails.
pub(super) fn unquoted(mail: &[u8]) -> Vec<u8> {
    let lines = mail.split_inclusive(|byte| *byte == b'\n');
    let unquote = |line: &'_ [u8]| line.strip_prefix(b">").is_some_and(is_from_line);
    lines.flat_map(|line| &line[usize::from(unquote(line))..]).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mailbox_is_split_where_git_splits_it() {
        let text = b"From 1234 Mon Sep 17 00:00:00 2001\nSubject: a\n\nFrom here on, it is\n\
            From git@z Thu Jan  1 00:00:00 1970\nSubject: b\n\n>From x Thu Jan  1 00:00:00 1970\n";
        let all = mails(text);
        assert_eq!(all.len(), 2);
        assert_eq!(all[0], b"Subject: a\n\nFrom here on, it is\n");
        assert_eq!(unquoted(all[1]), b"Subject: b\n\nFrom x Thu Jan  1 00:00:00 1970\n");
        assert_eq!(mails(b"Subject: a\n"), [b"Subject: a\n"]);
        assert_eq!(mails(b""), [b""]);
    }
}
