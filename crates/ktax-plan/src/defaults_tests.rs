use super::*;
use crate::{Ledger, ledgers};

const DEBIAN_6_1: &str = include_str!("../../../tests/data/configs/debian-6.1-cloud-amd64");
const DEBIAN_6_12: &str = include_str!("../../../tests/data/configs/debian-6.12-cloud-amd64");

fn found(boot_line: &str, base_line: &str, config: &str) -> Vec<(String, String, String)> {
    let asked = Asked { name: "a", boot_line, config: &[] };
    let found = already_on(&asked, base_line, config);
    found.into_iter().map(|one| (one.what, one.because, one.instead)).collect()
}

/// What stands instead, or "" where it is not on.
fn instead(boot_line: &str, config: &str) -> String {
    found(boot_line, "", config).into_iter().map(|(_, _, instead)| instead).collect()
}

#[test]
fn what_debian_has_by_itself_is_found_in_its_configuration() {
    for config in [DEBIAN_6_1, DEBIAN_6_12] {
        for (asked, wanted) in [
            ("init_on_alloc=1", "init_on_alloc=0"),
            ("init_on_free=1", ""),
            ("randomize_kstack_offset=on", "randomize_kstack_offset=off"),
            ("randomize-kstack-offset=1", "randomize_kstack_offset=off"),
            ("vsyscall=none", "vsyscall=xonly"),
            ("vsyscall=xonly", ""),
            ("slab_nomerge", ""),
            ("page_alloc.shuffle=1", ""),
            ("hardened_usercopy=on", "hardened_usercopy=off"),
            ("audit=1", ""),
            ("pti=on", ""),
            ("mitigations=auto", "mitigations=off"),
            ("mitigations=auto,nosmt", ""),
            ("retbleed=auto", "retbleed=off"),
            ("spec_rstack_overflow=safe-ret", "spec_rstack_overflow=off"),
            ("iommu.strict=1", ""),
            ("iommu.passthrough=0", "iommu.passthrough=1"),
            ("intel_iommu=on", ""),
            ("lockdown=integrity", ""),
            ("debugfs=off", ""),
            ("transparent_hugepage=always", "transparent_hugepage=never"),
            ("apparmor=1", "apparmor=0"),
            ("psi=1", "psi=0"),
            ("preempt=voluntary", "preempt=none"),
            ("preempt=full", ""),
            ("something=else", ""),
        ] {
            assert_eq!(instead(asked, config), wanted, "{asked}");
        }
    }
}

#[test]
fn why_it_is_on_names_the_option_and_what_turns_it_off() {
    let asked = Asked { name: "kstack", boot_line: "randomize_kstack_offset=on", config: &[] };
    let found = already_on(&asked, "quiet", DEBIAN_6_1).remove(0);
    assert_eq!(
        found.text(),
        "randomize_kstack_offset=on is already on: CONFIG_RANDOMIZE_KSTACK_OFFSET_DEFAULT=y; the \
         base boots with randomize_kstack_offset=off to measure it"
    );
}

#[test]
fn the_bases_boot_line_counts_more_than_the_configuration() {
    let off = "init_on_alloc=1 init_on_alloc=0";
    assert_eq!(found("init_on_alloc=1", off, DEBIAN_6_1), []);
    let on = found("audit=1", "audit=on", DEBIAN_6_1);
    let because = "the base's boot line has audit=on".to_owned();
    assert_eq!(on, [("audit=1".to_owned(), because, "audit=0".to_owned())]);
    // A parameter that nobody knows is on where the base has the same.
    let unknown = found("foo=7", "foo=7", DEBIAN_6_1);
    assert_eq!(unknown[0].2, "");
    assert_eq!(found("foo=7", "foo=8", DEBIAN_6_1), []);
}

/// Since 6.16 Kconfig asks whether usercopy is checked by itself.
#[test]
fn an_option_that_a_newer_kernel_asks_for_is_on_in_an_older_one() {
    let newer = "CONFIG_HARDENED_USERCOPY=y\n# CONFIG_HARDENED_USERCOPY_DEFAULT_ON is not set\n";
    assert_eq!(instead("hardened_usercopy=1", newer), "");
    assert_eq!(
        instead("hardened_usercopy=1", "CONFIG_HARDENED_USERCOPY=y"),
        "hardened_usercopy=off"
    );
}

#[test]
fn what_a_kernel_is_not_built_with_does_nothing() {
    let asked = Asked { name: "a", boot_line: "page_poison=1 audit=1 quiet", config: &[] };
    let found = without_effect(&asked, DEBIAN_6_1);
    let wanted = ("page_poison=1".to_owned(), "CONFIG_PAGE_POISONING is not set".to_owned());
    assert_eq!(found, [wanted]);
}

#[test]
fn options_that_the_base_has_are_turned_off_in_it() {
    let of = |config: &[&str], base: &str| {
        let config: Vec<String> = config.iter().map(|text| (*text).to_owned()).collect();
        let asked = Asked { name: "a", boot_line: "", config: &config };
        already_on(&asked, "", base).pop().map(|one| one.instead)
    };
    let zero = ["CONFIG_INIT_STACK_NONE=n", "CONFIG_INIT_STACK_ALL_ZERO=y"];
    assert_eq!(of(&zero, DEBIAN_6_12).as_deref(), Some("CONFIG_INIT_STACK_NONE=y"));
    assert_eq!(of(&zero, "CONFIG_INIT_STACK_NONE=y"), None);
    let usercopy = of(&["CONFIG_HARDENED_USERCOPY=y"], DEBIAN_6_12);
    assert_eq!(usercopy.as_deref(), Some("CONFIG_HARDENED_USERCOPY=n"));
    // One of two is not there: the addition costs what that one does.
    let both = ["CONFIG_HARDENED_USERCOPY=y", "CONFIG_PAGE_POISONING=y"];
    assert_eq!(of(&both, DEBIAN_6_12), None);
    assert_eq!(of(&["a.config"], DEBIAN_6_12), None);
}

/// Each addition of a ledger that ships is off in the base that is measured.
#[test]
fn no_addition_of_a_shipped_ledger_is_on_in_its_base() {
    let mut turned_off = Vec::new();
    for file in ledgers() {
        let ledger = Ledger::parse(file.text, file.name).unwrap();
        for config in [DEBIAN_6_1, DEBIAN_6_12] {
            let on = ledger.already_on(config);
            turned_off.extend(on.iter().map(|one| (file.name, one.what.clone())));
            let without = ledger.clone().without(&on).unwrap();
            let left = without.already_on(config);
            // Options show in the configuration of a base that is built anew.
            let left: Vec<_> = left.iter().filter(|one| !one.instead.contains("CONFIG_")).collect();
            assert!(left.is_empty(), "{}: {left:?}", file.name);
            let nothing = ledger.without_effect(config);
            assert!(nothing.is_empty(), "{}: {nothing:?}", file.name);
        }
    }
    for what in ["randomize_kstack_offset=on", "vsyscall=none"] {
        let wanted = ("hardening-boot", what.to_owned());
        assert!(turned_off.contains(&wanted), "{turned_off:?}");
    }
}
