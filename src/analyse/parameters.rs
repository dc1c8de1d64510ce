//! Boot parameters that do nothing.

use std::collections::BTreeSet;

use crate::model::{Side, Warning};

/// Parameters that arch/x86 looks for in the command line itself (cmdline_find_option): the kernel
/// proper does not know them, and hands them to init although they work.
const READ_EARLY: [&str; 20] = [
    "clearcpuid",
    "dis_ucode_ldr",
    "fred",
    "mem_encrypt",
    "no387",
    "no5lvl",
    "nofxsr",
    "nokaslr",
    "nopti",
    "nospec_store_bypass_disable",
    "nospectre_v2",
    "nousershstk",
    "noxsave",
    "noxsaveopt",
    "noxsaves",
    "pti",
    "spec_store_bypass_disable",
    "spectre_v2",
    "spectre_v2_user",
    "tsx",
];

/// A mistyped parameter changes nothing, and then nothing is found. Only the Subject's own are
/// named.
pub(super) fn unknown(side: Side, boot_line: &str, ignored: &BTreeSet<&str>) -> Vec<Warning> {
    let asked = |word: &&str| {
        let name = word.split('=').next().unwrap_or_default();
        !READ_EARLY.contains(&name) && boot_line.split_whitespace().any(|own| own == *word)
    };
    let warning = |parameter: &str| Warning {
        fact: format!("the {}'s kernel does not know the boot parameter {parameter}", side.name()),
        next_step: "check its spelling, and whether this kernel is built with it".into(),
    };
    ignored.iter().copied().filter(asked).map(warning).collect()
}
