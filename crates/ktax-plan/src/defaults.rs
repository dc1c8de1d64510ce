//! Boot parameters and options that a kernel has by default, and the parameters that turn them off
//! in the base of a ledger.
//!
//! An addition that the base already has would cost nothing, so the base boots without it. The
//! table was checked against the configurations of Debian 6.1 and 6.12 (`tests/data/configs/`), and
//! the values against `Documentation/admin-guide/kernel-parameters.txt` of both kernels.

use DefaultState::{Always, If, Never};
use SymbolState::{NotDisabled, Off, On};
use ktax_model::{AlreadyOn, boot_parameters, unquoted_parameter};

/// A parameter with equivalent values, and when they are the default of a kernel.
struct Setting {
    /// Name of the parameter, with `_` instead of `-`.
    name: &'static str,
    /// Values that mean the same; `""` is the parameter without a value.
    values: &'static [&'static str],
    /// Condition under which a kernel without the parameter behaves as with these values.
    default: DefaultState,
    /// Parameter that turns the setting off in the base; empty if there is none.
    off_parameter: &'static str,
}

/// Condition under which a setting is the default of a kernel.
enum DefaultState {
    /// Never, or only for some CPUs.
    Never,
    /// Always, on CPUs that need the setting.
    Always,
    /// If each of these symbols has the state next to it.
    If(&'static [(&'static str, SymbolState)]),
}

/// SymbolState of a symbol in a configuration.
#[derive(Clone, Copy, PartialEq)]
enum SymbolState {
    /// `CONFIG_X=y`.
    On,
    /// Not set, or not mentioned.
    Off,
    /// Not listed as `is not set`, which is also true for kernels older than the option.
    NotDisabled,
}

/// Values that turn a parameter on.
const ON_VALUES: &[&str] = &["1", "on", "y", "yes", "Y", "true"];

const fn setting(
    name: &'static str,
    values: &'static [&'static str],
    default: DefaultState,
    off_parameter: &'static str,
) -> Setting {
    Setting { name, values, default, off_parameter }
}

const SETTINGS: &[Setting] = &[
    setting("init_on_alloc", ON_VALUES, If(&[("INIT_ON_ALLOC_DEFAULT_ON", On)]), "init_on_alloc=0"),
    setting("init_on_free", ON_VALUES, If(&[("INIT_ON_FREE_DEFAULT_ON", On)]), "init_on_free=0"),
    setting(
        "randomize_kstack_offset",
        ON_VALUES,
        If(&[("RANDOMIZE_KSTACK_OFFSET_DEFAULT", On)]),
        "randomize_kstack_offset=off",
    ),
    setting("vsyscall", &["none"], If(&[("LEGACY_VSYSCALL_NONE", On)]), "vsyscall=xonly"),
    setting("vsyscall", &["xonly"], If(&[("LEGACY_VSYSCALL_XONLY", On)]), "vsyscall=none"),
    setting("slab_nomerge", &[""], If(&[("SLAB_MERGE_DEFAULT", Off)]), "slab_merge"),
    setting("slub_nomerge", &[""], If(&[("SLAB_MERGE_DEFAULT", Off)]), "slub_merge"),
    setting("slab_merge", &[""], If(&[("SLAB_MERGE_DEFAULT", On)]), "slab_nomerge"),
    setting("page_alloc.shuffle", ON_VALUES, Never, "page_alloc.shuffle=0"),
    setting("page_poison", ON_VALUES, Never, "page_poison=0"),
    setting("slub_debug", &["", "FZPU"], If(&[("SLUB_DEBUG_ON", On)]), "slub_debug=-"),
    setting("slab_debug", &["", "FZPU"], If(&[("SLUB_DEBUG_ON", On)]), "slab_debug=-"),
    setting(
        "hardened_usercopy",
        ON_VALUES,
        If(&[("HARDENED_USERCOPY", On), ("HARDENED_USERCOPY_DEFAULT_ON", NotDisabled)]),
        "hardened_usercopy=off",
    ),
    setting("audit", ON_VALUES, Never, "audit=0"),
    setting("pti", ON_VALUES, Never, "pti=off"),
    setting("pti", &["auto"], Always, "pti=off"),
    setting("mitigations", &["auto"], If(&[("CPU_MITIGATIONS", NotDisabled)]), "mitigations=off"),
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
        ON_VALUES,
        If(&[("MITIGATION_RFDS", On)]),
        "reg_file_data_sampling=off",
    ),
    setting("spectre_bhi", ON_VALUES, If(&[("MITIGATION_SPECTRE_BHI", On)]), "spectre_bhi=off"),
    setting(
        "indirect_target_selection",
        ON_VALUES,
        If(&[("MITIGATION_ITS", On)]),
        "indirect_target_selection=off",
    ),
    setting("tsa", ON_VALUES, If(&[("MITIGATION_TSA", On)]), "tsa=off"),
    setting("vmscape", &["ibpb"], If(&[("MITIGATION_VMSCAPE", On)]), "vmscape=off"),
    setting("iommu.strict", ON_VALUES, If(&[("IOMMU_DEFAULT_DMA_STRICT", On)]), "iommu.strict=0"),
    setting(
        "iommu.passthrough",
        ON_VALUES,
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
    setting("apparmor", ON_VALUES, If(&[("DEFAULT_SECURITY_APPARMOR", On)]), "apparmor=0"),
    setting("preempt", &["none"], If(&[("PREEMPT_NONE", On)]), "preempt=full"),
    setting("preempt", &["voluntary"], If(&[("PREEMPT_VOLUNTARY", On)]), "preempt=none"),
    setting("preempt", &["full"], If(&[("PREEMPT", On)]), "preempt=none"),
    setting("psi", ON_VALUES, If(&[("PSI", On), ("PSI_DEFAULT_DISABLED", Off)]), "psi=0"),
    setting("module.sig_enforce", &["", "1"], If(&[("MODULE_SIG_FORCE", On)]), ""),
    setting("oops", &["panic"], If(&[("PANIC_ON_OOPS", On)]), ""),
];

/// Parameters that have no effect unless a kernel is built with a symbol.
const REQUIRED_SYMBOLS: &[(&str, &str)] = &[
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

/// Options of Kconfig choices, each with the option of the same choice that turns it off.
const CHOICES: &[(&str, &str)] = &[
    ("INIT_STACK_ALL_ZERO", "CONFIG_INIT_STACK_NONE=y"),
    ("INIT_STACK_ALL_PATTERN", "CONFIG_INIT_STACK_NONE=y"),
    ("PREEMPT", "CONFIG_PREEMPT_NONE=y"),
    ("PREEMPT_VOLUNTARY", "CONFIG_PREEMPT_NONE=y"),
    ("TRANSPARENT_HUGEPAGE_ALWAYS", "CONFIG_TRANSPARENT_HUGEPAGE_NEVER=y"),
    ("LEGACY_VSYSCALL_NONE", "CONFIG_LEGACY_VSYSCALL_XONLY=y"),
];

/// Name, parameters and options of an addition.
pub(super) struct AdditionParts<'a> {
    pub name: &'a str,
    pub boot_line: &'a str,
    pub config: &'a [String],
}

/// Finds the parts of an addition that the base already has, by the default of its kernel or by its
/// boot line. `config` is the text of the base's configuration.
pub(super) fn parts_already_on(
    addition: &AdditionParts<'_>,
    base_line: &str,
    config: &str,
) -> Vec<AlreadyOn> {
    let words = boot_parameters(addition.boot_line);
    let parameters = words.into_iter().filter_map(|word| {
        let word = unquoted_parameter(word);
        let (reason, replacement) = parameter_on(&word, base_line, config)?;
        Some(AlreadyOn { addition: addition.name.to_owned(), setting: word, reason, replacement })
    });
    parameters.chain(options_on(addition, config)).collect()
}

/// Parameters of an addition that have no effect on this kernel, with the reason.
pub(super) fn ineffective_parameters(
    addition: &AdditionParts<'_>,
    config: &str,
) -> Vec<(String, String)> {
    let words = boot_parameters(addition.boot_line).into_iter().map(unquoted_parameter);
    let ineffective = words.filter_map(|word| {
        let (name, _) = name_and_value(&word);
        let (_, symbol) = REQUIRED_SYMBOLS.iter().find(|(parameter, _)| *parameter == name)?;
        (!has_state(config, symbol, On)).then(|| (word, format!("CONFIG_{symbol} is not set")))
    });
    ineffective.collect()
}

/// Reason why a parameter is already on, and the parameter that turns it off; `None` if it is not
/// on.
fn parameter_on(word: &str, base_line: &str, config: &str) -> Option<(String, String)> {
    let (name, value) = name_and_value(word);
    let is_match = |setting: &&Setting| setting.name == name && setting.values.contains(&value);
    let mut base_parameters = boot_parameters(base_line).into_iter().map(unquoted_parameter);
    // The kernel uses the last of several values.
    if let Some(last) = base_parameters.rfind(|word| name_and_value(word).0 == name) {
        let (_, base_value) = name_and_value(&last);
        let is_same = SETTINGS
            .iter()
            .find(is_match)
            .map_or(base_value == value, |setting| setting.values.contains(&base_value));
        let off_parameter =
            SETTINGS.iter().find(is_match).map_or("", |setting| setting.off_parameter);
        return is_same
            .then(|| (format!("the base's boot line has {last}"), off_parameter.to_owned()));
    }
    let setting = SETTINGS.iter().find(is_match)?;
    let because = match setting.default {
        Never => return None,
        Always => "the kernel's default, as far as its CPU needs it".to_owned(),
        If(symbols) => {
            let is_default =
                symbols.iter().all(|(symbol, state)| has_state(config, symbol, *state));
            is_default.then(|| symbols_text(symbols))?
        }
    };
    Some((because, setting.off_parameter.to_owned()))
}

/// Options of an addition if the configuration has all of them, else `None`.
fn options_on(addition: &AdditionParts<'_>, config: &str) -> Option<AlreadyOn> {
    let options: Vec<(&str, &str)> = addition
        .config
        .iter()
        .map(|text| text.strip_prefix("CONFIG_")?.split_once('='))
        .collect::<Option<_>>()?;
    let has_value = |(name, value): &(&str, &str)| match *value {
        "n" => has_state(config, name, Off),
        value => config.lines().any(|line| line.trim() == format!("CONFIG_{name}={value}")),
    };
    if options.is_empty() || !options.iter().all(has_value) {
        return None;
    }
    let enabled = options.iter().filter(|(_, value)| *value != "n");
    let disabled = enabled.clone().map(|(name, _)| {
        let choice = CHOICES.iter().find(|(option, _)| option == name);
        choice.map_or(format!("CONFIG_{name}=n"), |(_, off_option)| (*off_option).to_owned())
    });
    let replacements: Vec<String> = disabled.collect();
    let settings: Vec<String> =
        enabled.map(|(name, value)| format!("CONFIG_{name}={value}")).collect();
    Some(AlreadyOn {
        addition: addition.name.to_owned(),
        setting: settings.join(" "),
        reason: "the base's configuration has it".to_owned(),
        replacement: replacements.join(" "),
    })
}

/// Name as the kernel compares names, and value; the value is empty without `=`.
fn name_and_value(word: &str) -> (String, &str) {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    (name.replace('-', "_"), value)
}

fn has_state(config: &str, symbol: &str, state: SymbolState) -> bool {
    let has_line = |expected: String| config.lines().any(|line| line.trim() == expected);
    match state {
        On => has_line(format!("CONFIG_{symbol}=y")),
        Off => !has_line(format!("CONFIG_{symbol}=y")),
        NotDisabled => !has_line(format!("# CONFIG_{symbol} is not set")),
    }
}

/// Formats symbols and their states: `CONFIG_A=y, CONFIG_B is not set`.
fn symbols_text(symbols: &[(&str, SymbolState)]) -> String {
    let symbol_text = |(symbol, state): &(&str, SymbolState)| match state {
        On => Some(format!("CONFIG_{symbol}=y")),
        Off => Some(format!("CONFIG_{symbol} is not set")),
        NotDisabled => None,
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

    fn found_parts(
        boot_line: &str,
        base_line: &str,
        config: &str,
    ) -> Vec<(String, String, String)> {
        let addition = AdditionParts { name: "a", boot_line, config: &[] };
        let found = parts_already_on(&addition, base_line, config);
        found.into_iter().map(|part| (part.setting, part.reason, part.replacement)).collect()
    }

    /// Parameter that turns another one off in the base; empty if the other one is not on.
    fn off_parameter(boot_line: &str, config: &str) -> String {
        found_parts(boot_line, "", config).into_iter().map(|(_, _, instead)| instead).collect()
    }

    #[test]
    fn defaults_of_debian_kernels_follow_from_their_configurations() {
        for config in [DEBIAN_6_1, DEBIAN_6_12] {
            for (parameter, expected) in [
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
                assert_eq!(off_parameter(parameter, config), expected, "{parameter}");
            }
        }
    }

    #[test]
    fn the_message_names_the_option_and_the_parameter_that_turns_it_off() {
        let addition =
            AdditionParts { name: "kstack", boot_line: "randomize_kstack_offset=on", config: &[] };
        let found = parts_already_on(&addition, "quiet", DEBIAN_6_1).remove(0);
        assert_eq!(
            found.text(),
            "randomize_kstack_offset=on is already on: \
             CONFIG_RANDOMIZE_KSTACK_OFFSET_DEFAULT=y; the \
             base boots with randomize_kstack_offset=off to measure it"
        );
    }

    #[test]
    fn the_boot_line_of_the_base_overrides_its_configuration() {
        let off = "init_on_alloc=1 init_on_alloc=0";
        assert_eq!(found_parts("init_on_alloc=1", off, DEBIAN_6_1), []);
        let on = found_parts("audit=1", "audit=on", DEBIAN_6_1);
        let because = "the base's boot line has audit=on".to_owned();
        assert_eq!(on, [("audit=1".to_owned(), because, "audit=0".to_owned())]);
        // An unknown parameter is on if the base has the same one.
        let unknown = found_parts("foo=7", "foo=7", DEBIAN_6_1);
        assert_eq!(unknown[0].2, "");
        assert_eq!(found_parts("foo=7", "foo=8", DEBIAN_6_1), []);
    }

    /// Since 6.16 Kconfig asks whether usercopy is checked by default.
    #[test]
    fn an_option_is_on_by_default_in_kernels_older_than_it() {
        let newer =
            "CONFIG_HARDENED_USERCOPY=y\n# CONFIG_HARDENED_USERCOPY_DEFAULT_ON is not set\n";
        assert_eq!(off_parameter("hardened_usercopy=1", newer), "");
        assert_eq!(
            off_parameter("hardened_usercopy=1", "CONFIG_HARDENED_USERCOPY=y"),
            "hardened_usercopy=off"
        );
    }

    #[test]
    fn parameters_of_missing_options_are_ineffective() {
        let addition =
            AdditionParts { name: "a", boot_line: "page_poison=1 audit=1 quiet", config: &[] };
        let found = ineffective_parameters(&addition, DEBIAN_6_1);
        let expected = ("page_poison=1".to_owned(), "CONFIG_PAGE_POISONING is not set".to_owned());
        assert_eq!(found, [expected]);
    }

    #[test]
    fn options_that_the_base_has_are_turned_off_in_it() {
        let replacement = |config: &[&str], base: &str| {
            let config: Vec<String> = config.iter().map(|text| (*text).to_owned()).collect();
            let addition = AdditionParts { name: "a", boot_line: "", config: &config };
            parts_already_on(&addition, "", base).pop().map(|part| part.replacement)
        };
        let zero = ["CONFIG_INIT_STACK_NONE=n", "CONFIG_INIT_STACK_ALL_ZERO=y"];
        assert_eq!(replacement(&zero, DEBIAN_6_12).as_deref(), Some("CONFIG_INIT_STACK_NONE=y"));
        assert_eq!(replacement(&zero, "CONFIG_INIT_STACK_NONE=y"), None);
        let usercopy = replacement(&["CONFIG_HARDENED_USERCOPY=y"], DEBIAN_6_12);
        assert_eq!(usercopy.as_deref(), Some("CONFIG_HARDENED_USERCOPY=n"));
        // One of the two options is off, so the addition measures the cost of that option.
        let both = ["CONFIG_HARDENED_USERCOPY=y", "CONFIG_PAGE_POISONING=y"];
        assert_eq!(replacement(&both, DEBIAN_6_12), None);
        assert_eq!(replacement(&["a.config"], DEBIAN_6_12), None);
    }

    /// Each addition of a built-in ledger is off in the base that is measured.
    #[test]
    fn no_addition_of_a_shipped_ledger_is_on_in_its_base() {
        let mut turned_off = Vec::new();
        for file in ledgers() {
            let ledger = Ledger::parse(file.text, file.name).unwrap();
            for config in [DEBIAN_6_1, DEBIAN_6_12] {
                let on = ledger.already_on(config);
                turned_off.extend(on.iter().map(|part| (file.name, part.setting.clone())));
                let without = ledger.clone().without_parts(&on).unwrap();
                let left = without.already_on(config);
                // Options show in the configuration of a base that is built again.
                let left: Vec<_> =
                    left.iter().filter(|part| !part.replacement.contains("CONFIG_")).collect();
                assert!(left.is_empty(), "{}: {left:?}", file.name);
                let ineffective = ledger.ineffective_parameters(config);
                assert!(ineffective.is_empty(), "{}: {ineffective:?}", file.name);
            }
        }
        for what in ["randomize_kstack_offset=on", "vsyscall=none"] {
            let wanted = ("hardening-boot", what.to_owned());
            assert!(turned_off.contains(&wanted), "{turned_off:?}");
        }
    }
}
