/// The name that shares the longest beginning with what was typed, if that is half of it.
pub fn nearest<'a>(names: impl IntoIterator<Item = &'a str>, typed: &str) -> Option<String> {
    let shared = |other: &str| {
        typed.bytes().zip(other.bytes()).take_while(|(left, right)| left == right).count()
    };
    names
        .into_iter()
        .map(|name| (shared(name), name))
        .filter(|(length, _)| *length * 2 >= typed.len().max(2))
        .max_by_key(|(length, _)| *length)
        .map(|(_, name)| name.to_owned())
}
