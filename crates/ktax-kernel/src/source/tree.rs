//! Runs git: lists the commits of a user's repository, and keeps source trees as tree objects in a
//! git repository in the cache. A source tree is that of a user's directory or revision, or of the
//! distribution's package `linux-source-*`.
//!
//! The id of a tree is a hash of its content, so the same source under another name is not built
//! again. A check-out writes only files that differ from the last tree, so make compiles only
//! those. ktax only reads the user's tree and repository; ktax's own objects and indexes are in the
//! cache.

use crate::cache::Cache;
use crate::debian::Apt;
use crate::patch::Patch;
use crate::talk::{self, KernelTask, Talk, TaskKind, last_line};
use crate::{cache_error, full_disk_in, start_error, unreadable};
use ktax_host::cache::Holder;
use ktax_host::disk::{sha256, write_atomically};
use ktax_host::text::{escape, escape_path};
use ktax_model::{Element, Error, Result};
use std::ffi::{OsStr, OsString};
use std::io::{BufReader, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, thread};

/// The repository of source trees.
pub(super) struct Trees {
    git_dir: PathBuf,
    scratch: PathBuf,
    _holder: Holder,
}

/// A source tree with all its patches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    /// The id of the tree object.
    pub id: String,
    /// The object directory of the user's repository, if some objects of the tree are only there.
    objects: Option<PathBuf>,
}

impl Trees {
    /// Opens the repository in `root`, and creates the repository if it does not exist.
    pub(super) fn open(root: &Path) -> Result<Trees> {
        let (git_dir, scratch) = (root.join("trees.git"), root.join("tmp"));
        let failed = |path: &Path, error| cache_error("create", path, error);
        let holder = Holder::hold_directory(&git_dir).map_err(|error| failed(&git_dir, error))?;
        for directory in [&scratch, &root.join("indexes")] {
            fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
        }
        let trees = Trees { git_dir, scratch, _holder: holder };
        if !trees.git_dir.join("HEAD").exists() {
            let mut init = git_command(None);
            init.args(["init", "--quiet", "--bare"]).arg(&trees.git_dir);
            git_output(&mut init, "create a repository in the cache")?;
        }
        Ok(trees)
    }

    /// Finds the tree of a revision in the user's repository.
    pub(super) fn revision_tree(&self, repository: &Path, revision: &str) -> Result<Tree> {
        let id = resolve(repository, revision, "tree")?;
        let objects = ask_repository(
            repository,
            &["rev-parse", "--git-path", "objects"],
            "find the objects",
        )?;
        let tree = Tree { id, objects: Some(repository.join(objects)) };
        match self.list(&tree, |path| matches!(path, "Kconfig" | "Makefile"))?.lines().count() {
            2 => Ok(tree),
            _ => Err(not_a_tree(escape(revision))),
        }
    }

    /// Applies a patch from `file` to a tree, and returns the new tree. `label` is the name of the
    /// source in errors.
    pub(super) fn patched(
        &self,
        tree: &Tree,
        file: &Path,
        patch: &Patch,
        label: &str,
    ) -> Result<Tree> {
        let scratch = self.temporary()?;
        let [index, diff] = ["index", "patch"].map(|name| scratch.path().join(name));
        fs::write(&diff, &patch.bytes).map_err(|error| cache_error("write", &diff, error))?;
        let objects = tree.objects.as_deref();
        git_output(self.git(Some(&index), objects).args(["read-tree", &tree.id]), "read the tree")?;
        let strip = format!("-p{}", patch.diff.strip);
        let mut apply = self.git(Some(&index), objects);
        apply.args(["apply", "--cached", "--whitespace=nowarn", &strip, "--"]).arg(&diff);
        if let Err(reason) = run_git(&mut apply)? {
            let suffix = match patch.name.as_str() {
                "" => String::new(),
                name => format!(" ({name})"),
            };
            let file = escape_path(file);
            return Err(Error::user(format!("{file}{suffix} does not apply to {label}: {reason}"))
                .next("rebase the patch, or give another source"));
        }
        self.write_tree(&index, tree.objects.clone())
    }

    /// Checks the tree out into `directory`, and writes only files that differ. `index` is the git
    /// index of the directory.
    pub(super) fn check_out(&self, tree: &Tree, directory: &Path, index: &Path) -> Result<()> {
        let mut read = self.git(Some(index), tree.objects.as_deref());
        read.arg("--work-tree").arg(directory).args(["read-tree", "--reset", "-u", &tree.id]);
        git_output(read.current_dir(directory), "check out the tree").map(drop)
    }

    /// Lists the files whose path `is_wanted`: a line for each, with the hash of its content.
    pub(super) fn list(&self, tree: &Tree, is_wanted: impl Fn(&str) -> bool) -> Result<String> {
        let mut list = self.git(None, tree.objects.as_deref());
        let listing = git_output(list.args(["ls-tree", "-r", &tree.id]), "list the tree")?;
        let is_listed =
            |line: &&str| line.split_once('\t').is_some_and(|(_, path)| is_wanted(path));
        Ok(listing.lines().filter(is_listed).collect::<Vec<_>>().join("\n"))
    }

    /// Reads the kernel version in the tree's Makefile, for example `6.12`; `0` if there is none.
    pub(super) fn version(&self, tree: &Tree) -> Result<String> {
        let mut show = self.git(None, tree.objects.as_deref());
        let name = format!("{}:Makefile", tree.id);
        let makefile = git_output(show.args(["cat-file", "blob", &name]), "read the Makefile")?;
        let number = |wanted: &str| {
            let is_wanted =
                |line: &&str| line.split('=').next().is_some_and(|n| n.trim() == wanted);
            let value = makefile.lines().find(is_wanted)?.split_once('=')?.1.trim().parse::<u32>();
            value.ok()
        };
        let numbers = number("VERSION").zip(number("PATCHLEVEL"));
        Ok(numbers.map_or("0".into(), |(version, level)| format!("{version}.{level}")))
    }

    /// Finds the tree with this id in the cache's repository.
    pub(super) fn cached_tree(&self, id: &str) -> Option<Tree> {
        let is_id = id.len() >= 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then_some(())?;
        let mut exists = self.git(None, None);
        exists.args(["cat-file", "-e", id]);
        git_output(&mut exists, "look for a tree").ok()?;
        Some(Tree { id: id.to_owned(), objects: None })
    }

    fn write_tree(&self, index: &Path, objects: Option<PathBuf>) -> Result<Tree> {
        let mut write = self.git(Some(index), objects.as_deref());
        let id = git_output(write.arg("write-tree"), "write the tree")?;
        Ok(Tree { id, objects })
    }

    /// Creates a directory, which is removed when the value is dropped.
    fn temporary(&self) -> Result<tempfile::TempDir> {
        tempfile::TempDir::new_in(&self.scratch)
            .map_err(|error| cache_error("write in", &self.scratch, error))
    }

    /// Returns a git command on the cache's repository, without the user's configuration and hooks.
    pub(super) fn git(&self, index: Option<&Path>, objects: Option<&Path>) -> Command {
        let mut git = git_command(None);
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        git.args(["-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "core.compression=0"]);
        git.args(["-c", "core.autocrlf=false", "-c", "core.safecrlf=false"]);
        git.arg("--git-dir").arg(&self.git_dir);
        git.envs(index.map(|index| ("GIT_INDEX_FILE", index.as_os_str())));
        git.envs(objects.map(|path| ("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted(path))));
        git
    }
}

/// Quotes a path for a list that is separated by colons.
fn quoted(path: &Path) -> OsString {
    let mut text = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        if matches!(byte, b'"' | b'\\') {
            text.push(b'\\');
        }
        text.push(*byte);
    }
    text.push(b'"');
    OsString::from_vec(text)
}

impl Trees {
    /// Adds the present content of a directory, also uncommitted changes, as a tree. Leaves out the
    /// results of ktax, and the files that .gitignore names, unless it names all files.
    pub(super) fn directory_tree(&self, directory: &Path) -> Result<Tree> {
        let users = UserRepository::at_top(directory);
        let temporary = self.temporary()?;
        let index = temporary.path().join("index");
        // An earlier index lets git read only the files that have changed.
        let known = self.index_of(directory);
        let user_index = users.as_ref().and_then(|users| users.index.as_ref());
        drop(copy_index(user_index.unwrap_or(&known), &index));
        let is_all_ignored = users.is_none() && ignores_all_files(directory);
        let objects = users.map(|users| users.objects);
        let add = |index: &Path| {
            let mut add = self.git(Some(index), objects.as_deref());
            add.arg("--work-tree").arg(directory).args(["add", "--all"]);
            add.args(is_all_ignored.then_some("--force")).arg(".").current_dir(directory);
            add.args(result_directories(directory).map(|name| exclude_pathspec(&name)));
            add.args(
                is_all_ignored
                    .then_some(BUILD_OUTPUTS)
                    .into_iter()
                    .flatten()
                    .map(|name| exclude_pathspec(name.as_ref())),
            );
            git_output(&mut add, "read the tree")
        };
        if add(&index).is_err() {
            // A split index needs files that were not copied. Without an index git reads all files.
            drop(fs::remove_file(&index));
            add(&index)?;
        }
        let tree = self.write_tree(&index, objects)?;
        // If this fails, the next time takes longer.
        drop(fs::rename(&index, &known));
        Ok(tree)
    }

    /// The path of the index that ktax keeps for a directory.
    fn index_of(&self, directory: &Path) -> PathBuf {
        let name = sha256(directory.as_os_str().as_encoded_bytes());
        self.git_dir.with_file_name("indexes").join(name)
    }
}

/// The objects and the index of the user's repository.
struct UserRepository {
    objects: PathBuf,
    index: Option<PathBuf>,
}

impl UserRepository {
    /// Finds the repository of a directory; `None` if it is not the top directory of a work tree.
    fn at_top(directory: &Path) -> Option<UserRepository> {
        let rev_parse = |arguments: &[&str]| {
            let mut git = git_command(Some(directory));
            git_output(git.arg("rev-parse").args(arguments), "look at the tree").ok()
        };
        let top = rev_parse(&["--show-toplevel"])?;
        (fs::canonicalize(top).ok()? == fs::canonicalize(directory).ok()?).then_some(())?;
        let path = |name: &str| Some(directory.join(rev_parse(&["--git-path", name])?));
        Some(UserRepository {
            objects: path("objects")?,
            index: path("index").filter(|i| i.exists()),
        })
    }
}

/// Files of a build in the source tree. kbuild refuses to build such a tree out of tree.
const BUILD_OUTPUTS: [&str; 4] =
    [".config", "include/config", "include/generated", "arch/x86/include/generated"];

/// Returns whether .gitignore names all files, as in the distribution's source packages.
fn ignores_all_files(directory: &Path) -> bool {
    let text = fs::read_to_string(directory.join(".gitignore")).unwrap_or_default();
    text.lines().any(|line| matches!(line.trim(), "*" | "/*"))
}

/// Returns the directories with runs, ledgers and searches of ktax in the top directory of a tree.
fn result_directories(directory: &Path) -> impl Iterator<Item = OsString> {
    let below = |path: &Path| fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    let has_plan = move |path: &Path| {
        path.join("plan.json").is_file()
            || below(path).any(|entry| entry.path().join("plan.json").is_file())
    };
    let results = below(directory).filter(move |entry| has_plan(&entry.path()));
    results.map(|entry| entry.file_name()).collect::<Vec<_>>().into_iter()
}

/// Returns a pathspec that excludes exactly this name.
fn exclude_pathspec(name: &OsStr) -> OsString {
    let mut pathspec = OsString::from(":(exclude,literal)");
    pathspec.push(name);
    pathspec
}

/// Copies an index with its modification time. git reads a file again that is not older than the
/// index, because the file may have changed in the same tick of the clock.
fn copy_index(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::copy(from, to)?;
    fs::File::options().write(true).open(to)?.set_modified(fs::metadata(from)?.modified()?)
}

/// Gets the tree of the newest version of `linux-source-VERSION`, and returns it with its name for
/// messages. Downloads and unpacks each version of the package only once.
pub(super) fn package_tree(
    version: &str,
    trees: &Trees,
    cache: &Cache<'_>,
    talk: &Talk<'_>,
) -> Result<(Tree, String)> {
    let apt = Apt::local(cache).with_talk(talk);
    let package = apt.newest(&format!("linux-source-{version}"))?;
    let label = format!("debian-src:{version}");
    let sources = cache.builds().join("packages");
    let failed = |action, error| cache_error(action, &sources, error);
    fs::create_dir_all(&sources).map_err(|error| failed("create", error))?;
    let known = sources.join(format!("{}_{}", package.name, package.version));
    if let Ok(id) = fs::read_to_string(&known) {
        if let Some(tree) = trees.cached_tree(&id) {
            return Ok((tree, label));
        }
    }
    let size = apt.size(&package).map(|bytes| format!(" ({} MiB)", bytes >> 20));
    cache.note(&format!(
        "downloading {package}{} and unpacking it to about 1.5 GB in the cache, once",
        size.unwrap_or_default()
    ));
    let scratch = cache.scratch()?;
    let archive = apt.fetch_source(&package, scratch.path())?;
    let unpacked = scratch.path().join("unpacked");
    fs::create_dir(&unpacked).map_err(|error| failed("create", error))?;
    let files = unpack_source(&archive, &unpacked, &label, talk)?;
    let task = |is_over| KernelTask {
        kind: TaskKind::Import,
        what: label.clone(),
        done: if is_over { files } else { 0 },
        total: Some(files),
        is_over,
    };
    (talk.task)(&task(false));
    let tree = trees.directory_tree(&unpacked)?;
    (talk.task)(&task(true));
    write_atomically(&known, tree.id.as_bytes()).map_err(|error| failed("write in", error))?;
    Ok((tree, label))
}

/// Number of files and directories in the source of Linux 6.1.
const USUAL_FILES: u64 = 83_731;

/// Unpacks the archive without its top directory, and returns the number of files and directories.
fn unpack_source(archive: &Path, into: &Path, label: &str, talk: &Talk<'_>) -> Result<u64> {
    let start = |error| start_error("tar", error);
    let mut stderr_file = talk::stderr_file().map_err(start)?;
    let mut tar = Command::new("tar");
    // With --verbose tar prints a line for each file.
    tar.args(["--extract", "--verbose", "--xz", "--strip-components=1", "--no-same-owner"]);
    tar.arg("--file").arg(archive).arg("--directory").arg(into).stdin(Stdio::null());
    tar.env("LC_ALL", "C").stdout(Stdio::piped());
    tar.stderr(stderr_file.try_clone().map_err(start)?);
    let mut child = talk::start_in_group(&mut tar).map_err(start)?;
    let done = Arc::new(AtomicU64::new(0));
    let lines = child.stdout.take();
    let counter = {
        let done = Arc::clone(&done);
        thread::spawn(move || {
            let mut bytes = lines.into_iter().flat_map(|lines| BufReader::new(lines).bytes());
            while let Some(Ok(byte)) = bytes.next() {
                done.fetch_add(u64::from(byte == b'\n'), Ordering::Relaxed);
            }
        })
    };
    let show = |is_over| {
        let done = done.load(Ordering::Relaxed);
        let (kind, what) = (TaskKind::Unpack, label.to_owned());
        (talk.task)(&KernelTask { kind, what, done, total: Some(USUAL_FILES.max(done)), is_over });
    };
    show(false);
    let status = talk::wait_or_cancel(&mut child, talk, || show(false)).map_err(start)?;
    let _ = counter.join();
    let status = status.ok_or_else(Error::cancelled)?;
    if status.success() {
        show(true);
        return Ok(done.load(Ordering::Relaxed));
    }
    let message = talk::read_stderr(&mut stderr_file).map_err(start)?;
    let text = String::from_utf8_lossy(&message).trim().chars().take(300).collect::<String>();
    let error = full_disk_in(&message).unwrap_or_else(|| std::io::Error::other(escape(&text)));
    Err(cache_error("unpack into", into, error))
}

/// Returns the absolute path of a repository, which may be bare.
pub(super) fn repository(path: &Path) -> Result<PathBuf> {
    fs::canonicalize(path).map_err(|error| unreadable(path, error, "a git repository"))
}

/// Returns the id of the object that a revision names. `kind` is `commit` or `tree`.
pub(super) fn resolve(repository: &Path, revision: &str, kind: &str) -> Result<String> {
    let mut parse = git_command(Some(repository));
    parse.args(["rev-parse", "--verify", "--quiet", "--end-of-options"]);
    parse.arg(format!("{revision}^{{{kind}}}"));
    git_output(&mut parse, "find the revision").map_err(|_| {
        let tree = escape_path(repository);
        Error::user(format!("{tree} has no revision {}", escape(revision)))
            .next(format!("run `git -C {tree} log` to see its revisions"))
    })
}

/// Returns the error for a directory or a revision without kernel source.
pub(super) fn not_a_tree(name: String) -> Error {
    Error::user(format!("{name} is not a kernel tree: it has no Kconfig and Makefile"))
        .next("give the top directory of a kernel tree")
}

/// Returns the output of a git command on the user's repository. The command must not write.
pub(super) fn ask_repository(
    repository: &Path,
    arguments: &[&str],
    action: &str,
) -> Result<String> {
    git_output(git_command(Some(repository)).args(arguments), action)
}

/// Returns a git command that never asks the user and takes no optional locks.
fn git_command(in_directory: Option<&Path>) -> Command {
    let mut git = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"GIT_") {
            git.env_remove(name);
        }
    }
    git.env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
    // In a partial clone git would download missing objects, and so change the clone.
    git.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "").args(["-c", "color.ui=false"]);
    if let Some(directory) = in_directory {
        git.args([OsStr::new("-C"), directory.as_os_str()]);
    }
    git.stdin(Stdio::null());
    git
}

/// Returns the output of a git command. `action` is the purpose of the command in the error.
fn git_output(git: &mut Command, action: &str) -> Result<String> {
    run_git(git)?.map_err(|reason| {
        Error::user(format!("git cannot {action}: {reason}")).next(
            "check the tree with `git fsck`, or copy it without `.git` and give the copy as \
             `src:PATH`",
        )
    })
}

/// Returns the output of a git command, or the last line of its stderr if it fails.
fn run_git(git: &mut Command) -> Result<Result<String, String>> {
    let output = git.output().map_err(|error| start_error("git", error))?;
    Ok(match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned()),
        false => Err(last_line(&output.stderr)),
    })
}

/// The largest number of files that may mention a function: a more common name would not narrow a
/// search.
const FILES_MAX: usize = 50;

/// Lists the commits after `base` up to `change` along first parents, oldest first. Also returns
/// the id of `base`.
pub fn commits(tree: &Path, base: &str, change: &str) -> Result<(String, Vec<Element>)> {
    let tree = repository(tree)?;
    let (first, last) = (resolve(&tree, base, "commit")?, resolve(&tree, change, "commit")?);
    let range = format!("{first}..{last}");
    let log =
        ["log", "--first-parent", "--reverse", "--no-show-signature", "--format=%H%x09%P%x09%s"];
    let text = ask_repository(&tree, &[&log[..], &[&range, "--"]].concat(), "list the commits")?;
    let commits: Vec<(Element, &str)> = text.lines().filter_map(parse_commit).collect();
    let is_complete = commits.last().is_some_and(|(element, _)| element.name == last)
        && commits.len() == text.lines().count();
    match commits.first() {
        Some((_, parents)) if is_complete && parents.split(' ').next() == Some(&first) => {
            Ok((first, commits.into_iter().map(|(element, _)| element).collect()))
        }
        _ => {
            let (base, change) = (escape(base), escape(change));
            let problem = format!("{base} is not a first-parent ancestor of {change}");
            Err(Error::user(problem).next(format!(
                "give a commit that `git -C {} log --first-parent {change}` lists",
                escape_path(&tree)
            )))
        }
    }
}

/// Parses the commit in a line of the log, with its parents.
fn parse_commit(line: &str) -> Option<(Element, &str)> {
    let mut fields = line.splitn(3, '\t');
    let (id, parents, subject) = (fields.next()?, fields.next()?, fields.next()?);
    let is_merge = parents.contains(' ');
    Some((Element { name: id.to_owned(), title: subject.to_owned(), is_merge }, parents))
}

/// Returns the positions, from 1, of the commits whose patches seem to change one of these
/// functions. This is a guess; a wrong one only costs a search some time.
pub fn commits_touching(
    tree: &Path,
    commits: &[Element],
    functions: &[&str],
) -> Result<Vec<usize>> {
    let tree = repository(tree)?;
    let (Some(first), Some(last)) = (commits.first(), commits.last()) else { return Ok(vec![]) };
    let range = format!("{}^..{}", first.name, last.name);
    let mut touching = Vec::new();
    for function in functions.iter().map(|name| stem(name)).filter(|name| !name.is_empty()) {
        let grep =
            ["grep", "-l", "-w", "-F", "-e", function, &last.name, "--", "*.c", "*.h", "*.S"];
        // grep fails if no file mentions the function.
        let files = ask_repository(&tree, &grep, "search the tree").unwrap_or_default();
        let paths: Vec<&str> =
            files.lines().filter_map(|line| Some(line.split_once(':')?.1)).collect();
        if paths.is_empty() || paths.len() > FILES_MAX {
            continue;
        }
        let log = ["log", "--first-parent", "-m", "-p", "--no-color", "--no-ext-diff"];
        let format = ["--no-textconv", "--no-show-signature", "--format=%x00%H", &range, "--"];
        let text =
            ask_repository(&tree, &[&log[..], &format, &paths].concat(), "read the patches")?;
        touching.extend(text.split('\0').filter_map(|patch| {
            let (id, patch) = patch.split_once('\n')?;
            let position = commits.iter().position(|commit| commit.name == id)?;
            mentions_function(patch, function).then_some(position + 1)
        }));
    }
    touching.sort_unstable();
    touching.dedup();
    Ok(touching)
}

/// Returns whether a hunk of a patch mentions the function in one of its lines, or in its header,
/// where git writes the head of the function around the hunk.
fn mentions_function(patch: &str, function: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mentions = |line: &str| line.split(|c| !is_word(c)).any(|word| word == function);
    patch.lines().any(|line| line.starts_with(['@', '+', '-', ' ']) && mentions(line))
}

/// Returns the name of a symbol in the source, for example `getppid` for `__do_sys_getppid`; empty
/// for `[user]`.
fn stem(symbol: &str) -> &str {
    let wrappers = ["__x64_sys_", "__ia32_sys_", "__se_sys_", "__do_sys_"];
    let stem = wrappers.iter().find_map(|wrapper| symbol.strip_prefix(wrapper)).unwrap_or(symbol);
    let is_name = stem.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_name { stem } else { "" }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    /// A test of git itself would need two writes within one tick of the file system's clock.
    #[test]
    fn a_copied_index_keeps_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        fs::File::create(&from).unwrap().set_modified(then).unwrap();
        copy_index(&from, &to).unwrap();
        assert_eq!(fs::metadata(&to).unwrap().modified().unwrap(), then);
    }

    #[test]
    fn a_patch_mentions_functions_in_headers_and_lines() {
        let patch = "diff --git a/f.c b/f.c\n@@ -1,2 +1,2 @@ SYSCALL_DEFINE0(getppid)\n \
                     \tint other = idle();\n+\tbusy(1);\n";
        for (function, touched) in
            [("getppid", true), ("busy", true), ("idle", true), ("diff", false)]
        {
            assert_eq!(mentions_function(patch, function), touched, "{function}");
        }
        assert_eq!(
            [stem("__x64_sys_getppid"), stem("[user]"), stem("fput")],
            ["getppid", "", "fput"]
        );
    }
}
