//! What counting can leave out, to measure what it takes: nothing else is counted differently.

use crate::exact::{engine, order, request};
use ktax::engine::exact::Paths;

const ROW: &str = "getppid:ops=500";

/// The kinds of a profile's lines that can be left out.
const KINDS: [&str; 3] = ["path", "costly", "path-costly"];

#[test]
fn paths_and_costly_instructions_are_left_out_and_all_else_is_the_same() {
    let (engine, request) = (engine(None), request());
    let order = order(ROW, &request);
    let [all, pathless, plain] = [Paths::Followed, Paths::LeftOut, Paths::LeftOutWithCostly]
        .map(|paths| engine.boot_with(&request, paths).unwrap().run(&order).unwrap().profile);
    let kind = |line: &str| KINDS.into_iter().find(|kind| line.split('\t').next() == Some(kind));
    let found = |profile: &str| KINDS.map(|of| profile.lines().any(|line| kind(line) == Some(of)));
    assert_eq!(
        [&all, &pathless, &plain].map(|profile| found(profile)),
        [[true, true, true], [false, true, false], [false, false, false]]
    );
    let rest = |profile: &str| {
        let lines = profile.lines().filter(|line| kind(line).is_none());
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(rest(&all), rest(&pathless));
    assert_eq!(rest(&all), rest(&plain));
}
