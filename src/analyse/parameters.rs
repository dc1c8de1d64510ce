//! Boot parameters that do nothing.

use crate::model::boot_line::{parameters, unquoted};
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
/// named; `is_ignored` is asked for one as init gets it.
pub(super) fn unknown(
    side: Side,
    boot_line: &str,
    is_ignored: impl Fn(&str) -> bool,
) -> Vec<Warning> {
    let asked = |word: &&str| {
        let said = unquoted(word);
        let name = said.split('=').next().unwrap_or_default();
        !READ_EARLY.contains(&name) && is_ignored(&said)
    };
    let warning = |parameter: &str| Warning {
        fact: format!("the {}'s kernel does not know the boot parameter {parameter}", side.name()),
        next_step: "check its spelling, and whether this kernel is built with it".into(),
    };
    let mut own = parameters(boot_line);
    own.sort_unstable();
    own.dedup();
    own.into_iter().filter(asked).map(warning).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_parameter_is_the_one_that_init_gets() {
        let handed_on = ["foo=x y", "nokaslr", "b"];
        let line = r#"quiet foo="x y" nokaslr "b" foo="x y""#;
        let warnings = unknown(Side::Change, line, |word| handed_on.contains(&word));
        let facts: Vec<&str> = warnings.iter().map(|warning| warning.fact.as_str()).collect();
        let about = "the change's kernel does not know the boot parameter";
        let expected = [format!("{about} \"b\""), format!("{about} foo=\"x y\"")];
        assert_eq!(facts, expected);
    }
}
