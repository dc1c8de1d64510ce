//! A small tree with the make targets of a kernel: real git and make build an image in a moment.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::bzimage;
use crate::cache::Kernel;
use crate::error::{BuildError, KernelError};
use crate::obtain::obtain;
use crate::talk::Talk;
use ktax_model::Subject;

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

pub struct Place {
    pub dir: TempDir,
    pub notes: std::cell::RefCell<Vec<String>>,
}

impl Place {
    /// A work tree of git with one commit.
    pub fn new() -> Place {
        let place = Place { dir: TempDir::new().unwrap(), notes: Vec::new().into() };
        fs::create_dir_all(place.tree().join("kernel")).unwrap();
        place.write("Makefile", MAKEFILE);
        place.write("Kconfig", "config LOST\n\tbool \"lost\"\n\tdepends on FOUND\n");
        place.write("kernel/sys.c", "int base;\n");
        place.write(".gitignore", "*.o\n");
        fs::write(place.tree().join("image"), bzimage("6.12 tiny", 64)).unwrap();
        for arguments in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "first"]] {
            place.git(arguments);
        }
        place
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
        Subject::of(&format!("src:{}", self.tree().display()), "")
    }

    pub fn revision(&self, revision: &str) -> Subject {
        let tree = Some(self.tree().display().to_string());
        Subject { tree, ..Subject::of(&format!("git:{revision}"), "") }
    }

    pub fn patch(&self, from: &str, to: &str) -> String {
        let path = self.dir.path().join("a.patch");
        let text = format!("--- a/kernel/sys.c\n+++ b/kernel/sys.c\n@@ -1 +1 @@\n-{from}\n+{to}\n");
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    pub fn obtain(&self, subject: &Subject) -> Result<Kernel, KernelError> {
        self.obtain_until(subject, &|| false)
    }

    pub fn obtain_until(
        &self,
        subject: &Subject,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Kernel, KernelError> {
        let note = |text: &str| self.notes.borrow_mut().push(text.to_owned());
        let cache = self.dir.path().join("cache");
        obtain(subject, &cache, &Talk { note: &note, status: &|_| {}, task: &|_| {}, is_cancelled })
    }

    pub fn fail(&self, subject: &Subject) -> BuildError {
        match self.obtain(subject) {
            Err(KernelError::Build(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    /// How often Kconfig ran.
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
