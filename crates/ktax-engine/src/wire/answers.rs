use super::VERSION;

/// Splits the output of a guest with several orders: its hello, then one answer to each order.
/// Each part begins with its version line. The last part may be cut off anywhere. Joined, the parts
/// are the whole output.
pub fn split_answers(wire: &[u8]) -> Vec<&[u8]> {
    let version = VERSION.as_bytes();
    let (mut parts, mut start, mut at) = (Vec::new(), 0, 0);
    for line in wire.split_inclusive(|byte| *byte == b'\n') {
        let begins = match line.strip_suffix(b"\n") {
            Some(whole) => whole == version,
            None => version.starts_with(line),
        };
        if begins && at > start {
            parts.push(&wire[start..at]);
            start = at;
        }
        at += line.len();
    }
    if start < wire.len() {
        parts.push(&wire[start..]);
    }
    parts
}

/// Whether the answer is complete: its last line is `end`, or one of them is a reason, after which
/// other threads may have said a number.
pub fn is_finished(answer: &[u8]) -> bool {
    let Some(lines) = answer.strip_suffix(b"\n") else { return false };
    let mut lines = lines.rsplit(|byte| *byte == b'\n').peekable();
    lines.peek() == Some(&&b"end"[..]) || lines.any(|line| line.starts_with(b"fail "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HELLO: &str = "ktax 1\nrelease 6.12.0\nready\n";

    fn an_answer() -> impl Strategy<Value = String> {
        // Lines of any kind, except those that begin or end an answer.
        let line = "([ -jl-~][ -~]{0,12})?";
        let ends = |line: &String| line == "end" || line.starts_with("fail ");
        let line = line.prop_filter("the end of an answer", move |line| !ends(line));
        let lines = prop::collection::vec(line, 0..6);
        lines.prop_map(|lines| {
            let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
            format!("{VERSION}\n{lines}end\n")
        })
    }

    proptest! {
        #[test]
        fn what_was_joined_comes_apart_again(
            answers in prop::collection::vec(an_answer(), 0..6),
            torn in 0usize..40,
        ) {
            let all = HELLO.to_owned() + &answers.concat();
            let parts = split_answers(all.as_bytes());
            prop_assert_eq!(parts.len(), answers.len() + 1);
            prop_assert_eq!(parts[0], HELLO.as_bytes());
            for (part, answer) in parts[1..].iter().zip(&answers) {
                prop_assert_eq!(*part, answer.as_bytes());
                prop_assert!(is_finished(part));
            }
            // Wherever the last part is cut off, the parts before it stay the same.
            let whole = parts.len() - 1;
            let torn = torn.min(parts[whole].len() - 1);
            let left = split_answers(&all.as_bytes()[..all.len() - torn]);
            prop_assert_eq!(&left[..whole], &parts[..whole]);
            prop_assert_eq!(left.len(), parts.len());
            prop_assert_eq!(is_finished(left[whole]), torn == 0 && whole > 0);
        }

        #[test]
        fn nothing_is_lost_of_any_bytes(wire in prop::collection::vec(
            prop_oneof![Just(b"ktax 1\n".to_vec()), Just(b"end\n".to_vec()), any::<Vec<u8>>()],
            0..12,
        )) {
            let wire = wire.concat();
            let parts = split_answers(&wire);
            prop_assert_eq!(parts.concat(), &wire[..]);
            for (place, part) in parts.iter().enumerate().skip(1) {
                let is_last = place == parts.len() - 1;
                let torn = is_last && b"ktax 1".starts_with(part);
                prop_assert!(part.starts_with(b"ktax 1\n") || torn);
                prop_assert!(!part.windows(8).any(|at| at == b"\nktax 1\n"));
            }
        }
    }

    #[test]
    fn an_answer_is_finished_by_its_last_line() {
        for (answer, finished) in [
            ("ktax 1\nstart pipe\nsig calls 7\nend\n", true),
            ("ktax 1\nstart pipe\nfail mmap: no\n", true),
            ("ktax 1\nfail order: no such workload in this guest\n", true),
            ("ktax 1\nstart pipe\nfail no\nsig calls 7\n", true),
            ("ktax 1\nstart pipe\nfail no\nsig ca", false),
            ("ktax 1\nstart pipe\nfail no", false),
            ("ktax 1\nstart pipe\nsig calls 7\nend", false),
            ("ktax 1\nstart pipe\nsig calls 7\n", false),
            ("ktax 1\nstart pipe\nsig calls 7\nbend\n", false),
            ("ktax 1\n", false),
            ("", false),
        ] {
            assert_eq!(is_finished(answer.as_bytes()), finished, "{answer:?}");
        }
    }
}
