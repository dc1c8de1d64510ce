//! What the text report says, the page says too, with scripts and without.

use std::collections::BTreeSet;

use ktax::report::TEXT;

use super::{all, is_missing, look};
use crate::golden::{every, shown_wide};

/// The words of a page, however deep they are folded.
const WORDS: &str = "
    const body = page.document.body;
    body.querySelectorAll('script, style').forEach((one) => one.remove());
    body.querySelectorAll('td, th, p, li, text, figcaption').forEach((one) => one.append(' '));
    say(body.textContent.replace(/\\s+/g, ' '));";

/// The digits of all numbers, in parts: `9 178.25` is `9` and `178.25`.
fn numbers(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_digit() && c != '.');
    let words = words.map(|word| word.trim_matches('.'));
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// What the text says, but for the sums of functions that it leaves out: a page leaves out others.
fn told(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.contains(" more function"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_number_of_the_text_is_on_the_page_with_and_without_scripts() {
    if is_missing() {
        return;
    }
    // The second kind of frame runs no script.
    for attributes in ["", "sandbox=allow-same-origin"] {
        let (said, _) = look(&all(), attributes, "", WORDS);
        for ((name, result), words) in every().zip(&said) {
            let (_, words) = words.split_once(": ").unwrap();
            let (expected, found) = (numbers(&told(&shown_wide(&result, TEXT))), numbers(words));
            let missing: Vec<&String> = expected.difference(&found).collect();
            assert!(missing.is_empty(), "{name} {attributes}: {missing:?}");
        }
    }
}

#[test]
fn a_number_is_taken_apart_at_its_blanks() {
    assert_eq!(numbers("+9 178.25 of 7."), ["7", "9", "178.25"].map(str::to_owned).into());
}
