//! Runs the kernel's own build, out of tree, so that the same source gives the same bytes.
//!
//! Kernels are built in lanes: a check-out and its object tree for each kernel version and target.
//! ktax keeps them, so the next build of a similar source compiles little. Each lane has one build
//! at a time. make holds the lock too: if ktax is killed and make goes on, no other build begins
//! there, and no cleaner removes the lane.

use std::fs;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use rustix::fs::statvfs;

use super::tree::{Tree, Trees};
use crate::spec::Target;
use crate::talk::{self, KernelTask, PAUSE, Talk, TaskKind};
use crate::{BUILD_FAILED, cache_error, start_error};
use ktax_host::cache::{Holder, touch};
use ktax_host::disk::{Lock, lock_file};
use ktax_host::text::{escape, escape_path};
use ktax_model::{Error, ErrorKind, Result};

/// Build details that a kernel reports: fixed, so that it does not depend on who builds and when.
const BUILD_STAMPS: [(&str, &str); 4] = [
    ("KBUILD_BUILD_TIMESTAMP", "Thu Jan  1 00:00:00 UTC 1970"),
    ("KBUILD_BUILD_USER", "ktax"),
    ("KBUILD_BUILD_HOST", "ktax"),
    ("KBUILD_BUILD_VERSION", "1"),
];

/// The variables of the user's environment that a build gets.
const KEPT_VARIABLES: [&str; 3] = ["PATH", "HOME", "TMPDIR"];

/// Ignores the user's configuration of ccache.
const CCACHE: [(&str, &str); 2] = [("CCACHE_CONFIGPATH", "/dev/null"), ("CCACHE_MAXSIZE", "2G")];

/// A tree, and how to build it.
pub(super) struct Make<'a> {
    pub source: PathBuf,
    pub objects: PathBuf,
    pub target: &'a Target,
    /// The file for the output of make.
    pub log: PathBuf,
    /// The name of the source, for messages.
    pub what: &'a str,
    /// The directory of ccache, if it is installed: toggling an option back compiles nothing again.
    pub ccache: Option<PathBuf>,
    /// Number of files that a first build compiles, if that is known.
    pub usual_files: Option<usize>,
    /// Shows the progress, and knows whether the user has cancelled.
    pub talk: &'a Talk<'a>,
}

impl Make<'_> {
    /// Runs make with these arguments and variables.
    pub(super) fn run(&self, arguments: &[&str], environment: &[(&str, &Path)]) -> Result<()> {
        let start = |error| start_error("make", error);
        let log = File::create(&self.log).map_err(start)?;
        let known = compiled_before(&self.objects);
        let mut command = Command::new("make");
        command.arg("-C").arg(&self.source).arg(format!("O={}", self.objects.display()));
        // The user's ARCH, KCFLAGS or LLVM would build another kernel under the same key.
        command
            .env_clear()
            .envs(KEPT_VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.args(self.words(arguments)).envs(BUILD_STAMPS).envs(environment.iter().copied());
        if let Some(ccache) = &self.ccache {
            let compiler = format!("CC=ccache {}gcc", self.target.cross());
            command.arg(compiler).env("CCACHE_DIR", ccache).envs(CCACHE);
        }
        command.env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(log.try_clone().map_err(start)?).stderr(log);
        let mut make = talk::start_in_group(&mut command).map_err(start)?;
        let what = arguments.join(" ");
        let total = if known == 0 { self.usual_files } else { Some(known) };
        let show = |is_over| match is_build(arguments) {
            true => self.show(compiled(&self.log), total, is_over),
            false => (self.talk.status)(&format!("building {}: {what}", self.what)),
        };
        show(false);
        let status = talk::wait_or_cancel(&mut make, self.talk, || show(false)).map_err(start)?;
        let status = status.ok_or_else(Error::cancelled)?;
        if status.success() {
            show(true);
            return Ok(());
        }
        Err(self.failure(arguments, status))
    }

    /// Shows how many files are compiled. A build again compiles at most the files of the last one.
    fn show(&self, compiled: usize, total: Option<usize>, is_over: bool) {
        let (kind, what, done) = (TaskKind::Compile, self.what.to_owned(), compiled as u64);
        let total = total.map(|total| total.max(compiled) as u64);
        (self.talk.task)(&KernelTask { kind, what, done, total, is_over });
    }

    /// The variables of the target, then the arguments.
    fn words(&self, arguments: &[&str]) -> Vec<String> {
        let arguments = arguments.iter().map(|&argument| argument.to_owned());
        self.target.make_variables().into_iter().chain(arguments).collect()
    }

    /// Error for a make that failed: a full disk, a kill, or else the source.
    fn failure(&self, arguments: &[&str], status: ExitStatus) -> Error {
        let says = |what: &str| log_lines(&self.log).any(|line| line.contains(what));
        if says("No space left on device") {
            return free_mib(&self.objects).map_or_else(
                |error| error,
                |free_mib| too_little_space(&self.objects, free_mib, FIRST_MIB),
            );
        }
        if status.signal().is_some() || says("Killed signal terminated program") {
            return Error::host("the build was killed, perhaps because memory ran out")
                .next("run the same command again to continue");
        }
        let first = first_error(&self.log, &self.source)
            .unwrap_or_else(|| format!("make failed with {status}"));
        let command = format!(
            "make -C {} O={} {}",
            escape_path(&self.source),
            escape_path(&self.objects),
            self.words(arguments).join(" ")
        );
        Error::guest(format!(
            "{BUILD_FAILED}{first}\n  command: {command}\n  log: {}\nfix the source or the \
             options, and run again; make rebuilds only what has changed",
            escape_path(&self.log)
        ))
        .kind(ErrorKind::Unbuildable)
    }
}

/// Returns whether make compiles: its first argument is the number of jobs then.
fn is_build(arguments: &[&str]) -> bool {
    arguments.first().is_some_and(|first| first.starts_with("-j"))
}

fn log_lines(log: &Path) -> impl Iterator<Item = String> {
    let reader = File::open(log).ok().map(BufReader::new);
    let bytes = reader.into_iter().flat_map(|reader| reader.split(b'\n').map_while(Result::ok));
    bytes.map(|line| String::from_utf8_lossy(&line).into_owned())
}

/// The number of compiled files: kbuild prints a line for each.
fn compiled(log: &Path) -> usize {
    log_lines(log).filter(|line| line.starts_with("  CC ") || line.starts_with("  AS ")).count()
}

/// The number of files that earlier builds in this object tree compiled: kbuild keeps the command
/// of each beside its object.
pub(super) fn compiled_before(objects: &Path) -> usize {
    let entries = std::fs::read_dir(objects).into_iter().flatten().flatten();
    let count = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => compiled_before(&entry.path()),
        Ok(_) => usize::from(entry.file_name().to_string_lossy().ends_with(".o.cmd")),
        Err(_) => 0,
    };
    entries.map(count).sum()
}

/// The first error of compiler, linker, Kconfig or make, with paths relative to the tree.
fn first_error(log: &Path, source: &Path) -> Option<String> {
    const COMPLAINTS: [&str; 4] = ["error:", "undefined reference", "syntax error", "*** "];
    let line =
        log_lines(log).find(|line| COMPLAINTS.iter().any(|complaint| line.contains(complaint)))?;
    let line = line.replace(&format!("{}/", source.display()), "");
    Some(escape(line.chars().take(300).collect::<String>().trim()))
}

/// A locked lane. Dropping it unlocks the lane.
pub(super) struct Lane {
    root: PathBuf,
    _lock: Lock,
    ccache: Option<(PathBuf, Holder)>,
}

impl Lane {
    /// Locks the lane `name`, and waits while another build has it.
    pub(super) fn take(builds: &Path, name: &str, talk: &Talk<'_>) -> Result<Lane> {
        let root = builds.join("lanes").join(name);
        let failed = |action, error| cache_error(action, &root, error);
        let mut lock = loop {
            match lock_lane(&root, talk) {
                // A cleaner has removed the lane meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                taken => break taken.map_err(|error| failed("lock", error))?,
            }
        }
        .ok_or_else(Error::cancelled)?;
        lock.inherit().map_err(|error| failed("lock", error))?;
        for directory in ["source", "objects"] {
            fs::create_dir_all(root.join(directory)).map_err(|error| failed("create", error))?;
        }
        touch(&root);
        // A check-out that exists needs no more space.
        check_space(&root, root.join("index").exists())?;
        let ccache = has_ccache().then(|| builds.join("ccache"));
        let ccache = ccache
            .map(|path| Holder::hold_directory(&path).map(|holder| (path, holder)))
            .transpose();
        let ccache = ccache.map_err(|error| failed("lock", error))?;
        Ok(Lane { root, _lock: lock, ccache })
    }

    /// The directory of ccache, if it is installed.
    pub(super) fn ccache(&self) -> Option<PathBuf> {
        self.ccache.as_ref().map(|(path, _)| path.clone())
    }

    /// The path of `source` (the check-out), `objects`, `log` (the output of the last make) or
    /// `configured` (a hash of what the .config was made from).
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(super) fn check_out(&self, trees: &Trees, tree: &Tree) -> Result<()> {
        trees.check_out(tree, &self.path("source"), &self.path("index"))
    }
}

impl Drop for Lane {
    /// Marks the lane as used: its size has changed since the build began.
    fn drop(&mut self) {
        touch(&self.root);
    }
}

/// The lock of a lane, which is made if it does not exist; `None` if the user has cancelled. An
/// error `NotFound` if the lane is removed meanwhile.
fn lock_lane(root: &Path, talk: &Talk<'_>) -> io::Result<Option<Lock>> {
    fs::create_dir_all(root)?;
    let path = root.join("lock");
    match lock_file(&path).and_then(Lock::take) {
        Ok(lock) if lock.is_file_at(&path)? => Ok(Some(lock)),
        Ok(_) => Err(io::ErrorKind::NotFound.into()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            (talk.note)("waiting for another build of the same kernel version");
            Lock::wait_at(&path, PAUSE, talk.is_cancelled)
        }
        Err(error) => Err(error),
    }
}

/// The size of a check-out and its object tree, in MiB.
const FIRST_MIB: u64 = 3000;

/// Space that another build in the same place adds, in MiB.
const AGAIN_MIB: u64 = 300;

/// Checks that `directory` has room for a build, or for another one after `was_built`.
fn check_space(directory: &Path, was_built: bool) -> Result<()> {
    let needed_mib = if was_built { AGAIN_MIB } else { FIRST_MIB };
    let free_mib = free_mib(directory)?;
    if free_mib < needed_mib {
        return Err(too_little_space(directory, free_mib, needed_mib));
    }
    Ok(())
}

fn free_mib(path: &Path) -> Result<u64> {
    let space =
        statvfs(path).map_err(|error| cache_error("get the free space of", path, error.into()))?;
    Ok((space.f_bavail * space.f_frsize) >> 20)
}

fn too_little_space(path: &Path, free_mib: u64, needed_mib: u64) -> Error {
    let path = escape_path(path);
    Error::host(format!(
        "cannot build: {path} has {free_mib} MiB of free space, but a build needs {needed_mib} MiB"
    ))
    .next("free some space, or choose another cache with --cache")
}

/// Each program, and the package of the distribution that contains it.
const PROGRAMS: [(&str, &str); 7] = [
    ("git", "git"),
    ("make", "make"),
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
];

/// A header and its package: an x86 build compiles objtool, which needs it.
const LIBELF_HEADER: (&str, &str) = ("/usr/include/gelf.h", "libelf-dev");

/// Checks that all tools are installed, so that a build does not fail halfway.
pub(super) fn check_tools(target: &Target) -> Result<()> {
    check_tools_in(target, &path_directories(), Path::new(LIBELF_HEADER.0))
}

fn has_ccache() -> bool {
    path_directories().iter().any(|directory| directory.join("ccache").is_file())
}

fn path_directories() -> Vec<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect()
}

fn check_tools_in(target: &Target, directories: &[PathBuf], header: &Path) -> Result<()> {
    let is_here = |name: &str| directories.iter().any(|directory| directory.join(name).is_file());
    let owned = |(name, package): (&str, &str)| (name.to_owned(), package.to_owned());
    let wanted = PROGRAMS.map(owned).into_iter().chain(cross_tools(target));
    let mut missing: Vec<(String, String)> = wanted.filter(|(name, _)| !is_here(name)).collect();
    if !header.is_file() {
        missing.push(owned(LIBELF_HEADER));
    }
    if missing.is_empty() {
        return Ok(());
    }
    let (missing, packages): (Vec<String>, Vec<String>) = missing.into_iter().unzip();
    let problem = format!("cannot build a kernel without {}", missing.join(", "));
    Err(Error::user(problem).next(format!("run `sudo apt-get install {}`", packages.join(" "))))
}

/// The cross tools of a target. The compiler of this machine is needed too, for the build's own
/// programs.
fn cross_tools(target: &Target) -> Vec<(String, String)> {
    let cross = target.cross();
    let tool = |name: &str, package: &str| {
        (format!("{cross}{name}"), format!("{package}-{}", cross.trim_end_matches('-')))
    };
    match target.is_foreign() {
        true => vec![tool("gcc", "gcc"), tool("ld", "binutils")],
        false => Vec::new(),
    }
}

/// The versions of compiler and linker. They are a part of the key, because another compiler builds
/// another kernel.
pub(super) fn compiler_versions(target: &Target) -> Result<String> {
    let version = |name: &str| {
        let program = &format!("{}{name}", target.cross());
        let mut command = Command::new(program);
        command.arg("--version").env("LC_ALL", "C").stdin(Stdio::null());
        let output = command.output().map_err(|error| start_error(program, error))?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok::<_, Error>(text.lines().next().unwrap_or_default().to_owned())
    };
    let versions = format!("{}; {}", version("gcc")?, version("ld")?);
    // The variables of the target change the kernel too.
    Ok(target.make_variables().into_iter().chain([versions]).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files are those of an object tree that kbuild left.
    #[test]
    fn a_build_again_has_an_end_that_is_known() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(compiled_before(dir.path()), 0);
        std::fs::create_dir_all(dir.path().join("kernel/sched")).unwrap();
        for name in
            [".init.o.cmd", "kernel/.fork.o.cmd", "kernel/sched/.core.o.cmd", "kernel/fork.o"]
        {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(compiled_before(dir.path()), 3);
    }

    #[test]
    fn only_a_build_is_counted_in_files() {
        assert!(is_build(&["-j2", "bzImage"]) && !is_build(&["allnoconfig"]) && !is_build(&[]));
    }

    fn first_error_in(text: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        std::fs::write(&log, text).unwrap();
        first_error(&log, Path::new("/cache/builds/lanes/6.12/source")).unwrap()
    }

    /// The logs are of real builds of Linux 6.12.
    #[test]
    fn the_first_error_of_a_recorded_build_is_the_reason() {
        let compile = first_error_in(include_str!("../../../../tests/data/builds/compile.log"));
        assert!(
            compile.starts_with("kernel/fork.c:144:14: error: expected expression"),
            "{compile}"
        );
        let link = first_error_in(include_str!("../../../../tests/data/builds/link.log"));
        assert!(link.ends_with("undefined reference to `nowhere'"), "{link}");
        let kconfig = first_error_in(include_str!("../../../../tests/data/builds/kconfig.log"));
        assert_eq!(kconfig, "init/Kconfig:5: syntax error");
    }

    #[test]
    fn the_message_of_a_compiler_is_escaped() {
        assert_eq!(
            first_error_in("  CC b.o\nb.c:3:1: error: \x1b[1mno\n"),
            "b.c:3:1: error: \\u{1b}[1mno"
        );
    }

    #[test]
    fn a_missing_tool_is_named_with_its_package() {
        let dir = tempfile::tempdir().unwrap();
        for (program, _) in &PROGRAMS[..4] {
            std::fs::write(dir.path().join(program), "").unwrap();
        }
        let message = |target| {
            let error = check_tools_in(target, &[dir.path().to_owned()], Path::new("/no/gelf.h"));
            error.unwrap_err().to_string()
        };
        let text = message(&Target::X86_64);
        assert!(text.contains("without flex, bison, bc, /usr/include/gelf.h;"), "{text}");
        assert!(text.ends_with("`sudo apt-get install flex bison bc libelf-dev`"), "{text}");
        let text = message(&Target::E500V2);
        assert!(text.contains("bc, powerpc-linux-gnu-gcc, powerpc-linux-gnu-ld, "), "{text}");
        let packages = " gcc-powerpc-linux-gnu binutils-powerpc-linux-gnu libelf-dev`";
        assert!(text.ends_with(packages), "{text}");
    }
}
