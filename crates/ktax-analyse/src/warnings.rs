//! Warnings about the kernels, boots and runs of a comparison.

use std::collections::BTreeSet;

use ktax_host::text::{did_you_mean, nearest};
use ktax_model::{
    Boot, CountsPlan, Effect, Fallback, GuestsPlan, Identity, PlanMethod, Region, Row, Sample,
    Side, Sides, Step, Subject, TimedPair, TimesPlan, Warning, Workload, boot_parameters,
    unquoted_parameter,
};

/// Warns if the Sides of a Plan name two kernels that have the same bytes.
pub fn same_image_warning(plan: &PlanMethod) -> Option<Warning> {
    match plan {
        PlanMethod::Counts(plan) => same_image_of_counts(plan),
        PlanMethod::Times(plan) => same_image_of_times(plan),
        PlanMethod::Guests(plan) => same_image_of_guests(plan),
    }
}

pub(super) fn same_image_of_counts(plan: &CountsPlan) -> Option<Warning> {
    let Sides { base, change } = &plan.kernels;
    is_different_request(&plan.asked.subjects.base, &plan.asked.subjects.change)
        .then(|| one_image_warning(base, change))?
}

pub(super) fn same_image_of_times(plan: &TimesPlan) -> Option<Warning> {
    let (base, change) =
        (plan.asked.subjects.base.kernel.as_ref()?, plan.asked.subjects.change.kernel.as_ref()?);
    let kernel = |name: &String| plan.kernels.get(name);
    (base != change).then(|| one_image_warning(kernel(base)?, kernel(change)?))?
}

pub(super) fn same_image_of_guests(plan: &GuestsPlan) -> Option<Warning> {
    let (base, change) = (&plan.asked.base, plan.asked.change.as_ref()?);
    is_different_request(base.subject.kernel.as_ref()?, change.subject.kernel.as_ref()?)
        .then(|| one_image_warning(base.kernel.as_ref()?, change.kernel.as_ref()?))?
}

/// Returns true if the user requested the kernels by different names, options or patches.
fn is_different_request(base: &Subject, change: &Subject) -> bool {
    !change.has_same_kernel(base)
}

fn one_image_warning(base: &Identity, change: &Identity) -> Option<Warning> {
    (base.sha256 == change.sha256).then(|| Warning {
        fact: format!(
            "the kernels of base and change have the same bytes (SHA-256 begins with {})",
            base.sha256.chars().take(12).collect::<String>()
        ),
        next_step: "check their names, options and patches, unless only the boot lines should \
                    differ"
            .into(),
    })
}

/// Parameters that arch/x86 reads with cmdline_find_option and that have no handler. They have an
/// effect, although the kernel passes them to init as unknown parameters.
const EARLY_PARAMETERS: [&str; 20] = [
    "clearcpuid",
    "dis_ucode_ldr",
    "fred",
    "mem_encrypt",
    "no387",
    "no5lvl",
    "nofxsr",
    "nokaslr",
    "nopti",
    "nospec_store_bypass_disable",
    "nospectre_v2",
    "nousershstk",
    "noxsave",
    "noxsaveopt",
    "noxsaves",
    "pti",
    "spec_store_bypass_disable",
    "spectre_v2",
    "spectre_v2_user",
    "tsx",
];

/// Parameters that Linux 6.1 documents (kernel-parameters.txt), one on each line.
const DOCUMENTED_PARAMETERS: &str = include_str!("../../../kernels/parameters.txt");

/// Shortest name that gets a suggestion: a shorter name is like one of the documented names by
/// chance.
const MIN_NAME_LENGTH: usize = 4;

/// Largest difference between the lengths of a name and its suggestion.
const MAX_LENGTH_DIFFERENCE: usize = 2;

/// Documented parameter with a name like that of a mistyped parameter.
fn suggestion(parameter: &str) -> Option<&'static str> {
    let name = parameter.split('=').next().unwrap_or_default().trim_matches('"');
    let is_near = |near: &&str| near.len().abs_diff(name.len()) <= MAX_LENGTH_DIFFERENCE;
    let near = nearest(name, DOCUMENTED_PARAMETERS.lines().filter(is_near))?;
    (name.len() >= MIN_NAME_LENGTH && near != name).then_some(near)
}

/// Warnings about parameters of a boot line that the kernel does not know, one for each: a mistyped
/// parameter has no effect. `is_ignored` returns true if the kernel passed a parameter to init. The
/// kernel passes no `module.parameter` to init, so these are not checked.
pub fn unknown_parameters(
    side: Side,
    boot_line: &str,
    is_ignored: impl Fn(&str) -> bool,
) -> Vec<Warning> {
    let is_unknown = |word: &&str| {
        let parameter = unquoted_parameter(word);
        let name = parameter.split('=').next().unwrap_or_default();
        !EARLY_PARAMETERS.contains(&name) && is_ignored(&parameter)
    };
    let warning = |parameter: &str| Warning {
        fact: format!(
            "the {}'s kernel does not know the boot parameter {parameter}{}",
            side.name(),
            did_you_mean(suggestion(parameter))
        ),
        next_step: "check its spelling, and whether this kernel is built with it".into(),
    };
    let mut words = boot_parameters(boot_line);
    words.sort_unstable();
    words.dedup();
    words.into_iter().filter(is_unknown).map(warning).collect()
}

/// Warnings about kernels that had not settled when the workloads of a comparison began.
pub(super) fn unsettled_warnings<'a>(
    boots: impl Iterator<Item = (&'a Step, &'a Boot)> + Clone,
) -> Vec<Warning> {
    let warnings_of_side = |side: Side| {
        let boots_of_side =
            boots.clone().filter(move |(step, _)| step.side == side).map(|(_, boot)| boot);
        let busy =
            boots_of_side.clone().flat_map(|boot| boot.busy.iter()).map(String::as_str).collect();
        unsettled_side_warnings(side, &busy, boots_of_side.clone().any(|boot| boot.is_unseeded))
    };
    Side::BOTH.into_iter().flat_map(warnings_of_side).collect()
}

/// Warnings about one Side: kernel threads that still ran, and a random number generator without a
/// seed.
pub(super) fn unsettled_side_warnings(
    side: Side,
    busy: &BTreeSet<&str>,
    is_unseeded: bool,
) -> Vec<Warning> {
    let side = side.name();
    let names = busy.iter().copied().collect::<Vec<_>>().join(", ");
    let was_busy = (!busy.is_empty()).then(|| Warning {
        fact: format!("the {side}'s kernel was not idle when the workloads began: {names} ran"),
        next_step: "turn these threads off, for example self-tests with cryptomgr.notests: their \
                    work adds to the times and to the background of each row"
            .into(),
    });
    let unseeded = is_unseeded.then(|| Warning {
        fact: format!(
            "the {side}'s kernel has no seed for its random numbers, which makes it slower"
        ),
        next_step: "boot with random.trust_cpu=on and a CPU model that has RDRAND".into(),
    });
    was_busy.into_iter().chain(unseeded).collect()
}

/// Names of the kernels' crc32c drivers, each once; empty without a disk.
pub(super) fn checksum_drivers<'a>(
    boots: impl Iterator<Item = (&'a Step, &'a Boot)>,
) -> Vec<String> {
    let names: BTreeSet<&String> = boots.filter_map(|(_, boot)| boot.crc32c.as_ref()).collect();
    names.into_iter().cloned().collect()
}

/// Warns about each Side whose kernel computes checksums in plain C instead of with the CPU's
/// instructions.
pub(super) fn checksum_warnings<'a>(
    boots: impl Iterator<Item = (&'a Step, &'a Boot)> + Clone,
) -> Vec<Warning> {
    let warning = |side: Side| {
        let boots_of_side = boots.clone().filter(|(step, _)| step.side == side);
        let plain = checksum_drivers(boots_of_side)
            .into_iter()
            .find(|driver| driver.ends_with("-generic"))?;
        Some(Warning {
            fact: format!(
                "the {}'s kernel computes checksums of the disk in plain C ({plain}), not \
                 with the instruction of recent CPUs: rows that check metadata cost more",
                side.name()
            ),
            next_step: "build CONFIG_CRYPTO_CRC32C_INTEL=y into the kernel, or leave --cpu out"
                .into(),
        })
    };
    Side::BOTH.into_iter().filter_map(warning).collect()
}

/// Warns about functions that only one kernel executes because the CPU lacks a feature, and about
/// their share of the deltas.
pub(super) fn fallback_warning(rows: &[Row]) -> Option<Warning> {
    let (mut functions, mut features) = (BTreeSet::new(), BTreeSet::new());
    let mut largest: Option<(f64, &str)> = None;
    let mut count = 0;
    for row in rows {
        let Some(effect) = row.effects().first() else { continue };
        let fallbacks: Vec<&Fallback> = effect.fallbacks().collect();
        functions.extend(fallbacks.iter().map(|fallback| fallback.function));
        features.extend(fallbacks.iter().map(|fallback| fallback.feature));
        let share = fallback_share_percent(effect).filter(|_| !fallbacks.is_empty());
        let Some(share) = share else { continue };
        count += 1;
        largest = largest.filter(|(max, _)| *max >= share).or(Some((share, &row.row)));
    }
    let (share, row) = largest?;
    let names = |set: BTreeSet<&str>| set.into_iter().collect::<Vec<_>>().join(", ");
    let features = names(features);
    Some(Warning {
        fact: format!(
            "the CPU lacks {features}, which recent CPUs have, so only one side executes {} in \
             {count} of {} rows: these functions and those that they replace carry up to \
             {share:.0} % of a row's delta ({row}), and are last in the list of its functions",
            names(functions),
            rows.len()
        ),
        next_step: "measure with QEMU 8.1 or newer, whose CPU has these features: `ktax doctor \
                    --newer-qemu qemu-10`, then --qemu qemu-10/qemu-system-x86_64"
            .into(),
    })
}

/// Share of an Effect's delta that fallbacks, and the functions that they replace, carry, in
/// percent.
fn fallback_share_percent(effect: &Effect) -> Option<f64> {
    let carriers =
        effect.functions.iter().filter(|delta| effect.missing_feature(&delta.function).is_some());
    let sum: f64 = carriers.map(|delta| delta.delta).sum();
    (effect.delta != 0.0).then(|| (sum / effect.delta * 100.0).abs())
}

/// Warnings about Boots that were repeated, because the host ended them or one of their Runs.
pub(super) fn lost_boot_warnings<'a>(
    boots: impl Iterator<Item = (&'a Step, &'a Boot)>,
) -> Vec<Warning> {
    let warnings_of_boot = |(step, boot): (&Step, &'a Boot)| {
        let name = step.name();
        boot.retry_reasons.iter().map(move |reason| Warning {
            fact: format!("ktax repeated boot {name} or one of its runs: {reason}"),
            next_step: "read `dmesg` for what ended QEMU; the counts are valid".into(),
        })
    };
    boots.flat_map(warnings_of_boot).collect()
}

/// Warnings about timed Boots that were repeated, because the host ended them.
pub(super) fn lost_pair_warnings(pairs: &[TimedPair]) -> Vec<Warning> {
    let warnings_of_pair = |pair: &TimedPair| {
        let lost = Side::BOTH.map(|side| pair.boots.get(side).retry_reason.clone());
        let index = pair.index;
        lost.into_iter().flatten().map(move |reason| Warning {
            fact: format!("ktax repeated a boot of pair {index}: {reason}"),
            next_step: "read `dmesg` for what ended QEMU; the times are valid".into(),
        })
    };
    pairs.iter().flat_map(warnings_of_pair).collect()
}

/// Maximum number of instructions between the reads of the guest's clock and the markers.
const MAX_CLOCK_OVERHEAD: u64 = 64;

/// A note of Runs, and the rows whose Runs have the note.
type NoteRows = (String, Vec<String>);

/// Collects facts about Runs, row by row, for warnings.
#[derive(Default)]
pub(super) struct RunWarnings {
    /// Rows that sleep.
    sleeping: Vec<String>,
    notes: Vec<NoteRows>,
}

impl RunWarnings {
    /// Adds the Samples of another row.
    pub(super) fn add<'a>(
        &mut self,
        workload: &Workload,
        samples: impl Iterator<Item = &'a Sample>,
    ) {
        let mut is_sleeping = false;
        for sample in samples {
            // A user's program has the clock read outside of the markers: its sleep is unknown.
            let is_marked = workload.region == Region::Marked && !workload.is_user_program();
            is_sleeping |= is_marked && has_slept(sample);
            for note in &sample.notes {
                match self.notes.iter_mut().find(|(known, _)| known == note) {
                    Some((_, rows)) if rows.last() == Some(&workload.row) => {}
                    Some((_, rows)) => rows.push(workload.row.clone()),
                    None => self.notes.push((note.clone(), vec![workload.row.clone()])),
                }
            }
        }
        self.sleeping.extend(is_sleeping.then(|| workload.row.clone()));
    }

    /// Warnings, one for each fact.
    pub(super) fn warnings(self) -> Vec<Warning> {
        let sleeping = (!self.sleeping.is_empty()).then(|| Warning {
            fact: rows_fact(&self.sleeping, "sleeps", "sleep", ""),
            next_step: "read these rows as instructions only: ktax does not measure time asleep"
                .into(),
        });
        let noted = self.notes.into_iter().map(|(note, rows)| note_warning(&note, &rows));
        sleeping.into_iter().chain(noted).collect()
    }
}

/// Warning about rows whose Runs have a note of the plugin.
fn note_warning(note: &str, rows: &[String]) -> Warning {
    let (fact, next_step) = if note.starts_with("path: ") {
        let next_step = "the counts are right, but --explain may show wrong callers";
        (rows_fact(rows, "names wrong callers", "name wrong callers", ""), next_step)
    } else {
        let next_step =
            "use only the sum over all contexts of such a row; `ktax doctor` checks the plugin";
        (rows_fact(rows, "mixes contexts", "mix contexts", &format!(" ({note})")), next_step)
    };
    Warning { fact, next_step: next_step.into() }
}

/// Returns true if the guest's clock advanced while no instruction ran. The clock is QEMU's count
/// of instructions. It exceeds the total by the few around the Region. A total above the clock is
/// no sleep: a faulting instruction is in the total twice.
fn has_slept(sample: &Sample) -> bool {
    sample.tsc > sample.total.saturating_add(MAX_CLOCK_OVERHEAD)
}

/// Sentence about rows: `1 row sleeps: pipe`, `2 rows sleep: pipe, futex`.
fn rows_fact(rows: &[String], singular: &str, plural: &str, reason: &str) -> String {
    let names = rows.join(", ");
    match rows.len() {
        1 => format!("1 row {singular}{reason}: {names}"),
        count => format!("{count} rows {plural}{reason}: {names}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_parameters_are_compared_with_those_that_init_gets() {
        let passed_to_init = ["foo=x y", "nokaslr", "b"];
        let line = r#"quiet foo="x y" nokaslr "b" foo="x y""#;
        let warnings =
            unknown_parameters(Side::Change, line, |word| passed_to_init.contains(&word));
        let facts: Vec<&str> = warnings.iter().map(|warning| warning.fact.as_str()).collect();
        let about = "the change's kernel does not know the boot parameter";
        let expected = [format!("{about} \"b\""), format!("{about} foo=\"x y\"")];
        assert_eq!(facts, expected);
    }

    #[test]
    fn a_mistyped_parameter_has_a_suggestion() {
        let facts = |line: &str| {
            let warnings = unknown_parameters(Side::Base, line, |_| true);
            warnings.into_iter().map(|warning| warning.fact).collect::<String>()
        };
        assert!(facts("mitigatons=off").ends_with("mitigatons=off (did you mean mitigations?)"));
        assert!(facts("init_on_aloc=1").ends_with("(did you mean init_on_alloc?)"));
        // A kernel may be built without the parameter: the name itself is right.
        assert!(facts("audit=1").ends_with("audit=1"));
        assert!(facts("xyzzy=1").ends_with("xyzzy=1"));
    }

    #[test]
    fn unsettled_kernels_have_one_warning_for_each_side() {
        let busy = Boot { busy: vec!["ksmd".into(), "kcryptd".into()], ..Boot::default() };
        let step = |index, side| Step { index, side, layout: 0 };
        let boots = [
            (step(0, Side::Base), Boot::default()),
            (step(1, Side::Change), busy.clone()),
            (step(2, Side::Change), Boot { is_unseeded: true, ..busy }),
        ];
        let found = unsettled_warnings(boots.iter().map(|(step, boot)| (step, boot)));
        let facts: Vec<&str> = found.iter().map(|warning| warning.fact.as_str()).collect();
        let expected = [
            "the change's kernel was not idle when the workloads began: kcryptd, ksmd ran",
            "the change's kernel has no seed for its random numbers, which makes it slower",
        ];
        assert_eq!(facts, expected);
        assert_eq!(unsettled_warnings(boots[..1].iter().map(|(step, boot)| (step, boot))), []);
    }

    #[test]
    fn a_side_with_checksums_in_plain_c_is_named() {
        let boot = |driver: &str| Boot { crc32c: Some(driver.into()), ..Boot::default() };
        let step = |side| Step { index: 0, side, layout: 0 };
        let base = (step(Side::Base), boot("crc32c-intel"));
        let change = (step(Side::Change), boot("crc32c-generic"));
        let none = (step(Side::Change), Boot::default());
        let seen = |boots: &[&(Step, Boot)]| {
            let boots = boots.iter().map(|(step, boot)| (step, boot));
            (checksum_drivers(boots.clone()), checksum_warnings(boots))
        };
        let (all, found) = seen(&[&base, &change, &base]);
        assert_eq!(all, ["crc32c-generic", "crc32c-intel"]);
        assert!(found.len() == 1 && found[0].fact.starts_with("the change's"), "{found:?}");
        assert_eq!(seen(&[&base, &none]), (vec!["crc32c-intel".to_owned()], Vec::new()));
    }

    fn workload(row: &str, region: Region) -> Workload {
        let (title, operation, program) = (String::new(), String::new(), String::new());
        let (params, signature, numbers) = Default::default();
        let row = row.to_owned();
        let (ops, memory_bytes) = (1, 0);
        Workload {
            row,
            title,
            operation,
            program,
            ops,
            region,
            params,
            memory_bytes,
            signature,
            numbers,
        }
    }

    fn sample(idle: u64, notes: &[&str]) -> Sample {
        let (counts, signature, values) = Default::default();
        let notes = notes.iter().map(|note| (*note).to_owned()).collect();
        Sample {
            ops: 1,
            counts,
            total: 1000,
            tsc: 1000 + idle,
            signature,
            values,
            notes,
            printed: None,
            parallel: None,
        }
    }

    #[test]
    fn a_fact_of_several_rows_is_one_warning() {
        let mut found = RunWarnings::default();
        // The time asleep differs between boots.
        let samples = [sample(90_000, &[]), sample(80_000, &[]), sample(70_000, &["rep: old API"])];
        for row in ["pipe", "futex"] {
            found.add(&workload(row, Region::Marked), samples.iter());
        }
        found.add(&workload("getppid", Region::Marked), [sample(MAX_CLOCK_OVERHEAD, &[])].iter());
        found.add(&workload("kernel-boot", Region::Boot), [sample(90_000, &[])].iter());
        let facts: Vec<String> = found.warnings().into_iter().map(|warning| warning.fact).collect();
        let expected =
            ["2 rows sleep: pipe, futex", "2 rows mix contexts (rep: old API): pipe, futex"];
        assert_eq!(facts, expected);
        let mut found = RunWarnings::default();
        found.add(&workload("pipe", Region::Marked), [sample(MAX_CLOCK_OVERHEAD + 1, &[])].iter());
        assert_eq!(found.warnings()[0].fact, "1 row sleeps: pipe");
    }
}
