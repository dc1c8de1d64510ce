//! Kernels from packages and files, with a cache and a fake archive that counts its calls.

use std::cell::{Cell, RefCell};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use crate::cache::{Cache, Kernel};
use crate::debian;
use crate::debian::deb::{Archive, Contents, Listed};
use crate::image::tests::bzimage;
use crate::obtain::obtain;
use crate::spec::Package;
use crate::talk::{SILENT, Talk};
use ktax_model::{Error, ErrorKind, Identity, Result, Subject};

/// An archive with one meta-package, `linux-image-m`, on the kernel `linux-image-NEWEST-m`.
struct Fake {
    newest: Option<&'static str>,
    config: bool,
    asked: Cell<u32>,
    fetched: Cell<u32>,
}

fn fake(newest: &'static str) -> Fake {
    Fake { newest: Some(newest), config: true, asked: Cell::new(0), fetched: Cell::new(0) }
}

impl Archive for Fake {
    fn look_up(&self, name: &str, version: Option<&str>) -> Result<Listed> {
        self.asked.set(self.asked.get() + 1);
        let unknown = Error::user("apt knows no package").kind(ErrorKind::NoPackageList);
        let Some(newest) = self.newest else { return Err(unknown) };
        let package = Package::new(name, version.unwrap_or(newest)).unwrap();
        let kernel = format!("linux-image-{newest}-m");
        let leads_to = match name {
            "linux-image-m" => Some((kernel, Some(newest.to_owned()))),
            "linux-image-circle" => Some((name.to_owned(), None)),
            _ => None,
        };
        Ok(Listed { package, leads_to })
    }

    fn fetch(&self, package: &Package, scratch: &Path) -> Result<Contents> {
        assert!(scratch.is_dir());
        self.fetched.set(self.fetched.get() + 1);
        let image = bzimage(&format!("{} x", package.version), 64);
        Ok(Contents { image, config: self.config.then(|| package.version.clone().into()) })
    }
}

fn get(archive: &Fake, dir: &TempDir, name: &str, version: Option<&str>) -> (Kernel, Vec<String>) {
    let notes = RefCell::new(Vec::new());
    let note = |text: &str| notes.borrow_mut().push(text.to_owned());
    let cache = Cache::open(dir.path(), &note).unwrap();
    let kernel = debian::obtain(archive, &cache, name, version).unwrap();
    drop(cache);
    (kernel, notes.into_inner())
}

fn fail(archive: &Fake, dir: &TempDir, name: &str) -> Error {
    let cache = Cache::open(dir.path(), &|_| {}).unwrap();
    debian::obtain(archive, &cache, name, None).expect_err("must be an error")
}

fn overwrite(path: &Path, bytes: &[u8]) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_package_is_fetched_once() {
    let (dir, archive) = (TempDir::new().unwrap(), fake("6.1-1"));
    let (first, notes) = get(&archive, &dir, "linux-image-m", None);
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert_eq!(first.identity.source, "debian:linux-image-6.1-1-m=6.1-1");
    assert_eq!(first.identity.release.as_deref(), Some("6.1-1"));
    assert!(first.image.starts_with(dir.path()) && first.image.is_file());
    assert_eq!(fs::read(first.config.as_ref().unwrap()).unwrap(), b"6.1-1");
    for (name, version) in [
        ("linux-image-m", None),
        ("linux-image-m", Some("6.1-1")),
        ("linux-image-6.1-1-m", None),
        ("linux-image-6.1-1-m", Some("6.1-1")),
    ] {
        assert_eq!(get(&archive, &dir, name, version), (first.clone(), vec![]));
    }
    assert_eq!(archive.fetched.get(), 1);
    assert_eq!(fs::read_dir(dir.path().join("kernels/tmp")).unwrap().count(), 0);
    let origin = fs::read(first.image.with_file_name("origin.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Identity>(&origin).unwrap(), first.identity);
}

#[test]
fn the_dependency_of_a_version_is_asked_for_once() {
    let dir = TempDir::new().unwrap();
    let asked = |newest| {
        let archive = fake(newest);
        get(&archive, &dir, "linux-image-m", None);
        archive.asked.get()
    };
    assert_eq!([asked("6.1-1"), asked("6.1-1"), asked("6.1-2"), asked("6.1-2")], [2, 1, 2, 1]);
}

#[test]
fn without_apt_the_newest_in_the_cache_is_used() {
    let dir = TempDir::new().unwrap();
    let silent = Fake { newest: None, ..fake("0") };
    assert_eq!(fail(&silent, &dir, "linux-image-m").kind, ErrorKind::NoPackageList);
    for version in ["6.1.9-1", "6.1.10-1", "6.1.2-1"] {
        get(&fake(version), &dir, "linux-image-m", None);
    }
    let (kernel, notes) = get(&silent, &dir, "linux-image-m", None);
    assert_eq!(kernel.identity.release.as_deref(), Some("6.1.10-1"));
    assert!(notes[0].ends_with("in the cache, linux-image-6.1.10-1-m=6.1.10-1"), "{notes:?}");
    let (pinned, notes) = get(&silent, &dir, "linux-image-m", Some("6.1.2-1"));
    assert_eq!((pinned.identity.release.as_deref(), notes.len()), (Some("6.1.2-1"), 0));
    assert_eq!(fail(&silent, &dir, "linux-image").kind, ErrorKind::NoPackageList);
}

#[test]
fn damaged_files_are_downloaded_again() {
    let (dir, archive) = (TempDir::new().unwrap(), fake("6.1-1"));
    let (kernel, _) = get(&archive, &dir, "linux-image-m", None);
    let index = dir.path().join("kernels/by-package/linux-image-6.1-1-m_6.1-1.json");
    let evil = fs::read_to_string(&index).unwrap().replace(&kernel.identity.sha256, "../../x");
    let damages: [(&Path, &[u8]); 4] = [
        (&kernel.image, b"garbage"),
        (kernel.config.as_ref().unwrap(), b""),
        (&index, b"{}"),
        (&index, evil.as_bytes()),
    ];
    for (i, (path, bytes)) in damages.into_iter().enumerate() {
        overwrite(path, bytes);
        let (again, notes) = get(&archive, &dir, "linux-image-m", None);
        assert!(notes[0].contains("is damaged"), "{notes:?}");
        assert_eq!((again, archive.fetched.get() as usize), (kernel.clone(), i + 2));
    }
    fs::remove_dir_all(kernel.image.parent().unwrap()).unwrap();
    assert_eq!(get(&archive, &dir, "linux-image-m", None).0, kernel);
}

#[test]
fn a_config_may_be_missing() {
    let (dir, archive) = (TempDir::new().unwrap(), Fake { config: false, ..fake("6.1-1") });
    let (kernel, notes) = get(&archive, &dir, "linux-image-6-m", None);
    assert_eq!((kernel.config, kernel.identity.config_sha256), (None, None));
    assert!(notes[1].ends_with("its config is not known"), "{notes:?}");
    assert!(get(&archive, &dir, "linux-image-6-m", None).1.is_empty());
}

#[test]
fn a_circle_of_packages_is_refused() {
    let error = fail(&fake("6.1-1"), &TempDir::new().unwrap(), "linux-image-circle");
    assert!(error.message().ends_with(" lead to no kernel"), "{error}");
}

#[test]
fn a_file_is_copied_to_the_cache() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("bzImage");
    let subject = Subject::new(path.to_str().unwrap(), "");
    fs::write(&path, bzimage("6.1 x", 64)).unwrap();
    let first = obtain(&subject, dir.path(), &SILENT).unwrap();
    assert_eq!(first.identity.source, path.to_str().unwrap());
    fs::write(&path, bzimage("6.2 x", 64)).unwrap();
    assert_eq!(fs::read(&first.image).unwrap(), bzimage("6.1 x", 64));
    let second = obtain(&subject, dir.path(), &SILENT).unwrap();
    assert_ne!(first.image, second.image);
    overwrite(&second.image, b"garbage");
    assert_eq!(obtain(&subject, dir.path(), &SILENT).unwrap(), second);
    assert_eq!(fs::read(&second.image).unwrap(), bzimage("6.2 x", 64));
}

#[test]
fn a_path_that_is_not_a_file_is_refused() {
    let dir = TempDir::new().unwrap();
    let fail = |path: &str| {
        obtain(&Subject::new(path, ""), dir.path(), &SILENT).expect_err("must be an error")
    };
    let dir_path = dir.path().to_str().unwrap();
    for (path, problem) in [
        ("/no/such", "does not exist"),
        ("/dev/null", "is not a regular file"),
        (dir_path, "is a directory"),
    ] {
        assert_eq!(fail(path).message(), format!("{path} {problem}"));
    }
    assert!(!dir.path().join("kernels").exists(), "a bad path makes no cache");
}

#[test]
fn an_error_after_a_cancel_is_a_cancel() {
    let dir = TempDir::new().unwrap();
    let obtain = |path| {
        let cancelled = Talk { is_cancelled: &|| true, ..SILENT };
        obtain(&Subject::new(path, ""), dir.path(), &cancelled)
    };
    assert!(obtain("/no/such").unwrap_err().is_cancelled());
    let path = dir.path().join("bzImage");
    fs::write(&path, bzimage("6.1 x", 64)).unwrap();
    assert!(obtain(path.to_str().unwrap()).is_ok(), "a kernel that is ready is returned");
}

#[test]
fn old_temporary_files_are_removed() {
    let dir = TempDir::new().unwrap();
    let tmp = dir.path().join("kernels/tmp");
    fs::create_dir_all(tmp.join("old/sub")).unwrap();
    fs::write(tmp.join("new"), "").unwrap();
    let yesterday = SystemTime::now() - Duration::from_secs(25 * 60 * 60);
    fs::File::open(tmp.join("old")).unwrap().set_modified(yesterday).unwrap();
    Cache::open(dir.path(), &|_| {}).unwrap();
    assert!(!tmp.join("old").exists() && tmp.join("new").exists());
}

#[test]
fn threads_get_the_same_kernel() {
    let dir = TempDir::new().unwrap();
    let kernels: Vec<Kernel> = std::thread::scope(|scope| {
        let get_image = || get(&fake("6.1-1"), &dir, "linux-image-m", None).0;
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(get_image)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(kernels.iter().all(|kernel| *kernel == kernels[0] && kernel.image.is_file()));
}
