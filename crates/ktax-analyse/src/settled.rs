//! Kernels that had not finished their boot when the workloads began.

use std::collections::BTreeSet;

use ktax_model::{Boot, Side, Step, Warning};

/// What is to be said of all Boots of a comparison.
pub(super) fn of_boots<'a>(
    boots: impl Iterator<Item = (&'a Step, &'a Boot)> + Clone,
) -> Vec<Warning> {
    let of = |side: Side| {
        let own = boots.clone().filter(move |(step, _)| step.side == side).map(|(_, boot)| boot);
        let busy = own.clone().flat_map(|boot| boot.busy.iter()).map(String::as_str).collect();
        warnings(side, &busy, own.clone().any(|boot| boot.is_unseeded))
    };
    Side::BOTH.into_iter().flat_map(of).collect()
}

/// What is to be said of one Side: who still ran, and whether the random numbers had no seed.
pub(super) fn warnings(side: Side, busy: &BTreeSet<&str>, is_unseeded: bool) -> Vec<Warning> {
    let side = side.name();
    let names = busy.iter().copied().collect::<Vec<_>>().join(", ");
    let was_busy = (!busy.is_empty()).then(|| Warning {
        fact: format!("the {side}'s kernel was not idle when the workloads began: {names} ran"),
        next_step: "what these threads do adds to the times and to the background of each row; \
                    turn them off, as with cryptomgr.notests for self-tests"
            .into(),
    });
    let unseeded = is_unseeded.then(|| Warning {
        fact: format!(
            "the {side}'s kernel has no seed for its random numbers, which makes it slower"
        ),
        next_step: "boot with random.trust_cpu=on and a CPU model that has RDRAND".into(),
    });
    was_busy.into_iter().chain(unseeded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_says_once_what_was_not_settled() {
        let busy = Boot { busy: vec!["ksmd".into(), "kcryptd".into()], ..Boot::default() };
        let step = |index, side| Step { index, side, layout: 0 };
        let boots = [
            (step(0, Side::Base), Boot::default()),
            (step(1, Side::Change), busy.clone()),
            (step(2, Side::Change), Boot { is_unseeded: true, ..busy }),
        ];
        let found = of_boots(boots.iter().map(|(step, boot)| (step, boot)));
        let facts: Vec<&str> = found.iter().map(|warning| warning.fact.as_str()).collect();
        let expected = [
            "the change's kernel was not idle when the workloads began: kcryptd, ksmd ran",
            "the change's kernel has no seed for its random numbers, which makes it slower",
        ];
        assert_eq!(facts, expected);
        assert_eq!(of_boots(boots[..1].iter().map(|(step, boot)| (step, boot))), []);
    }
}
