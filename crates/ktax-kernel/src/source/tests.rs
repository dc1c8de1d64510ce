//! Builds kernels from a small tree with the make targets of a kernel: real git and make build an
//! image in a moment. The cache is cleaned before, between and during builds.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use tempfile::TempDir;

use super::{BUILT_IN, built_in_patch, commits, is_built_in, read_patch};
use crate::cache::Kernel;
use crate::image::tests::bzimage;
use crate::obtain::{check, check_names, obtain, obtain_for};
use crate::spec::Target;
use crate::talk::{SILENT, Talk};
use ktax_host::cache::{Budget, CacheKind, clean, survey};
use ktax_model::{Blame, Error, ErrorKind, Result, Subject};

/// `allnoconfig` accepts all options but CONFIG_LOST; the image ends with sys.c.
const MAKEFILE: &str = r#"
allnoconfig:
	echo asked >> $(O)/asked
	grep -v CONFIG_LOST $(KCONFIG_ALLCONFIG) > $(O)/.config
defconfig:
	echo CONFIG_OF_ARCH=y > $(O)/.config
olddefconfig:
	grep -v CONFIG_LOST $(O)/.config > $(O)/new && mv $(O)/new $(O)/.config
bzImage:
	@grep -q 'slow' kernel/sys.c && sleep 600 || true
	@grep -q 'full' kernel/sys.c && { echo 'sys.o: No space left on device'; exit 1; } || true
	@grep -q 'error' kernel/sys.c && { echo 'kernel/sys.c:1: error: as asked'; exit 1; } || true
	echo built >> $(O)/builds
	mkdir -p $(O)/arch/x86/boot
	{ head -c 1024 image; dd if=kernel/sys.c bs=64 count=1 conv=sync status=none; } \
		> $(O)/arch/x86/boot/bzImage
"#;

pub struct TestTree {
    pub dir: TempDir,
    pub notes: std::cell::RefCell<Vec<String>>,
}

impl TestTree {
    /// A work tree of git with one commit.
    pub fn new() -> TestTree {
        let fixture = TestTree { dir: TempDir::new().unwrap(), notes: Vec::new().into() };
        fs::create_dir_all(fixture.tree().join("kernel")).unwrap();
        fixture.write("Makefile", MAKEFILE);
        fixture.write("Kconfig", "config LOST\n\tbool \"lost\"\n\tdepends on FOUND\n");
        fixture.write("kernel/sys.c", "int base;\n");
        fixture.write(".gitignore", "*.o\n");
        fs::write(fixture.tree().join("image"), bzimage("6.12 tiny", 64)).unwrap();
        for arguments in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "first"]] {
            fixture.git(arguments);
        }
        fixture
    }

    pub fn tree(&self) -> PathBuf {
        // A colon separates paths in one of git's variables.
        self.dir.path().join("tr:ee")
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.tree().join(name), text).unwrap();
    }

    pub fn git(&self, arguments: &[&str]) {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-C"]);
        git.stdout(Stdio::null());
        assert!(git.arg(self.tree()).args(arguments).status().unwrap().success(), "{arguments:?}");
    }

    pub fn source(&self) -> Subject {
        Subject::new(&format!("src:{}", self.tree().display()), "")
    }

    pub fn revision(&self, revision: &str) -> Subject {
        let tree = Some(self.tree().display().to_string());
        Subject { tree, ..Subject::new(&format!("git:{revision}"), "") }
    }

    pub fn patch(&self, from: &str, to: &str) -> String {
        let path = self.dir.path().join("a.patch");
        let text = format!("--- a/kernel/sys.c\n+++ b/kernel/sys.c\n@@ -1 +1 @@\n-{from}\n+{to}\n");
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    pub fn obtain(&self, subject: &Subject) -> Result<Kernel> {
        self.obtain_until(subject, &|| false)
    }

    pub fn obtain_until(
        &self,
        subject: &Subject,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Kernel> {
        let note = |text: &str| self.notes.borrow_mut().push(text.to_owned());
        let cache = self.dir.path().join("cache");
        obtain(subject, &cache, &Talk { note: &note, status: &|_| {}, task: &|_| {}, is_cancelled })
    }

    pub fn fail(&self, subject: &Subject) -> Error {
        self.obtain(subject).unwrap_err()
    }

    /// Number of runs of Kconfig.
    pub fn asked(&self) -> usize {
        let lanes = fs::read_dir(self.dir.path().join("cache/builds/lanes")).unwrap();
        let asked = |lane: PathBuf| fs::read_to_string(lane.join("objects/asked"));
        lanes.map(|lane| asked(lane.unwrap().path()).unwrap_or_default().lines().count()).sum()
    }

    pub fn builds(&self) -> usize {
        let notes = self.notes.borrow();
        notes.iter().filter(|note| note.starts_with("building ")).count()
    }
}

pub fn ends_with(kernel: &Kernel, text: &str) -> bool {
    let image = fs::read(&kernel.image).unwrap();
    image[1024..].starts_with(text.as_bytes())
}

#[test]
fn the_same_source_is_built_once_under_any_name() {
    let fixture = TestTree::new();
    let first = fixture.obtain(&fixture.source()).unwrap();
    assert!(ends_with(&first, "int base;"), "{first:?}");
    assert_eq!(first.identity.release.as_deref(), Some("6.12"));
    assert!(first.config.is_some());
    let again = fixture.obtain(&fixture.source()).unwrap();
    let by_revision = fixture.obtain(&fixture.revision("HEAD")).unwrap();
    assert_eq!((&again, by_revision.identity.sha256), (&first, first.identity.sha256.clone()));
    assert_eq!(fixture.builds(), 1);
    let other = Subject { config: vec!["CONFIG_NET=n".into()], ..fixture.source() };
    fixture.obtain(&other).unwrap();
    assert_eq!(fixture.builds(), 2);
}

#[test]
fn an_option_is_refused_before_anything_is_built() {
    let fixture = TestTree::new();
    let with = |option: &str| Subject { config: vec![option.into()], ..fixture.source() };
    let cache = fixture.dir.path().join("cache");
    let refused = check(&with("CONFIG_LOTS=y"), &cache, &SILENT).err();
    assert!(refused.is_none(), "the makefile of this tree accepts it: {refused:?}");
    let error = check(&with("CONFIG_LOST=y"), &cache, &SILENT).unwrap_err().to_string();
    assert!(error.contains("CONFIG_LOST=y") && error.contains("depends on FOUND"), "{error}");
    assert_eq!(fixture.builds(), 0);
}

#[test]
fn kconfig_runs_again_only_if_its_inputs_change() {
    let fixture = TestTree::new();
    let off = Subject { config: vec!["CONFIG_NET=n".into()], ..fixture.source() };
    fixture.obtain(&off).unwrap();
    fixture.write("kernel/sys.c", "int other;\n");
    fixture.obtain(&off).unwrap();
    assert_eq!((fixture.asked(), fixture.builds()), (1, 2));
    fixture.write("Kconfig", "config OTHER\n");
    fixture.obtain(&off).unwrap();
    assert_eq!((fixture.asked(), fixture.builds()), (2, 3));
    // The base has CONFIG_NET=y already: Kconfig runs, and make does not.
    fixture.obtain(&fixture.source()).unwrap();
    fixture.obtain(&Subject { config: vec!["CONFIG_NET=y".into()], ..fixture.source() }).unwrap();
    assert_eq!((fixture.asked(), fixture.builds()), (4, 4));
}

#[test]
fn a_directory_is_built_as_it_is_and_a_revision_as_committed() {
    let fixture = TestTree::new();
    fixture.write("kernel/sys.c", "int dirty;\n");
    fixture.write("kernel/sys.o", "ignored by .gitignore");
    let source = fixture.obtain(&fixture.source()).unwrap();
    assert!(ends_with(&source, "int dirty;"));
    assert!(ends_with(&fixture.obtain(&fixture.revision("HEAD")).unwrap(), "int base;"));
    let patch = fixture.patch("int dirty;", "int patched;");
    let patched = Subject { patches: vec![patch], ..fixture.source() };
    assert!(ends_with(&fixture.obtain(&patched).unwrap(), "int patched;"));
    assert!(ends_with(&fixture.obtain(&fixture.source()).unwrap(), "int dirty;"));
}

/// A file of `tests/data/patches`.
fn mailed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/patches").join(name)
}

/// git applies each of these to the same file, and gets what git itself got when it made them.
#[test]
fn a_series_is_applied_however_it_was_mailed() {
    let fixture = TestTree::new();
    fs::copy(mailed("base.txt"), fixture.tree().join("kernel/sys.c")).unwrap();
    let expected = fs::read_to_string(mailed("patched.txt")).unwrap();
    let start = &expected[..60];
    let mut trees = BTreeSet::new();
    for name in [
        "plain.diff",
        "no-prefix.diff",
        "crlf.diff",
        "format-patch.mbox",
        "quoted-printable.mbx",
        "base64.mbx",
        "8bit-crlf.mbx",
        "flowed.mbx",
        "labelled-flowed.mbx",
        "multipart.mbx",
        "attachments.eml",
        "b4.mbx",
        "thread.mbx",
    ] {
        let patches = vec![mailed(name).display().to_string()];
        let kernel = fixture.obtain(&Subject { patches, ..fixture.source() }).unwrap();
        assert!(ends_with(&kernel, start), "{name}");
        trees.insert(kernel.identity.source);
    }
    // All mails give one tree: every byte of the file is the same.
    assert_eq!((trees.len(), fixture.builds()), (1, 1), "{trees:?}");
    let lane = fixture.dir.path().join("cache/builds/lanes/0/source/kernel/sys.c");
    assert_eq!(fs::read_to_string(lane).unwrap(), expected);
}

#[test]
fn a_file_that_is_no_patch_is_refused_before_the_tree_is_read() {
    let fixture = TestTree::new();
    let refused = |patch: &Path| {
        let patches = vec![patch.display().to_string()];
        // The tree does not exist, so the error must be that of the patch.
        let subject = Subject { patches, ..Subject::new("src:/no/such/tree", "") };
        let cache = fixture.dir.path().join("cache");
        let by_name = check_names(&subject, &cache, &SILENT).unwrap_err().to_string();
        assert_eq!(fixture.fail(&subject).to_string(), by_name);
        by_name
    };
    let missing = refused(Path::new("no-such.patch"));
    assert!(missing.starts_with("cannot read no-such.patch: No such file"), "{missing}");
    let cover = refused(&mailed("cover-only.eml"));
    assert!(cover.contains("cover-only.eml: it contains no diff; give a file that"), "{cover}");
    assert!(refused(&mailed("wrapped.eml")).contains("line 20 of the diff"));
    assert!(refused(&mailed("project.diff")).contains("it changes src/main.rs"));
    // A patch of a series that does not apply is named.
    let patches = vec![mailed("b4.mbx").display().to_string()];
    let error = fixture.fail(&Subject { patches, ..fixture.source() }).to_string();
    assert!(error.contains("b4.mbx (1/2 kernel/sys: answer größere Zahlen) does not"), "{error}");
}

#[test]
fn files_of_a_build_or_of_ktax_are_not_source() {
    let fixture = TestTree::new();
    fs::remove_dir_all(fixture.tree().join(".git")).unwrap();
    let before = fixture.obtain(&fixture.source()).unwrap();
    for file in ["ktax-1/plan.json", "search/bounds/plan.json", "kernel/sys.o"] {
        let path = fixture.tree().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "{}").unwrap();
    }
    assert_eq!(fixture.obtain(&fixture.source()).unwrap(), before);
    // A .gitignore that names all files, as in a package, is ignored.
    fixture.write(".gitignore", "/*\n");
    let unignored = fixture.obtain(&fixture.source()).unwrap();
    fixture.write(".config", "CONFIG_A=y\n");
    assert_eq!(fixture.obtain(&fixture.source()).unwrap(), unignored);
    fixture.write("kernel/sys.c", "int seen;\n");
    assert!(ends_with(&fixture.obtain(&fixture.source()).unwrap(), "int seen;"));
}

#[test]
fn the_commits_between_two_revisions_are_listed_in_order() {
    let fixture = TestTree::new();
    let subjects = ["second", "", "\u{1b}[2Jfourth"];
    for subject in subjects {
        let commit = ["commit", "-q", "--allow-empty", "--allow-empty-message", "-m", subject];
        fixture.git(&commit);
    }
    let (_, listed) = commits(&fixture.tree(), "HEAD~3", "HEAD").unwrap();
    assert_eq!(listed.iter().map(|commit| commit.title.as_str()).collect::<Vec<_>>(), subjects);
    let (_, upto) = commits(&fixture.tree(), "HEAD~3", "HEAD~1").unwrap();
    assert_eq!(upto, listed[..2]);
    let error = commits(&fixture.tree(), "HEAD", "HEAD~1").unwrap_err();
    assert_eq!(error.message(), "HEAD is not a first-parent ancestor of HEAD~1");
}

#[test]
fn the_tree_and_repository_of_the_user_do_not_change() {
    let fixture = TestTree::new();
    fixture.write("kernel/sys.c", "int dirty;\n");
    let before = state(&fixture.tree());
    let patch = fixture.patch("int dirty;", "int patched;");
    fixture.obtain(&fixture.source()).unwrap();
    fixture.obtain(&fixture.revision("HEAD")).unwrap();
    fixture.obtain(&Subject { patches: vec![patch], ..fixture.source() }).unwrap();
    let after = state(&fixture.tree());
    let changed: Vec<_> =
        after.iter().filter(|file| !before.contains(file)).map(|f| &f.0).collect();
    assert!(changed.is_empty() && after.len() == before.len(), "{changed:?}");
}

/// Every file below, with its content and time. Objects have no time here: git refreshes the time
/// of an object that it finds instead of writing it.
fn state(dir: &Path) -> Vec<(PathBuf, Vec<u8>, Option<SystemTime>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let (path, metadata) = (entry.path(), entry.metadata().unwrap());
        match metadata.is_dir() {
            true => files.extend(state(&path)),
            false => {
                let is_object = path.components().any(|part| part.as_os_str() == "objects");
                let time = (!is_object).then(|| metadata.modified().unwrap());
                files.push((path.clone(), fs::read(&path).unwrap(), time));
            }
        }
    }
    files.sort();
    files
}

#[test]
fn a_failed_build_has_its_first_error() {
    let fixture = TestTree::new();
    let error = fixture.fail(&fixture.revision("no-such"));
    assert!(error.message().ends_with(" has no revision no-such"), "{error}");
    let empty = Subject::new(&format!("src:{}", fixture.dir.path().display()), "");
    assert!(fixture.fail(&empty).message().contains(" is not a kernel tree: "));
    let patch = fixture.patch("int other;", "int patched;");
    let error = fixture.fail(&Subject { patches: vec![patch], ..fixture.source() }).to_string();
    assert!(error.contains(" does not apply to src:") && error.contains("sys.c"), "{error}");
    let lost = Subject { config: vec!["CONFIG_LOST=y".into()], ..fixture.source() };
    let error = fixture.fail(&lost).to_string();
    assert!(error.contains("CONFIG_LOST=y and sets it to n: it depends on FOUND"), "{error}");
    fixture.write("kernel/sys.c", "error\n");
    let error = fixture.fail(&fixture.source());
    assert_eq!(error.blame, Blame::Guest);
    let why = crate::why_unbuilt(&error).unwrap();
    assert!(why.starts_with("it does not build: kernel/sys.c:1: error: as asked"), "{error}");
    // The next build uses the lane of the failed one.
    fixture.write("kernel/sys.c", "int mended;\n");
    assert!(ends_with(&fixture.obtain(&fixture.source()).unwrap(), "int mended;"));
}

#[test]
fn a_cancelled_build_stops_at_once_and_the_next_one_continues() {
    let fixture = TestTree::new();
    fixture.write("kernel/sys.c", "int slow;\n");
    // make holds the lock too, so the next build shows that all of make has stopped.
    assert!(fixture.obtain_until(&fixture.source(), &|| true).unwrap_err().is_cancelled());
    fixture.write("kernel/sys.c", "int quick;\n");
    assert!(ends_with(&fixture.obtain(&fixture.source()).unwrap(), "int quick;"));
}

#[test]
fn a_full_disk_is_not_an_error_of_the_source() {
    let fixture = TestTree::new();
    fixture.write("kernel/sys.c", "int full;\n");
    let error = fixture.fail(&fixture.source());
    assert!(error.message().starts_with("cannot build: "), "{error}");
    assert_eq!((error.blame, error.kind), (Blame::Host, ErrorKind::Other));
}

#[test]
fn a_configuration_begins_with_the_named_start() {
    let fixture = TestTree::new();
    let fragment = fixture.dir.path().join("fragment");
    fs::write(&fragment, "# of a distribution\nCONFIG_OF_FILE=m\n").unwrap();
    let config = |start: &str| {
        let wanted = vec!["CONFIG_OWN=y".into()];
        let start_config = Some(start.to_owned());
        let subject = Subject { config: wanted, start_config, ..fixture.source() };
        fs::read_to_string(fixture.obtain(&subject).unwrap().config.unwrap()).unwrap()
    };
    assert!(config("base").contains("CONFIG_BLK_DEV_INITRD=y\n"));
    assert_eq!(config("defconfig"), "CONFIG_OF_ARCH=y\nCONFIG_OWN=y\n");
    let from_file = config(fragment.to_str().unwrap());
    assert!(from_file.ends_with("CONFIG_OF_FILE=m\n\nCONFIG_OWN=y\n"), "{from_file}");
}

#[test]
fn a_package_is_refused_for_another_architecture() {
    let fixture = TestTree::new();
    let subject = Subject::new("debian:cloud-amd64", "");
    let cache = fixture.dir.path().join("cache");
    for (target, name) in [(Target::E500V2, "powerpc"), (Target::RISCV64, "riscv64")] {
        let error = obtain_for(&target, &subject, &cache, &SILENT).unwrap_err();
        let problem = format!("but a kernel for {name} is needed");
        assert!(error.message().ends_with(&problem), "{error}");
    }
    let error = obtain_for(&Target::ARM64, &fixture.source(), &cache, &SILENT).unwrap_err();
    assert!(error.to_string().contains("`debian:cloud-arm64`"), "{error}");
}

#[test]
fn a_prebuilt_kernel_takes_no_options() {
    let fixture = TestTree::new();
    let subject =
        Subject { config: vec!["CONFIG_A=y".into()], ..Subject::new("/boot/vmlinuz", "") };
    let error = fixture.obtain(&subject).unwrap_err();
    assert!(error.message().starts_with("/boot/vmlinuz is a prebuilt kernel: "), "{error}");
}

fn cache(fixture: &TestTree) -> PathBuf {
    fixture.dir.path().join("cache")
}

/// Removes all entries of one kind, as a cleaner does.
fn remove(cache: &Path, kind: CacheKind) {
    for entry in survey(cache).entries_of_kind(kind) {
        File::open(&entry.path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    }
    wait_for_children(cache);
    while survey(cache).entries_of_kind(kind).next().is_some() {
        let most = survey(cache).bytes() - 1;
        let cleaned = clean(cache, Budget::Bytes(most), true).unwrap().unwrap();
        assert_eq!(cleaned.removed.iter().map(|entry| entry.kind).collect::<Vec<_>>(), [kind]);
    }
}

/// Waits for processes that another test's thread starts meanwhile: they hold the lock of a lane.
fn wait_for_children(cache: &Path) {
    while survey(cache).entries.iter().any(|entry| entry.in_use) {
        std::thread::yield_now();
    }
}

#[test]
fn removed_entries_are_made_again() {
    let fixture = TestTree::new();
    let cache = cache(&fixture);
    let first = fixture.obtain(&fixture.source()).unwrap().identity.sha256;
    wait_for_children(&cache);
    clean(&cache, Budget::Bytes(0), true).unwrap();
    assert_eq!(survey(&cache).bytes(), 0);
    let again = fixture.obtain(&fixture.source()).unwrap();
    assert_eq!((again.identity.sha256, fixture.builds()), (first, 2));
    for (version, kind) in [CacheKind::SourceTrees, CacheKind::Lane, CacheKind::Kernel]
        .into_iter()
        .chain([CacheKind::SourceTrees, CacheKind::Lane])
        .enumerate()
    {
        remove(&cache, kind);
        let text = format!("int version{version};");
        fixture.write("kernel/sys.c", &format!("{text}\n"));
        let patch = fixture.patch(&text, "int patched;");
        assert!(ends_with(&fixture.obtain(&fixture.source()).unwrap(), &text), "{kind:?}");
        let patched = ktax_model::Subject { patches: vec![patch], ..fixture.source() };
        assert!(ends_with(&fixture.obtain(&patched).unwrap(), "int patched;"), "{kind:?}");
    }
    // The user's own files are no part of the cache.
    assert!(fixture.tree().join("kernel/sys.c").exists());
}

#[test]
fn a_running_build_keeps_its_lane_and_its_trees() {
    let fixture = TestTree::new();
    let cache = cache(&fixture);
    fixture.write("kernel/sys.c", "int slow;\n");
    let cleaned = Cell::new(0);
    let clean_meanwhile = || {
        // The question is asked once more when the build has ended.
        if cleaned.get() > 1 {
            return true;
        }
        clean(&cache, Budget::Bytes(0), true).unwrap();
        let is_building = cache.join("builds/lanes/0/objects/.config").exists();
        if is_building {
            let left: Vec<CacheKind> =
                survey(&cache).entries.iter().map(|entry| entry.kind).collect();
            assert!(left.contains(&CacheKind::Lane) && left.contains(&CacheKind::SourceTrees));
            cleaned.set(cleaned.get() + 1);
        }
        false
    };
    fixture.obtain_until(&fixture.source(), &clean_meanwhile).unwrap_err();
    assert!(cleaned.get() > 1);
    wait_for_children(&cache);
    clean(&cache, Budget::Bytes(0), true).unwrap();
    assert_eq!(survey(&cache).bytes(), 0);
}

#[test]
fn each_patch_of_the_tree_is_in_the_binary_and_a_file_wins() {
    assert!(BUILT_IN.len() >= 4);
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (path, text) in BUILT_IN {
        assert_eq!(std::fs::read_to_string(tree.join(path)).unwrap(), *text);
        // The tests run where there is no such file.
        assert!(is_built_in(Path::new(path)) && built_in_patch(Path::new(path)).is_some());
        assert!(!is_built_in(&tree.join(path)), "a file wins");
    }
    let missing = read_patch(Path::new("kernels/patches/no-such.patch")).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
}
