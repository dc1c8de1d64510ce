//! Reads where a mail stands in its series: `[PATCH v2 3/7] mm: …`.

/// A mail's place in a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub version: u32,
    pub total: u32,
    /// 0 is the cover letter.
    pub number: u32,
}

/// What a subject says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Subject {
    pub position: Option<Position>,
    pub is_reply: bool,
    /// The subject without its brackets.
    pub title: String,
}

impl Subject {
    pub(super) fn parse(text: &str) -> Subject {
        let mut rest = text.trim();
        let mut subject = Subject::default();
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
                    subject.position = Some(Position { version, total, number });
                }
            }
            rest = after.trim_start();
        }
        // The version may stand behind the number.
        if let Some(position) = &mut subject.position {
            position.version = version;
        }
        subject.title = rest.to_owned();
        subject
    }
}

/// The version in a tag: `v2`, `PATCHv2`.
fn version_in(tag: &str) -> Option<u32> {
    let digits = tag.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let letters = &tag[..tag.len() - digits.len()];
    let is_version = letters.ends_with(['v', 'V']) && !digits.is_empty();
    is_version.then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(version: u32, number: u32, total: u32) -> Option<Position> {
        Some(Position { version, total, number })
    }

    #[test]
    fn a_subject_says_which_patch_of_which_series_it_is() {
        for (text, position, title) in [
            ("[PATCH v2 3/7] mm: a", place(2, 3, 7), "mm: a"),
            ("[PATCH 03/17 v4] mm: a", place(4, 3, 17), "mm: a"),
            ("[RFC][PATCHv3 net-next,1/2] [x] a", place(3, 1, 2), "a"),
            ("[PATCH RESEND v10 0/2] cover", place(10, 0, 2), "cover"),
            ("[PATCH] mm: a", None, "mm: a"),
            ("mm: a [1/2]", None, "mm: a [1/2]"),
            ("[PATCH 3/2] a", None, "a"),
            ("[PATCH", None, "[PATCH"),
        ] {
            let expected = Subject { position, is_reply: false, title: title.to_owned() };
            assert_eq!(Subject::parse(text), expected, "{text}");
        }
        let reply = Subject::parse("Re: [PATCH v2 1/2] a");
        assert!(reply.is_reply && reply.position == place(2, 1, 2));
    }
}
