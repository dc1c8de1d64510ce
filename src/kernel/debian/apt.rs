//! The distribution's own client, as child processes without a shell: `apt-cache` reads the local
//! lists, `apt-get download` fetches a package and checks it against the archive's signatures,
//! `dpkg-deb` opens it. Nothing is installed; no root is needed.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::archive::{Archive, Contents, Listed, bad_package};
use super::command::{read_tree, run, tool};
use super::control::{field, listed};
use super::deb;
use crate::kernel::cache::Cache;
use crate::kernel::error::KernelError;
use crate::kernel::package::Package;
use crate::kernel::text::{escape, last_line};

/// Options of `apt-get download`. As root, apt would drop to a user who cannot write in our
/// directory, and warn; a package that is not signed is refused; a dead network is not waited for.
const OPTIONS: [&str; 10] = [
    "-o",
    "APT::Sandbox::User=root",
    "-o",
    "APT::Get::AllowUnauthenticated=false",
    "-o",
    "Acquire::Retries=2",
    "-o",
    "Acquire::http::Timeout=30",
    "-o",
    "Acquire::https::Timeout=30",
];

/// The apt of this machine.
pub(crate) struct Apt {
    index: PathBuf,
}

impl Archive for Apt {
    fn look_up(&self, name: &str, version: Option<&str>) -> Result<Listed, KernelError> {
        let mut index = OsString::from("Dir::Cache::pkgcache=");
        index.push(&self.index);
        let with_index = ["-o".into(), index, "-o".into(), "Dir::Cache::srcpkgcache=".into()];
        let ask = |options: &[OsString]| {
            let mut command = tool("apt-cache");
            command.args(options).args(["-q", "show", "--no-all-versions", "--"]);
            command.arg(argument(name, version));
            run(command, "apt-cache", "apt")
        };
        let mut output = ask(&with_index)?;
        // An index that finds no space is an error to apt.
        if !output.status.success() {
            output = ask(&[])?;
        }
        listed(&String::from_utf8_lossy(&output.stdout), name, version)
    }

    fn fetch(&self, package: &Package, scratch: &Path) -> Result<Contents, KernelError> {
        let file = download(package, scratch)?;
        read_tree(&file, package, |pipe| deb::unpack(pipe, package))
    }
}

impl Apt {
    /// apt parses all lists for each question if it keeps no index, as in a container, where that
    /// is switched off. The index is kept in the cache. apt checks it, and makes it anew when the
    /// lists change or it is damaged.
    pub fn of(cache: &Cache<'_>) -> Apt {
        Apt { index: cache.path("tmp/apt.bin") }
    }

    /// The newest version of a package, by the local lists.
    pub fn newest(&self, name: &str) -> Result<Package, KernelError> {
        self.look_up(name, None).map(|listed| listed.package)
    }

    /// Downloads a package of source into `scratch` and takes the archive out of it.
    pub fn fetch_source(&self, package: &Package, scratch: &Path) -> Result<PathBuf, KernelError> {
        let file = download(package, scratch)?;
        let archive = scratch.join("source.tar.xz");
        read_tree(&file, package, |pipe| deb::take_source(pipe, package, &archive))?;
        Ok(archive)
    }

    /// Downloads a package into `scratch` and takes modules out of it: their names and contents.
    pub fn fetch_modules(
        &self,
        package: &Package,
        names: &[&str],
        scratch: &Path,
    ) -> Result<Vec<(String, Vec<u8>)>, KernelError> {
        let file = download(package, scratch)?;
        read_tree(&file, package, |pipe| deb::take_modules(pipe, package, names))
    }
}

/// The package as a file in `scratch`, checked to be the one that was asked for.
fn download(package: &Package, scratch: &Path) -> Result<PathBuf, KernelError> {
    let mut command = tool("apt-get");
    command.arg("-q").args(OPTIONS).args(["download", "--"]);
    command.arg(argument(&package.name, Some(&package.version))).current_dir(scratch);
    let output = run(command, "apt-get", "apt")?;
    if !output.status.success() {
        return Err(KernelError::FetchFailed {
            package: package.clone(),
            said: last_line(&output.stderr),
        });
    }
    let file = only_deb(scratch).map_err(|problem| bad_package(package, &problem))?;
    check_fields(&file, package)?;
    Ok(file)
}

/// `NAME:amd64`, so that another architecture's package of the same name is never meant.
fn argument(name: &str, version: Option<&str>) -> String {
    match version {
        None => format!("{name}:amd64"),
        Some(version) => format!("{name}:amd64={version}"),
    }
}

/// The one `.deb` that apt has left in `scratch`.
fn only_deb(scratch: &Path) -> Result<PathBuf, String> {
    let entries = fs::read_dir(scratch).map_err(|error| error.to_string())?;
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    let mut debs = paths.filter(|path| path.extension().is_some_and(|end| end == "deb"));
    match (debs.next(), debs.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err("apt has left no .deb file".to_owned()),
        (Some(_), Some(_)) => Err("apt has left several .deb files".to_owned()),
    }
}

/// The file must be the package that was asked for.
fn check_fields(file: &Path, package: &Package) -> Result<(), KernelError> {
    let mut command = tool("dpkg-deb");
    command.arg("--field").arg(file).args(["Package", "Version", "Architecture"]);
    let output = run(command, "dpkg-deb", "dpkg")?;
    let stanza = String::from_utf8_lossy(&output.stdout);
    let is = |name, value: &str| field(&stanza, name) == Some(value);
    if !is("Package", &package.name) || !is("Version", &package.version) {
        return Err(bad_package(package, "its name or version is another one"));
    }
    match field(&stanza, "Architecture") {
        Some("amd64" | "all") => Ok(()),
        arch => Err(KernelError::ForeignPackage {
            package: package.name.clone(),
            arch: escape(arch.unwrap_or("unknown")),
        }),
    }
}
