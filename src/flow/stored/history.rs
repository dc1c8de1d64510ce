//! Histories: costs of rows over kernels, and the order of the kernels.

use std::collections::{BTreeMap, BTreeSet};

use super::{Stored, SubjectNames, did_you_mean, empty_store, is_row};
use crate::analyse::{self, PointCounts};
use crate::disk::map_parts;
use crate::flow::Error;
use crate::index::{StoredPoint, StoredSubject};
use crate::model::{
    ErrorKind, History, HistoryAsked, HistoryLine, HistoryPoint, METRICS, Machine, Metric, metric,
    module_and_parameters,
};
use crate::plan::THRESHOLD_PERCENT;
use crate::rundir::profile;
use crate::store::Store;
use crate::text::{nearest, shell_word, short_hashes};

/// Rows, kernels and metric of a history.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryRequest {
    /// Rows; all rows if empty.
    pub rows: Vec<String>,
    /// Function whose own counts replace those of the rows.
    pub function: Option<String>,
    /// Name of the metric.
    pub metric: String,
    /// Names of subjects, in the wanted order; all subjects by version if empty.
    pub along: Vec<String>,
    /// Boot line of the subjects; `None` for all boot lines.
    pub boot_line: Option<String>,
    /// Percentage below which a difference is no step.
    pub threshold_percent: f64,
}

impl HistoryRequest {
    /// Request for all rows over all kernels.
    pub fn all() -> HistoryRequest {
        HistoryRequest {
            rows: Vec::new(),
            function: None,
            metric: METRICS[0].name.to_owned(),
            along: Vec::new(),
            boot_line: None,
            threshold_percent: THRESHOLD_PERCENT,
        }
    }
}

/// Key of a line: the row, the lineage, and the IDs of the workload and the conditions.
type LineKey = (String, String, i64, i64);

impl Stored {
    /// Costs of rows over kernels, and the kernels at which the costs step.
    pub fn history(&self, request: &HistoryRequest) -> Result<History, Error> {
        let names = SubjectNames::read(self)?;
        let metric = metric(&request.metric).ok_or_else(|| {
            let known = METRICS.map(|metric| metric.name).join(", ");
            Error::user(format!("there is no metric {:?}", request.metric))
                .next(format!("give one of {known}"))
        })?;
        let lineages = Lineages::new(&request.along, &names)?;
        let mut lines: BTreeMap<LineKey, Vec<(usize, StoredPoint)>> = BTreeMap::new();
        let mut boot_lines = BTreeSet::new();
        for point in self.points(request)? {
            let is_wanted =
                request.boot_line.as_ref().is_none_or(|boot_line| *boot_line == point.boot_line);
            boot_lines.insert(point.boot_line.clone());
            if let Some((lineage, place)) = lineages.place(&point).filter(|_| is_wanted) {
                let measured = &point.measurement;
                let key = (measured.row.clone(), lineage, measured.workload, measured.conditions);
                lines.entry(key).or_default().push((place, point));
            }
        }
        if let Some(function) = &request.function {
            let points = lines.values_mut().flatten().map(|(_, point)| point);
            self.replace_by_function(function, metric, points)?;
        }
        let lines =
            lines.into_iter().map(|(key, points)| history_line(request, &names, key, points));
        let mut lines: Vec<MeasuredLine> = lines.collect();
        if request.function.is_none() {
            explain_steps(&self.store, metric, &mut lines);
        }
        let mut lines: Vec<HistoryLine> = lines.into_iter().map(|measured| measured.line).collect();
        // Within a lineage, sort by the first kernel.
        lines.sort_by_key(|line| {
            let first = line.points.first().map(|point| point.position);
            (line.row.clone(), line.lineage.clone(), first)
        });
        if lines.is_empty() {
            return Err(no_line(request.boot_line.as_deref(), &boot_lines));
        }
        let HistoryRequest { function, threshold_percent, .. } = request.clone();
        Ok(History { metric: metric.name.to_owned(), function, threshold_percent, lines })
    }

    /// Points of the wanted rows.
    fn points(&self, request: &HistoryRequest) -> Result<Vec<StoredPoint>, Error> {
        if request.rows.is_empty() {
            return self.index.points(None, &request.metric);
        }
        let known = self.index.rows()?;
        let mut rows = BTreeSet::new();
        for wanted in &request.rows {
            let found: Vec<&String> = known.iter().filter(|row| is_row(row, wanted)).collect();
            if found.is_empty() {
                let near = did_you_mean(nearest(wanted, known.iter().map(String::as_str)));
                return Err(Error::user(format!("the store has no row {wanted:?}{near}"))
                    .next("`ktax history` lists what it has"));
            }
            rows.extend(found);
        }
        let mut points = Vec::new();
        for row in rows {
            points.extend(self.index.points(Some(row), &request.metric)?);
        }
        Ok(points)
    }

    /// Replaces the rows' counts by those of a function. One thread for each CPU reads the objects.
    fn replace_by_function<'a>(
        &self,
        function: &str,
        metric: &Metric,
        points: impl Iterator<Item = &'a mut StoredPoint>,
    ) -> Result<(), Error> {
        let store = &self.store;
        let part = |part: &mut [&mut StoredPoint]| -> Result<bool, Error> {
            let mut is_known = false;
            for point in part {
                let counts = function_counts(store, &point.measurement.object, function, metric)?;
                is_known |= counts.iter().any(Option::is_some);
                point.raw = counts.into_iter().map(Option::unwrap_or_default).collect();
                point.whole.clone_from(&point.raw);
            }
            Ok(is_known)
        };
        let known = map_parts(&mut points.collect::<Vec<_>>(), part);
        match known.into_iter().collect::<Result<Vec<bool>, Error>>()?.contains(&true) {
            true => Ok(()),
            false => {
                Err(Error::user(format!("no profile of these rows has the function {function:?}"))
                    .next("`ktax diff` shows names"))
            }
        }
    }
}

/// Error for a history without lines, whose rows were measured with these boot lines.
fn no_line(wanted: Option<&str>, boot_lines: &BTreeSet<String>) -> Error {
    if boot_lines.is_empty() {
        return empty_store();
    }
    match wanted {
        Some(wanted) => {
            let known: Vec<String> = boot_lines.iter().map(|line| shell_word(line)).collect();
            Error::user(format!("no measurement of these rows has the boot line {wanted:?}"))
                .next(format!("give one of {}", known.join(", ")))
        }
        None => Error::user("none of these subjects was measured with these rows")
            .next("`ktax history` without --along lists the subjects that were"),
    }
}

/// Line with the store's objects of its points.
struct MeasuredLine {
    line: HistoryLine,
    objects: Vec<String>,
}

/// Adds the functions that cause a step to each step. One thread for each CPU reads the objects. A
/// step whose objects cannot be read has no functions.
fn explain_steps(store: &Store, metric: &Metric, lines: &mut [MeasuredLine]) {
    let read = |object: &String| store.read(&store.object_path(object)).ok();
    let explain = |MeasuredLine { line, objects }: &mut MeasuredLine| {
        for place in 1..line.points.len() {
            let Some(base) = line.points[place].step_base(place) else { continue };
            if let Some((base, change)) = read(&objects[base]).zip(read(&objects[place])) {
                let functions = analyse::step_functions(&base, &change, line.ops, metric);
                line.points[place].functions = functions;
            }
        }
    };
    map_parts(lines, |part| part.iter_mut().for_each(explain));
}

/// Counts of a function itself in each layout; `None` if the function did not run. Copies that the
/// compiler made of the function are added up.
fn function_counts(
    store: &Store,
    object: &str,
    function: &str,
    metric: &Metric,
) -> Result<Vec<Option<u64>>, Error> {
    let measurement = store.read(&store.object_path(object))?;
    let own_counts = |profile: &str| {
        // Skip lines of other functions before parsing.
        let candidates = profile.lines().filter(|line| line.contains(function));
        let function_lines = candidates.filter_map(profile::parse_function_line).filter(|line| {
            line.context == metric.context && analyse::plain(&line.function) == function
        });
        function_lines.map(|line| metric.count(&line.counts)).reduce(|sum, more| sum + more)
    };
    Ok(measurement.layouts.iter().map(|layout| own_counts(&layout.profile)).collect())
}

/// Conditions of a point, as text for people.
fn conditions_text(point: &StoredPoint) -> String {
    let Machine { cpu, memory_mib, cpus, quantum, model, .. } = &point.machine;
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

/// Line of these points, with their steps.
fn history_line(
    request: &HistoryRequest,
    names: &SubjectNames,
    (row, lineage, ..): LineKey,
    mut points: Vec<(usize, StoredPoint)>,
) -> MeasuredLine {
    points.sort_by_key(|(place, _)| *place);
    let counted = |(_, point): &(usize, StoredPoint)| PointCounts {
        raw: point.raw.clone(),
        whole: point.whole.clone(),
        signature: point.signature.clone(),
    };
    let counts: Vec<PointCounts> = points.iter().map(counted).collect();
    let first = &points[0].1;
    let (ops, operation) = (first.ops, first.operation.clone());
    let against_anchors = analyse::anchor_differences(&counts, ops, request.threshold_percent);
    let against_before = analyse::previous_differences(&counts, ops, request.threshold_percent);
    let objects = points.iter().map(|(_, point)| point.measurement.object.clone()).collect();
    let asked =
        HistoryAsked { machine: first.machine.clone(), layouts: first.raw.len(), seed: first.seed };
    let measured = conditions_text(first);
    // The store does not have the files of programs and modules, so such a line cannot be measured
    // again by a command.
    let asked = (first.modules.is_empty() && first.programs.is_empty()).then_some(asked);
    let compared = against_anchors.into_iter().zip(against_before);
    let points = points.into_iter().zip(compared).map(|((place, point), (against, before))| {
        let tags = names.tags(&point.kernel_sha256, &point.boot_line);
        let subject = names.subject(&point.kernel_sha256, &point.boot_line);
        let name = subject.map_or(String::new(), |subject| names.name(subject));
        // With --along, several points may have one kernel.
        let is_ambiguous = subject.is_some_and(|subject| names.is_ambiguous(subject));
        let kernel = match request.along.is_empty() && !is_ambiguous {
            true => point.kernel,
            false => name.clone(),
        };
        let package = subject.and_then(package_of);
        let (boot_line, values) = (point.boot_line, point.raw);
        let functions = Vec::new();
        HistoryPoint {
            position: place,
            name,
            kernel,
            package,
            boot_line,
            tags,
            values,
            anchor_difference: against,
            previous_difference: before,
            functions,
        }
    });
    let points = points.collect();
    let line = HistoryLine { row, operation, ops, lineage, measured, asked, points };
    MeasuredLine { line, objects }
}

/// Debian package of the kernel, which can be downloaded again; `None` for other kernels.
fn package_of(subject: &StoredSubject) -> Option<String> {
    let is_package = |source: &&String| source.starts_with("debian:") && source.contains('=');
    subject.sources.iter().find(is_package).cloned()
}

/// Key of a subject: the SHA-256 of the Kernel's image, and the boot line.
type SubjectKey = (String, String);

/// Order of the subjects: the name of each subject's lineage, and its position in the lineage.
struct Lineages {
    places: BTreeMap<SubjectKey, (String, usize)>,
}

impl Lineages {
    /// One lineage of the wanted subjects; else one for each flavour and boot line, sorted by
    /// version.
    pub fn new(wanted: &[String], names: &SubjectNames) -> Result<Lineages, Error> {
        if !wanted.is_empty() {
            let mut places = BTreeMap::new();
            for (place, subject) in named_subjects(wanted, names)?.into_iter().enumerate() {
                places.insert(subject_key(subject), (String::new(), place));
            }
            return Ok(Lineages { places });
        }
        let mut subjects: Vec<&StoredSubject> = names.subjects().iter().collect();
        subjects.sort_by(|first, other| {
            alphanumeric_sort::compare_str(version_key(first), version_key(other))
        });
        // A lineage is named by its newest kernel, which comes last.
        let mut flavours: BTreeMap<(String, &str), (String, usize)> = BTreeMap::new();
        let mut found = Vec::new();
        for subject in subjects {
            let (family, label) = flavour(&subject.kernel);
            let lineage = flavours.entry((family.clone(), &subject.boot_line)).or_default();
            lineage.0 = label;
            found.push((subject, (family, subject.boot_line.as_str()), lineage.1));
            lineage.1 += 1;
        }
        let places = found.into_iter().map(|(subject, lineage, place)| {
            let label = &flavours[&lineage].0;
            let words = [label.as_str(), &subject.boot_line].into_iter();
            let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
            (subject_key(subject), (words.join(" "), place))
        });
        Ok(Lineages { places: places.collect() })
    }

    /// Lineage of a point's subject, and the subject's position in the lineage.
    pub fn place(&self, point: &StoredPoint) -> Option<(String, usize)> {
        self.places.get(&(point.kernel_sha256.clone(), point.boot_line.clone())).cloned()
    }
}

fn subject_key(subject: &StoredSubject) -> SubjectKey {
    (subject.kernel_sha256.clone(), subject.boot_line.clone())
}

/// Subjects of names, several of which may be joined by commas. Boot lines may contain commas, too,
/// so a text is only split if it is not a name itself.
fn named_subjects<'a>(
    wanted: &[String],
    names: &'a SubjectNames,
) -> Result<Vec<&'a StoredSubject>, Error> {
    let mut subjects = Vec::new();
    for text in wanted {
        match names.find(text) {
            Err(error) if error.kind == ErrorKind::Unknown && text.contains(',') => {
                for name in text.split(',') {
                    subjects.push(names.find(name)?);
                }
            }
            found => subjects.push(found?),
        }
    }
    Ok(subjects)
}

/// Sort key of a kernel: release candidates come before their release, and kernels of one release
/// are sorted by the version of their package.
fn version_key(subject: &StoredSubject) -> String {
    let mut version = String::new();
    let mut rest = subject.kernel.as_str();
    while let Some(dash) = rest.find("-rc") {
        let is_candidate = rest[dash + 3..].starts_with(|c: char| c.is_ascii_digit());
        version += &rest[..dash];
        version += if is_candidate { "\u{1}rc" } else { "-rc" };
        rest = &rest[dash + 3..];
    }
    version += rest;
    format!("{version} {}", subject.sources.join(" ")).replace('~', "\u{1}")
}

/// Flavour of a release, such as `cloud-amd64` of `6.1.0-56-cloud-amd64`: as a key without digits,
/// and as a label for people. Numbers, release candidates and commits belong to the version.
fn flavour(release: &str) -> (String, String) {
    let is_version = |c: char| c.is_ascii_digit() || c == '.' || c == '+';
    let is_commit = |word: &str| {
        let digits = word.strip_prefix('g').unwrap_or_default();
        digits.len() >= 7 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    };
    let is_candidate = |word: &str| {
        let number = word.strip_prefix("rc").unwrap_or_default();
        !number.is_empty() && number.chars().all(is_version)
    };
    // In Debian's `6.12.57+deb13` the part after `+` belongs to the build.
    let without_build = |word| match str::starts_with(word, |c: char| c.is_ascii_digit()) {
        true => word.split('+').next().unwrap_or_default(),
        false => word,
    };
    let words = release.split('-').map(without_build);
    // A page size, `64k`, does not belong to the version.
    let is_page_size = |word: &str| {
        let number = word.strip_suffix('k').unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let words = words.map(|word| match is_page_size(word) {
        true => word,
        false => word.trim_start_matches(is_version),
    });
    let words: Vec<&str> =
        words.filter(|word| !word.is_empty() && !is_commit(word) && !is_candidate(word)).collect();
    let label = words.join("-");
    // A build ID has no flavour.
    if label.len() >= 20 && label.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Default::default();
    }
    let key = words.iter().map(|word| match is_page_size(word) {
        true => (*word).to_owned(),
        false => word.replace(|c: char| c.is_ascii_digit(), ""),
    });
    (key.collect::<Vec<_>>().join("-"), label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_differ_within_a_flavour() {
        for (first, other) in [
            ("6.1.0-55-cloud-amd64", "6.12.57+deb13-cloud-amd64"),
            ("6.12.0-rc7", "6.12.1"),
            ("6.12.0-next-20240901", "6.12.0-next-20240902"),
            ("6.12.0-gadc218676eef", "6.12.0-g0123456789ab"),
            ("6.8.5-301.fc40.x86_64", "6.9.1-200.fc41.x86_64"),
        ] {
            assert_eq!(flavour(first).0, flavour(other).0, "{first} {other}");
        }
        for (first, other) in [
            ("6.1.0-56-cloud-amd64", "6.1.0-56-amd64"),
            ("6.1.0-56-rt-amd64", "6.1.0-56-amd64"),
            ("6.12.0-rcu-fix", "6.12.0-u-fix"),
            ("6.12.1-generic-64k", "6.12.2-generic-16k"),
            ("6.12.1-generic-64k", "6.12.2-generic"),
        ] {
            assert_ne!(flavour(first).0, flavour(other).0, "{first} {other}");
        }
        assert_eq!(flavour("6.1.0-56-cloud-amd64").1, "cloud-amd64");
        assert_eq!(flavour(&"0123456789abcdef".repeat(3)).1, "");
    }
}
