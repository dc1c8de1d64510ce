//! Steps of a line: where they are, by how much, which functions carry them, how they are drawn.

use crate::number;
use crate::view::{KernelLevel, KernelPoint, Levels, Picture, Section};
use ktax_model::{AgainstBefore, History, HistoryLine, HistoryPoint, Verdict, metric};

/// Place of a line at which the cost steps.
#[derive(Clone, Copy)]
pub struct CostStep<'a> {
    /// The line.
    pub line: &'a HistoryLine,
    /// The kernel at which the cost steps.
    pub point: &'a HistoryPoint,
    /// The kernel that it is compared with: the one before, or the anchor of a slow rise.
    pub base: &'a HistoryPoint,
    /// `slower`, `faster` or `different work`.
    pub verdict: Verdict,
    /// Change in percent of the base; absent where the base costs nothing.
    pub percent: Option<f64>,
    /// The minimum detectable effect in percent; absent where it is not known.
    pub detectable_percent: Option<f64>,
}

impl<'a> CostStep<'a> {
    /// Returns the step at an index of a line, if there is one.
    fn find(line: &'a HistoryLine, index: usize) -> Option<CostStep<'a>> {
        let point = line.points.get(index)?;
        let base = line.points.get(point.step_base(index)?)?;
        let against = point.against.as_ref()?;
        let before = point.before.as_ref().filter(|before| before.verdict.is_change());
        let (verdict, percent, detectable_percent) = match before {
            Some(AgainstBefore { verdict, percent, detectable_percent, .. }) => {
                (*verdict, *percent, *detectable_percent)
            }
            None => (against.verdict, against.percent, against.detectable_percent),
        };
        Some(CostStep { line, point, base, verdict, percent, detectable_percent })
    }

    /// Tells whether the two kernels are of different series, such as 6.1 and 6.12.
    pub fn is_between_series(&self) -> bool {
        series(&self.base.kernel) != series(&self.point.kernel)
    }

    /// Size in percent, without its sign; infinite where the base costs nothing.
    pub fn size(&self) -> f64 {
        self.percent.map_or(f64::INFINITY, f64::abs)
    }

    /// Formats the change: `+1.22 %`, or `new`.
    pub fn shown_percent(&self) -> String {
        match self.percent {
            None => "new".to_owned(),
            percent => format!("{} %", number::percent(percent)),
        }
    }

    /// Names the functions that carry most, at most `most` of them: `do_statx +8.00, fput -1.00`.
    pub fn carried_by(&self, most: usize) -> String {
        let one = |carried: &ktax_model::StepFunction| {
            format!("{} {}", carried.function, number::delta(carried.delta))
        };
        let all: Vec<String> = self.point.functions.iter().take(most).map(one).collect();
        all.join(", ")
    }

    /// Answer of a step: `+1.22 % at 6.1.0-50 (do_statx +8.00)`.
    pub fn answer(&self) -> String {
        let functions = match self.carried_by(2) {
            functions if functions.is_empty() => functions,
            functions => format!(" ({functions})"),
        };
        format!("{} at {}{functions}", self.shown_percent(), short(self.line, &self.point.kernel))
    }
}

/// Returns all steps of a line, in the order of its kernels.
pub fn steps(line: &HistoryLine) -> impl Iterator<Item = CostStep<'_>> {
    (1..line.points.len()).filter_map(|index| CostStep::find(line, index))
}

/// Returns the largest step of a line: of those between series, or of those within one.
pub fn largest(line: &HistoryLine, is_between_series: bool) -> Option<CostStep<'_>> {
    let wanted = steps(line).filter(|step| step.is_between_series() == is_between_series);
    wanted.max_by(|one, other| one.size().total_cmp(&other.size()))
}

/// Returns the largest MDE of the points of a line, in percent: a line without a step would have
/// shown a larger one. `None` where no point has one.
pub fn largest_detectable(line: &HistoryLine) -> Option<f64> {
    let before = line.points.iter().filter_map(|point| point.before.as_ref());
    before.filter_map(|before| before.detectable_percent).max_by(f64::total_cmp)
}

/// Groups the lines about one row and the same kernels, largest step first: steps within a series
/// come before steps between series.
pub fn by_size(history: &History) -> Vec<&[HistoryLine]> {
    let size = |line: &HistoryLine, between| largest(line, between).map_or(0.0, |step| step.size());
    let key = |lines: &[HistoryLine]| {
        let most = |between| lines.iter().map(|line| size(line, between)).fold(0.0, f64::max);
        [most(false), most(true)]
    };
    let mut all: Vec<&[HistoryLine]> = lineages(&history.lines).collect();
    // Stable: rows with steps of one size stay in the order of their names.
    all.sort_by(|one, other| {
        let pairs = key(other).into_iter().zip(key(one));
        let orders = pairs.map(|(other, one)| other.total_cmp(&one));
        orders.reduce(std::cmp::Ordering::then).unwrap_or(std::cmp::Ordering::Equal)
    });
    all
}

/// Groups the lines of a row about the same kernels, which were measured in different ways.
pub fn lineages(lines: &[HistoryLine]) -> impl Iterator<Item = &[HistoryLine]> {
    lines.chunk_by(|one, other| one.row == other.row && one.lineage == other.lineage)
}

/// Parses the series of a kernel's name: 6 and 12 of `6.12.57+deb12-cloud-amd64` and of
/// `v6.12-rc1`; `None` where the name begins with no version.
pub fn series(kernel: &str) -> Option<(u32, u32)> {
    let version = kernel.strip_prefix('v').unwrap_or(kernel);
    let mut numbers = version.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Shortens a kernel's name by the flavour that all kernels of its line have.
pub fn short<'a>(line: &HistoryLine, kernel: &'a str) -> &'a str {
    let flavour = line.lineage.split(' ').next().unwrap_or_default();
    let without = kernel.strip_suffix(flavour).and_then(|name| name.strip_suffix('-'));
    without.filter(|_| !flavour.is_empty()).unwrap_or(kernel)
}

/// Picture of the cost of a row over kernels.
pub fn levels_picture(history: &History, lines: &[HistoryLine]) -> Section {
    let mut kernels: Vec<(usize, String)> = lines
        .iter()
        .flat_map(|line| {
            let name = |point: &HistoryPoint| short(line, &point.kernel).to_owned();
            line.points.iter().map(move |point| (point.place, name(point)))
        })
        .collect();
    kernels.sort();
    kernels.dedup_by_key(|(place, _)| *place);
    let place =
        |wanted: usize| kernels.iter().position(|(place, _)| *place == wanted).unwrap_or_default();
    let level = |line: &HistoryLine| KernelLevel {
        points: line
            .points
            .iter()
            .map(|point| {
                let step = steps(line).find(|step| step.point.place == point.place);
                KernelPoint {
                    place: place(point.place),
                    cost: point.cost(line.ops),
                    step: step.map(|step| step.verdict),
                    label: step.map(|step| step_label(&step)).unwrap_or_default(),
                    hover: point_hover(line, point, step),
                }
            })
            .collect(),
    };
    let levels = lines.iter().map(level).collect();
    let breaks = match lines.len() {
        1 => "",
        _ => " Where a line ends, another QEMU, guest or machine begins: the lines do not compare.",
    };
    Section::Picture {
        title: format!("{} over kernels", lines[0].row),
        picture: Picture::Levels(Levels {
            unit: metric(&history.metric).map_or("", |metric| metric.unit),
            levels,
            kernels: kernels.into_iter().map(|(_, kernel)| kernel).collect(),
        }),
        how: format!("Each dot is a kernel; a mark with a name is a step.{breaks}"),
    }
}

/// Label of a step: `6.1.0-50 +1.22 %`.
fn step_label(step: &CostStep<'_>) -> String {
    format!("{} {}", short(step.line, &step.point.kernel), step.shown_percent())
}

/// Text over a point: `6.1.0-50: 330.03, +0.31 % to the kernel before, MDE 0.10 %; do_statx +8.00`.
fn point_hover(line: &HistoryLine, point: &HistoryPoint, step: Option<CostStep<'_>>) -> String {
    let cost = number::count(point.cost(line.ops));
    let mut text = format!("{}: {cost}", short(line, &point.kernel));
    if let Some(AgainstBefore { percent, detectable_percent, .. }) = &point.before {
        text += &format!(", {} % to the kernel before", number::percent(*percent));
        if let Some(least) = detectable_percent {
            text += &format!(", MDE {} %", number::limit(*least));
        }
    }
    match step.map(|step| step.carried_by(2)).filter(|functions| !functions.is_empty()) {
        Some(functions) => format!("{text}; {functions}"),
        None => text,
    }
}

/// Bars from the least cost of a line to its largest.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Change in percent of the least cost that has full height, where no larger one is there: the
/// noise of layouts would fill the whole height otherwise.
const FULL_PERCENT: f64 = 2.0;

/// Number of bars that a table has room for: of a longer line the newest.
const MOST: usize = 20;

/// Draws a bar for each point, from the least cost of the line up.
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

    #[test]
    fn a_series_is_the_first_two_numbers() {
        for (kernel, found) in [
            ("6.1.0-50-cloud-amd64", Some((6, 1))),
            ("6.12.57+deb12-cloud-amd64", Some((6, 12))),
            ("v6.12-rc1", Some((6, 12))),
            ("before", None),
            ("7", None),
            ("99999999999.1", None),
        ] {
            assert_eq!(series(kernel), found, "{kernel}");
        }
    }

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
