//! A history of sixteen commits on the distribution's source, without a check-out.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::SOURCE;
use crate::common::{cache, ktax, run};

/// A file of the tree, a text in it, and the text that replaces it.
type Edit = (&'static str, &'static str, &'static str);

const SYS: &str = "kernel/sys.c";
const GETPPID: &str = "SYSCALL_DEFINE0(getppid)\n{\n\tint pid;\n";
const INIT: &str = "static int __ref kernel_init(void *unused)\n{\n\tint ret;\n";
const PANICS: &str =
    "static int __ref kernel_init(void *unused)\n{\n\tint ret;\n\tpanic(\"planted\");\n";

/// The place, from 1, of the commit that makes getppid slower.
pub const PLANTED: usize = 13;

/// The subject and the edits of each commit.
pub const COMMITS: [(&str, &[Edit]); 16] = [
    ("docs: a word", &[("README", "Linux kernel", "The Linux kernel")]),
    ("fork: a comment", &[("kernel/fork.c", "int nr_threads;", "int nr_threads; /* of all */")]),
    ("pipe: a comment", &[("fs/pipe.c", "struct pipe_inode_info", "/* */ struct pipe_inode_info")]),
    ("mm: an unused helper", &[("mm/mmap.c", "#include <linux/kernel.h>", UNUSED)]),
    ("exit: a comment", &[("kernel/exit.c", "void put_task_struct_rcu_user", EXIT)]),
    (
        "sys, init: panic",
        &[
            (SYS, GETPPID, "SYSCALL_DEFINE0(getppid)\n{\n\tint pid; /* of whom */\n"),
            ("init/main.c", INIT, PANICS),
        ],
    ),
    ("init: do not panic", &[("init/main.c", PANICS, INIT)]),
    ("sched: a comment", &[("kernel/sched/core.c", "#include <linux/highmem.h>", SCHED)]),
    (
        "sys, fork: broken",
        &[
            (SYS, "int pid; /* of whom */", "int pid;"),
            ("kernel/fork.c", "/* of all */", "int broken = ;"),
        ],
    ),
    ("fork: mended", &[("kernel/fork.c", "int broken = ;", "")]),
    ("signal: a comment", &[("kernel/signal.c", "static struct kmem_cache *", SIGNAL)]),
    ("readdir: a comment", &[("fs/readdir.c", "struct getdents_callback {", READDIR)]),
    ("sys: count to eight", &[(SYS, GETPPID, LOOP)]),
    ("stat: a comment", &[("fs/stat.c", "#ifdef __ARCH_WANT_OLD_STAT", STAT)]),
    ("open: a comment", &[("fs/open.c", "struct file *filp_open(", OPEN)]),
    ("docs: another word", &[("README", "The Linux kernel", "Linux, the kernel")]),
];

const UNUSED: &str =
    "#include <linux/kernel.h>\nstatic int __maybe_unused planted(void) { return 1; }";
const EXIT: &str = "/* planted */ void put_task_struct_rcu_user";
const SCHED: &str = "/* planted */\n#include <linux/highmem.h>";
const SIGNAL: &str = "/* planted */ static struct kmem_cache *";
const READDIR: &str = "/* planted */ struct getdents_callback {";
const STAT: &str = "/* planted */\n#ifdef __ARCH_WANT_OLD_STAT";
const OPEN: &str = "/* planted */ struct file *filp_open(";
const LOOP: &str = "SYSCALL_DEFINE0(getppid)\n{\n\tint pid;\n\tint planted;\n\n\
                    \tfor (planted = 0; planted < 8; planted++)\n\t\tbarrier();\n";

pub struct History {
    pub repository: PathBuf,
    /// The id of the base, then of each commit.
    pub ids: Vec<String>,
}

impl History {
    /// A bare repository in `dir` whose first commit is the tree of the source package.
    pub fn new(dir: &Path) -> History {
        // Planning downloads the source package.
        let plan = ["plan", "--same", "--kernel", SOURCE, "-w", "getppid"];
        let ran = run(ktax().args(plan));
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let repository = dir.join("linux.git");
        let trees = cache().join("builds/trees.git");
        assert!(git(dir, &["init", "-q", "--bare", "linux.git"], None).is_empty());
        let alternates = repository.join("objects/info/alternates");
        fs::write(alternates, trees.join("objects").display().to_string() + "\n").unwrap();
        let mut packages = fs::read_dir(cache().join("builds/packages")).unwrap();
        let tree = fs::read_to_string(packages.next().unwrap().unwrap().path()).unwrap();
        git(&repository, &["read-tree", tree.trim()], None);
        let mut history = History { repository, ids: Vec::new() };
        history.commit("the distribution's");
        let mut contents = BTreeMap::new();
        for (subject, edits) in COMMITS {
            for edit in edits {
                history.edit(&mut contents, edit);
            }
            history.commit(subject);
        }
        history
    }

    fn edit(&self, contents: &mut BTreeMap<&'static str, String>, (path, from, to): &Edit) {
        let content = contents
            .entry(path)
            .or_insert_with(|| git(&self.repository, &["show", &format!(":{path}")], None));
        assert!(content.contains(from), "{path} has no {from:?}");
        *content = content.replacen(from, to, 1);
        let blob = git(&self.repository, &["hash-object", "-w", "--stdin"], Some(content));
        let entry = format!("100644,{},{path}", blob.trim());
        git(&self.repository, &["update-index", "--cacheinfo", &entry], None);
    }

    fn commit(&mut self, subject: &str) {
        let tree = git(&self.repository, &["write-tree"], None);
        let mut arguments = vec!["commit-tree", tree.trim(), "-m", subject];
        if let Some(parent) = self.ids.last() {
            arguments.extend(["-p", parent]);
        }
        let id = git(&self.repository, &arguments, None).trim().to_owned();
        git(&self.repository, &["update-ref", "refs/heads/main", &id], None);
        self.ids.push(id);
    }
}

fn git(dir: &Path, arguments: &[&str], input: Option<&str>) -> String {
    let mut git = Command::new("git");
    git.args([
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@example.org",
        "-c",
        "init.defaultBranch=main",
    ]);
    git.arg("-C").arg(dir).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = git.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.unwrap_or_default().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}
