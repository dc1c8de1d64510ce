//! Boot parameters and options that a kernel has by default, and how a base boots without them.
//!
//! Adding a default costs nothing, which is no answer. The table was checked with the
//! configurations of Debian 6.1 and 6.12 (`tests/data/configs/`), and the values with
//! `Documentation/admin-guide/kernel-parameters.txt` of both.

use DefaultState::{Always, If, Never};
use State::{NotRefused, Off, On};
use ktax_model::{AlreadyOn, boot_parameters, unquoted_parameter};

/// A parameter with values, and when a kernel has them by default.
struct Setting {
    /// The parameter, with `_` for `-`.
    name: &'static str,
    /// Values that mean the same; `""` is the parameter without a value.
    values: &'static [&'static str],
    /// Default of kernels that boot without the parameter.
    default: DefaultState,
    /// Parameter that turns it off in the base; empty if there is none.
    instead: &'static str,
}

/// Condition under which a kernel has something by default.
enum DefaultState {
    /// Never, or only for some CPUs.
    Never,
    /// Always, as far as the CPU needs it.
    Always,
    /// If each of these symbols has that state.
    If(&'static [(&'static str, State)]),
}

/// The state of a symbol in a configuration.
#[derive(Clone, Copy, PartialEq)]
enum State {
    /// `CONFIG_X=y`.
    On,
    /// Not set, or not mentioned.
    Off,
    /// Not mentioned as `is not set`: newer kernels have this option, older ones do not.
    NotRefused,
}

const YES: &[&str] = &["1", "on", "y", "yes", "Y", "true"];

const fn setting(
    name: &'static str,
    values: &'static [&'static str],
    default: DefaultState,
    instead: &'static str,
) -> Setting {
    Setting { name, values, default, instead }
}

const SETTINGS: &[Setting] = &[
    setting("init_on_alloc", YES, If(&[("INIT_ON_ALLOC_DEFAULT_ON", On)]), "init_on_alloc=0"),
    setting("init_on_free", YES, If(&[("INIT_ON_FREE_DEFAULT_ON", On)]), "init_on_free=0"),
    setting(
        "randomize_kstack_offset",
        YES,
        If(&[("RANDOMIZE_KSTACK_OFFSET_DEFAULT", On)]),
        "randomize_kstack_offset=off",
    ),
    setting("vsyscall", &["none"], If(&[("LEGACY_VSYSCALL_NONE", On)]), "vsyscall=xonly"),
    setting("vsyscall", &["xonly"], If(&[("LEGACY_VSYSCALL_XONLY", On)]), "vsyscall=none"),
    setting("slab_nomerge", &[""], If(&[("SLAB_MERGE_DEFAULT", Off)]), "slab_merge"),
    setting("slub_nomerge", &[""], If(&[("SLAB_MERGE_DEFAULT", Off)]), "slub_merge"),
    setting("slab_merge", &[""], If(&[("SLAB_MERGE_DEFAULT", On)]), "slab_nomerge"),
    setting("page_alloc.shuffle", YES, Never, "page_alloc.shuffle=0"),
    setting("page_poison", YES, Never, "page_poison=0"),
    setting("slub_debug", &["", "FZPU"], If(&[("SLUB_DEBUG_ON", On)]), "slub_debug=-"),
    setting("slab_debug", &["", "FZPU"], If(&[("SLUB_DEBUG_ON", On)]), "slab_debug=-"),
    setting(
        "hardened_usercopy",
        YES,
        If(&[("HARDENED_USERCOPY", On), ("HARDENED_USERCOPY_DEFAULT_ON", NotRefused)]),
        "hardened_usercopy=off",
    ),
    setting("audit", YES, Never, "audit=0"),
    setting("pti", YES, Never, "pti=off"),
    setting("pti", &["auto"], Always, "pti=off"),
    setting("mitigations", &["auto"], If(&[("CPU_MITIGATIONS", NotRefused)]), "mitigations=off"),
    setting("mitigations", &["off"], If(&[("CPU_MITIGATIONS", Off)]), "mitigations=auto"),
    setting("spectre_v2", &["auto"], Always, "spectre_v2=off"),
    setting("spectre_v2_user", &["auto"], Always, "spectre_v2_user=off"),
    setting(
        "spec_store_bypass_disable",
        &["auto", "prctl"],
        Always,
        "spec_store_bypass_disable=off",
    ),
    setting("retbleed", &["auto"], Always, "retbleed=off"),
    setting("spec_rstack_overflow", &["safe_ret", "safe-ret"], Always, "spec_rstack_overflow=off"),
    setting("l1tf", &["flush"], Always, "l1tf=off"),
    setting("mds", &["full"], Always, "mds=off"),
    setting("tsx_async_abort", &["full"], Always, "tsx_async_abort=off"),
    setting("mmio_stale_data", &["full"], Always, "mmio_stale_data=off"),
    setting(
        "reg_file_data_sampling",
        YES,
        If(&[("MITIGATION_RFDS", On)]),
        "reg_file_data_sampling=off",
    ),
    setting("spectre_bhi", YES, If(&[("MITIGATION_SPECTRE_BHI", On)]), "spectre_bhi=off"),
    setting(
        "indirect_target_selection",
        YES,
        If(&[("MITIGATION_ITS", On)]),
        "indirect_target_selection=off",
    ),
    setting("tsa", YES, If(&[("MITIGATION_TSA", On)]), "tsa=off"),
    setting("vmscape", &["ibpb"], If(&[("MITIGATION_VMSCAPE", On)]), "vmscape=off"),
    setting("iommu.strict", YES, If(&[("IOMMU_DEFAULT_DMA_STRICT", On)]), "iommu.strict=0"),
    setting(
        "iommu.passthrough",
        YES,
        If(&[("IOMMU_DEFAULT_PASSTHROUGH", On)]),
        "iommu.passthrough=0",
    ),
    setting(
        "iommu.passthrough",
        &["0"],
        If(&[("IOMMU_DEFAULT_PASSTHROUGH", Off)]),
        "iommu.passthrough=1",
    ),
    setting("intel_iommu", &["on"], If(&[("INTEL_IOMMU_DEFAULT_ON", On)]), "intel_iommu=off"),
    setting("lockdown", &["integrity"], If(&[("LOCK_DOWN_KERNEL_FORCE_INTEGRITY", On)]), ""),
    setting(
        "lockdown",
        &["confidentiality"],
        If(&[("LOCK_DOWN_KERNEL_FORCE_CONFIDENTIALITY", On)]),
        "",
    ),
    setting("debugfs", &["off"], If(&[("DEBUG_FS_ALLOW_NONE", On)]), "debugfs=on"),
    setting("debugfs", &["no-mount"], If(&[("DEBUG_FS_DISALLOW_MOUNT", On)]), "debugfs=on"),
    setting("debugfs", &["on"], If(&[("DEBUG_FS_ALLOW_ALL", On)]), "debugfs=off"),
    setting(
        "transparent_hugepage",
        &["always"],
        If(&[("TRANSPARENT_HUGEPAGE_ALWAYS", On)]),
        "transparent_hugepage=never",
    ),
    setting(
        "transparent_hugepage",
        &["madvise"],
        If(&[("TRANSPARENT_HUGEPAGE_MADVISE", On)]),
        "transparent_hugepage=never",
    ),
    setting(
        "numa_balancing",
        &["enable"],
        If(&[("NUMA_BALANCING_DEFAULT_ENABLED", On)]),
        "numa_balancing=disable",
    ),
    setting("apparmor", YES, If(&[("DEFAULT_SECURITY_APPARMOR", On)]), "apparmor=0"),
    setting("preempt", &["none"], If(&[("PREEMPT_NONE", On)]), "preempt=full"),
    setting("preempt", &["voluntary"], If(&[("PREEMPT_VOLUNTARY", On)]), "preempt=none"),
    setting("preempt", &["full"], If(&[("PREEMPT", On)]), "preempt=none"),
    setting("psi", YES, If(&[("PSI", On), ("PSI_DEFAULT_DISABLED", Off)]), "psi=0"),
    setting("module.sig_enforce", &["", "1"], If(&[("MODULE_SIG_FORCE", On)]), ""),
    setting("oops", &["panic"], If(&[("PANIC_ON_OOPS", On)]), ""),
];

/// Parameters that do nothing unless a kernel is built with a symbol.
const NEEDS: &[(&str, &str)] = &[
    ("page_poison", "PAGE_POISONING"),
    ("page_alloc.shuffle", "SHUFFLE_PAGE_ALLOCATOR"),
    ("randomize_kstack_offset", "RANDOMIZE_KSTACK_OFFSET"),
    ("hardened_usercopy", "HARDENED_USERCOPY"),
    ("slub_debug", "SLUB_DEBUG"),
    ("slab_debug", "SLUB_DEBUG"),
    ("audit", "AUDIT"),
    ("vsyscall", "X86_VSYSCALL_EMULATION"),
    ("psi", "PSI"),
    ("numa_balancing", "NUMA_BALANCING"),
    ("transparent_hugepage", "TRANSPARENT_HUGEPAGE"),
];

/// Options of a choice, one of which is always on, each with the option that stands for none of
/// them.
const CHOICES: &[(&str, &str)] = &[
    ("INIT_STACK_ALL_ZERO", "CONFIG_INIT_STACK_NONE=y"),
    ("INIT_STACK_ALL_PATTERN", "CONFIG_INIT_STACK_NONE=y"),
    ("PREEMPT", "CONFIG_PREEMPT_NONE=y"),
    ("PREEMPT_VOLUNTARY", "CONFIG_PREEMPT_NONE=y"),
    ("TRANSPARENT_HUGEPAGE_ALWAYS", "CONFIG_TRANSPARENT_HUGEPAGE_NEVER=y"),
    ("LEGACY_VSYSCALL_NONE", "CONFIG_LEGACY_VSYSCALL_XONLY=y"),
];

/// Parameters and options that an addition adds.
pub(super) struct AskedAddition<'a> {
    pub name: &'a str,
    pub boot_line: &'a str,
    pub config: &'a [String],
}

/// Parts of an addition that this kernel has by default, or by the base's boot line. `config` is
/// the text of the base's configuration.
pub(super) fn already_on(
    asked: &AskedAddition<'_>,
    base_line: &str,
    config: &str,
) -> Vec<AlreadyOn> {
    let words = boot_parameters(asked.boot_line);
    let by_line = words.into_iter().filter_map(|word| {
        let word = unquoted_parameter(word);
        let (because, instead) = parameter_on(&word, base_line, config)?;
        Some(AlreadyOn {
            addition: asked.name.to_owned(),
            setting: word,
            reason: because,
            replacement: instead,
        })
    });
    by_line.chain(options_on(asked, config)).collect()
}

/// Parameters of an addition that do nothing on this kernel, with the reason.
pub(super) fn without_effect(asked: &AskedAddition<'_>, config: &str) -> Vec<(String, String)> {
    let words = boot_parameters(asked.boot_line).into_iter().map(unquoted_parameter);
    let lacks = words.filter_map(|word| {
        let (name, _) = name_and_value(&word);
        let (_, symbol) = NEEDS.iter().find(|(known, _)| *known == name)?;
        (!has_state(config, symbol, On)).then(|| (word, format!("CONFIG_{symbol} is not set")))
    });
    lacks.collect()
}

/// Reason why a parameter is on already, and the parameter that turns it off.
fn parameter_on(word: &str, base_line: &str, config: &str) -> Option<(String, String)> {
    let (name, value) = name_and_value(word);
    let is_asked = |setting: &&Setting| setting.name == name && setting.values.contains(&value);
    let mut base_parameters = boot_parameters(base_line).into_iter().map(unquoted_parameter);
    // The kernel uses the last of several values.
    if let Some(last) = base_parameters.rfind(|word| name_and_value(word).0 == name) {
        let (_, there) = name_and_value(&last);
        let is_same = SETTINGS
            .iter()
            .find(is_asked)
            .map_or(there == value, |setting| setting.values.contains(&there));
        let instead = SETTINGS.iter().find(is_asked).map_or("", |setting| setting.instead);
        return is_same.then(|| (format!("the base's boot line has {last}"), instead.to_owned()));
    }
    let setting = SETTINGS.iter().find(is_asked)?;
    let because = match setting.default {
        Never => return None,
        Always => "the kernel's default, as far as its CPU needs it".to_owned(),
        If(symbols) => {
            let is_default =
                symbols.iter().all(|(symbol, state)| has_state(config, symbol, *state));
            is_default.then(|| symbols_text(symbols))?
        }
    };
    Some((because, setting.instead.to_owned()))
}

/// Options of an addition, if the configuration has all of them.
fn options_on(asked: &AskedAddition<'_>, config: &str) -> Option<AlreadyOn> {
    let options: Vec<(&str, &str)> = asked
        .config
        .iter()
        .map(|text| text.strip_prefix("CONFIG_")?.split_once('='))
        .collect::<Option<_>>()?;
    let is_there = |(name, value): &(&str, &str)| match *value {
        "n" => has_state(config, name, Off),
        value => config.lines().any(|line| line.trim() == format!("CONFIG_{name}={value}")),
    };
    if options.is_empty() || !options.iter().all(is_there) {
        return None;
    }
    let set = options.iter().filter(|(_, value)| *value != "n");
    let off = set.clone().map(|(name, _)| {
        let choice = CHOICES.iter().find(|(known, _)| known == name);
        choice.map_or(format!("CONFIG_{name}=n"), |(_, none)| (*none).to_owned())
    });
    let instead: Vec<String> = off.collect();
    let what: Vec<String> = set.map(|(name, value)| format!("CONFIG_{name}={value}")).collect();
    Some(AlreadyOn {
        addition: asked.name.to_owned(),
        setting: what.join(" "),
        reason: "the base's configuration has it".to_owned(),
        replacement: instead.join(" "),
    })
}

/// Name as the kernel compares it, and value; empty for a parameter without one.
fn name_and_value(word: &str) -> (String, &str) {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    (name.replace('-', "_"), value)
}

fn has_state(config: &str, symbol: &str, state: State) -> bool {
    let is_line = |wanted: String| config.lines().any(|line| line.trim() == wanted);
    match state {
        On => is_line(format!("CONFIG_{symbol}=y")),
        Off => !is_line(format!("CONFIG_{symbol}=y")),
        NotRefused => !is_line(format!("# CONFIG_{symbol} is not set")),
    }
}

/// `CONFIG_A=y, CONFIG_B is not set`.
fn symbols_text(symbols: &[(&str, State)]) -> String {
    let symbol_text = |(symbol, state): &(&str, State)| match state {
        On => Some(format!("CONFIG_{symbol}=y")),
        Off => Some(format!("CONFIG_{symbol} is not set")),
        NotRefused => None,
    };
    let texts: Vec<String> = symbols.iter().filter_map(symbol_text).collect();
    match texts.is_empty() {
        true => "the kernel's default".to_owned(),
        false => texts.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ledger, ledgers};

    const DEBIAN_6_1: &str = include_str!("../../../tests/data/configs/debian-6.1-cloud-amd64");
    const DEBIAN_6_12: &str = include_str!("../../../tests/data/configs/debian-6.12-cloud-amd64");

    fn found(boot_line: &str, base_line: &str, config: &str) -> Vec<(String, String, String)> {
        let asked = AskedAddition { name: "a", boot_line, config: &[] };
        let found = already_on(&asked, base_line, config);
        found.into_iter().map(|one| (one.setting, one.reason, one.replacement)).collect()
    }

    /// Parameter that the base gets instead, or "" if it is not on already.
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
        let asked =
            AskedAddition { name: "kstack", boot_line: "randomize_kstack_offset=on", config: &[] };
        let found = already_on(&asked, "quiet", DEBIAN_6_1).remove(0);
        assert_eq!(
            found.text(),
            "randomize_kstack_offset=on is already on: \
             CONFIG_RANDOMIZE_KSTACK_OFFSET_DEFAULT=y; the \
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
        // An unknown parameter is on if the base has the same one.
        let unknown = found("foo=7", "foo=7", DEBIAN_6_1);
        assert_eq!(unknown[0].2, "");
        assert_eq!(found("foo=7", "foo=8", DEBIAN_6_1), []);
    }

    /// Since 6.16 Kconfig asks whether usercopy is checked by default.
    #[test]
    fn an_option_that_a_newer_kernel_asks_for_is_on_in_an_older_one() {
        let newer =
            "CONFIG_HARDENED_USERCOPY=y\n# CONFIG_HARDENED_USERCOPY_DEFAULT_ON is not set\n";
        assert_eq!(instead("hardened_usercopy=1", newer), "");
        assert_eq!(
            instead("hardened_usercopy=1", "CONFIG_HARDENED_USERCOPY=y"),
            "hardened_usercopy=off"
        );
    }

    #[test]
    fn what_a_kernel_is_not_built_with_does_nothing() {
        let asked =
            AskedAddition { name: "a", boot_line: "page_poison=1 audit=1 quiet", config: &[] };
        let found = without_effect(&asked, DEBIAN_6_1);
        let wanted = ("page_poison=1".to_owned(), "CONFIG_PAGE_POISONING is not set".to_owned());
        assert_eq!(found, [wanted]);
    }

    #[test]
    fn options_that_the_base_has_are_turned_off_in_it() {
        let instead_of = |config: &[&str], base: &str| {
            let config: Vec<String> = config.iter().map(|text| (*text).to_owned()).collect();
            let asked = AskedAddition { name: "a", boot_line: "", config: &config };
            already_on(&asked, "", base).pop().map(|one| one.replacement)
        };
        let zero = ["CONFIG_INIT_STACK_NONE=n", "CONFIG_INIT_STACK_ALL_ZERO=y"];
        assert_eq!(instead_of(&zero, DEBIAN_6_12).as_deref(), Some("CONFIG_INIT_STACK_NONE=y"));
        assert_eq!(instead_of(&zero, "CONFIG_INIT_STACK_NONE=y"), None);
        let usercopy = instead_of(&["CONFIG_HARDENED_USERCOPY=y"], DEBIAN_6_12);
        assert_eq!(usercopy.as_deref(), Some("CONFIG_HARDENED_USERCOPY=n"));
        // One of the two is not on: the addition costs what that option costs.
        let both = ["CONFIG_HARDENED_USERCOPY=y", "CONFIG_PAGE_POISONING=y"];
        assert_eq!(instead_of(&both, DEBIAN_6_12), None);
        assert_eq!(instead_of(&["a.config"], DEBIAN_6_12), None);
    }

    /// Each addition of a built-in ledger is off in the base that is measured.
    #[test]
    fn no_addition_of_a_shipped_ledger_is_on_in_its_base() {
        let mut turned_off = Vec::new();
        for file in ledgers() {
            let ledger = Ledger::parse(file.text, file.name).unwrap();
            for config in [DEBIAN_6_1, DEBIAN_6_12] {
                let on = ledger.already_on(config);
                turned_off.extend(on.iter().map(|one| (file.name, one.setting.clone())));
                let without = ledger.clone().without(&on).unwrap();
                let left = without.already_on(config);
                // Options show in the configuration of a base that is built again.
                let left: Vec<_> =
                    left.iter().filter(|one| !one.replacement.contains("CONFIG_")).collect();
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
}
