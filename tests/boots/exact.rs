//! The exact engine as a library: what a user cannot ask of ktax.

use std::path::Path;

use ktax::engine::argv::CallPaths;
use ktax::engine::exact::Exact;
use ktax::engine::qemu::Qemu;
use ktax::engine::{Cancel, Limits, Request};
use ktax::kernel::Talk;
use ktax::model::{Layout, Machine, Subject};
use ktax::{kernel, plan, wire};

use crate::common::{KERNEL, cache};

/// With the cache of all tests.
pub fn engine(qemu: Option<&Path>) -> Exact {
    let qemu = Qemu::find(qemu).unwrap();
    Exact::new(qemu, &cache(), Limits::default(), Cancel::default()).unwrap()
}

/// A boot of the tests' kernel on the default machine.
pub fn request() -> Request {
    let talk = Talk { note: &|_| {}, status: &|_| {}, task: &|_| {}, is_cancelled: &|| false };
    let kernel =
        kernel::obtain(&Subject::new(KERNEL, ""), &cache().join("kernels"), &talk).unwrap();
    Request {
        image: kernel.image,
        image_sha256: kernel.identity.sha256,
        boot_line: String::new(),
        machine: Machine::default(),
        layout: Layout { seed: 1, padding: 0, phase: 0 },
        modules: None,
        side_programs: None,
        program: None,
    }
}

/// Line that tells the guest to run a built-in row.
pub fn order(row: &str, request: &Request) -> String {
    let definitions = plan::definitions().unwrap();
    let workload = &plan::select_rows(&definitions, Some(&[row.to_owned()])).unwrap()[0];
    wire::order(workload, &request.layout)
}

// Counting can leave out parts, to measure their overhead: the rest is counted alike.

const ROW: &str = "getppid:ops=500";

/// The kinds of a profile's lines that can be left out.
const KINDS: [&str; 3] = ["path", "costly", "path-costly"];

#[test]
#[ignore = "measures what users cannot ask for: make test-long"]
fn paths_and_costly_instructions_are_left_out_and_all_else_is_the_same() {
    let (engine, request) = (engine(None), request());
    let order = order(ROW, &request);
    let [followed, pathless, plain] =
        [CallPaths::Followed, CallPaths::NotFollowed, CallPaths::NotFollowedNorCostly].map(
            |paths| engine.boot_with_paths(&request, paths).unwrap().run(&order).unwrap().profile,
        );
    let kind = |line: &str| KINDS.into_iter().find(|kind| line.split('\t').next() == Some(kind));
    let found =
        |profile: &str| KINDS.map(|wanted| profile.lines().any(|line| kind(line) == Some(wanted)));
    assert_eq!(
        [&followed, &pathless, &plain].map(|profile| found(profile)),
        [[true, true, true], [false, true, false], [false, false, false]]
    );
    let rest = |profile: &str| {
        let lines = profile.lines().filter(|line| kind(line).is_none());
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(rest(&followed), rest(&pathless));
    assert_eq!(rest(&followed), rest(&plain));
}
