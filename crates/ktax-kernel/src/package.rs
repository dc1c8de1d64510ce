//! Names and versions of Debian packages.
//!
//! Source: Debian Policy 5.6.1 and 5.6.12, `deb-version(7)`.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

/// One version of a Debian package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// For example `linux-image-6.1.0-50-cloud-amd64`.
    pub name: String,
    /// For example `6.1.176-1`.
    pub version: String,
}

impl Package {
    /// `None` if the name or the version breaks the rules of Debian Policy 5.6.
    pub(super) fn new(name: &str, version: &str) -> Option<Self> {
        (is_package_name(name) && is_version(version))
            .then(|| Self { name: name.to_owned(), version: version.to_owned() })
    }
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.version)
    }
}

/// Whether `name` follows Debian Policy 5.6.1. Such a name is safe in an argument and a file name.
pub(super) fn is_package_name(name: &str) -> bool {
    let rest = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(&b);
    (2..=120).contains(&name.len())
        && name.bytes().all(rest)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Whether `version` follows Debian Policy 5.6.12. Such a version is safe in an argument and a file
/// name.
pub(super) fn is_version(version: &str) -> bool {
    (1..=100).contains(&version.len())
        && version.bytes().all(|b| b.is_ascii_alphanumeric() || b".+-~:".contains(&b))
        && version.starts_with(|c: char| c.is_ascii_digit())
}

/// Compares two versions, `[epoch:]upstream[-revision]`, as dpkg does.
pub(super) fn compare_versions(a: &str, b: &str) -> Ordering {
    let (epoch_a, rest_a) = split_epoch(a);
    let (epoch_b, rest_b) = split_epoch(b);
    let (upstream_a, revision_a) = split_revision(rest_a);
    let (upstream_b, revision_b) = split_revision(rest_b);
    compare_numbers(epoch_a, epoch_b)
        .then_with(|| compare_parts(upstream_a, upstream_b))
        .then_with(|| compare_parts(revision_a, revision_b))
}

fn split_epoch(version: &str) -> (&str, &str) {
    version.split_once(':').unwrap_or(("", version))
}

fn split_revision(version: &str) -> (&str, &str) {
    version.rsplit_once('-').unwrap_or((version, ""))
}

/// Compares non-digits by character and digits by value, in turn.
fn compare_parts(mut a: &str, mut b: &str) -> Ordering {
    loop {
        let (word_a, rest_a) = split_while(a, |c| !c.is_ascii_digit());
        let (word_b, rest_b) = split_while(b, |c| !c.is_ascii_digit());
        let (digits_a, rest_a) = split_while(rest_a, |c| c.is_ascii_digit());
        let (digits_b, rest_b) = split_while(rest_b, |c| c.is_ascii_digit());
        let order = compare_words(word_a, word_b).then_with(|| compare_numbers(digits_a, digits_b));
        if order != Ordering::Equal || (rest_a.is_empty() && rest_b.is_empty()) {
            return order;
        }
        (a, b) = (rest_a, rest_b);
    }
}

fn split_while(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// `~` sorts before the end, the end before letters, letters before the rest.
fn compare_words(a: &str, b: &str) -> Ordering {
    let weight = |c: char| match c {
        '~' => -1,
        c if c.is_ascii_alphabetic() => i64::from(u32::from(c)),
        c => i64::from(u32::from(c)) + 0x0011_0000,
    };
    let padded = |text: &str| text.chars().map(weight).collect::<Vec<_>>();
    let (a, b) = (padded(a), padded(b));
    let weight_at = |side: &[i64], i: usize| side.get(i).copied().unwrap_or(0);
    let differs = (0..a.len().max(b.len())).map(|i| weight_at(&a, i).cmp(&weight_at(&b, i)));
    differs.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Compares digits of any length by value.
fn compare_numbers(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
                assert_eq!(compare_versions(a, b), i.cmp(&j), "{a} {b}");
            }
        }
        assert_eq!(compare_versions("0:1.00-0", "1.0"), Ordering::Equal);
    }

    proptest! {
        #[test]
        fn the_order_is_total(
            a in "[0-9a~.+:-]{0,9}",
            b in "[0-9a~.+:-]{0,9}",
            c in "[0-9a~-]{0,9}",
        ) {
            prop_assert_eq!(compare_versions(&a, &b), compare_versions(&b, &a).reverse());
            prop_assert_eq!(compare_versions(&a, &a), Ordering::Equal);
            if compare_versions(&a, &b).is_le() && compare_versions(&b, &c).is_le() {
                prop_assert!(compare_versions(&a, &c).is_le());
            }
        }
    }
}
