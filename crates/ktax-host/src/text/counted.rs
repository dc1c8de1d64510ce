/// How many there are: `1 pair`, `2 pairs`.
pub fn counted(count: usize, one: &str) -> String {
    counted_as(count, one, &format!("{one}s"))
}

/// The same of a word with a plural of its own: `1 patch`, `2 patches`.
pub fn counted_as(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}
