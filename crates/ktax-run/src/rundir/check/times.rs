use ktax_model::TimesPlan;

/// What no Plan of ktax's is, and what would take all memory or never end.
pub(super) fn check(plan: &TimesPlan, threshold_percent: f64) -> Result<(), &'static str> {
    let TimesPlan { loops, pairs, most_pairs, .. } = plan;
    let within = |value: u32, most: u32| (1..=most).contains(&value);
    let rows = plan.workloads().count();
    if !within(*loops, 1000) || plan.headline.is_empty() || rows > 10_000 {
        Err("it has no loops or no rows, or too many of them")
    } else if !within(*most_pairs, 10_000) || !within(pairs.unwrap_or(1), 10_000) {
        Err("it has no pairs, or too many of them")
    } else if !(threshold_percent > 0.0 && threshold_percent <= 100.0) {
        Err("its threshold is not above 0 and at most 100 percent")
    } else if plan.workloads().any(|workload| workload.ops == 0) {
        Err("a row has no operations")
    } else {
        Ok(())
    }
}
