//! Where the cost of a line steps, by how much, and which functions carry it.

use crate::number;
use ktax_model::{AgainstBefore, History, HistoryLine, HistoryPoint, Verdict};

/// A place of a line at which the cost steps.
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
    /// The step at an index of a line, if there is one.
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

    /// Whether the two kernels are of different series, such as 6.1 and 6.12.
    pub fn is_between_series(&self) -> bool {
        series(&self.base.kernel) != series(&self.point.kernel)
    }

    /// How large it is in percent, without its sign; what begins from nothing is largest.
    pub fn size(&self) -> f64 {
        self.percent.map_or(f64::INFINITY, f64::abs)
    }

    /// `+1.22 %`.
    pub fn shown_percent(&self) -> String {
        match self.percent {
            None => "new".to_owned(),
            percent => format!("{} %", number::percent(percent)),
        }
    }

    /// `do_statx +8.00, fput -1.00`: the functions that carry most, at most so many.
    pub fn carried_by(&self, most: usize) -> String {
        let one =
            |it: &ktax_model::StepFunction| format!("{} {}", it.function, number::delta(it.delta));
        let all: Vec<String> = self.point.functions.iter().take(most).map(one).collect();
        all.join(", ")
    }

    /// `+1.22 % at 6.1.0-50 (do_statx +8.00)`.
    pub fn answer(&self) -> String {
        let functions = match self.carried_by(2) {
            functions if functions.is_empty() => functions,
            functions => format!(" ({functions})"),
        };
        format!("{} at {}{functions}", self.shown_percent(), short(self.line, &self.point.kernel))
    }
}

/// All steps of a line, in the order of its kernels.
pub fn steps(line: &HistoryLine) -> impl Iterator<Item = CostStep<'_>> {
    (1..line.points.len()).filter_map(|index| CostStep::find(line, index))
}

/// The largest step of a line: of those between series, or of those within one.
pub fn largest(line: &HistoryLine, is_between_series: bool) -> Option<CostStep<'_>> {
    let wanted = steps(line).filter(|step| step.is_between_series() == is_between_series);
    wanted.max_by(|one, other| one.size().total_cmp(&other.size()))
}

/// The largest MDE of the points of a line, in percent: a line without a step would have shown a
/// larger one. Absent where no point has one.
pub fn largest_detectable(line: &HistoryLine) -> Option<f64> {
    let before = line.points.iter().filter_map(|point| point.before.as_ref());
    before.filter_map(|before| before.detectable_percent).max_by(f64::total_cmp)
}

/// The lines that are about one row and the same kernels, largest step first: steps within a
/// series come before steps between series.
pub fn by_size(history: &History) -> Vec<&[HistoryLine]> {
    let size = |line: &HistoryLine, between| largest(line, between).map_or(0.0, |it| it.size());
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

/// The lines of a row that are about the same kernels, and were measured in different ways.
pub fn lineages(lines: &[HistoryLine]) -> impl Iterator<Item = &[HistoryLine]> {
    lines.chunk_by(|one, other| one.row == other.row && one.lineage == other.lineage)
}

/// The series of a kernel's name: 6 and 12 of `6.12.57+deb12-cloud-amd64` and of `v6.12-rc1`;
/// absent where the name begins with no version.
pub fn series(kernel: &str) -> Option<(u32, u32)> {
    let version = kernel.strip_prefix('v').unwrap_or(kernel);
    let mut numbers = version.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// A kernel's name without the flavour that all kernels of its line have.
pub fn short<'a>(line: &HistoryLine, kernel: &'a str) -> &'a str {
    let flavour = line.lineage.split(' ').next().unwrap_or_default();
    let without = kernel.strip_suffix(flavour).and_then(|name| name.strip_suffix('-'));
    without.filter(|_| !flavour.is_empty()).unwrap_or(kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
