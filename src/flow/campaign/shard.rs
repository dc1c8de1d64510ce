//! Shards of a campaign: builds kernels, counts or times rows on one machine, and writes the
//! scripts with which Slurm runs all shards.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use super::{ShardStatus, missing_rows, row_failures, status, take_units};
use crate::disk::{Lock, lock_file, set_aside, write_atomically};
use crate::engine::qemu::Qemu;
use crate::engine::{self, Measures};
use crate::flow::Error;
use crate::flow::phases::{self, Options, measure};
use crate::flow::remaining::Part;
use crate::flow::session::Session;
use crate::flow::store::UsedStore;
use crate::kernel;
use crate::model::{CampaignUnit, ErrorContext, ErrorKind, Identity, Plan, Shard, Subject};
use crate::run::Ended;
use crate::rundir::{AnyRunDir, CampaignDir};
use crate::text::{counted, number_ranges, shell_line, shell_path};

/// Result of running a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardEnd {
    pub is_stopped: bool,
    /// Failures in a guest, as `row of subject`.
    pub failed: Vec<String>,
}

/// Measures the rows of a shard that the campaign's store does not have.
pub fn run(dir: &CampaignDir, number: usize, session: &Session<'_>) -> Result<ShardEnd, Error> {
    let shards = dir.plan().shards.len();
    let shard = dir.plan().shard(number).ok_or_else(|| no_shard(number, shards))?;
    let _machine_lock = lock_machine(&shard, &session.cache)?;
    match &shard {
        Shard::Counts(units) => {
            let verify_percent = session.store.as_ref().map_or(0.0, |used| used.verify_percent);
            // Verification measures rows again, so none is taken from the store.
            if let Some(used) = session.store.as_ref().filter(|_| verify_percent == 0.0) {
                take_units(&used.store, dir, units)?;
            }
            if is_done(dir, units)? {
                return Ok(ShardEnd::default());
            }
            check_machine(dir, session)?;
            let store = UsedStore::new(dir.store(), verify_percent);
            run_counts(dir, units, &session.with_store(store))
        }
        Shard::Times(name) => {
            let run_dir = AnyRunDir::open(&dir.timed_dir(name))?;
            let compared = measure(&run_dir, Options::default(), session)?;
            Ok(ShardEnd { is_stopped: compared.is_none(), failed: Vec::new() })
        }
    }
}

fn no_shard(number: usize, shards: usize) -> Error {
    let step = match shards {
        0 => "collect the campaign, which has no shards, because the store had all results".into(),
        1 => "run shard 0, the only one".to_owned(),
        _ => format!("run one of the shards 0 to {}", shards - 1),
    };
    Error::user(format!("there is no shard {number}")).next(step)
}

/// File name of a machine's lock. Several machines may share a home directory, and so the cache.
fn lock_name(node: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "-._".contains(*c);
    format!("machine-{}.lock", node.chars().filter(is_plain).collect::<String>())
}

/// Locks this machine for a shard: shared for counts, exclusive for times. `None` if the file
/// system has no locks.
fn lock_machine(shard: &Shard, cache: &Path) -> Result<Option<Lock>, Error> {
    let path = cache.join(lock_name(&rustix::system::uname().nodename().to_string_lossy()));
    let next = "make the cache writable, or give another with --cache DIR";
    let what = || format!("cannot write {}", path.display());
    fs::create_dir_all(cache).or_host(what(), next)?;
    let file = lock_file(&path).or_host(what(), next)?;
    let locked = match shard {
        Shard::Counts(_) => Lock::share(file),
        Shard::Times(_) => Lock::take(file),
    };
    match locked {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Error::host(
            "another shard runs on this machine, and a timed shard must run alone; try again when \
             the other one has ended",
        )),
        // Counts stay exact without a lock.
        Err(_) => Ok(None),
        Ok(lock) => Ok(Some(lock)),
    }
}

/// Refuses a machine whose counts would not compare, before anything is booted.
fn check_machine(dir: &CampaignDir, session: &Session<'_>) -> Result<(), Error> {
    let planned = &dir.plan().key;
    let measures = engine::find_engine(&planned.engine).map(|engine| engine.measures);
    let qemu = Qemu::find(session.qemu.as_deref())?;
    let found = match measures {
        Some(Measures::Counts { key, .. }) => Some(key(&qemu, &dir.plan().machine)),
        _ => None,
    };
    match found {
        Some(found) if found == *planned => Ok(()),
        found => Err(Error::user(format!(
            "{} was planned for QEMU {} and the ktax of that time, and this machine has {}: counts \
             would not compare",
            dir.root().display(),
            planned.qemu,
            match found {
                Some(key) => format!("QEMU {}", key.qemu),
                None => format!("a ktax without the engine {:?}", planned.engine),
            }
        ))
        .next(
            "nothing was booted. Install that QEMU and that ktax here, or run the shard on another \
             machine",
        )),
    }
}

/// Returns true if the campaign's store has all rows of these units.
fn is_done(dir: &CampaignDir, units: &[CampaignUnit]) -> Result<bool, Error> {
    for unit in units {
        match dir.kernel(unit.subject)? {
            Some(kernel) if missing_rows(dir, unit, &kernel).is_empty() => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

fn run_counts(
    dir: &CampaignDir,
    units: &[CampaignUnit],
    session: &Session<'_>,
) -> Result<ShardEnd, Error> {
    let mut end = ShardEnd::default();
    for (index, unit) in units.iter().enumerate() {
        session.observer.part(Part { index, count: units.len(), shares_base: false });
        let number = unit.subject;
        let subject = &dir.plan().subjects[number].subject;
        let kernel = dir.kernel(number)?.ok_or_else(|| {
            let (kernel, path) = (&subject.kernel, shell_path(dir.root()));
            Error::user(format!("the kernel of subject {number}, {kernel}, is not built yet"))
                .next(format!("build it with `ktax campaign run {path} --build {number}`"))
        })?;
        if missing_rows(dir, unit, &kernel).is_empty() {
            continue;
        }
        cache_image(dir, &kernel, session)?;
        if run_unit(dir, unit, &kernel, session)? == Ended::Cancelled {
            end.is_stopped = true;
            return Ok(end);
        }
        let left = missing_rows(dir, unit, &kernel);
        let failed = row_failures(dir, unit, &left)?;
        if failed.len() < left.len() {
            // Failures of the host may not happen again, or not on another machine.
            let (rows, path) = (counted(left.len() - failed.len(), "row"), dir.unit_dir(unit));
            return Err(Error::host(format!("{rows} failed because of this machine"))
                .next(format!("run the shard again; {} has the reasons", path.display())));
        }
        end.failed.extend(failed.into_iter().map(|(what, _)| what));
    }
    Ok(end)
}

/// Copies a kernel's image from the campaign's directory into the cache, so that it is neither
/// fetched nor built.
fn cache_image(dir: &CampaignDir, kernel: &Identity, session: &Session<'_>) -> Result<(), Error> {
    let image = dir.image(&kernel.sha256);
    if kernel::cached_image(&kernel.sha256, &session.cache).is_none() && image.exists() {
        session.obtain(&Subject::new(&image.display().to_string(), ""))?;
    }
    Ok(())
}

/// Measures a unit. Its run directory stays if a row failed or the user stopped the run.
fn run_unit(
    dir: &CampaignDir,
    unit: &CampaignUnit,
    kernel: &Identity,
    session: &Session<'_>,
) -> Result<Ended, Error> {
    let path = dir.unit_dir(unit);
    let planned: Plan = dir.plan().unit_plan(unit, kernel).map_method(Into::into);
    let run_dir = match AnyRunDir::open(&path) {
        Err(error) if error.kind == ErrorKind::NoRunDirectory => AnyRunDir::create(&path, planned),
        opened => opened,
    };
    let in_use = || {
        Error::host(format!("another process measures {}", path.display()))
            .next("try again when that process has ended")
    };
    let run_dir = run_dir.map_err(|error| match error.kind {
        ErrorKind::InUse => in_use(),
        _ => error,
    })?;
    // If the directory is gone, another process has finished the unit since it was opened here.
    let _lock = run_dir.lock().map_err(|error| match error.kind {
        ErrorKind::InUse => in_use(),
        _ if !path.exists() => in_use(),
        _ => error,
    })?;
    let is_done = || missing_rows(dir, unit, kernel).is_empty();
    let ended = match is_done() {
        true => Ended::Complete,
        false => phases::run(&run_dir, Options::default(), session)?,
    };
    if ended == Ended::Complete && is_done() {
        remove_run(&path).or_host(format!("cannot remove {}", path.display()), WRITABLE)?;
    }
    Ok(ended)
}

/// Removes a run directory. It is renamed first, so that no other process opens it half removed.
fn remove_run(path: &Path) -> io::Result<()> {
    match set_aside(path).and_then(fs::remove_dir_all) {
        // Another process has removed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Builds the kernel of a Subject from source, unless it is built, and leaves it in the directory
/// for every machine.
pub fn build(dir: &CampaignDir, subject: usize, session: &Session<'_>) -> Result<Identity, Error> {
    let Some(planned) = dir.plan().subjects.get(subject) else {
        let last = dir.plan().subjects.len().saturating_sub(1);
        return Err(Error::user(format!("there is no subject {subject}"))
            .next(format!("give one of the subjects 0 to {last}")));
    };
    if planned.kernel.is_some() {
        return Err(Error::user(format!(
            "the kernel of subject {subject}, {}, is not built from source",
            planned.subject.kernel
        ))
        .next("run the subject's shard, which needs no build"));
    }
    if let Some(built) = dir.kernel(subject)? {
        return Ok(built);
    }
    let kernel = session.obtain(&planned.subject)?;
    dir.write_image(&kernel.identity.sha256, &kernel.image)?;
    dir.write_kernel(subject, &kernel.identity)?;
    // If another machine has built the kernel meanwhile, use that one.
    Ok(dir.kernel(subject)?.unwrap_or(kernel.identity))
}

/// Next step if a file cannot be written to the campaign's directory.
const WRITABLE: &str = "make the campaign's directory writable";

/// Maximum number of restarts of a job. A job that fails more often is likely to fail on every
/// machine.
const MAX_RESTARTS: u32 = 5;

/// Memory that QEMU and ktax use in addition to the guest's.
const QEMU_AND_KTAX_MIB: u32 = 1536;

/// Names of the arrays, which are also the names of their scripts and shell variables.
const BUILD: &str = "build";
const COUNT: &str = "count";
const TIME: &str = "time";

/// Slurm job array: one job for each shard, or for each kernel to build.
struct JobArray {
    name: &'static str,
    /// Options of `ktax campaign run`; the job's number follows.
    run_options: &'static str,
    /// Numbers of shards or subjects.
    numbers: Vec<usize>,
    /// Options of sbatch that reserve resources, separated by spaces.
    resources: String,
}

/// Writes the scripts into the campaign's directory, and returns the path of the one that submits
/// the others. Slurm runs at most `max_jobs` of an array at a time.
pub fn write_slurm(
    dir: &CampaignDir,
    max_jobs: Option<usize>,
    options: &[String],
) -> Result<PathBuf, Error> {
    let root = std::path::absolute(dir.root())?;
    let slurm = root.join("slurm");
    let ktax = env::current_exe().or_host("cannot find the program file of ktax", "mount /proc")?;
    fs::create_dir_all(&slurm).or_host(format!("cannot create {}", slurm.display()), WRITABLE)?;
    let arrays = arrays(dir)?;
    for array in &arrays {
        write(&slurm.join(array.name), &script(array, &ktax, &root))?;
    }
    let submit = slurm.join("submit");
    write(&submit, &submission(&arrays, &slurm, max_jobs, options))?;
    Ok(submit)
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    write_atomically(path, text.as_bytes())
        .or_host(format!("cannot write {}", path.display()), WRITABLE)
}

/// Job arrays of the shards that are not finished; arrays without jobs are left out.
fn arrays(dir: &CampaignDir) -> Result<Vec<JobArray>, Error> {
    let plan = dir.plan();
    let open: Vec<ShardStatus> =
        status(dir)?.into_iter().filter(|shard| !shard.missing.is_empty()).collect();
    let unbuilt: BTreeSet<usize> = open.iter().flat_map(|shard| shard.unbuilt.clone()).collect();
    let is_timed = |shard: &&ShardStatus| {
        plan.shards.get(shard.number).is_some_and(|shard| shard.timed().is_some())
    };
    let (timed, counted): (Vec<&ShardStatus>, Vec<&ShardStatus>) = open.iter().partition(is_timed);
    let numbers = |shards: Vec<&ShardStatus>| shards.iter().map(|shard| shard.number).collect();
    let memory_mib = plan.machine.memory_mib + QEMU_AND_KTAX_MIB;
    let arrays = [
        JobArray {
            name: BUILD,
            run_options: "--build",
            numbers: unbuilt.into_iter().collect(),
            resources: "--cpus-per-task=8 --mem=8G".into(),
        },
        JobArray {
            name: COUNT,
            run_options: "--jobs 1 --shard",
            numbers: numbers(counted),
            resources: format!("--cpus-per-task=1 --mem={memory_mib}M"),
        },
        // Other work on the node would disturb times.
        JobArray {
            name: TIME,
            run_options: "--shard",
            numbers: numbers(timed),
            resources: "--exclusive --mem=0".into(),
        },
    ];
    Ok(arrays.into_iter().filter(|array| !array.numbers.is_empty()).collect())
}

/// Script of an array's jobs. ktax runs in the background, because Slurm only signals the shell,
/// which passes SIGTERM on.
fn script(array: &JobArray, ktax: &Path, root: &Path) -> String {
    let JobArray { name, run_options, resources, .. } = array;
    let directives: String =
        resources.split(' ').map(|option| format!("#SBATCH {option}\n")).collect();
    let (ktax, root) = (shell_path(ktax), shell_path(root));
    format!(
        "\
#!/bin/sh
#SBATCH --job-name=ktax-{name}
#SBATCH --nodes=1
#SBATCH --ntasks=1
{directives}#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@60
# Written by `ktax campaign sbatch`. A job that is run again skips finished work.

{ktax} campaign run {root} {run_options} \"$SLURM_ARRAY_TASK_ID\" &
ktax=$!
trap 'kill -TERM \"$ktax\"' TERM
while :; do
    wait \"$ktax\"
    status=$?
    # A signal interrupts `wait` while ktax still runs.
    kill -0 \"$ktax\" 2>/dev/null || break
done
# 75: this machine failed or was in use. 130: stopped before the time limit. 137: killed by
# signal 9, such as by the kernel, which was out of memory.
case $status in
    75 | 130 | 137)
        if [ \"${{SLURM_RESTART_COUNT:-0}}\" -lt {MAX_RESTARTS} ]; then
            scontrol requeue \"${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID\"
        fi
        ;;
esac
exit \"$status\"
"
    )
}

/// Script that submits the arrays. Counts start after all builds have succeeded. Slurm starts times
/// when it has a node without other jobs.
fn submission(
    arrays: &[JobArray],
    slurm: &Path,
    max_jobs: Option<usize>,
    options: &[String],
) -> String {
    let mut text = "#!/bin/sh\n# Written by `ktax campaign sbatch`.\nset -eu\n".to_owned();
    let has_builds = arrays.iter().any(|array| array.name == BUILD);
    for array in arrays {
        let limit = max_jobs.map(|max| format!("%{max}")).unwrap_or_default();
        let numbers = number_ranges(array.numbers.iter().map(|number| *number as u64));
        let mut words = vec![
            "sbatch".to_owned(),
            "--parsable".to_owned(),
            format!("--array={numbers}{limit}"),
            format!("--output={}/{}-%a.log", slurm.display(), array.name),
        ];
        words.extend(options.iter().cloned());
        let dependency = match array.name {
            COUNT if has_builds => format!(" --dependency=afterok:\"${BUILD}\""),
            _ => String::new(),
        };
        let script = shell_path(slurm.join(array.name));
        let name = array.name;
        text += &format!("{name}=$({}{dependency} {script})\n", shell_line(&words));
        text += &format!("echo \"{name}: job ${name}\"\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::Exit;

    #[test]
    fn hosts_with_similar_names_have_different_locks() {
        let names = ["node1-2", "node12", "node1.2", "node1_2"].map(lock_name);
        assert_eq!(names[0], "machine-node1-2.lock");
        assert_eq!(BTreeSet::from(names).len(), 4);
        assert_eq!(lock_name("../a b\u{1b}"), "machine-..ab.lock");
    }

    #[test]
    fn missing_shards_are_refused_with_the_numbers_of_the_others() {
        let message = |shards| no_shard(7, shards).to_string();
        assert_eq!(message(4), "there is no shard 7; run one of the shards 0 to 3");
        assert_eq!(message(1), "there is no shard 7; run shard 0, the only one");
        assert!(message(0).ends_with("the store had all results"), "{}", message(0));
    }

    #[test]
    fn scripts_requeue_the_exit_statuses_of_a_machine_that_failed() {
        let array = JobArray {
            name: COUNT,
            run_options: "--shard",
            numbers: vec![0],
            resources: String::new(),
        };
        let text = script(&array, Path::new("ktax"), Path::new("C"));
        let [again, cancelled] = [Exit::TryAgain, Exit::Cancelled].map(|exit| exit as u8);
        assert!(text.contains(&format!("\n    {again} | {cancelled} | 137)\n")), "{text}");
    }

    #[test]
    fn scripts_reserve_resources_and_quote_paths() {
        let array = |name, resources: &str| JobArray {
            name,
            run_options: "--shard",
            numbers: vec![0, 1, 5],
            resources: resources.to_owned(),
        };
        let timed = array(TIME, "--exclusive --mem=0");
        let text = script(&timed, Path::new("/opt/my ktax"), Path::new("/nfs/it's C"));
        for line in ["#SBATCH --exclusive", "#SBATCH --requeue", "#SBATCH --signal=B:TERM@60"] {
            assert!(text.lines().any(|found| found == line), "{text}");
        }
        let line = text.lines().find(|line| line.contains(" campaign run ")).unwrap();
        let words = shlex::split(line).unwrap();
        assert_eq!(words[..4], ["/opt/my ktax", "campaign", "run", "/nfs/it's C"]);
        assert_eq!(words[4..], ["--shard", "$SLURM_ARRAY_TASK_ID", "&"]);
        // Counts depend on builds; times depend on nothing.
        let arrays = [array(BUILD, ""), array(COUNT, ""), timed];
        let options = ["--partition=a b".to_owned()];
        let text = submission(&arrays, Path::new("/nfs/C/slurm"), Some(8), &options);
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("=$(sbatch ")).collect();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.contains("--array=0-1,5%8 ")), "{text}");
        assert!(lines.iter().all(|line| line.contains(" '--partition=a b' ")), "{text}");
        let depends = " --dependency=afterok:\"$build\" ";
        assert_eq!(
            [false, true, false],
            [0, 1, 2].map(|number| lines[number].contains(depends)),
            "{text}"
        );
    }
}
