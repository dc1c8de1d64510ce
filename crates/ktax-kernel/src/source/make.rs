//! Runs the kernel's own build, out of tree, so that the same source gives the same bytes.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use super::space;
use crate::error::BuildError;
use crate::talk::{KernelTask, Talk, TaskKind};
use crate::target::Target;
use crate::watched;
use ktax_host::text::{escape, escape_path};

/// What a kernel says about its build: fixed, so that it does not depend on who builds and when.
const MADE: [(&str, &str); 4] = [
    ("KBUILD_BUILD_TIMESTAMP", "Thu Jan  1 00:00:00 UTC 1970"),
    ("KBUILD_BUILD_USER", "ktax"),
    ("KBUILD_BUILD_HOST", "ktax"),
    ("KBUILD_BUILD_VERSION", "1"),
];

/// The variables of the user's environment that a build gets.
const KEPT: [&str; 3] = ["PATH", "HOME", "TMPDIR"];

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
    /// How many files a first build compiles, if that is known.
    pub usual_files: Option<usize>,
    /// Shows the progress, and knows whether the user has cancelled.
    pub talk: &'a Talk<'a>,
}

impl Make<'_> {
    /// Runs make with these arguments and variables.
    ///
    /// # Errors
    /// [`BuildError::Failed`] with the first error in the log, or a reason on the side of the host.
    pub(super) fn run(
        &self,
        arguments: &[&str],
        environment: &[(&str, &Path)],
    ) -> Result<(), BuildError> {
        let start = |error| BuildError::Start { tool: "make".into(), error };
        let log = File::create(&self.log).map_err(start)?;
        let known = compiled_before(&self.objects);
        let mut command = Command::new("make");
        command.arg("-C").arg(&self.source).arg(format!("O={}", self.objects.display()));
        // The user's ARCH, KCFLAGS or LLVM would build another kernel under the same key.
        command
            .env_clear()
            .envs(KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.args(self.words(arguments)).envs(MADE).envs(environment.iter().copied());
        if let Some(ccache) = &self.ccache {
            let compiler = format!("CC=ccache {}gcc", self.target.cross());
            command.arg(compiler).env("CCACHE_DIR", ccache).envs(CCACHE);
        }
        command.env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(log.try_clone().map_err(start)?).stderr(log);
        let mut make = watched::start(&mut command).map_err(start)?;
        let what = arguments.join(" ");
        let total = if known == 0 { self.usual_files } else { Some(known) };
        let show = |is_over| match is_build(arguments) {
            true => self.show(compiled(&self.log), total, is_over),
            false => (self.talk.status)(&format!("building {}: {what}", self.what)),
        };
        show(false);
        let status = watched::wait(&mut make, self.talk, || show(false)).map_err(start)?;
        let status = status.ok_or(BuildError::Cancelled)?;
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
        self.target.of_make().into_iter().chain(arguments).collect()
    }

    /// Why make failed: a full disk, a kill, or else the source.
    fn failure(&self, arguments: &[&str], status: ExitStatus) -> BuildError {
        let says = |what: &str| lines(&self.log).any(|line| line.contains(what));
        if says("No space left on device") {
            return space::disk_full(&self.objects);
        }
        if status.signal().is_some() || says("Killed signal terminated program") {
            return BuildError::Killed;
        }
        BuildError::Failed {
            first: first_error(&self.log, &self.source)
                .unwrap_or_else(|| format!("make failed with {status}")),
            command: format!(
                "make -C {} O={} {}",
                escape_path(&self.source),
                escape_path(&self.objects),
                self.words(arguments).join(" ")
            ),
            log: escape_path(&self.log),
        }
    }
}

/// Whether make compiles: its first argument is the number of jobs then.
fn is_build(arguments: &[&str]) -> bool {
    arguments.first().is_some_and(|first| first.starts_with("-j"))
}

fn lines(log: &Path) -> impl Iterator<Item = String> {
    let reader = File::open(log).ok().map(BufReader::new);
    let bytes = reader.into_iter().flat_map(|reader| reader.split(b'\n').map_while(Result::ok));
    bytes.map(|line| String::from_utf8_lossy(&line).into_owned())
}

/// The number of compiled files: kbuild prints a line for each.
fn compiled(log: &Path) -> usize {
    lines(log).filter(|line| line.starts_with("  CC ") || line.starts_with("  AS ")).count()
}

/// The number of files that earlier builds in this object tree compiled: kbuild keeps the command
/// of each beside its object.
pub(super) fn compiled_before(objects: &Path) -> usize {
    let entries = std::fs::read_dir(objects).into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => compiled_before(&entry.path()),
        Ok(_) => usize::from(entry.file_name().to_string_lossy().ends_with(".o.cmd")),
        Err(_) => 0,
    };
    entries.map(of).sum()
}

/// The first error of compiler, linker, Kconfig or make, with paths relative to the tree.
fn first_error(log: &Path, source: &Path) -> Option<String> {
    const COMPLAINTS: [&str; 4] = ["error:", "undefined reference", "syntax error", "*** "];
    let line = lines(log).find(|line| COMPLAINTS.iter().any(|said| line.contains(said)))?;
    let line = line.replace(&format!("{}/", source.display()), "");
    Some(escape(line.chars().take(300).collect::<String>().trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As kbuild leaves an object tree.
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

    fn said(text: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        std::fs::write(&log, text).unwrap();
        first_error(&log, Path::new("/cache/builds/lanes/6.12/source")).unwrap()
    }

    /// The logs are of real builds of Linux 6.12.
    #[test]
    fn the_first_error_of_a_recorded_build_is_the_reason() {
        let compile = said(include_str!("../../../../tests/data/builds/compile.log"));
        assert!(
            compile.starts_with("kernel/fork.c:144:14: error: expected expression"),
            "{compile}"
        );
        let link = said(include_str!("../../../../tests/data/builds/link.log"));
        assert!(link.ends_with("undefined reference to `nowhere'"), "{link}");
        let kconfig = said(include_str!("../../../../tests/data/builds/kconfig.log"));
        assert_eq!(kconfig, "init/Kconfig:5: syntax error");
    }

    #[test]
    fn the_message_of_a_compiler_is_escaped() {
        assert_eq!(said("  CC b.o\nb.c:3:1: error: \x1b[1mno\n"), "b.c:3:1: error: \\u{1b}[1mno");
    }
}
