//! What the terminal can show.

/// Whether the user's locale has nothing but ASCII, as `LANG=C` says. Where nothing is set, as in
/// containers and CI, whoever reads the output takes UTF-8.
pub fn is_ascii() -> bool {
    let named = |name: &&str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(named);
    locale.is_some_and(|locale| !is_utf8(&locale))
}

/// `de_DE.UTF-8`, `C.utf8@euro`: the part behind the dot is the encoding.
fn is_utf8(locale: &str) -> bool {
    let encoding = locale.split('@').next().and_then(|locale| locale.split_once('.'));
    encoding.is_some_and(|(_, encoding)| {
        encoding.chars().filter(|c| *c != '-').collect::<String>().eq_ignore_ascii_case("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoding_is_behind_the_dot() {
        for (locale, expected) in [
            ("C", false),
            ("POSIX", false),
            ("de_DE", false),
            ("de_DE.ISO-8859-1", false),
            ("C.UTF-8", true),
            ("en_US.utf8", true),
            ("ca_ES.UTF-8@valencia", true),
        ] {
            assert_eq!(is_utf8(locale), expected, "{locale}");
        }
    }
}
