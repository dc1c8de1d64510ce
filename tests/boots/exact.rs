//! The exact engine as a library: what a user cannot ask of ktax.

use std::path::Path;

use crate::common::{KERNEL, cache};
use ktax::engine::exact::Exact;
use ktax::engine::qemu::Qemu;
use ktax::engine::{Cancel, Limits, Request};
use ktax::kernel::{self, Talk};
use ktax::model::{Layout, Machine, Subject};
use ktax::{plan, wire};

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
        beside: None,
        program: None,
    }
}

/// What the guest is told to do for a built-in row.
pub fn order(row: &str, request: &Request) -> String {
    let definitions = plan::definitions().unwrap();
    let workload = &plan::select(&definitions, Some(&[row.to_owned()])).unwrap()[0];
    wire::order(workload, &request.layout)
}
