use crate::model::HistoryLine;

/// From the least cost of a line to its largest.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// As many as a table has room for: of a longer line the newest.
const MOST: usize = 20;

/// A bar for each point: how high it is says only how the points of this line lie to each other.
pub fn sparkline(line: &HistoryLine) -> String {
    let costs: Vec<f64> = shown(line).map(|at| line.points[at].cost(line.ops)).collect();
    let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let most = costs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let bar = |cost: &f64| {
        let share = if most > least { (cost - least) / (most - least) } else { 0.0 };
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
    use crate::model::HistoryPoint;

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
        assert_eq!(sparkline(&line(&[])), "");
        let long: Vec<u64> = (0..100).collect();
        let drawn = sparkline(&line(&long));
        assert!(drawn.starts_with("…▁") && drawn.ends_with('█'));
        assert_eq!(drawn.chars().count(), MOST + 1);
    }
}
