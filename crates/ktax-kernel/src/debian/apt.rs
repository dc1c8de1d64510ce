//! Uses apt and dpkg: `apt-cache` reads the local lists, `apt-get download` downloads a package and
//! checks its signature, `dpkg-deb` opens it. They install nothing and need no root.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::archive::{Archive, Contents, Listed, bad_package};
use super::command::{OPTIONS, not_started, read_tree, run, tool};
use super::control::{field, listed};
use super::deb;
use super::foreign::Foreign;
use crate::cache::Cache;
use crate::error::{KernelError, full_disk_in};
use crate::last_line::last_line;
use crate::package::Package;
use crate::talk::{KernelTask, Talk, TaskKind};
use crate::watched;
use ktax_host::text::escape;
use ktax_model::Arch;

/// The apt of this machine, for one architecture.
pub(crate) struct Apt<'a> {
    cache: &'a Cache<'a>,
    index: PathBuf,
    /// As Debian calls it: `amd64`.
    arch: &'static str,
    /// Its package lists, unless they are this machine's own.
    foreign: Option<Foreign>,
    /// Shows how far a download is.
    talk: Option<&'a Talk<'a>>,
}

impl Archive for Apt<'_> {
    fn look_up(&self, name: &str, version: Option<&str>) -> Result<Listed, KernelError> {
        if let Some(foreign) = &self.foreign {
            foreign.refresh(&|text| self.cache.note(text))?;
        }
        let mut index = OsString::from("Dir::Cache::pkgcache=");
        index.push(&self.index);
        let with_index = ["-o".into(), index, "-o".into(), "Dir::Cache::srcpkgcache=".into()];
        let ask = |options: &[OsString]| {
            let mut command = tool("apt-cache");
            command.args(self.options()).args(options).args([
                "-q",
                "show",
                "--no-all-versions",
                "--",
            ]);
            command.arg(self.argument(name, version));
            run(command, "apt-cache", "apt")
        };
        let mut output = ask(&with_index)?;
        // apt fails if the disk is too full for its index, so ask again without one.
        if !output.status.success() {
            output = ask(&[])?;
        }
        listed(&String::from_utf8_lossy(&output.stdout), name, version, self.arch)
    }

    fn fetch(&self, package: &Package, scratch: &Path) -> Result<Contents, KernelError> {
        let file = self.download(package, scratch)?;
        read_tree(&file, package, |pipe| deb::unpack(pipe, package))
    }
}

impl<'a> Apt<'a> {
    /// This machine's own package lists, with an index of them in the cache. A container's apt
    /// keeps none, so it would parse all lists for each question. apt replaces the index if it is
    /// damaged or the lists have changed.
    pub(crate) fn of(cache: &'a Cache<'a>) -> Self {
        let index = cache.path("tmp/apt.bin");
        Apt { cache, index, arch: "amd64", foreign: None, talk: None }
    }

    /// Shows how far downloads are, and stops them once the user has cancelled.
    pub(crate) fn with(mut self, talk: &'a Talk<'a>) -> Self {
        self.talk = Some(talk);
        self
    }

    /// The bytes of a package's file, from the local lists.
    pub(crate) fn size(&self, package: &Package) -> Option<u64> {
        let mut command = tool("apt-get");
        command.args(self.options()).args(["-q", "--print-uris", "download", "--"]);
        command.arg(self.argument(&package.name, Some(&package.version)));
        let output = run(command, "apt-get", "apt").ok()?;
        printed_size(&String::from_utf8_lossy(&output.stdout))
    }

    /// The package lists of the architecture of the cache's images.
    pub(crate) fn for_images(cache: &'a Cache<'a>) -> Self {
        let arch = match cache.arch() {
            Arch::X86_64 => return Apt::of(cache),
            Arch::PowerPc => "powerpc",
            Arch::Ppc64le => "ppc64el",
            Arch::Arm64 => "arm64",
            Arch::Riscv64 => "riscv64",
        };
        let index = cache.path(&format!("tmp/apt-{arch}.bin"));
        let foreign = Some(Foreign::of(cache.path(&format!("apt-{arch}")), arch));
        Apt { cache, index, arch, foreign, talk: None }
    }

    /// The newest version of a package in the local lists.
    pub(crate) fn newest(&self, name: &str) -> Result<Package, KernelError> {
        self.look_up(name, None).map(|listed| listed.package)
    }

    /// Downloads a source package into `scratch`, and returns the path of the archive in it.
    pub(crate) fn fetch_source(
        &self,
        package: &Package,
        scratch: &Path,
    ) -> Result<PathBuf, KernelError> {
        let file = self.download(package, scratch)?;
        let archive = scratch.join("source.tar.xz");
        read_tree(&file, package, |pipe| deb::take_source(pipe, package, &archive))?;
        Ok(archive)
    }

    /// Downloads a package into `scratch`, and returns the names and contents of these modules.
    pub(crate) fn fetch_modules(
        &self,
        package: &Package,
        names: &[&str],
        scratch: &Path,
    ) -> Result<Vec<(String, Vec<u8>)>, KernelError> {
        let file = self.download(package, scratch)?;
        read_tree(&file, package, |pipe| deb::take_modules(pipe, package, names))
    }

    /// Downloads a package into `scratch`, and returns the path of the .deb file.
    fn download(&self, package: &Package, scratch: &Path) -> Result<PathBuf, KernelError> {
        let mut command = tool("apt-get");
        command.args(self.options()).arg("-q").args(OPTIONS).args(["download", "--"]);
        command.arg(self.argument(&package.name, Some(&package.version))).current_dir(scratch);
        let output = match self.talk {
            Some(talk) => self.watch(command, package, scratch, talk)?,
            None => run(command, "apt-get", "apt")?,
        };
        if !output.status.success() {
            if let Some(error) = full_disk_in(&output.stderr) {
                return Err(KernelError::cache("download a package to", scratch, error));
            }
            return Err(KernelError::FetchFailed {
                package: package.clone(),
                said: last_line(&output.stderr),
            });
        }
        let file = only_deb(scratch).map_err(|problem| bad_package(package, &problem))?;
        check_fields(&file, package, self.arch)?;
        Ok(file)
    }

    /// Runs `apt-get download`, and shows how much of the file is there.
    fn watch(
        &self,
        mut command: Command,
        package: &Package,
        scratch: &Path,
        talk: &Talk<'_>,
    ) -> Result<Output, KernelError> {
        let failed = |error| KernelError::ToolFailed { tool: "apt-get", error };
        let total = self.size(package);
        let show = |is_over| {
            let there = bytes_below(scratch);
            let done = total.filter(|_| is_over).unwrap_or(there);
            let (kind, what) = (TaskKind::Download, package.name.clone());
            (talk.task)(&KernelTask { kind, what, done, total, is_over });
        };
        let mut complaints = watched::complaints().map_err(failed)?;
        command.stdout(Stdio::null()).stderr(complaints.try_clone().map_err(failed)?);
        let mut child =
            watched::start(&mut command).map_err(|error| not_started("apt-get", "apt", error))?;
        show(false);
        let status = watched::wait(&mut child, talk, || show(false)).map_err(failed)?;
        let status = status.ok_or(KernelError::Cancelled)?;
        if status.success() {
            show(true);
        }
        let mut stderr = Vec::new();
        complaints.rewind().and_then(|()| complaints.read_to_end(&mut stderr)).map_err(failed)?;
        Ok(Output { status, stdout: Vec::new(), stderr })
    }

    /// `NAME:amd64`, so that apt never takes a package of another architecture.
    fn argument(&self, name: &str, version: Option<&str>) -> String {
        let arch = self.arch;
        match version {
            None => format!("{name}:{arch}"),
            Some(version) => format!("{name}:{arch}={version}"),
        }
    }

    fn options(&self) -> Vec<OsString> {
        self.foreign.as_ref().map(Foreign::options).unwrap_or_default()
    }
}

/// The size in what `apt-get --print-uris` prints: `'URI' FILE SIZE HASH`.
fn printed_size(text: &str) -> Option<u64> {
    let line = text.lines().rfind(|line| line.starts_with('\''))?;
    line.split(' ').nth_back(1)?.parse().ok()
}

/// The bytes of the files in a directory and one below it, where apt keeps what is not complete.
fn bytes_below(directory: &Path) -> u64 {
    let entries = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten();
    let below = entries(directory).chain(entries(&directory.join("partial")));
    below
        .filter_map(|entry| entry.metadata().ok())
        .filter(|it| it.is_file())
        .map(|it| it.len())
        .sum()
}

/// The path of the only .deb file in `scratch`.
fn only_deb(scratch: &Path) -> Result<PathBuf, String> {
    let entries = fs::read_dir(scratch).map_err(|error| error.to_string())?;
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    let mut debs = paths.filter(|path| path.extension().is_some_and(|end| end == "deb"));
    match (debs.next(), debs.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err("apt downloaded no .deb file".to_owned()),
        (Some(_), Some(_)) => Err("apt downloaded several .deb files".to_owned()),
    }
}

/// Checks that a .deb file is this package.
fn check_fields(file: &Path, package: &Package, wanted: &'static str) -> Result<(), KernelError> {
    let mut command = tool("dpkg-deb");
    command.arg("--field").arg(file).args(["Package", "Version", "Architecture"]);
    let output = run(command, "dpkg-deb", "dpkg")?;
    let stanza = String::from_utf8_lossy(&output.stdout);
    let is = |name, value: &str| field(&stanza, name) == Some(value);
    if !is("Package", &package.name) || !is("Version", &package.version) {
        return Err(bad_package(
            package,
            "its name or version is not the one in the package lists",
        ));
    }
    match field(&stanza, "Architecture") {
        Some(arch) if arch == wanted || arch == "all" => Ok(()),
        arch => Err(KernelError::ForeignPackage {
            package: package.name.clone(),
            arch: escape(arch.unwrap_or("unknown")),
            wanted,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_download_is_read_from_the_lists() {
        let text = "Get more\n'http://deb.debian.org/l_6.1_all.deb' l_6.1_all.deb 139330232 \
            SHA256:ab\n";
        assert_eq!(printed_size(text), Some(139_330_232));
        assert_eq!(printed_size("E: no\n"), None);
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("partial")).unwrap();
        fs::write(dir.path().join("partial/a.deb"), [0; 7]).unwrap();
        fs::write(dir.path().join("b.deb"), [0; 5]).unwrap();
        assert_eq!(bytes_below(dir.path()), 12);
    }
}
