use super::average::Average;
use ktax_model::TimedPair;

/// Above this share of the time of the CPUs in use a hypervisor leaves nothing that can be
/// measured.
const MOST_STEAL_PERCENT: f64 = 10.0;

/// Why this machine cannot measure, with the figures and the next step: a hypervisor that takes
/// its CPUs away, or others that are busy on all of them.
pub fn cannot_measure(pairs: &[TimedPair]) -> Option<String> {
    let Average { steal_percent, others_percent, limit_percent, cpus, .. } = Average::of(pairs)?;
    if steal_percent > MOST_STEAL_PERCENT {
        return Some(format!(
            "a hypervisor ran something else for {steal_percent:.1} % of the time, and above \
             {MOST_STEAL_PERCENT} % times say nothing; measure on a machine that has its CPUs to \
             itself"
        ));
    }
    (others_percent > limit_percent).then(|| {
        format!(
            "others' work took {others_percent:.1} % of the time of the CPUs in use ({cpus}), and \
             above {limit_percent:.1} % none is left to what is measured; end what else runs, and \
             measure again"
        )
    })
}
