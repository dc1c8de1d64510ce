//! Boot parameters that do nothing.

use ktax_host::text::nearest;
use ktax_model::boot_line::{parameters, unquoted};
use ktax_model::{Side, Warning};

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

/// The parameters that Linux 6.1 documents (kernel-parameters.txt), one on each line.
const DOCUMENTED: &str = include_str!("../../../kernels/parameters.txt");

/// Among so many names a short one, or one of another length, is alike by chance.
const SHORTEST: usize = 4;
const LENGTHS_APART: usize = 2;

/// The documented parameter that a mistyped one probably means.
fn meant(parameter: &str) -> Option<&'static str> {
    let name = parameter.split('=').next().unwrap_or_default().trim_matches('"');
    let is_near = |near: &&str| near.len().abs_diff(name.len()) <= LENGTHS_APART;
    let near = nearest(name, DOCUMENTED.lines().filter(is_near))?;
    (name.len() >= SHORTEST && near != name).then_some(near)
}

/// One warning for each parameter of a Subject that its kernel does not know. A mistyped parameter
/// changes nothing, so nothing would be found. `is_ignored` is asked for a parameter as init gets
/// it; parameters of modules, `module.parameter`, never get there.
pub fn unknown_parameters(
    side: Side,
    boot_line: &str,
    is_ignored: impl Fn(&str) -> bool,
) -> Vec<Warning> {
    let asked = |word: &&str| {
        let said = unquoted(word);
        let name = said.split('=').next().unwrap_or_default();
        !READ_EARLY.contains(&name) && is_ignored(&said)
    };
    let hint = |parameter: &str| match meant(parameter) {
        Some(near) => format!(" (did you mean {near}?)"),
        None => String::new(),
    };
    let warning = |parameter: &str| Warning {
        fact: format!(
            "the {}'s kernel does not know the boot parameter {parameter}{}",
            side.name(),
            hint(parameter)
        ),
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
        let warnings = unknown_parameters(Side::Change, line, |word| handed_on.contains(&word));
        let facts: Vec<&str> = warnings.iter().map(|warning| warning.fact.as_str()).collect();
        let about = "the change's kernel does not know the boot parameter";
        let expected = [format!("{about} \"b\""), format!("{about} foo=\"x y\"")];
        assert_eq!(facts, expected);
    }

    #[test]
    fn a_mistyped_parameter_is_named_with_the_one_that_was_meant() {
        let facts = |line: &str| {
            let warnings = unknown_parameters(Side::Base, line, |_| true);
            warnings.into_iter().map(|warning| warning.fact).collect::<String>()
        };
        assert!(facts("mitigatons=off").ends_with("mitigatons=off (did you mean mitigations?)"));
        assert!(facts("init_on_aloc=1").ends_with("(did you mean init_on_alloc?)"));
        // A kernel may be built without it: the name itself is right.
        assert!(facts("audit=1").ends_with("audit=1"));
        assert!(facts("xyzzy=1").ends_with("xyzzy=1"));
    }
}
