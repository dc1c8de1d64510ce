/// Names that are less alike than this were not mistyped: the value that clap uses for options.
const ALIKE: f64 = 0.7;

/// The known name that is most like what was typed, if it is like it.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let alike = known.into_iter().map(|name| (strsim::jaro(typed, name), name));
    let alike = alike.filter(|(alike, _)| *alike > ALIKE);
    alike.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_mistyped_name_is_found_and_another_one_is_not() {
        let known = ["vm.swappiness", "vm.overcommit_memory", "kernel.pid_max"];
        assert_eq!(nearest("vm.swapiness", known), Some("vm.swappiness"));
        assert_eq!(nearest("kernel.max_pid", known), Some("kernel.pid_max"));
        assert_eq!(nearest("x", known), None);
        assert_eq!(nearest("", known), None);
    }
}
