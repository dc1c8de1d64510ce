//! What `ktax report --versions` prints.

use std::fs;

use ktax::model::Comparison;
use ktax::report::{JSON, Report, TextOptions, versions};

use super::{cases, check, guests, searches, show, timed};
use crate::common::{ktax, run, scratch};

fn versions_of(comparison: &Comparison) -> String {
    versions(&comparison.result(), TextOptions::default()).unwrap()
}

#[test]
fn the_guest_qemu_and_every_kernel_are_named() {
    let both = [&cases::all()[0].1, &guests::compared()].map(versions_of);
    check("versions.txt", &both.concat());
}

#[test]
fn runs_with_the_same_versions_have_them_once() {
    let dir = scratch();
    let file = |name: &str, result: Comparison| {
        let path = dir.path().join(name);
        fs::write(&path, show(&result, JSON)).unwrap();
        path
    };
    let (one, other) = (cases::all()[0].1.clone(), guests::compared());
    let texts = [&one, &other].map(versions_of).concat();
    let paths = [file("a", one.clone()), file("b", other), file("c", one)];
    let ran = run(ktax().args(["report", "--versions"]).args(paths));
    assert_eq!(ran.stdout, texts, "{}", ran.stderr);
}

#[test]
fn times_and_ledgers_have_none() {
    for result in [searches::ledger().result(), timed::all()[0].1.result()] {
        assert_eq!(versions(&result, TextOptions::default()), None);
    }
}
