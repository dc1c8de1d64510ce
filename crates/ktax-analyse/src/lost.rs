use ktax_model::{Boot, Side, Step, TimedPair, Warning};

/// Boots and Runs that the host lost, and that were made once more.
pub(super) fn warnings<'a>(boots: impl Iterator<Item = (&'a Step, &'a Boot)>) -> Vec<Warning> {
    let of_boot = |(step, boot): (&Step, &'a Boot)| {
        let name = step.name();
        boot.lost.iter().map(move |why| Warning {
            fact: format!("ktax made boot {name} or a run of it a second time: {why}"),
            next_step: "the counts are as good as any; `dmesg` may say what ended QEMU".into(),
        })
    };
    boots.flat_map(of_boot).collect()
}

/// The same of timed Boots.
pub(super) fn of_pairs(pairs: &[TimedPair]) -> Vec<Warning> {
    let of_pair = |pair: &TimedPair| {
        let lost = Side::BOTH.map(|side| pair.boots.get(side).lost.clone());
        let index = pair.index;
        lost.into_iter().flatten().map(move |why| Warning {
            fact: format!("ktax made a boot of pair {index} a second time: {why}"),
            next_step: "the times are as good as any; `dmesg` may say what ended QEMU".into(),
        })
    };
    pairs.iter().flat_map(of_pair).collect()
}
