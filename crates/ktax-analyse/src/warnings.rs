//! Warnings: facts about the kernels, boots and runs of a comparison that its reader has to know.

use std::collections::BTreeSet;

use ktax_host::text::{did_you_mean, nearest};
use ktax_model::{
    Boot, CountsPlan, Effect, Fallback, GuestsPlan, Identity, PlanMethod, Region, Row, Sample,
    Side, Sides, Step, Subject, TimedPair, TimesPlan, Warning, Workload, boot_parameters,
    unquoted_parameter,
};

/// Warns if the Sides of a Plan name two kernels that have the same bytes.
pub fn one_image(plan: &PlanMethod) -> Option<Warning> {
    match plan {
        PlanMethod::Counts(plan) => one_image_of_counts(plan),
        PlanMethod::Times(plan) => one_image_of_times(plan),
        PlanMethod::Guests(plan) => one_image_of_guests(plan),
    }
}

pub(super) fn one_image_of_counts(plan: &CountsPlan) -> Option<Warning> {
    let Sides { base, change } = &plan.kernels;
    is_asked_twice(&plan.asked.subjects.base, &plan.asked.subjects.change)
        .then(|| one_image_warning(base, change))?
}

pub(super) fn one_image_of_times(plan: &TimesPlan) -> Option<Warning> {
    let (base, change) =
        (plan.asked.subjects.base.kernel.as_ref()?, plan.asked.subjects.change.kernel.as_ref()?);
    let kernel = |name: &String| plan.kernels.get(name);
    (base != change).then(|| one_image_warning(kernel(base)?, kernel(change)?))?
}

pub(super) fn one_image_of_guests(plan: &GuestsPlan) -> Option<Warning> {
    let (base, change) = (&plan.asked.base, plan.asked.change.as_ref()?);
    is_asked_twice(base.subject.kernel.as_ref()?, change.subject.kernel.as_ref()?)
        .then(|| one_image_warning(base.kernel.as_ref()?, change.kernel.as_ref()?))?
}

/// Returns true if the kernels were asked for by different names, options or patches.
fn is_asked_twice(base: &Subject, change: &Subject) -> bool {
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

/// Parameters that arch/x86 looks for in the command line itself (cmdline_find_option). The kernel
/// proper does not know them and passes them to init, although they work.
const READ_EARLY: [&str; 20] = [
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
const DOCUMENTED: &str = include_str!("../../../kernels/parameters.txt");

/// Among so many names, short names and names of different lengths are alike by chance.
const SHORTEST: usize = 4;
const LENGTHS_APART: usize = 2;

/// Documented parameter that a mistyped one probably means.
fn meant(parameter: &str) -> Option<&'static str> {
    let name = parameter.split('=').next().unwrap_or_default().trim_matches('"');
    let is_near = |near: &&str| near.len().abs_diff(name.len()) <= LENGTHS_APART;
    let near = nearest(name, DOCUMENTED.lines().filter(is_near))?;
    (name.len() >= SHORTEST && near != name).then_some(near)
}

/// Warnings about parameters of a Subject that its kernel does not know, one for each. A mistyped
/// parameter changes nothing, so no change would be found. `is_ignored` is called with a parameter
/// as init gets it. Parameters of modules, `module.parameter`, never get there.
pub fn unknown_parameters(
    side: Side,
    boot_line: &str,
    is_ignored: impl Fn(&str) -> bool,
) -> Vec<Warning> {
    let asked = |word: &&str| {
        let parameter = unquoted_parameter(word);
        let name = parameter.split('=').next().unwrap_or_default();
        !READ_EARLY.contains(&name) && is_ignored(&parameter)
    };
    let hint = |parameter: &str| did_you_mean(meant(parameter));
    let warning = |parameter: &str| Warning {
        fact: format!(
            "the {}'s kernel does not know the boot parameter {parameter}{}",
            side.name(),
            hint(parameter)
        ),
        next_step: "check its spelling, and whether this kernel is built with it".into(),
    };
    let mut words = boot_parameters(boot_line);
    words.sort_unstable();
    words.dedup();
    words.into_iter().filter(asked).map(warning).collect()
}

/// Warnings about kernels that had not settled in the Boots of a comparison.
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

/// Warnings about one Side: threads that still ran, and random numbers without a seed.
pub(super) fn unsettled_side_warnings(
    side: Side,
    busy: &BTreeSet<&str>,
    is_unseeded: bool,
) -> Vec<Warning> {
    let side = side.name();
    let names = busy.iter().copied().collect::<Vec<_>>().join(", ");
    let was_busy = (!busy.is_empty()).then(|| Warning {
        fact: format!("the {side}'s kernel was not idle when the workloads began: {names} ran"),
        next_step: "what these threads do adds to the times and to the background of each row; \
                    turn them off, as with cryptomgr.notests for self-tests"
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

/// Names of the code that computes crc32c in the kernels, each once; empty without a disk.
pub(super) fn checksum_drivers<'a>(
    boots: impl Iterator<Item = (&'a Step, &'a Boot)>,
) -> Vec<String> {
    let names: BTreeSet<&String> = boots.filter_map(|(_, boot)| boot.crc32c.as_ref()).collect();
    names.into_iter().cloned().collect()
}

/// Warns about each Side whose kernel computes checksums in plain C: CPUs have instructions for
/// them.
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
                "the {}'s kernel computes checksums of the disk by {plain}, in plain C, where \
                 processors of the last years have an instruction: rows that check metadata cost \
                 more than there",
                side.name()
            ),
            next_step: "build CONFIG_CRYPTO_CRC32C_INTEL=y into the kernel, or leave --cpu out"
                .into(),
        })
    };
    Side::BOTH.into_iter().filter_map(warning).collect()
}

/// Warns about functions that only one kernel executes because the CPU lacks a feature.
pub(super) fn fallback_warning(rows: &[Row]) -> Option<Warning> {
    let (mut functions, mut features) = (BTreeSet::new(), BTreeSet::new());
    let mut largest: Option<(f64, &str)> = None;
    let mut count = 0;
    for row in rows {
        let Some(effect) = row.effects().first() else { continue };
        let slow: Vec<&Fallback> = effect.fallbacks().collect();
        functions.extend(slow.iter().map(|way| way.function));
        features.extend(slow.iter().map(|way| way.feature));
        let Some(share) = share_percent(effect).filter(|_| !slow.is_empty()) else { continue };
        count += 1;
        largest = largest.filter(|(most, _)| *most >= share).or(Some((share, &row.row)));
    }
    let (share, row) = largest?;
    let names = |set: BTreeSet<&str>| set.into_iter().collect::<Vec<_>>().join(", ");
    let features = names(features);
    Some(Warning {
        fact: format!(
            "the CPU lacks {features}, which processors of the last years have, so one side alone \
             executes {} in {count} of {} rows: with what they replace they carry up to \
             {share:.0} % of a row's delta ({row}), and stand last among a row's functions",
            names(functions),
            rows.len()
        ),
        next_step: "measure with QEMU 8.1 or newer, whose CPU has these features: `ktax doctor \
                    --newer-qemu qemu-10`, then --qemu qemu-10/qemu-system-x86_64"
            .into(),
    })
}

/// Share of the slow ways and of the functions that they replace in an Effect's delta, in percent.
fn share_percent(effect: &Effect) -> Option<f64> {
    let slow =
        effect.functions.iter().filter(|delta| effect.missing_feature(&delta.function).is_some());
    let sum: f64 = slow.map(|delta| delta.delta).sum();
    (effect.delta != 0.0).then(|| (sum / effect.delta * 100.0).abs())
}

/// Warnings about Boots and Runs that the host lost and that were made again.
pub(super) fn lost_boot_warnings<'a>(
    boots: impl Iterator<Item = (&'a Step, &'a Boot)>,
) -> Vec<Warning> {
    let warnings_of_boot = |(step, boot): (&Step, &'a Boot)| {
        let name = step.name();
        boot.retry_reasons.iter().map(move |why| Warning {
            fact: format!("ktax made boot {name} or a run of it a second time: {why}"),
            next_step: "the counts are as good as any; `dmesg` may say what ended QEMU".into(),
        })
    };
    boots.flat_map(warnings_of_boot).collect()
}

/// Warnings about timed Boots that the host lost and that were made again.
pub(super) fn lost_pair_warnings(pairs: &[TimedPair]) -> Vec<Warning> {
    let warnings_of_pair = |pair: &TimedPair| {
        let lost = Side::BOTH.map(|side| pair.boots.get(side).retry_reason.clone());
        let index = pair.index;
        lost.into_iter().flatten().map(move |why| Warning {
            fact: format!("ktax made a boot of pair {index} a second time: {why}"),
            next_step: "the times are as good as any; `dmesg` may say what ended QEMU".into(),
        })
    };
    pairs.iter().flat_map(warnings_of_pair).collect()
}

/// Most instructions between the reads of the clock and the markers.
const BRACKET: u64 = 64;

/// A fact of Runs, and the rows that it holds for.
type FactRows = (String, Vec<String>);

/// Facts that were found in the Runs of the rows so far.
#[derive(Default)]
pub(super) struct RunWarnings {
    asleep: Vec<String>,
    mixed: Vec<FactRows>,
}

impl RunWarnings {
    /// Adds the Runs of one more row.
    pub(super) fn add<'a>(
        &mut self,
        workload: &Workload,
        samples: impl Iterator<Item = &'a Sample>,
    ) {
        let mut is_asleep = false;
        for sample in samples {
            // The time of a user's program includes its markers.
            let is_marked = workload.region == Region::Marked && !workload.is_user_program();
            is_asleep |= is_marked && sleeps(sample);
            for note in &sample.notes {
                match self.mixed.iter_mut().find(|(known, _)| known == note) {
                    Some((_, rows)) if rows.last() == Some(&workload.row) => {}
                    Some((_, rows)) => rows.push(workload.row.clone()),
                    None => self.mixed.push((note.clone(), vec![workload.row.clone()])),
                }
            }
        }
        self.asleep.extend(is_asleep.then(|| workload.row.clone()));
    }

    /// One Warning for each fact.
    pub(super) fn warnings(self) -> Vec<Warning> {
        let asleep = (!self.asleep.is_empty()).then(|| Warning {
            fact: rows_fact(&self.asleep, "sleeps", "sleep", ""),
            next_step: "ktax counts what these rows execute, and not how long they sleep".into(),
        });
        let noted = self.mixed.into_iter().map(|(note, rows)| note_warning(&note, &rows));
        asleep.into_iter().chain(noted).collect()
    }
}

fn note_warning(note: &str, rows: &[String]) -> Warning {
    let (fact, next_step) = if note.starts_with("path: ") {
        let next_step = "the counts are right; what --explain says of callers may not be";
        (rows_fact(rows, "names wrong callers", "name wrong callers", ""), next_step)
    } else {
        let next_step = "add up the contexts of such a row; `ktax doctor` checks the plugin";
        (rows_fact(rows, "mixes contexts", "mix contexts", &format!(" ({note})")), next_step)
    };
    Warning { fact, next_step: next_step.into() }
}

/// Returns true if the guest's clock went on while no instruction ran. The clock is QEMU's own
/// count; only the few instructions around the Region are not in the total. An instruction that
/// faults is in the total twice, so a total above the clock means nothing.
fn sleeps(sample: &Sample) -> bool {
    sample.tsc > sample.total.saturating_add(BRACKET)
}

/// `1 row sleeps: pipe`, `2 rows sleep: pipe, futex`
fn rows_fact(rows: &[String], singular: &str, plural: &str, why: &str) -> String {
    let names = rows.join(", ");
    match rows.len() {
        1 => format!("1 row {singular}{why}: {names}"),
        count => format!("{count} rows {plural}{why}: {names}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_parameter_is_the_one_that_init_gets() {
        let handed_on = ["foo=x y", "nokaslr", "b"];
        let line = r#"quiet foo="x y" nokaslr "b" foo="x y""#;
        let warnings = unknown_parameters(Side::Change, line, |word| handed_on.contains(&word));
        let facts: Vec<&str> = warnings.iter().map(|warning| warning.fact.as_str()).collect();
        let about = "the change's kernel does not know the boot parameter";
        let expected = [format!("{about} \"b\""), format!("{about} foo=\"x y\"")];
        assert_eq!(facts, expected);
    }

    #[test]
    fn a_mistyped_parameter_is_named_with_the_one_that_was_meant() {
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
    fn each_side_says_once_what_was_not_settled() {
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
    fn a_side_in_plain_c_is_named() {
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

    fn sample(asleep: u64, notes: &[&str]) -> Sample {
        let (counts, signature, values) = Default::default();
        let notes = notes.iter().map(|note| (*note).to_owned()).collect();
        Sample {
            ops: 1,
            counts,
            total: 1000,
            tsc: 1000 + asleep,
            signature,
            values,
            notes,
            printed: None,
            parallel: None,
        }
    }

    #[test]
    fn what_holds_for_many_runs_is_said_once_with_the_rows() {
        let mut found = RunWarnings::default();
        // Each boot sleeps for another time.
        let asleep = [sample(90_000, &[]), sample(80_000, &[]), sample(70_000, &["rep: old API"])];
        for row in ["pipe", "futex"] {
            found.add(&workload(row, Region::Marked), asleep.iter());
        }
        found.add(&workload("getppid", Region::Marked), [sample(BRACKET, &[])].iter());
        found.add(&workload("kernel-boot", Region::Boot), [sample(90_000, &[])].iter());
        let facts: Vec<String> = found.warnings().into_iter().map(|warning| warning.fact).collect();
        let expected =
            ["2 rows sleep: pipe, futex", "2 rows mix contexts (rep: old API): pipe, futex"];
        assert_eq!(facts, expected);
        let mut found = RunWarnings::default();
        found.add(&workload("pipe", Region::Marked), [sample(BRACKET + 1, &[])].iter());
        assert_eq!(found.warnings()[0].fact, "1 row sleeps: pipe");
    }
}
