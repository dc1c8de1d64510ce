//! Benchmarks of others that print how much they did, known by how they print it.

use std::sync::LazyLock;

use regex::bytes::Regex;

use ktax_engine::wire::Printed;

/// A suite, and where it prints its operations: the first group of each match is a number, and
/// they add up.
struct Suite {
    name: &'static str,
    /// What it prints besides, so that no other program is taken for it.
    known_by: Regex,
    operations: Regex,
}

fn expression(text: &str) -> Regex {
    Regex::new(text).expect("a test compiles every expression")
}

static SUITES: LazyLock<[Suite; 3]> = LazyLock::new(|| {
    [
        // Copies that run beside each other print a line each.
        Suite {
            name: "unixbench",
            known_by: expression(r"(?m)^COUNT\|\d+\|\d+\|\w+\s*$"),
            operations: expression(r"(?m)^COUNT\|(\d+)\|\d+\|\w+\s*$"),
        },
        // A line for each second.
        Suite {
            name: "will-it-scale",
            known_by: expression(r"(?m)^testcase:.+$"),
            operations: expression(r"(?m)^min:\d+ max:\d+ total:(\d+)\s*$"),
        },
        // A line for each stressor.
        Suite {
            name: "stress-ng",
            known_by: expression(r"(?m)^stress-ng: \w+:\s+\[\d+\] stressor\s+bogo ops"),
            operations: expression(
                r"(?m)^stress-ng: \w+:\s+\[\d+\] [a-z0-9_-]+\s+(\d+)\s+\d+\.\d+\s+\d+\.\d+\s",
            ),
        },
    ]
});

/// The suite that printed this, and its operations; `None` of other programs.
pub(super) fn recognised(printed: &Printed) -> Option<(&'static str, u64)> {
    let texts = [printed.stdout.text(), printed.stderr.text()];
    SUITES.iter().find_map(|suite| {
        let known = |text: &&Vec<u8>| suite.known_by.is_match(text);
        let text = texts.iter().find(known)?;
        let numbers = suite.operations.captures_iter(text).filter_map(|groups| {
            std::str::from_utf8(groups.get(1)?.as_bytes()).ok()?.parse::<u64>().ok()
        });
        let sum = numbers.fold(0, u64::saturating_add);
        (sum > 0).then_some((suite.name, sum))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_engine::wire::PrintedText;

    #[test]
    fn suites_are_known_by_what_they_print() {
        let on_stderr = |text: &str| {
            let stderr = PrintedText { begin: text.into(), ..PrintedText::default() };
            recognised(&Printed { stderr, ..Printed::default() })
        };
        assert_eq!(on_stderr("COUNT|29616|1|lps\n"), Some(("unixbench", 29_616)));
        assert_eq!(on_stderr("COUNT|10|1|lps\nCOUNT|7|1|lps\n"), Some(("unixbench", 17)));
        assert_eq!(
            on_stderr(
                "testcase:getppid()\nwarmup\nmin:900 max:900 total:900\nmeasurement\n\
                 min:1000 max:1000 total:1000\naverage:1000\n"
            ),
            Some(("will-it-scale", 1900))
        );
        assert_eq!(
            on_stderr(
                "stress-ng: info:  [7] dispatching hogs: 1 getdent\n\
                 stress-ng: metrc: [7] stressor       bogo ops real time  usr time  sys time   \
                 bogo ops/s     bogo ops/s\n\
                 stress-ng: metrc: [7]                           (secs)    (secs)    (secs)   \
                 (real time) (usr+sys time)\n\
                 stress-ng: metrc: [7] getdent             200      0.02      0.01      0.01     \
                 9876.54       10000.00\n"
            ),
            Some(("stress-ng", 200))
        );
        for other in ["COUNT|x|1|lps\n", "min:1 max:1 total:1\n", "200 0.02 0.01\n", ""] {
            assert_eq!(on_stderr(other), None, "{other}");
        }
    }
}
