use ktax_model::HistoryLine;

/// From the least cost of a line to its largest.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The change in percent of the least cost that has full height, where no larger one is there: what
/// layouts move would fill the whole height otherwise.
const FULL_PERCENT: f64 = 2.0;

/// As many as a table has room for: of a longer line the newest.
const MOST: usize = 20;

/// A bar for each point, from the least cost of the line up.
pub fn sparkline(line: &HistoryLine) -> String {
    let costs: Vec<f64> = shown(line).map(|index| line.points[index].cost(line.ops)).collect();
    let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let most = costs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let full = (most - least).max(least * FULL_PERCENT / 100.0);
    let bar = |cost: &f64| {
        let share = if full > 0.0 { (cost - least) / full } else { 0.0 };
        BARS[(share * (BARS.len() - 1) as f64).round() as usize]
    };
    let begins = if line.points.len() > MOST { "…" } else { "" };
    begins.chars().chain(costs.iter().map(bar)).collect()
}

fn shown(line: &HistoryLine) -> impl Iterator<Item = usize> + '_ {
    line.points.len().saturating_sub(MOST)..line.points.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_model::HistoryPoint;

    fn line(costs: &[u64]) -> HistoryLine {
        let point = |(place, cost): (usize, &u64)| HistoryPoint {
            place,
            name: String::new(),
            kernel: String::new(),
            package: None,
            boot_line: String::new(),
            tags: Vec::new(),
            values: vec![*cost],
            against: None,
            before: None,
            functions: Vec::new(),
        };
        HistoryLine {
            row: String::new(),
            operation: String::new(),
            ops: 1,
            lineage: String::new(),
            measured: String::new(),
            asked: None,
            points: costs.iter().enumerate().map(point).collect(),
        }
    }

    #[test]
    fn the_least_is_lowest_and_the_most_highest() {
        assert_eq!(sparkline(&line(&[10, 10, 17, 24])), "▁▁▅█");
        assert_eq!(sparkline(&line(&[5, 5])), "▁▁");
        // A wiggle of 0.1 % is flat, and a step of 2 % has full height.
        assert_eq!(sparkline(&line(&[10_000, 10_010, 10_000])), "▁▁▁");
        assert_eq!(sparkline(&line(&[10_000, 10_200, 10_010])), "▁█▁");
        assert_eq!(sparkline(&line(&[])), "");
        let long: Vec<u64> = (0..100).collect();
        let drawn = sparkline(&line(&long));
        assert!(drawn.starts_with("…▁") && drawn.ends_with('█'));
        assert_eq!(drawn.chars().count(), MOST + 1);
    }
}
