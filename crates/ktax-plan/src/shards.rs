//! A campaign's rows divided into shards: the longest first, each about as long as the others.

use ktax_model::CampaignUnit;

/// A shard takes about so long on one CPU, seconds: long beside what a scheduler takes to start it,
/// short beside what is lost if the machine is.
const SHARD_S: f64 = 600.0;

/// Slurm numbers the jobs of an array up to 1000, where nobody has set `MaxArraySize`.
pub const SHARDS: std::ops::RangeInclusive<usize> = 1..=1000;

/// What a Subject's rows take, in seconds on one CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// The Boots that all rows start from.
    pub boots: f64,
    /// Each row, by its place; nothing where it is measured already.
    pub rows: Vec<Option<f64>>,
}

/// Divides the rows of Subjects into so many shards, or into shards of about ten minutes.
pub fn divide(subjects: &[Costs], shards: Option<usize>) -> Vec<Vec<CampaignUnit>> {
    let all: f64 = subjects.iter().map(Costs::total).sum();
    let wanted = shards.unwrap_or((all / SHARD_S).ceil() as usize);
    let wanted = wanted.clamp(*SHARDS.start(), *SHARDS.end());
    let busy = subjects.iter().filter(|it| it.left().count() > 0).count().max(1);
    // A Subject's Boots are made again in each part: no more parts than that takes.
    let parts = wanted.div_ceil(busy);
    let mut units: Vec<CampaignUnit> = subjects
        .iter()
        .enumerate()
        .flat_map(|(subject, costs)| costs.parts(subject, parts))
        .collect();
    units.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let mut bins = spread(units, wanted, |unit| unit.seconds);
    bins.retain(|bin| !bin.is_empty());
    let length = |bin: &Vec<CampaignUnit>| bin.iter().map(|unit| unit.seconds).sum::<f64>();
    bins.sort_by(|a, b| length(b).total_cmp(&length(a)));
    bins
}

impl Costs {
    fn left(&self) -> impl Iterator<Item = (usize, f64)> {
        self.rows.iter().enumerate().filter_map(|(row, cost)| Some((row, (*cost)?)))
    }

    fn total(&self) -> f64 {
        match self.left().map(|(_, cost)| cost).sum::<f64>() {
            0.0 => 0.0,
            rows => self.boots + rows,
        }
    }

    /// At least so many, if there are as many rows, and none much longer than a shard.
    fn parts(&self, subject: usize, least: usize) -> Vec<CampaignUnit> {
        let mut rows: Vec<(usize, f64)> = self.left().collect();
        rows.sort_by(|a, b| b.1.total_cmp(&a.1));
        let long = (self.total() / SHARD_S).ceil() as usize;
        let parts = spread(rows, least.max(long).max(1), |(_, cost)| *cost);
        let unit = |rows: Vec<(usize, f64)>| {
            let seconds = self.boots + rows.iter().map(|(_, cost)| cost).sum::<f64>();
            let mut rows: Vec<usize> = rows.into_iter().map(|(row, _)| row).collect();
            rows.sort_unstable();
            CampaignUnit { subject, rows, seconds }
        };
        parts.into_iter().filter(|part| !part.is_empty()).map(unit).collect()
    }
}

/// Puts each, the longest first, where there is least.
fn spread<T>(longest_first: Vec<T>, bins: usize, cost: impl Fn(&T) -> f64) -> Vec<Vec<T>> {
    let mut filled: Vec<(f64, Vec<T>)> = (0..bins).map(|_| (0.0, Vec::new())).collect();
    for one in longest_first {
        // Of equals the first, so that the same costs give the same shards.
        let least = filled.iter_mut().min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((sum, bin)) = least {
            *sum += cost(&one);
            bin.push(one);
        }
    }
    filled.into_iter().map(|(_, bin)| bin).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn costs() -> impl Strategy<Value = Vec<Costs>> {
        let rows = proptest::collection::vec(proptest::option::of(0.1_f64..90.0), 1..40);
        let one = (1.0_f64..30.0, rows).prop_map(|(boots, rows)| Costs { boots, rows });
        proptest::collection::vec(one, 1..30)
    }

    fn seconds(shard: &[CampaignUnit]) -> f64 {
        shard.iter().map(|unit| unit.seconds).sum()
    }

    proptest! {
        #[test]
        fn every_row_that_is_left_is_in_one_shard(
            all in costs(), shards in proptest::option::of(1_usize..60),
        ) {
            let divided = divide(&all, shards);
            let mut found: Vec<(usize, usize)> = divided
                .iter()
                .flatten()
                .flat_map(|unit| unit.rows.iter().map(|row| (unit.subject, *row)))
                .collect();
            found.sort_unstable();
            let expected: Vec<(usize, usize)> = all
                .iter()
                .enumerate()
                .flat_map(|(subject, it)| it.left().map(move |(row, _)| (subject, row)))
                .collect();
            prop_assert_eq!(found, expected);
            prop_assert!(shards.is_none_or(|shards| divided.len() <= shards));
            // The longest first, and none longer than the shortest and one unit.
            let lengths: Vec<f64> = divided.iter().map(|shard| seconds(shard)).collect();
            prop_assert!(lengths.is_sorted_by(|a, b| a >= b));
            let longest_unit = divided.iter().flatten().map(|it| it.seconds).fold(0.0, f64::max);
            if let (Some(first), Some(last)) = (lengths.first(), lengths.last()) {
                prop_assert!(first - last <= longest_unit + 1e-6);
            }
        }
    }

    #[test]
    fn a_subject_is_divided_only_where_there_are_more_shards_than_subjects() {
        let one = Costs { boots: 10.0, rows: vec![Some(1.0); 30] };
        let units = |all: &[Costs], shards| -> Vec<usize> {
            divide(all, shards).iter().map(Vec::len).collect()
        };
        let six = vec![one.clone(); 6];
        // 240 s are one shard; with more of them each has its part of the rows.
        assert_eq!(units(&six, None), [6]);
        assert_eq!(units(&six, Some(3)), [2, 2, 2]);
        assert_eq!(units(&six, Some(12)), [1; 12]);
        // What takes hours is cut into shards of ten minutes.
        let long = Costs { boots: 10.0, rows: vec![Some(200.0); 30] };
        let shards = divide(&[long], None);
        assert!(shards.len() > 9, "{}", shards.len());
        assert!(shards.iter().all(|shard| seconds(shard) < 900.0));
        // What is measured already is not divided.
        let none = Costs { boots: 10.0, rows: vec![None; 3] };
        assert!(divide(&[none], Some(4)).is_empty());
    }
}
