//! Writes the scripts with which Slurm runs a campaign.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use super::{ShardStatus, status};
use crate::disk::write_atomically;
use crate::flow::error::{Error, OrHost};
use crate::rundir::CampaignDir;
use crate::text::{shell_line, shell_path};

/// Number of restarts after which a job is no longer restarted: the machine is not at fault any
/// more.
const RESTARTS: u32 = 5;

/// Memory of QEMU and ktax beside the guest's.
const BESIDE_GUEST_MIB: u32 = 1536;

/// Array of jobs.
struct JobArray {
    name: &'static str,
    /// Options of `ktax campaign run`, followed by the job's number.
    work: &'static str,
    /// Numbers of shards or subjects.
    numbers: Vec<usize>,
    /// Options of sbatch that reserve resources.
    takes: Vec<String>,
}

/// Writes the scripts into the directory, and returns the path of the one that submits them.
pub fn write_slurm(
    dir: &CampaignDir,
    at_once: Option<usize>,
    options: &[String],
) -> Result<PathBuf, Error> {
    let root = std::path::absolute(dir.root())?;
    let slurm = root.join("slurm");
    let next = "make the campaign's directory writable";
    let ktax = env::current_exe().context("cannot find ktax", "give it a place on the disk")?;
    fs::create_dir_all(&slurm).context(format!("cannot create {}", slurm.display()), next)?;
    let arrays = arrays(dir)?;
    for array in &arrays {
        write(&slurm.join(array.name), &script(array, &ktax, &root))?;
    }
    let submit = slurm.join("submit");
    write(&submit, &submission(&arrays, &slurm, at_once, options))?;
    Ok(submit)
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    let next = "make the campaign's directory writable";
    write_atomically(path, text.as_bytes())
        .context(format!("cannot write {}", path.display()), next)
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
    let takes = |options: &[&str]| options.iter().map(|option| (*option).to_owned()).collect();
    let memory = format!("--mem={}M", plan.machine.memory_mib + BESIDE_GUEST_MIB);
    let all = [
        JobArray {
            name: "build",
            work: "--build",
            numbers: unbuilt.into_iter().collect(),
            takes: takes(&["--cpus-per-task=8", "--mem=8G"]),
        },
        JobArray {
            name: "count",
            work: "--jobs 1 --shard",
            numbers: numbers(counted),
            takes: takes(&["--cpus-per-task=1", &memory]),
        },
        // A timed experiment needs the whole node.
        JobArray {
            name: "time",
            work: "--shard",
            numbers: numbers(timed),
            takes: takes(&["--exclusive", "--mem=0"]),
        },
    ];
    Ok(all.into_iter().filter(|array| !array.numbers.is_empty()).collect())
}

/// Script of an array's jobs. The shell waits beside ktax, because Slurm signals the shell alone.
fn script(array: &JobArray, ktax: &Path, root: &Path) -> String {
    let JobArray { name, work, takes, .. } = array;
    let takes: String = takes.iter().map(|option| format!("#SBATCH {option}\n")).collect();
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
    let mut all: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match all.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => all.push((*number, *number)),
        }
    }
    let shown = all.iter().map(|(first, last)| match first == last {
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
        let array = |name, takes: &[&str]| JobArray {
            name,
            work: "--shard",
            numbers: vec![0, 1, 5],
            takes: takes.iter().map(|option| (*option).to_owned()).collect(),
        };
        let timed = array("time", &["--exclusive", "--mem=0"]);
        let text = script(&timed, Path::new("/opt/my ktax"), Path::new("/nfs/it's C"));
        for line in ["#SBATCH --exclusive", "#SBATCH --requeue", "#SBATCH --signal=B:TERM@60"] {
            assert!(text.lines().any(|found| found == line), "{text}");
        }
        let line = text.lines().find(|line| line.contains(" campaign run ")).unwrap();
        let words = shlex::split(line).unwrap();
        assert_eq!(words[..4], ["/opt/my ktax", "campaign", "run", "/nfs/it's C"]);
        assert_eq!(words[4..], ["--shard", "$SLURM_ARRAY_TASK_ID", "&"]);
        // Counts depend on builds; times depend on nothing.
        let arrays = [array("build", &[]), array("count", &[]), timed];
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
