//! Rows over kernels.

use std::collections::BTreeMap;

use super::error::StoredError;
use super::names::Names;
use super::open::Stored;
use crate::analyse::{self, PointCounts};
use crate::flow::error::Error;
use crate::index::{StoredPoint, StoredSubject};
use crate::model::{History, HistoryLine, HistoryPoint, METRICS, Metric, metric};
use crate::rundir::profile::parse;
use crate::text::{nearest, short_hashes};

/// What a history is of.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HistoryOrder {
    /// Rows; all where there are none.
    pub rows: Vec<String>,
    /// A function, whose own counts are followed instead of the rows'.
    pub function: Option<String>,
    /// A Metric.
    pub metric: String,
    /// Subjects in their order; all, by their versions, where there are none.
    pub along: Vec<String>,
    /// The boot line of all, where only one is of interest.
    pub boot_line: Option<String>,
    /// A difference below this many percent is no step.
    pub threshold_percent: f64,
}

/// What the points of a line have in common: the row, the lineage, how they were measured.
type Key = (String, String, i64, i64);

impl Stored {
    /// What rows cost over kernels, and where the cost steps.
    ///
    /// # Errors
    /// The store has none of them.
    pub fn history(&self, order: &HistoryOrder) -> Result<History, Error> {
        let names = Names::of(self)?;
        let metric = metric(&order.metric).ok_or_else(|| StoredError::NoMetric {
            name: order.metric.clone(),
            known: METRICS.map(|metric| metric.name).join(", "),
        })?;
        let lineage = Lineage::of(order, &names)?;
        let mut lines: BTreeMap<Key, Vec<(usize, StoredPoint)>> = BTreeMap::new();
        for point in self.points(order)? {
            let is_wanted = order.boot_line.as_ref().is_none_or(|it| *it == point.boot_line);
            if let Some((name, place)) = lineage.place(&point).filter(|_| is_wanted) {
                let of = &point.of;
                let key = (of.row.clone(), name, of.workload, of.conditions);
                lines.entry(key).or_default().push((place, point));
            }
        }
        let mut lines = lines
            .into_iter()
            .map(|(key, points)| self.line(order, metric, &names, key, points))
            .collect::<Result<Vec<_>, Error>>()?;
        // Of one lineage the line that begins first stands first.
        lines.sort_by_key(|line| {
            let first = line.points.first().map(|point| point.place);
            (line.row.clone(), line.lineage.clone(), first)
        });
        if lines.is_empty() {
            Err(StoredError::Empty)?;
        }
        let none = || {
            lines.iter().all(|line| line.points.iter().all(|it| it.values.iter().all(|n| *n == 0)))
        };
        if let Some(function) = order.function.as_ref().filter(|_| none()) {
            Err(StoredError::NoFunction { function: function.clone() })?;
        }
        let HistoryOrder { function, threshold_percent, .. } = order.clone();
        Ok(History { metric: metric.name.to_owned(), function, threshold_percent, lines })
    }

    /// Of the rows that are asked for.
    fn points(&self, order: &HistoryOrder) -> Result<Vec<StoredPoint>, Error> {
        if order.rows.is_empty() {
            return Ok(self.index.points(None, &order.metric)?);
        }
        let mut all = Vec::new();
        for row in &order.rows {
            let points = self.index.points(Some(row), &order.metric)?;
            if points.is_empty() {
                let known = self.index.rows()?;
                let near = nearest(row, known.iter().map(String::as_str)).map(str::to_owned);
                Err(StoredError::NoRow { row: row.clone(), near })?;
            }
            all.extend(points);
        }
        Ok(all)
    }

    fn line(
        &self,
        order: &HistoryOrder,
        metric: &Metric,
        names: &Names,
        (row, lineage, ..): Key,
        mut points: Vec<(usize, StoredPoint)>,
    ) -> Result<HistoryLine, Error> {
        points.sort_by_key(|(place, _)| *place);
        if let Some(function) = &order.function {
            for (_, point) in &mut points {
                point.raw = self.of_function(&point.of.object, function, metric)?;
                point.whole.clone_from(&point.raw);
            }
        }
        let measured = |(_, point): &(usize, StoredPoint)| PointCounts {
            raw: point.raw.clone(),
            whole: point.whole.clone(),
            signature: point.signature.clone(),
        };
        let all: Vec<PointCounts> = points.iter().map(measured).collect();
        let first = &points[0].1;
        let ops = first.ops;
        let against = analyse::against_anchors(&all, ops, order.threshold_percent);
        let [qemu, guest, machine] = [&first.qemu, &first.guest, &first.machine];
        let layouts = first.raw.len();
        let measured =
            format!("QEMU {qemu}, guest {}, {machine}, {layouts} layouts", short_hashes(guest));
        let operation = first.operation.clone();
        let points = points.into_iter().zip(against).map(|((place, point), against)| {
            let tags = names.tags(&point.kernel_sha256, &point.boot_line);
            let name = names.name_of(&point.kernel_sha256, &point.boot_line);
            // Who names the subjects may name one kernel with several boot lines.
            let kernel = if order.along.is_empty() { point.kernel } else { name.clone() };
            HistoryPoint { place, name, kernel, tags, values: point.raw, against }
        });
        let points = points.collect();
        Ok(HistoryLine { row, operation, ops, lineage, measured, points })
    }

    /// What a function itself executed, under each layout; clones that compilers made count as one.
    fn of_function(
        &self,
        object: &str,
        function: &str,
        metric: &Metric,
    ) -> Result<Vec<u64>, Error> {
        let measurement = self.measurement(object)?;
        let of_layout = |profile: &str| {
            let lines = parse(profile).map(|parsed| parsed.profile.lines).unwrap_or_default();
            let own = lines.iter().filter(|line| {
                line.context == metric.context && analyse::plain(&line.function) == function
            });
            own.map(|line| (metric.count)(&line.counts)).sum()
        };
        Ok(measurement.layouts.iter().map(|layout| of_layout(&layout.profile)).collect())
    }
}

/// The order of kernels.
struct Lineage {
    /// Where a subject is, and in which lineage.
    places: BTreeMap<(String, String), (String, usize)>,
}

impl Lineage {
    fn of(order: &HistoryOrder, names: &Names) -> Result<Lineage, Error> {
        let key = |it: &StoredSubject| (it.kernel_sha256.clone(), it.boot_line.clone());
        if !order.along.is_empty() {
            let found = order.along.iter().map(|name| names.find(name));
            let found = found.collect::<Result<Vec<_>, Error>>()?;
            let places = found.into_iter().enumerate();
            let places = places.map(|(at, it)| (key(it), (String::new(), at))).collect();
            return Ok(Lineage { places });
        }
        let mut subjects: Vec<&StoredSubject> = names.subjects().iter().collect();
        // A package's version tells two kernels of one release apart.
        let version = |it: &&StoredSubject| {
            let version = format!("{} {}", it.kernel, it.source);
            // A candidate comes before its release.
            version.replace("-rc", "\u{1}rc").replace('~', "\u{1}")
        };
        subjects.sort_by(|one, other| alphanumeric_sort::compare_str(version(one), version(other)));
        let mut places = BTreeMap::new();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for subject in subjects {
            let lineage = lineage(subject);
            let count = counts.entry(lineage.clone()).or_default();
            places.insert(key(subject), (lineage, *count));
            *count += 1;
        }
        Ok(Lineage { places })
    }

    fn place(&self, point: &StoredPoint) -> Option<(String, usize)> {
        self.places.get(&(point.kernel_sha256.clone(), point.boot_line.clone())).cloned()
    }
}

/// What follows the numbers of a release, `-cloud-amd64`, and the boot line: kernels that differ in
/// more than their version are no lineage.
fn lineage(subject: &StoredSubject) -> String {
    let is_version = |c: char| c.is_ascii_digit() || c == '.' || c == '-' || c == '+';
    let flavour = subject.kernel.trim_start_matches(is_version);
    // A release candidate is a version, too.
    let flavour = match flavour.strip_prefix("rc") {
        Some(rest) => rest.trim_start_matches(is_version),
        None => flavour,
    };
    let words = [flavour, subject.boot_line.as_str()];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}
