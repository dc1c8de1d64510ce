//! Runs the kernel's own build, out of tree, so that the same source gives the same bytes.
//!
//! Kernels are built in lanes. A lane has a check-out and an object tree for one kernel version and
//! target. The cache keeps lanes, so the next build of a similar source compiles few files. A lane
//! has one build at a time. make also holds the lane's lock, so if ktax is killed while make runs
//! on, no other build starts in the lane, and no cleaner removes it.

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

/// Variables of the build that become part of a kernel. Their values are fixed, so that the kernel
/// does not depend on the time, the user and the machine of the build.
const BUILD_STAMPS: [(&str, &str); 4] = [
    ("KBUILD_BUILD_TIMESTAMP", "Thu Jan  1 00:00:00 UTC 1970"),
    ("KBUILD_BUILD_USER", "ktax"),
    ("KBUILD_BUILD_HOST", "ktax"),
    ("KBUILD_BUILD_VERSION", "1"),
];

/// The variables of the user's environment that make inherits.
const INHERITED_VARIABLES: [&str; 3] = ["PATH", "HOME", "TMPDIR"];

/// Variables by which ccache ignores the user's configuration.
const CCACHE_VARIABLES: [(&str, &str); 2] =
    [("CCACHE_CONFIGPATH", "/dev/null"), ("CCACHE_MAXSIZE", "2G")];

/// A tree with the settings of its build.
pub(super) struct Make<'a> {
    pub source: PathBuf,
    pub objects: PathBuf,
    pub target: &'a Target,
    /// The file for the output of make.
    pub log: PathBuf,
    /// The name of the source, for messages.
    pub what: &'a str,
    /// The directory of ccache, if ccache is installed. With ccache, an option that is changed back
    /// costs no compilation.
    pub ccache: Option<PathBuf>,
    /// Number of files that a first build compiles, if that is known.
    pub usual_files: Option<usize>,
    /// Callbacks for the progress, and for the user's request to stop.
    pub talk: &'a Talk<'a>,
}

impl Make<'_> {
    /// Runs make with these arguments and variables.
    pub(super) fn run(&self, arguments: &[&str], environment: &[(&str, &Path)]) -> Result<()> {
        let start = |error| start_error("make", error);
        let log = File::create(&self.log).map_err(start)?;
        let compiled_files = compiled_before(&self.objects);
        let mut command = Command::new("make");
        command.arg("-C").arg(&self.source).arg(format!("O={}", self.objects.display()));
        // The user's ARCH, KCFLAGS or LLVM would build another kernel under the same key.
        command.env_clear().envs(
            INHERITED_VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))),
        );
        command
            .args(self.make_arguments(arguments))
            .envs(BUILD_STAMPS)
            .envs(environment.iter().copied());
        if let Some(ccache) = &self.ccache {
            let compiler = format!("CC=ccache {}gcc", self.target.cross_prefix());
            command.arg(compiler).env("CCACHE_DIR", ccache).envs(CCACHE_VARIABLES);
        }
        command.env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(log.try_clone().map_err(start)?).stderr(log);
        let mut make = talk::start_in_group(&mut command).map_err(start)?;
        let targets = arguments.join(" ");
        let total = if compiled_files == 0 { self.usual_files } else { Some(compiled_files) };
        let show = |is_over| match is_build(arguments) {
            true => self.show(compiled(&self.log), total, is_over),
            false => (self.talk.status)(&format!("building {}: {targets}", self.what)),
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

    /// Shows how many files are compiled.
    fn show(&self, compiled: usize, total: Option<usize>, is_over: bool) {
        let (kind, what, done) = (TaskKind::Compile, self.what.to_owned(), compiled as u64);
        let total = total.map(|total| total.max(compiled) as u64);
        (self.talk.task)(&KernelTask { kind, what, done, total, is_over });
    }

    /// Returns the variables of the target, and then the arguments.
    fn make_arguments(&self, arguments: &[&str]) -> Vec<String> {
        let arguments = arguments.iter().map(|&argument| argument.to_owned());
        self.target.make_variables().into_iter().chain(arguments).collect()
    }

    /// Returns the error for a failed make. Its reason is a full disk, a signal, or the source.
    fn failure(&self, arguments: &[&str], status: ExitStatus) -> Error {
        let log_contains = |text: &str| log_lines(&self.log).any(|line| line.contains(text));
        if log_contains("No space left on device") {
            return free_mib(&self.objects).map_or_else(
                |error| error,
                |free_mib| too_little_space(&self.objects, free_mib, FIRST_BUILD_MIB),
            );
        }
        if status.signal().is_some() || log_contains("Killed signal terminated program") {
            return Error::host("the build was killed, perhaps because memory ran out")
                .next("run the same command again to continue");
        }
        let first = first_error(&self.log, &self.source)
            .unwrap_or_else(|| format!("make failed with {status}"));
        let command = format!(
            "make -C {} O={} {}",
            escape_path(&self.source),
            escape_path(&self.objects),
            self.make_arguments(arguments).join(" ")
        );
        Error::guest(format!(
            "{BUILD_FAILED}{first}\n  command: {command}\n  log: {}\nfix the source or the \
             options, and run again; make rebuilds only what has changed",
            escape_path(&self.log)
        ))
        .kind(ErrorKind::Unbuildable)
    }
}

/// Returns whether these arguments make a build: then the first argument is the number of jobs.
fn is_build(arguments: &[&str]) -> bool {
    arguments.first().is_some_and(|first| first.starts_with("-j"))
}

/// Returns the lines of a log; none if it cannot be read.
fn log_lines(log: &Path) -> impl Iterator<Item = String> {
    let reader = File::open(log).ok().map(BufReader::new);
    let bytes = reader.into_iter().flat_map(|reader| reader.split(b'\n').map_while(Result::ok));
    bytes.map(|line| String::from_utf8_lossy(&line).into_owned())
}

/// Counts the compiled files in a log, for each of which kbuild prints a line.
fn compiled(log: &Path) -> usize {
    log_lines(log).filter(|line| line.starts_with("  CC ") || line.starts_with("  AS ")).count()
}

/// Counts the files that earlier builds compiled in this object tree. kbuild keeps the command of
/// each in a file next to the object. The next build compiles at most these files.
pub(super) fn compiled_before(objects: &Path) -> usize {
    let entries = std::fs::read_dir(objects).into_iter().flatten().flatten();
    let count = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => compiled_before(&entry.path()),
        Ok(_) => usize::from(entry.file_name().to_string_lossy().ends_with(".o.cmd")),
        Err(_) => 0,
    };
    entries.map(count).sum()
}

/// Returns the first line in the log with an error of the compiler, the linker, Kconfig or make.
/// Paths in it are relative to the tree.
fn first_error(log: &Path, source: &Path) -> Option<String> {
    const MARKS: [&str; 4] = ["error:", "undefined reference", "syntax error", "*** "];
    let line = log_lines(log).find(|line| MARKS.iter().any(|mark| line.contains(mark)))?;
    let line = line.replace(&format!("{}/", source.display()), "");
    Some(escape(line.chars().take(300).collect::<String>().trim()))
}

/// A lane that is locked until this value is dropped.
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
                // A cleaner has removed the lane meanwhile, so create it again.
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
        // A lane with a check-out needs less space.
        check_space(&root, root.join("index").exists())?;
        let ccache = has_ccache().then(|| builds.join("ccache"));
        let ccache = ccache
            .map(|path| Holder::hold_directory(&path).map(|holder| (path, holder)))
            .transpose();
        let ccache = ccache.map_err(|error| failed("lock", error))?;
        Ok(Lane { root, _lock: lock, ccache })
    }

    /// Returns the directory of ccache, if ccache is installed.
    pub(super) fn ccache(&self) -> Option<PathBuf> {
        self.ccache.as_ref().map(|(path, _)| path.clone())
    }

    /// Returns the path of a part of the lane: `source` (the check-out), `objects`, `log` (the
    /// output of the last make), or `configured` (a hash of the inputs of the .config).
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(super) fn check_out(&self, trees: &Trees, tree: &Tree) -> Result<()> {
        trees.check_out(tree, &self.path("source"), &self.path("index"))
    }
}

impl Drop for Lane {
    /// Sets the time of the last use, because the size has changed since the build began.
    fn drop(&mut self) {
        touch(&self.root);
    }
}

/// Locks a lane, and creates it if it does not exist; `None` if the user has cancelled. The error
/// is `NotFound` if a cleaner removes the lane meanwhile.
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

/// Space for the first build in a lane: a check-out and its object tree, in MiB.
const FIRST_BUILD_MIB: u64 = 3000;

/// Space for a later build in a lane, in MiB.
const LATER_BUILD_MIB: u64 = 300;

/// Checks that `directory` has space for a build: the first one, or a later one if `was_built`.
fn check_space(directory: &Path, was_built: bool) -> Result<()> {
    let needed_mib = if was_built { LATER_BUILD_MIB } else { FIRST_BUILD_MIB };
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

/// The programs that a build needs, each with its package in the distribution.
const PROGRAMS: [(&str, &str); 7] = [
    ("git", "git"),
    ("make", "make"),
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
];

/// The header of libelf, with its package. A build for x86 compiles objtool, which needs the
/// header.
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
    let is_installed =
        |name: &str| directories.iter().any(|directory| directory.join(name).is_file());
    let owned = |(name, package): (&str, &str)| (name.to_owned(), package.to_owned());
    let wanted = PROGRAMS.map(owned).into_iter().chain(cross_tools(target));
    let mut missing: Vec<(String, String)> =
        wanted.filter(|(name, _)| !is_installed(name)).collect();
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

/// Returns the cross tools of a target, with their packages. A build also needs the compiler of
/// this machine, for programs that run during the build.
fn cross_tools(target: &Target) -> Vec<(String, String)> {
    let cross = target.cross_prefix();
    let tool = |name: &str, package: &str| {
        (format!("{cross}{name}"), format!("{package}-{}", cross.trim_end_matches('-')))
    };
    match target.is_foreign() {
        true => vec![tool("gcc", "gcc"), tool("ld", "binutils")],
        false => Vec::new(),
    }
}

/// Returns the versions of compiler and linker, with the variables of the target. They are part of
/// the key, because the kernel depends on them.
pub(super) fn compiler_versions(target: &Target) -> Result<String> {
    let version = |name: &str| {
        let program = &format!("{}{name}", target.cross_prefix());
        let mut command = Command::new(program);
        command.arg("--version").env("LC_ALL", "C").stdin(Stdio::null());
        let output = command.output().map_err(|error| start_error(program, error))?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok::<_, Error>(text.lines().next().unwrap_or_default().to_owned())
    };
    let versions = format!("{}; {}", version("gcc")?, version("ld")?);
    Ok(target.make_variables().into_iter().chain([versions]).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files are those of an object tree of kbuild.
    #[test]
    fn compiled_files_are_counted_in_the_object_tree() {
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
