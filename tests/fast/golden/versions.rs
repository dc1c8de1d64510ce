//! What `ktax report --versions` prints.

use ktax::model::{Comparison, SavedResult};
use ktax::report::{Report, TextOptions, versions};

use super::{cases, check, guests, searches, timed};

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
fn times_and_ledgers_have_none() {
    assert_eq!(of(&searches::ledger().result()), None);
    assert_eq!(of(&timed::all()[0].1.result()), None);
}
