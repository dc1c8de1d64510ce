//! Which code of the kernels computes the checksums of a disk.

use std::collections::BTreeSet;

use ktax_model::{Boot, Side, Step, Warning};

/// The kernels' names of the code that computes crc32c, each once; empty without a disk.
pub(super) fn drivers<'a>(boots: impl Iterator<Item = (&'a Step, &'a Boot)>) -> Vec<String> {
    let all: BTreeSet<&String> = boots.filter_map(|(_, boot)| boot.crc32c.as_ref()).collect();
    all.into_iter().cloned().collect()
}

/// Says of each Side whose kernel computes checksums in plain C: CPUs have instructions for them.
pub(super) fn warnings<'a>(
    boots: impl Iterator<Item = (&'a Step, &'a Boot)> + Clone,
) -> Vec<Warning> {
    let warning = |side: Side| {
        let own = boots.clone().filter(|(step, _)| step.side == side);
        let plain = drivers(own).into_iter().find(|driver| driver.ends_with("-generic"))?;
        Some(Warning {
            fact: format!(
                "the {}'s kernel computes checksums of the disk by {plain}, in plain C, where \
                 processors of the last years have an instruction: rows that check metadata cost \
                 more than there",
                side.name()
            ),
            next_step: "build CONFIG_CRYPTO_CRC32C_INTEL=y into the kernel, or leave --cpu out"
                .into(),
        })
    };
    Side::BOTH.into_iter().filter_map(warning).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_in_plain_c_is_named() {
        let boot = |driver: &str| Boot { crc32c: Some(driver.into()), ..Boot::default() };
        let step = |side| Step { index: 0, side, layout: 0 };
        let base = (step(Side::Base), boot("crc32c-intel"));
        let change = (step(Side::Change), boot("crc32c-generic"));
        let none = (step(Side::Change), Boot::default());
        let seen = |boots: &[&(Step, Boot)]| {
            let boots = boots.iter().map(|(step, boot)| (step, boot));
            (drivers(boots.clone()), warnings(boots))
        };
        let (all, found) = seen(&[&base, &change, &base]);
        assert_eq!(all, ["crc32c-generic", "crc32c-intel"]);
        assert!(found.len() == 1 && found[0].fact.starts_with("the change's"), "{found:?}");
        assert_eq!(seen(&[&base, &none]), (vec!["crc32c-intel".to_owned()], Vec::new()));
    }
}
