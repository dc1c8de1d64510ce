//! What counting can leave out, to measure what it takes: nothing else is counted differently.

use crate::common::{KERNEL, cache};
use ktax::engine::exact::{Exact, Paths};
use ktax::engine::qemu::Qemu;
use ktax::engine::{Cancel, Limits, Request};
use ktax::kernel::{self, Talk};
use ktax::model::{Layout, Machine, Subject};
use ktax::{plan, wire};

const ROW: &str = "getppid:ops=500";

/// The kinds of a profile's lines that can be left out.
const KINDS: [&str; 3] = ["path", "costly", "path-costly"];

#[test]
fn paths_and_costly_instructions_are_left_out_and_all_else_is_the_same() {
    let talk = Talk { note: &|_| {}, status: &|_| {}, is_cancelled: &|| false };
    let kernel = kernel::obtain(&Subject::of(KERNEL, ""), &cache().join("kernels"), &talk).unwrap();
    let qemu = Qemu::find(None).unwrap();
    let engine = Exact::new(qemu, &cache(), Limits::default(), Cancel::default()).unwrap();
    let layout = Layout { seed: 1, padding: 0, phase: 0 };
    let request = Request {
        image: kernel.image,
        image_sha256: kernel.identity.sha256,
        boot_line: String::new(),
        machine: Machine::default(),
        layout: layout.clone(),
        modules: None,
    };
    let definitions = plan::definitions().unwrap();
    let workload = &plan::select(&definitions, Some(&[ROW.to_owned()])).unwrap()[0];
    let order = wire::order(workload, &layout);
    let [all, pathless, plain] = [Paths::Followed, Paths::LeftOut, Paths::LeftOutWithCostly]
        .map(|paths| engine.boot_with(&request, paths).unwrap().run(&order).unwrap().profile);
    let kind = |line: &str| KINDS.into_iter().find(|kind| line.split('\t').next() == Some(kind));
    let found = |profile: &str| KINDS.map(|of| profile.lines().any(|line| kind(line) == Some(of)));
    assert_eq!(
        [&all, &pathless, &plain].map(|it| found(it)),
        [[true, true, true], [false, true, false], [false, false, false]]
    );
    let rest = |profile: &str| {
        let lines = profile.lines().filter(|line| kind(line).is_none());
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(rest(&all), rest(&pathless));
    assert_eq!(rest(&all), rest(&plain));
}
