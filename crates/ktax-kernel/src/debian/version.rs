//! Compares Debian package versions.
//!
//! Source: Debian Policy 5.6.12, `deb-version(7)`.

use std::cmp::Ordering;

/// Compares two versions, `[epoch:]upstream[-revision]`, as dpkg does.
pub(super) fn compare(a: &str, b: &str) -> Ordering {
    let (epoch_a, rest_a) = epoch(a);
    let (epoch_b, rest_b) = epoch(b);
    let (upstream_a, revision_a) = revision(rest_a);
    let (upstream_b, revision_b) = revision(rest_b);
    number(epoch_a, epoch_b)
        .then_with(|| part(upstream_a, upstream_b))
        .then_with(|| part(revision_a, revision_b))
}

fn epoch(version: &str) -> (&str, &str) {
    version.split_once(':').unwrap_or(("", version))
}

fn revision(version: &str) -> (&str, &str) {
    version.rsplit_once('-').unwrap_or((version, ""))
}

/// Compares non-digits by character and digits by value, in turn.
fn part(mut a: &str, mut b: &str) -> Ordering {
    loop {
        let (word_a, rest_a) = split(a, |c| !c.is_ascii_digit());
        let (word_b, rest_b) = split(b, |c| !c.is_ascii_digit());
        let (digits_a, rest_a) = split(rest_a, |c| c.is_ascii_digit());
        let (digits_b, rest_b) = split(rest_b, |c| c.is_ascii_digit());
        let order = word(word_a, word_b).then_with(|| number(digits_a, digits_b));
        if order != Ordering::Equal || (rest_a.is_empty() && rest_b.is_empty()) {
            return order;
        }
        (a, b) = (rest_a, rest_b);
    }
}

fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// `~` sorts before the end, the end before letters, letters before the rest.
fn word(a: &str, b: &str) -> Ordering {
    let weight = |c: char| match c {
        '~' => -1,
        c if c.is_ascii_alphabetic() => i64::from(u32::from(c)),
        c => i64::from(u32::from(c)) + 0x0011_0000,
    };
    let padded = |text: &str| text.chars().map(weight).collect::<Vec<_>>();
    let (a, b) = (padded(a), padded(b));
    let at = |side: &[i64], i: usize| side.get(i).copied().unwrap_or(0);
    let differs = (0..a.len().max(b.len())).map(|i| at(&a, i).cmp(&at(&b, i)));
    differs.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Compares digits of any length by value.
fn number(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn versions_sort_as_the_policy_says() {
        let rising = [
            "1.0~~",
            "1.0~~a",
            "1.0~",
            "1.0",
            "1.0a",
            "1.0+b",
            "6.1.9-1",
            "6.1.10-1",
            "6.1.176-1",
            "6.1.192-2~bpo1",
            "6.1.192-2",
            "6.1.192-2+b1",
            "6.1.192-10",
            "6.12.1-1~deb12u1",
            "6.12.1-1",
            "1:0",
        ];
        for (i, a) in rising.iter().enumerate() {
            for (j, b) in rising.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a} {b}");
            }
        }
        assert_eq!(compare("0:1.00-0", "1.0"), Ordering::Equal);
    }

    proptest! {
        #[test]
        fn the_order_is_total(
            a in "[0-9a~.+:-]{0,9}",
            b in "[0-9a~.+:-]{0,9}",
            c in "[0-9a~-]{0,9}",
        ) {
            prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
            prop_assert_eq!(compare(&a, &a), Ordering::Equal);
            if compare(&a, &b).is_le() && compare(&b, &c).is_le() {
                prop_assert!(compare(&a, &c).is_le());
            }
        }
    }
}
