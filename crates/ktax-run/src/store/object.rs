//! Encodes objects: JSON in gzip, followed by a second gzip member, which is empty and has the
//! SHA-256 of the first member as its comment. Any gzip tool reads an object, and the hash detects
//! changed bytes.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use ktax_host::disk::sha256;
use ktax_model::{
    AskedGuest, Boot, CountsPlan, FORMAT, Identity, Measurand, MeasuredLayout, Measurement,
    Outcome, Plan, Run, Side, Step, Subject, Workload,
};
use serde::{Deserialize, Serialize};

use crate::rundir::{RunDir, profile};

/// Maximum size of the JSON of a measurement, in bytes; usual are up to a million.
pub const MEASUREMENT_MAX: u64 = 64 << 20;

/// Maximum size of the JSON of a result, in bytes; usual are up to ten million.
pub const RESULT_MAX: u64 = 128 << 20;

/// Maximum size of the profiles of all layouts of a measurement, in bytes.
pub const PROFILES_MAX: u64 = 256 << 20;

/// Name of a measurement's object: SHA-256 of the measurand.
pub fn object_name(measurand: &Measurand) -> String {
    sha256(to_json(measurand))
}

pub fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("plain data serialises")
}

/// Bytes of an object with this JSON.
pub fn pack(json: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to memory cannot fail.
    let bytes = gzip.write_all(json).and_then(|()| gzip.finish()).unwrap_or_default();
    let seal = seal(&bytes);
    [bytes, seal].concat()
}

/// JSON of an object; an error if a byte was changed or the JSON has more than `limit` bytes.
pub fn unpack(bytes: &[u8], limit: u64) -> Result<Vec<u8>, String> {
    let length = bytes.len().checked_sub(seal(&[]).len()).ok_or("it is too short")?;
    let (content, stored_seal) = bytes.split_at(length);
    if seal(content) != stored_seal {
        return Err("its bytes are not those that were written".to_owned());
    }
    let mut json = Vec::new();
    let read = GzDecoder::new(content).take(limit + 1).read_to_end(&mut json);
    read.map_err(|error: io::Error| error.to_string())?;
    match json.len() as u64 > limit {
        true => Err(format!("unpacked it has more than {limit} bytes")),
        false => Ok(json),
    }
}

/// Content of a measurement's object.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    /// Measurement without profiles.
    measurement: Measurement,
    /// Profiles of all layouts.
    profiles: MergedTexts,
}

/// Encodes a measurement as an object, without a check of the measurement.
pub fn encode_measurement(measurement: &Measurement) -> Vec<u8> {
    let mut measurement = measurement.clone();
    let texts: Vec<String> =
        measurement.layouts.iter_mut().map(|layout| std::mem::take(&mut layout.profile)).collect();
    let profiles = merge_texts(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    pack(&to_json(&Object { measurement, profiles }))
}

/// Format of a measurement in JSON. Other keys are ignored, because they depend on the format.
pub fn parse_format(json: &[u8]) -> Result<u32, String> {
    #[derive(Deserialize)]
    struct Head {
        measurement: Format,
    }
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let head: Head = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    Ok(head.measurement.format)
}

/// Parses the JSON of an object.
pub fn parse_measurement(json: &[u8]) -> Result<Measurement, String> {
    let object: Object = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let Object { mut measurement, profiles } = object;
    // A shared line is copied into the text of each layout, so a small object can expand to large
    // texts.
    if profiles.max_bytes(measurement.layouts.len()) > PROFILES_MAX {
        return Err(format!("its profiles have more than {PROFILES_MAX} bytes"));
    }
    let texts = split_texts(&profiles, measurement.layouts.len());
    for (layout, profile) in measurement.layouts.iter_mut().zip(texts) {
        layout.profile = profile;
    }
    // Older releases stored the modules only in the key.
    let Measurement { measurand, guest, subject, .. } = &mut measurement;
    if guest.modules.is_empty() {
        guest.modules = measurand.key.asked_modules(subject.disk.as_ref().or(guest.disk.as_ref()));
        guest.modules.retain(|module| !subject.modules.contains(module));
    }
    Ok(measurement)
}

/// Refuses measurements that ktax does not write.
pub fn check_measurement(measurement: &Measurement) -> Result<(), String> {
    let Measurement { measurand, kernel, layouts, .. } = measurement;
    let count = measurand.layouts.len();
    if layouts.is_empty() || layouts.len() != count || measurand.workload.ops == 0 {
        return Err("its layouts or operations do not fit its measurand".to_owned());
    }
    if kernel.sha256 != measurand.kernel_sha256 {
        return Err("its kernel is not that of its measurand".to_owned());
    }
    for layout in layouts {
        let parsed = profile::parse(&layout.profile).map_err(|error| error.to_string())?;
        let sample = &layout.sample;
        let is_same = parsed.total == sample.total && parsed.parallel == sample.parallel;
        if !is_same || parsed.counts() != sample.counts {
            return Err("its functions do not add up to its counts".to_owned());
        }
    }
    Ok(())
}

/// Seal of bytes: an empty gzip member with the hash of the bytes as its comment.
fn seal(bytes: &[u8]) -> Vec<u8> {
    const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0x10, 0, 0, 0, 0, 0, 0xff];
    const EMPTY: [u8; 11] = [0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    [&HEAD[..], sha256(bytes).as_bytes(), &EMPTY].concat()
}

/// Profiles of several layouts, merged line by line. The profiles hardly differ, so merging halves
/// the size of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MergedTexts {
    /// Lines, with `#` for each number.
    lines: Vec<String>,
    /// Columns of each line, one for each number; a line without numbers has one column of zeros.
    columns: Vec<Vec<Column>>,
}

impl MergedTexts {
    /// Upper bound of the total size of this number of texts, in bytes.
    fn max_bytes(&self, texts: usize) -> u64 {
        /// Number of digits of the largest `u64`.
        const DIGITS: usize = 20;
        let lines: usize = self.lines.iter().map(|line| line.len() + 1).sum();
        let numbers: usize = self.columns.iter().map(Vec::len).sum();
        let bytes_per_text = lines.saturating_add(numbers.saturating_mul(DIGITS));
        bytes_per_text.saturating_mul(texts) as u64
    }
}

/// Numbers at one position of a line, text by text: the first number, then the differences from the
/// first; `None` for a text without the line. One entry if all texts have the same number.
type Column = Vec<Option<i64>>;

/// Merges texts line by line.
pub(super) fn merge_texts(texts: &[&str]) -> MergedTexts {
    let parsed: Vec<Vec<(String, Vec<u64>)>> =
        texts.iter().map(|text| text.split('\n').map(split_numbers).collect()).collect();
    let lines = common_lines(&parsed);
    let mut numbers: Vec<Vec<Option<Vec<u64>>>> = vec![vec![None; texts.len()]; lines.len()];
    for (text, text_lines) in parsed.into_iter().enumerate() {
        let mut index = 0;
        for (line, line_numbers) in text_lines {
            // The common lines contain the lines of each text in order.
            while lines[index] != line {
                index += 1;
            }
            numbers[index][text] = Some(line_numbers);
            index += 1;
        }
    }
    MergedTexts { lines, columns: numbers.iter().map(|texts| columns(texts)).collect() }
}

/// Columns of a line, from the numbers of the line in each text.
fn columns(texts: &[Option<Vec<u64>>]) -> Vec<Column> {
    let count = texts.iter().flatten().map(Vec::len).max().unwrap_or(0).max(1);
    let column = |number: usize| {
        let number_in = |text: &Option<Vec<u64>>| {
            text.as_ref().map(|numbers| numbers.get(number).copied().unwrap_or(0))
        };
        let values: Vec<Option<u64>> = texts.iter().map(number_in).collect();
        let first = values.iter().copied().flatten().next().unwrap_or(0);
        if values.iter().all(|value| *value == Some(first)) {
            return vec![Some(first as i64)];
        }
        let mut base = None;
        let mut difference = |value: u64| match base {
            Some(base) => value.wrapping_sub(base) as i64,
            None => *base.insert(value) as i64,
        };
        values.into_iter().map(|value| value.map(&mut difference)).collect()
    };
    (0..count).map(column).collect()
}

/// Restores this number of texts from the merged lines.
pub(super) fn split_texts(merged: &MergedTexts, texts: usize) -> Vec<String> {
    let mut outputs: Vec<Option<String>> = vec![None; texts];
    for (line, columns) in merged.lines.iter().zip(&merged.columns) {
        let values: Vec<Vec<Option<u64>>> =
            columns.iter().map(|column| column_values(column, texts)).collect();
        for (text, output) in outputs.iter_mut().enumerate() {
            if values.iter().any(|column| column[text].is_none()) {
                continue;
            }
            match output {
                Some(output) => output.push('\n'),
                None => *output = Some(String::new()),
            }
            let numbers = values.iter().filter_map(|column| column[text]);
            write_line(line, numbers, output.get_or_insert_default());
        }
    }
    outputs.into_iter().map(Option::unwrap_or_default).collect()
}

/// Number of a column in each text; `None` for a text without the line.
fn column_values(column: &Column, texts: usize) -> Vec<Option<u64>> {
    if let [shared] = column.as_slice() {
        return vec![shared.map(|number| number as u64); texts];
    }
    let mut first: Option<u64> = None;
    let value = |entry: Option<i64>| {
        let entry = entry? as u64;
        Some(match first {
            Some(first) => first.wrapping_add(entry),
            None => *first.insert(entry),
        })
    };
    column.iter().copied().map(value).chain(std::iter::repeat(None)).take(texts).collect()
}

/// Merges the lines of all texts into one list that contains the lines of each text in order.
fn common_lines(texts: &[Vec<(String, Vec<u64>)>]) -> Vec<String> {
    let mut common: Vec<String> = Vec::new();
    for text in texts {
        let mut indices: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, line) in common.iter().enumerate() {
            indices.entry(line).or_default().push(index);
        }
        let (mut merged, mut next) = (Vec::new(), 0);
        for (line, _) in text {
            let index = indices
                .get(line.as_str())
                .and_then(|indices| indices.iter().find(|index| **index >= next));
            match index {
                Some(index) => {
                    merged.extend_from_slice(&common[next..=*index]);
                    next = index + 1;
                }
                None => merged.push(line.clone()),
            }
        }
        merged.extend_from_slice(&common[next..]);
        common = merged;
    }
    common
}

/// Splits a line into the line with `#` for each number, and the numbers. A number that is not
/// written in its shortest form, such as `007`, stays in the line.
fn split_numbers(line: &str) -> (String, Vec<u64>) {
    let mut numbers = Vec::new();
    let fields: Vec<&str> = line
        .split('\t')
        .map(|field| match field.parse::<u64>() {
            Ok(number) if number.to_string() == field => {
                numbers.push(number);
                "#"
            }
            _ => field,
        })
        .collect();
    // A field `#` would be read as a number. A line with such a field is stored unchanged, and
    // marked by a line feed, which no other line has.
    match line.split('\t').any(|field| field == "#") {
        true => (format!("{line}\n"), Vec::new()),
        false => (fields.join("\t"), numbers),
    }
}

/// Appends a line with its numbers to a text.
fn write_line(line: &str, mut numbers: impl Iterator<Item = u64>, text: &mut String) {
    if let Some(line) = line.strip_suffix('\n') {
        return text.push_str(line);
    }
    for (index, field) in line.split('\t').enumerate() {
        if index > 0 {
            text.push('\t');
        }
        match field {
            // Writing to a String cannot fail.
            "#" => drop(numbers.next().map(|number| write!(text, "{number}"))),
            other => text.push_str(other),
        }
    }
}

/// A row of a Plan on one Side.
#[derive(Debug, Clone, PartialEq)]
pub struct SideRow {
    pub side: Side,
    /// Kernel, boot line, machine, row and Layouts.
    pub measurand: Measurand,
    /// Names of the Kernel.
    pub kernel: Identity,
    /// Subject as the user wrote it.
    subject: Subject,
    /// Settings of the guest that both Sides share.
    guest: AskedGuest,
    /// Random seed of the Layouts.
    seed: u64,
    /// Steps in the order of the Layouts.
    steps: Vec<Step>,
}

/// All rows of a Plan, on both Sides.
pub fn side_rows(plan: &Plan<CountsPlan>) -> Vec<SideRow> {
    let Plan { seed, method: plan, .. } = plan;
    let side_row = |side: Side, workload: &Workload| {
        let mut steps: Vec<Step> =
            plan.steps.iter().filter(|step| step.side == side).cloned().collect();
        steps.sort_by_key(|step| step.layout);
        SideRow {
            side,
            measurand: Measurand {
                kernel_sha256: plan.kernels.get(side).sha256.clone(),
                boot_line: plan.asked.subjects.get(side).boot_line.clone(),
                machine: plan.asked.machine.clone(),
                key: plan.key_of(side, &workload.row),
                workload: workload.clone(),
                layouts: plan.layouts.clone(),
            },
            kernel: plan.kernels.get(side).clone(),
            subject: plan.asked.subjects.get(side).clone(),
            guest: plan.asked.guest.without_traced(),
            seed: *seed,
            steps,
        }
    };
    let sides = Side::BOTH.into_iter();
    sides
        .flat_map(|side| plan.workloads.iter().map(move |workload| side_row(side, workload)))
        .collect()
}

impl SideRow {
    /// Name of the row.
    pub fn row(&self) -> &str {
        &self.measurand.workload.row
    }

    /// Measurement of the row, from a result for each Layout.
    pub fn measurement(&self, layouts: Vec<MeasuredLayout>) -> Measurement {
        let SideRow { measurand, kernel, subject, guest, seed, .. } = self.clone();
        Measurement { format: FORMAT, measurand, kernel, subject, guest, seed, layouts }
    }

    /// Returns true if the run directory has a Run of the row, or a failed Boot.
    pub fn is_begun(&self, dir: &RunDir<CountsPlan>) -> Result<bool, ktax_model::Error> {
        for step in &self.steps {
            let run: Option<Run> = dir.run(step, self.row())?;
            let has_failed = dir.boot(step)?.is_some_and(|boot| boot.failure.is_some());
            if run.is_some() || has_failed {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Measurement of a row in a run directory; `None` if the Run of a Layout is missing or failed.
pub fn measured(
    dir: &RunDir<CountsPlan>,
    side_row: &SideRow,
) -> Result<Option<Measurement>, ktax_model::Error> {
    let mut layouts = Vec::new();
    for step in &side_row.steps {
        let (boot, run) = (dir.boot(step)?, dir.run(step, side_row.row())?);
        let (Some(boot), Some(Run { outcome: Outcome::Measured(sample), .. })) = (boot, run) else {
            return Ok(None);
        };
        if boot.failure.is_some() {
            return Ok(None);
        }
        // Repeated Boots are facts of this host, and no part of the measurement.
        let boot = Boot { retry_reasons: Vec::new(), ..boot };
        layouts.push(MeasuredLayout {
            boot,
            sample,
            profile: dir.profile_text(step, side_row.row())?,
        });
    }
    Ok((!layouts.is_empty()).then(|| side_row.measurement(layouts)))
}

/// Writes the stored measurement of a row into a run directory, with the same files as a Run there.
pub fn write_stored(
    dir: &RunDir<CountsPlan>,
    side_row: &SideRow,
    measurement: &Measurement,
) -> Result<(), ktax_model::Error> {
    for (step, layout) in side_row.steps.iter().zip(&measurement.layouts) {
        dir.prepare(step)?;
        let (row, outcome) = (side_row.row().to_owned(), Outcome::Measured(layout.sample.clone()));
        dir.write_run(step, &Run { row, outcome }, Some(&layout.profile))?;
        if dir.boot(step)?.is_none() {
            dir.write_boot(step, &layout.boot)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_shared_line_is_stored_once() {
        let texts = ["a\t1\nfn\t5\tx\nend\n", "a\t1\nfn\t7\tx\nfn\t1\ty\nend\n"];
        let merged = merge_texts(&texts);
        assert_eq!(merged.lines, ["a\t#", "fn\t#\tx", "fn\t#\ty", "end", ""]);
        let columns: Vec<Column> =
            merged.columns.iter().map(|columns| columns[0].clone()).collect();
        let column_of_y = vec![None, Some(1)];
        assert_eq!(columns[..3], [vec![Some(1)], vec![Some(5), Some(2)], column_of_y]);
        assert_eq!(split_texts(&merged, 2), texts);
    }

    /// The name of the object does not change, so that the measurement is found.
    #[test]
    fn a_measurement_of_an_older_release_is_read() {
        let measurand_json = concat!(
            r#"{"kernel_sha256":"ab","boot_line":"quiet","machine":"#,
            r#"{"cpu":"max","memory_mib":512},"#,
            r#""key":{"engine":"exact","qemu":"7.2","machine":"q35","cpu":"max","#,
            r#""memory_mib":512,"guest":"9","modules":["brd rd_nr=1 max_part=0 rd_size=65536","#,
            r#""ext4","zram","nf_tables"]},"workload":{"row":"stat","title":"t","operation":"o","#,
            r#""program":"stat","ops":4,"params":{},"signature":{"calls":4}},"#,
            r#""layouts":[{"seed":1,"padding":2,"phase":3}]}"#,
        );
        let rest = r#""kernel": { "source": "k", "sha256": "ab", "release": "6.1", "build_id": null,
                "config_sha256": null, "arch": "x86_64", "format": "bzimage" },
            "subject": { "kernel": "k", "boot_line": "quiet", "modules": ["nf_tables"] },
            "guest": { "disk": { "fs": "ext4", "mib": 64 } }, "seed": 1, "layouts": []"#;
        let measurement = format!(r#"{{ "format": 3, "of": {measurand_json}, {rest} }}"#);
        let profiles = r#"{ "lines": [], "columns": [] }"#;
        let json = format!(r#"{{ "measurement": {measurement}, "profiles": {profiles} }}"#);
        let read = parse_measurement(json.as_bytes()).unwrap();
        assert_eq!(object_name(&read.measurand), sha256(measurand_json));
        assert_eq!(read.guest.modules, ["zram"]);
    }

    proptest! {
        #[test]
        fn any_merged_texts_are_restored(
            texts in prop::collection::vec(
                "([a-c#]|[0-9]{1,3}|18446744073709551615|\t|\n|-|\\PC){0,40}",
                1..6,
            ),
        ) {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let merged = merge_texts(&texts);
            prop_assert_eq!(split_texts(&merged, texts.len()), texts);
        }
    }
}
