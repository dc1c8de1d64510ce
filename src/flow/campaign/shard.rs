//! The work of a campaign on one machine: a shard's kernels, counts or times, and the scripts with
//! which Slurm runs all shards.

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
use crate::text::{counted, shell_line, shell_path};

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
    let _here = share_machine(&shard, &session.cache)?;
    match &shard {
        Shard::Counts(units) => {
            let verify_percent = session.store.as_ref().map_or(0.0, |used| used.verify_percent);
            // With verification everything is measured.
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
    let numbers = match shards {
        0 => "none: all is measured".to_owned(),
        1 => "one, 0".to_owned(),
        _ => format!("0 to {}", shards - 1),
    };
    Error::user(format!("there is no shard {number}")).next(format!("the campaign has {numbers}"))
}

/// Locks this machine: shared for counts, exclusive for times. The lock is named after the machine,
/// because several may share a cache.
fn share_machine(shard: &Shard, cache: &Path) -> Result<Option<Lock>, Error> {
    // Several machines may share a home directory, and so the cache.
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let path = cache.join(format!("machine-{name}.lock"));
    let next = "make the cache writable, or give another with --cache DIR";
    let what = || format!("cannot write {}", path.display());
    fs::create_dir_all(cache).or_host(what(), next)?;
    let file = lock_file(&path).or_host(what(), next)?;
    let taken = match shard {
        Shard::Counts(_) => Lock::share(file),
        Shard::Times(_) => Lock::take(file),
    };
    match taken {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Error::host(
            "other work of a campaign runs on this machine, and times are measured alone; try \
             again when it has ended",
        )),
        // Some file systems have no locks; counts stay exact without them.
        Err(_) => Ok(None),
        Ok(lock) => Ok(Some(lock)),
    }
}

/// Refuses a machine whose counts would not compare, before anything is booted.
fn check_machine(dir: &CampaignDir, session: &Session<'_>) -> Result<(), Error> {
    let planned = &dir.plan().key;
    let engine = engine::find_engine(&planned.engine).map(|engine| engine.measures);
    let qemu = Qemu::find(session.qemu.as_deref())?;
    let found = match engine {
        Some(Measures::Counts { key, .. }) => Some(key(&qemu, &dir.plan().machine)),
        _ => None,
    };
    match found {
        Some(found) if found == *planned => Ok(()),
        found => Err(Error::user(format!(
            "{} was planned for QEMU {} and the ktax of that time, and this machine has QEMU {}: \
             counts would not compare",
            dir.root().display(),
            planned.qemu,
            found.map_or_else(|| "without this engine".to_owned(), |key| key.qemu)
        ))
        .next("nothing was booted. Give it the same package, or run the shard on another machine")),
    }
}

/// Returns true if the campaign's store has all of these units.
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
            // The host failed: another try or another machine may succeed.
            let (rows, path) = (counted(left.len() - failed.len(), "row"), dir.unit_dir(unit));
            return Err(Error::host(format!("{rows} failed because of this machine"))
                .next(format!("{} says why. Run the shard again", path.display())));
        }
        end.failed.extend(failed.into_iter().map(|(what, _)| what));
    }
    Ok(end)
}

/// Puts an image of the directory into the cache, so that nothing is fetched or built.
fn cache_image(dir: &CampaignDir, kernel: &Identity, session: &Session<'_>) -> Result<(), Error> {
    let image = dir.image(&kernel.sha256);
    if kernel::cached_image(&kernel.sha256, &session.cache).is_none() && image.exists() {
        session.obtain(&Subject::new(&image.display().to_string(), ""))?;
    }
    Ok(())
}

/// Measures a unit. Its run directory stays if something failed or was stopped.
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
        Error::host(format!("{} is measured by another machine", path.display()))
            .next("try again when it has ended")
    };
    let run_dir = run_dir.map_err(|error| match error.kind {
        ErrorKind::InUse => in_use(),
        _ => error,
    })?;
    // Another process may have finished the unit and removed its directory since it was opened.
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

/// Removes a run directory. It is moved away first, so that no other process finds a part of it.
fn remove_run(path: &Path) -> io::Result<()> {
    match set_aside(path).and_then(fs::remove_dir_all) {
        // Another process was first.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Builds the kernel of a Subject from source, unless it is built, and leaves it in the directory
/// for every machine.
pub fn build(dir: &CampaignDir, subject: usize, session: &Session<'_>) -> Result<Identity, Error> {
    let Some(planned) = dir.plan().subjects.get(subject).filter(|planned| planned.kernel.is_none())
    else {
        return Err(Error::user(format!("subject {subject} is not built from source"))
            .next("`ktax campaign status` lists the others"));
    };
    if let Some(built) = dir.kernel(subject)? {
        return Ok(built);
    }
    let kernel = session.obtain(&planned.subject)?;
    dir.write_image(&kernel.identity.sha256, &kernel.image)?;
    dir.write_kernel(subject, &kernel.identity)?;
    // If two machines have built it, the first one counts.
    Ok(dir.kernel(subject)?.unwrap_or(kernel.identity))
}

/// Next step where the directory refuses a file.
const WRITABLE: &str = "make the campaign's directory writable";

/// Number of restarts after which a job is no longer restarted: the machine is not at fault any
/// more.
const RESTARTS: u32 = 5;

/// Memory of QEMU and ktax beside the guest's.
const BESIDE_GUEST_MIB: u32 = 1536;

struct JobArray {
    name: &'static str,
    /// Options of `ktax campaign run`, followed by the job's number.
    work: &'static str,
    /// Numbers of shards or subjects.
    numbers: Vec<usize>,
    /// Options of sbatch that reserve resources, with spaces between them.
    takes: String,
}

/// Writes the scripts into the directory, and returns the path of the one that submits them.
pub fn write_slurm(
    dir: &CampaignDir,
    at_once: Option<usize>,
    options: &[String],
) -> Result<PathBuf, Error> {
    let root = std::path::absolute(dir.root())?;
    let slurm = root.join("slurm");
    let ktax = env::current_exe().or_host("cannot find ktax", "give it a place on the disk")?;
    fs::create_dir_all(&slurm).or_host(format!("cannot create {}", slurm.display()), WRITABLE)?;
    let arrays = arrays(dir)?;
    for array in &arrays {
        write(&slurm.join(array.name), &script(array, &ktax, &root))?;
    }
    let submit = slurm.join("submit");
    write(&submit, &submission(&arrays, &slurm, at_once, options))?;
    Ok(submit)
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    write_atomically(path, text.as_bytes())
        .or_host(format!("cannot write {}", path.display()), WRITABLE)
}

/// Arrays that still have work.
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
    let memory_mib = plan.machine.memory_mib + BESIDE_GUEST_MIB;
    let arrays = [
        JobArray {
            name: "build",
            work: "--build",
            numbers: unbuilt.into_iter().collect(),
            takes: "--cpus-per-task=8 --mem=8G".into(),
        },
        JobArray {
            name: "count",
            work: "--jobs 1 --shard",
            numbers: numbers(counted),
            takes: format!("--cpus-per-task=1 --mem={memory_mib}M"),
        },
        // A timed experiment needs the whole node.
        JobArray {
            name: "time",
            work: "--shard",
            numbers: numbers(timed),
            takes: "--exclusive --mem=0".into(),
        },
    ];
    Ok(arrays.into_iter().filter(|array| !array.numbers.is_empty()).collect())
}

/// Script of an array's jobs. The shell waits beside ktax, because Slurm signals the shell alone.
fn script(array: &JobArray, ktax: &Path, root: &Path) -> String {
    let JobArray { name, work, takes, .. } = array;
    let takes = takes.split(' ').map(|option| format!("#SBATCH {option}\n"));
    let takes: String = takes.collect();
    let (ktax, root) = (shell_path(ktax), shell_path(root));
    format!(
        "\
#!/bin/sh
#SBATCH --job-name=ktax-{name}
#SBATCH --nodes=1
#SBATCH --ntasks=1
{takes}#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@60
# Written by `ktax campaign sbatch`. What is done already is not done again.

{ktax} campaign run {root} {work} \"$SLURM_ARRAY_TASK_ID\" &
ktax=$!
trap 'kill -TERM \"$ktax\"' TERM
while :; do
    wait \"$ktax\"
    status=$?
    # A signal ends the wait, and not yet ktax.
    kill -0 \"$ktax\" 2>/dev/null || break
done
# 75: this machine failed or was in use. 130: stopped, before the time was over. 137: killed by
# signal 9, such as by the kernel for memory.
case $status in
    75 | 130 | 137)
        if [ \"${{SLURM_RESTART_COUNT:-0}}\" -lt {RESTARTS} ]; then
            scontrol requeue \"${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID\"
        fi
        ;;
esac
exit \"$status\"
"
    )
}

/// Script that submits the arrays. Counts start after all builds have succeeded. Times start when
/// the node has no other work.
fn submission(
    arrays: &[JobArray],
    slurm: &Path,
    at_once: Option<usize>,
    options: &[String],
) -> String {
    let mut text = "#!/bin/sh\n# Written by `ktax campaign sbatch`.\nset -eu\n".to_owned();
    let has_builds = arrays.iter().any(|array| array.name == "build");
    for array in arrays {
        let limit = at_once.map(|most| format!("%{most}")).unwrap_or_default();
        let mut words = vec![
            "sbatch".to_owned(),
            "--parsable".to_owned(),
            format!("--array={}{limit}", ranges(&array.numbers)),
            format!("--output={}/{}-%a.log", slurm.display(), array.name),
        ];
        words.extend(options.iter().cloned());
        let depends = match array.name {
            "count" if has_builds => " --dependency=afterok:\"$build\"",
            _ => "",
        };
        let script = shell_path(slurm.join(array.name));
        let name = array.name;
        text += &format!("{name}=$({}{depends} {script})\n", shell_line(&words));
        text += &format!("echo \"{name}: job ${name}\"\n");
    }
    text
}

/// Ranges as Slurm reads them: `0-7,9`.
fn ranges(numbers: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let shown = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    shown.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_ranges_as_slurm_reads_them() {
        assert_eq!(ranges(&[0, 1, 2, 7, 9, 10]), "0-2,7,9-10");
        assert_eq!(ranges(&[3]), "3");
    }

    #[test]
    fn a_job_says_what_it_takes_and_paths_are_words() {
        let array = |name, takes: &str| JobArray {
            name,
            work: "--shard",
            numbers: vec![0, 1, 5],
            takes: takes.to_owned(),
        };
        let timed = array("time", "--exclusive --mem=0");
        let text = script(&timed, Path::new("/opt/my ktax"), Path::new("/nfs/it's C"));
        for line in ["#SBATCH --exclusive", "#SBATCH --requeue", "#SBATCH --signal=B:TERM@60"] {
            assert!(text.lines().any(|found| found == line), "{text}");
        }
        let line = text.lines().find(|line| line.contains(" campaign run ")).unwrap();
        let words = shlex::split(line).unwrap();
        assert_eq!(words[..4], ["/opt/my ktax", "campaign", "run", "/nfs/it's C"]);
        assert_eq!(words[4..], ["--shard", "$SLURM_ARRAY_TASK_ID", "&"]);
        // Counts depend on builds; times depend on nothing.
        let arrays = [array("build", ""), array("count", ""), timed];
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
