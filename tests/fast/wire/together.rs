//! Of many threads and processes that fail at once one says why, and no other reason follows.

use std::process::Stdio;

use ktax::wire::{Answer, parse_answer};

use super::guest::guest;

#[test]
fn one_of_many_that_fail_at_once_is_heard() {
    for counts in ["threads=16 processes=0", "threads=0 processes=16", "threads=4 processes=4"] {
        for _ in 0..40 {
            let mut command = guest();
            command.args(["bad-together", "ops=1"]).args(counts.split(' '));
            let output = command.stdout(Stdio::piped()).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            match parse_answer(&output.stdout, "bad-together") {
                Ok(Answer::Refused(why)) => {
                    assert_eq!(why, "together: not the result it must have", "{counts}: {text}");
                }
                other => panic!("{counts}: {other:?}\n{text}"),
            }
        }
    }
}
