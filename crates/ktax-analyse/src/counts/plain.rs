//! Names of functions, as both Sides have them.

/// What compilers append to a symbol, each with or without a number: inter-procedural clones, split
/// parts, link-time renames. Two builds rarely agree on them, and they mean the same function.
const SUFFIXES: [&str; 6] = ["cold", "constprop", "isra", "llvm", "lto_priv", "part"];

/// The symbol without the compiler's suffixes: `f` for `f.constprop.0.isra.0.cold`.
pub fn plain(mut symbol: &str) -> &str {
    while let Some(shorter) = without_one_suffix(symbol) {
        symbol = shorter;
    }
    symbol
}

fn without_one_suffix(symbol: &str) -> Option<&str> {
    let (mut head, mut word) = symbol.rsplit_once('.')?;
    if !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit()) {
        (head, word) = head.rsplit_once('.')?;
    }
    (!head.is_empty() && SUFFIXES.contains(&word)).then_some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_go_however_many_there_are() {
        for (symbol, expected) in [
            ("do_fork", "do_fork"),
            ("f.isra.0", "f"),
            ("f.constprop.0.isra.12", "f"),
            ("f.part.0.cold", "f"),
            ("f.cold.3", "f"),
            ("f.llvm.1234567890", "f"),
            ("f.lto_priv.0", "f"),
            ("[user]", "[user]"),
            ("f.12", "f.12"), // a number of something else
            ("__key.cold_start", "__key.cold_start"),
            (".cold", ".cold"), // nothing would remain
            ("f.", "f."),
        ] {
            assert_eq!(plain(symbol), expected, "{symbol}");
        }
    }
}
