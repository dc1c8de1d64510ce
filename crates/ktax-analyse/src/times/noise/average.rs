use ktax_model::{Noise, TimedPair};

/// Others' share of the time of `cpus` CPUs from which all of them are busy with others' work, in
/// percent. Beside one task of ours, as many busy loops as CPUs get N/(N+1) of the time, and one
/// less, which leaves us a CPU, (N-1)/N; this is the middle.
pub fn busy_limit_percent(cpus: u32) -> f64 {
    let cpus = f64::from(cpus.max(1));
    100.0 * ((cpus - 1.0) / cpus + cpus / (cpus + 1.0)) / 2.0
}

/// What there was meanwhile, over all pairs, by their CPU time.
pub struct Average {
    pub steal_percent: f64,
    pub others_percent: f64,
    /// [`busy_limit_percent`].
    pub limit_percent: f64,
    /// Of one CPU's time, so it can be more than 100.
    pub others_of_one_percent: f64,
    pub throttled: u64,
    /// The most that there were.
    pub cpus: u32,
}

impl Average {
    /// Nothing of pairs that took no time.
    pub fn of(pairs: &[TimedPair]) -> Option<Average> {
        let noises = || pairs.iter().map(|pair| &pair.noise).filter(|noise| noise.seconds > 0.0);
        let cpu_time = noises().map(|noise| noise.seconds * f64::from(noise.cpus)).sum::<f64>();
        let time: f64 = noises().map(|noise| noise.seconds).sum();
        if cpu_time <= 0.0 {
            return None;
        }
        let cpu_seconds = |share: &dyn Fn(&Noise) -> f64| -> f64 {
            noises().map(|noise| share(noise) * noise.seconds * f64::from(noise.cpus)).sum()
        };
        let others = cpu_seconds(&|noise| noise.others_percent);
        Some(Average {
            steal_percent: cpu_seconds(&|noise| noise.steal_percent) / cpu_time,
            others_percent: others / cpu_time,
            limit_percent: cpu_seconds(&|noise| busy_limit_percent(noise.cpus)) / cpu_time,
            others_of_one_percent: others / time,
            throttled: noises().fold(0, |sum, noise| sum.saturating_add(noise.throttled)),
            cpus: noises().map(|noise| noise.cpus).max()?,
        })
    }
}
