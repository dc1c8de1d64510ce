//! What `ktax report --versions` prints.

use std::fs;

use ktax::model::{Comparison, SavedResult};
use ktax::report::{JSON, Report, TextOptions, versions};

use super::{cases, check, guests, searches, show, timed};
use crate::common::{ktax, run, scratch};

fn of(result: &SavedResult) -> Option<String> {
    versions(result, TextOptions::default())
}

fn of_comparison(comparison: &Comparison) -> String {
    of(&comparison.result()).unwrap()
}

#[test]
fn the_guest_qemu_and_every_kernel_are_named() {
    check("versions.txt", &of_comparison(&cases::all()[0].1));
    check("versions-guests.txt", &of_comparison(&guests::compared()));
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
    let texts = [of_comparison(&one), of_comparison(&other)].concat();
    let paths = [file("a", one.clone()), file("b", other), file("c", one)];
    let ran = run(ktax().args(["report", "--versions"]).args(paths));
    assert_eq!(ran.stdout, texts, "{}", ran.stderr);
}

#[test]
fn times_and_ledgers_have_none() {
    assert_eq!(of(&searches::ledger().result()), None);
    assert_eq!(of(&timed::all()[0].1.result()), None);
}
