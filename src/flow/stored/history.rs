//! Rows over kernels.

use std::collections::{BTreeMap, BTreeSet};

use super::error::StoredError;
use super::lineage::Lineage;
use super::log::is_row;
use super::names::Names;
use super::open::Stored;
use crate::analyse::{self, PointCounts};
use crate::disk::in_parts;
use crate::flow::error::Error;
use crate::index::{StoredPoint, StoredSubject};
use crate::model::{
    History, HistoryAsked, HistoryLine, HistoryPoint, METRICS, Machine, Metric, metric,
    module_and_parameters,
};
use crate::plan::bounds::THRESHOLD_PERCENT;
use crate::rundir::profile;
use crate::store::Store;
use crate::text::{nearest, shell_word, short_hashes};

/// What a history is of.
#[derive(Debug, Clone, PartialEq)]
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

impl HistoryOrder {
    /// All rows over all kernels.
    pub fn usual() -> HistoryOrder {
        HistoryOrder {
            rows: Vec::new(),
            function: None,
            metric: METRICS[0].name.to_owned(),
            along: Vec::new(),
            boot_line: None,
            threshold_percent: THRESHOLD_PERCENT,
        }
    }
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
        let lineage = Lineage::of(&order.along, &names)?;
        let mut lines: BTreeMap<Key, Vec<(usize, StoredPoint)>> = BTreeMap::new();
        let mut boot_lines = BTreeSet::new();
        for point in self.points(order)? {
            let is_wanted = order.boot_line.as_ref().is_none_or(|it| *it == point.boot_line);
            boot_lines.insert(point.boot_line.clone());
            if let Some((name, place)) = lineage.place(&point).filter(|_| is_wanted) {
                let of = &point.of;
                let key = (of.row.clone(), name, of.workload, of.conditions);
                lines.entry(key).or_default().push((place, point));
            }
        }
        if let Some(function) = &order.function {
            let points = lines.values_mut().flatten().map(|(_, point)| point);
            self.follow(function, metric, points)?;
        }
        let lines = lines.into_iter().map(|(key, points)| line(order, &names, key, points));
        let mut lines: Vec<MeasuredLine> = lines.collect();
        if order.function.is_none() {
            explain_steps(&self.store, metric, &mut lines);
        }
        let mut lines: Vec<HistoryLine> = lines.into_iter().map(|measured| measured.line).collect();
        // Of one lineage the line that begins first stands first.
        lines.sort_by_key(|line| {
            let first = line.points.first().map(|point| point.place);
            (line.row.clone(), line.lineage.clone(), first)
        });
        match &order.boot_line {
            Some(wanted) if lines.is_empty() && !boot_lines.is_empty() => {
                let known = boot_lines.iter().map(|line| shell_word(line)).collect();
                Err(StoredError::NoBootLine { wanted: wanted.clone(), known })?;
            }
            _ if lines.is_empty() && !boot_lines.is_empty() => Err(StoredError::NotAlong)?,
            _ if lines.is_empty() => Err(StoredError::Empty)?,
            _ => {}
        }
        let HistoryOrder { function, threshold_percent, .. } = order.clone();
        Ok(History { metric: metric.name.to_owned(), function, threshold_percent, lines })
    }

    /// Of the rows that are asked for.
    fn points(&self, order: &HistoryOrder) -> Result<Vec<StoredPoint>, Error> {
        if order.rows.is_empty() {
            return Ok(self.index.points(None, &order.metric)?);
        }
        let known = self.index.rows()?;
        let mut rows = BTreeSet::new();
        for wanted in &order.rows {
            let found: Vec<&String> = known.iter().filter(|row| is_row(row, wanted)).collect();
            if found.is_empty() {
                let near = nearest(wanted, known.iter().map(String::as_str)).map(str::to_owned);
                Err(StoredError::NoRow { row: wanted.clone(), near })?;
            }
            rows.extend(found);
        }
        let mut all = Vec::new();
        for row in rows {
            all.extend(self.index.points(Some(row), &order.metric)?);
        }
        Ok(all)
    }

    /// Puts a function's own counts in the place of the rows'. Objects are read for it: each CPU
    /// reads a part.
    fn follow<'a>(
        &self,
        function: &str,
        metric: &Metric,
        points: impl Iterator<Item = &'a mut StoredPoint>,
    ) -> Result<(), Error> {
        let store = &self.store;
        let part = |part: &mut [&mut StoredPoint]| -> Result<bool, Error> {
            let mut is_known = false;
            for point in part {
                let counts = of_function(store, &point.of.object, function, metric)?;
                is_known |= counts.iter().any(Option::is_some);
                point.raw = counts.into_iter().map(Option::unwrap_or_default).collect();
                point.whole.clone_from(&point.raw);
            }
            Ok(is_known)
        };
        let known = in_parts(&mut points.collect::<Vec<_>>(), part);
        match known.into_iter().collect::<Result<Vec<bool>, Error>>()?.contains(&true) {
            true => Ok(()),
            false => Err(StoredError::NoFunction { function: function.to_owned() })?,
        }
    }
}

/// A line with the names of the objects that its points are from.
struct MeasuredLine {
    line: HistoryLine,
    objects: Vec<String>,
}

/// Adds the functions that carry each step. Two objects are read for each: each CPU reads a part.
/// A step whose objects cannot be read stays without functions.
fn explain_steps(store: &Store, metric: &Metric, lines: &mut [MeasuredLine]) {
    let read = |object: &String| store.read(&store.object(object)).ok();
    let explain = |MeasuredLine { line, objects }: &mut MeasuredLine| {
        for place in 1..line.points.len() {
            let Some(base) = line.points[place].step_base(place) else { continue };
            if let Some((base, change)) = read(&objects[base]).zip(read(&objects[place])) {
                let functions = analyse::step_functions(&base, &change, line.ops, metric);
                line.points[place].functions = functions;
            }
        }
    };
    in_parts(lines, |part| part.iter_mut().for_each(explain));
}

/// What a function itself executed under each layout, if it is there; clones that compilers
/// made count as one.
fn of_function(
    store: &Store,
    object: &str,
    function: &str,
    metric: &Metric,
) -> Result<Vec<Option<u64>>, Error> {
    let measurement = store.read(&store.object(object))?;
    let of_layout = |profile: &str| {
        // It was parsed when it was read: of its lines few are of this function.
        let near = profile.lines().filter(|line| line.contains(function));
        let own = near.filter_map(profile::of_function).filter(|line| {
            line.context == metric.context && analyse::plain(&line.function) == function
        });
        own.map(|line| (metric.count)(&line.counts)).reduce(|sum, more| sum + more)
    };
    Ok(measurement.layouts.iter().map(|layout| of_layout(&layout.profile)).collect())
}

/// How a point was measured, in words.
fn measured(point: &StoredPoint) -> String {
    let Machine { cpu, memory_mib, cpus, quantum, model } = &point.machine;
    let mut words = vec![
        format!("QEMU {}", point.qemu),
        format!("guest {}", short_hashes(&point.guest)),
        format!("{memory_mib} MiB"),
        format!("CPU {cpu}"),
        format!("{} layouts", point.raw.len()),
    ];
    words.extend((*cpus > 1).then(|| format!("{cpus} CPUs")));
    words.extend(quantum.iter().map(|quantum| format!("quantum {quantum}")));
    words.extend(model.iter().map(|model| format!("model {}", model.name())));
    if !point.modules.is_empty() {
        let names = point.modules.iter().map(|module| module_and_parameters(module).0);
        let names: Vec<&str> = names.collect();
        words.push(format!("modules {}", names.join(" and ")));
    }
    if !point.programs.is_empty() {
        words.push(format!("programs {}", short_hashes(&point.programs)));
    }
    words.join(", ")
}

/// Points in their order, each with what it is against its anchor.
fn line(
    order: &HistoryOrder,
    names: &Names,
    (row, lineage, ..): Key,
    mut points: Vec<(usize, StoredPoint)>,
) -> MeasuredLine {
    points.sort_by_key(|(place, _)| *place);
    let counted = |(_, point): &(usize, StoredPoint)| PointCounts {
        raw: point.raw.clone(),
        whole: point.whole.clone(),
        signature: point.signature.clone(),
    };
    let all: Vec<PointCounts> = points.iter().map(counted).collect();
    let first = &points[0].1;
    let (ops, operation) = (first.ops, first.operation.clone());
    let against = analyse::against_anchors(&all, ops, order.threshold_percent);
    let before = analyse::against_before(&all, ops, order.threshold_percent);
    let objects = points.iter().map(|(_, point)| point.of.object.clone()).collect();
    let asked =
        HistoryAsked { machine: first.machine.clone(), layouts: first.raw.len(), seed: first.seed };
    let measured = measured(first);
    // The files of a program or of a disk are not known here.
    let asked = (first.modules.is_empty() && first.programs.is_empty()).then_some(asked);
    let compared = against.into_iter().zip(before);
    let points = points.into_iter().zip(compared).map(|((place, point), (against, before))| {
        let tags = names.tags(&point.kernel_sha256, &point.boot_line);
        let subject = names.subject(&point.kernel_sha256, &point.boot_line);
        let name = subject.map_or(String::new(), |it| names.name(it));
        // Who names the subjects may name one kernel with several boot lines.
        let is_taken = subject.is_some_and(|it| names.is_ambiguous(it));
        let kernel = match order.along.is_empty() && !is_taken {
            true => point.kernel,
            false => name.clone(),
        };
        let package = subject.and_then(package);
        let (boot_line, values) = (point.boot_line, point.raw);
        let functions = Vec::new();
        HistoryPoint {
            place,
            name,
            kernel,
            package,
            boot_line,
            tags,
            values,
            against,
            before,
            functions,
        }
    });
    let points = points.collect();
    let line = HistoryLine { row, operation, ops, lineage, measured, asked, points };
    MeasuredLine { line, objects }
}

/// The version of a package that has the kernel: everybody can get that again.
fn package(subject: &StoredSubject) -> Option<String> {
    let is_package = |source: &&String| source.starts_with("debian:") && source.contains('=');
    subject.sources.iter().find(is_package).cloned()
}
