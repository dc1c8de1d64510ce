//! Mails as they come, each with the patches that git would find in it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

use super::*;

/// A mail or a diff of `tests/data/patches`.
macro_rules! data {
    ($name:literal) => {
        &include_bytes!(concat!("../../../../tests/data/patches/", $name))[..]
    };
}

/// The lines that a file has after all hunks, for a file that the hunks of one patch do not move.
fn changed_lines(patches: &[Patch]) -> Vec<(char, String)> {
    let hunks = patches.iter().flat_map(|patch| &patch.diff.files).flat_map(|file| &file.hunks);
    hunks.flat_map(|hunk| hunk.lines.clone()).filter(|(sign, _)| *sign != ' ').collect()
}

#[test]
fn a_series_has_the_same_patches_however_it_was_mailed() {
    let series = read(data!("format-patch.mbox")).unwrap();
    let names: Vec<&str> = series.iter().map(|patch| patch.name.as_str()).collect();
    assert_eq!(names, ["1/2 kernel/sys: answer größere Zahlen", "2/2 kernel/sys: count"]);
    assert!(series.iter().all(|patch| patch.diff.files[0].path == "kernel/sys.c"));
    assert!(changed_lines(&series).contains(&('-', "\tif (flags == 1)".to_owned())));
    for (name, mails) in [
        ("quoted-printable", data!("quoted-printable.mbx")),
        ("base64", data!("base64.mbx")),
        ("8bit-crlf", data!("8bit-crlf.mbx")),
        ("flowed", data!("flowed.mbx")),
        ("labelled-flowed", data!("labelled-flowed.mbx")),
        ("multipart", data!("multipart.mbx")),
        ("b4", data!("b4.mbx")),
        ("thread", data!("thread.mbx")),
    ] {
        let found = read(mails).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (patch, expected) in found.iter().zip(&series) {
            assert_eq!((&patch.name, &patch.diff), (&expected.name, &expected.diff), "{name}");
        }
        assert_eq!(found.len(), series.len(), "{name}");
    }
    let attached = read(data!("attachments.eml")).unwrap();
    assert_eq!(attached.len(), 2);
    assert_eq!(changed_lines(&attached), changed_lines(&series));
}

#[test]
fn a_plain_diff_is_one_patch_with_or_without_prefixes() {
    let plain = read(data!("plain.diff")).unwrap();
    assert_eq!((plain.len(), plain[0].name.as_str(), plain[0].diff.strip), (1, "", 1));
    assert_eq!(plain[0].bytes, data!("plain.diff"));
    assert_eq!(read(data!("crlf.diff")).unwrap(), plain);
    let bare = read(data!("no-prefix.diff")).unwrap();
    assert_eq!((bare[0].diff.strip, &bare[0].diff.files), (0, &plain[0].diff.files));
}

#[test]
fn diffs_that_cannot_apply_are_refused_with_the_reason() {
    let refused = |bytes: &[u8]| read(bytes).unwrap_err();
    for nothing in [data!("cover-only.eml"), b"", b"int f;\n", b"From: a\n\nhello\n"] {
        assert_eq!(refused(nothing).message(), "it contains no diff");
    }
    let wrapped = refused(data!("wrapped.eml")).to_string();
    assert!(wrapped.starts_with("line 20 of the diff of \"1/2 kernel/sys: "), "{wrapped}");
    for (bytes, problem) in [
        (data!("gap.mbx"), "it contains other patches of the series, but not 2/3"),
        (data!("versions.mbx"), "it contains several series (v1 of 1, v2 of 1)"),
        (data!("project.diff"), "it changes src/main.rs, and no directory of a kernel tree"),
        (&data!("plain.diff")[..300], "line "),
    ] {
        let error = refused(bytes).to_string();
        assert!(error.starts_with(problem), "{error}");
    }
}

/// Quoted-printable as mail programs write it: `=` and bytes beyond ASCII as hexadecimal, long
/// lines broken softly.
fn quoted_printable(text: &[u8]) -> Vec<u8> {
    let mut quoted = String::new();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let mut width = 0;
        for byte in line {
            let encoded = match byte {
                b'\n' => "\n".to_owned(),
                b'=' | b' ' | b'\t' | 0..=31 | 127.. => format!("={byte:02X}"),
                plain => char::from(*plain).to_string(),
            };
            if width + encoded.len() > 72 {
                quoted.push_str("=\n");
                width = 0;
            }
            width += encoded.len();
            quoted.push_str(&encoded);
        }
    }
    quoted.into_bytes()
}

fn mail(encoding: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "Subject: [PATCH] a\nContent-Type: text/plain; charset=utf-8\n\
         Content-Transfer-Encoding: {encoding}\n\n"
    );
    [head.as_bytes(), body].concat()
}

/// A diff whose lines are any text without line ends.
fn diff_of(lines: &[(char, String)]) -> Vec<u8> {
    let count = |sign: char| lines.iter().filter(|(other, _)| *other != sign).count();
    let mut text = format!(
        "--- a/mm/a.c\n+++ b/mm/a.c\n@@ -1,{} +1,{} @@ int f(void)\n",
        count('+'),
        count('-')
    );
    lines.iter().for_each(|(sign, line)| text += &format!("{sign}{line}\n"));
    text.into_bytes()
}

proptest! {
    #[test]
    fn an_encoding_changes_no_byte_of_a_diff(
        lines in prop::collection::vec(
            (prop::sample::select(vec![' ', '-', '+']), "[ \t=a-zé>.{}A-Z]{0,90}"),
            1..12,
        ),
    ) {
        let diff = diff_of(&lines);
        let base64 = STANDARD.encode(&diff);
        let crlf = String::from_utf8(diff.clone()).unwrap().replace('\n', "\r\n");
        for mail in [
            mail("8bit", &diff),
            mail("8bit", crlf.as_bytes()),
            mail("quoted-printable", &quoted_printable(&diff)),
            mail("base64", base64.as_bytes()),
        ] {
            let patches = read(&mail).unwrap();
            prop_assert_eq!(&patches[0].bytes, &diff);
            prop_assert_eq!(&patches[0].diff.files[0].hunks[0].lines, &lines);
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        start in 0usize..4000,
    ) {
        let _ = read(&bytes);
        for text in [data!("multipart.mbx"), data!("quoted-printable.mbx"), data!("flowed.mbx")] {
            let mut mutant = text.to_vec();
            let start = start.min(mutant.len());
            let end = mutant.len().min(start + bytes.len() / 20);
            mutant[start..end].copy_from_slice(&bytes[..end - start]);
            let _ = read(&mutant);
        }
    }
}
