//! What a test needs is named rightly, or nothing would be required.

use crate::common::Need;
use crate::common::require::named;

#[test]
fn every_word_of_ktax_require_is_a_need() {
    let required = std::env::var("KTAX_REQUIRE").unwrap_or_default();
    named(&required).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(named("root, kvm,"), Ok(vec![Need::Root, Need::Kvm]));
    assert!(named("root,qemu").unwrap_err().contains("\"qemu\""));
}
