//! Runs apt and dpkg as child processes without a shell: `apt-cache` reads the local package lists,
//! `apt-get download` downloads a package and checks its signature, and `dpkg-deb` reads the
//! package. None of them installs anything or needs root.
//!
//! For other architectures than this machine's, ktax keeps package lists of its own in the cache,
//! so that the user need not add an architecture to dpkg.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Output, Stdio};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use super::deb::{self, Archive, Contents, Listed, bad_package};
use crate::cache::Cache;
use crate::spec::{Package, is_package_name, is_version};
use crate::talk::{self, KernelTask, Talk, TaskKind, last_line};
use crate::{cache_error, full_disk_in, start_error};
use ktax_host::cache::Holder;
use ktax_host::text::escape;
use ktax_model::{Arch, Error, ErrorKind, Result};

/// The apt of this machine, for one architecture.
pub(crate) struct Apt<'a> {
    cache: &'a Cache<'a>,
    index: PathBuf,
    /// Debian's name of the architecture, such as `amd64`.
    arch: &'static str,
    /// Package lists of another architecture; `None` for this machine's own.
    foreign: Option<ForeignLists>,
    /// Shows the progress of a download; `None` for a silent one.
    talk: Option<&'a Talk<'a>>,
}

impl Archive for Apt<'_> {
    fn look_up(&self, name: &str, version: Option<&str>) -> Result<Listed> {
        if let Some(foreign) = &self.foreign {
            foreign.refresh(&|text| self.cache.note(text))?;
        }
        let mut index = OsString::from("Dir::Cache::pkgcache=");
        index.push(&self.index);
        let with_index = ["-o".into(), index, "-o".into(), "Dir::Cache::srcpkgcache=".into()];
        let show = |options: &[OsString]| {
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
        let mut output = show(&with_index)?;
        // apt fails if the disk is too full for its index, so run it again without an index.
        if !output.status.success() {
            output = show(&[])?;
        }
        parse_listing(&String::from_utf8_lossy(&output.stdout), name, version, self.arch)
    }

    fn fetch(&self, package: &Package, scratch: &Path) -> Result<Contents> {
        let file = self.download(package, scratch)?;
        read_tree(&file, package, |pipe| deb::take_kernel(pipe, package))
    }
}

impl<'a> Apt<'a> {
    /// Returns the apt with this machine's own package lists, and an index of the lists in the
    /// cache. In a container apt keeps no index, and would parse all lists each time. apt replaces
    /// the index if the index is damaged or the lists have changed.
    pub(crate) fn local(cache: &'a Cache<'a>) -> Self {
        let index = cache.path("tmp/apt.bin");
        Apt { cache, index, arch: "amd64", foreign: None, talk: None }
    }

    /// Shows the progress of downloads, and stops a download when the user cancels.
    pub(crate) fn with_talk(mut self, talk: &'a Talk<'a>) -> Self {
        self.talk = Some(talk);
        self
    }

    /// Returns the size of a package's file in bytes, from the local lists.
    pub(crate) fn size(&self, package: &Package) -> Option<u64> {
        let mut command = tool("apt-get");
        command.args(self.options()).args(["-q", "--print-uris", "download", "--"]);
        command.arg(self.argument(&package.name, Some(&package.version)));
        let output = run(command, "apt-get", "apt").ok()?;
        parse_size(&String::from_utf8_lossy(&output.stdout))
    }

    /// Returns the apt with package lists of the architecture of the cache's images.
    pub(crate) fn for_images(cache: &'a Cache<'a>) -> Self {
        let arch = match cache.arch {
            Arch::X86_64 => return Apt::local(cache),
            Arch::PowerPc => "powerpc",
            Arch::Ppc64le => "ppc64el",
            Arch::Arm64 => "arm64",
            Arch::Riscv64 => "riscv64",
        };
        let index = cache.path(&format!("tmp/apt-{arch}.bin"));
        let foreign = Some(ForeignLists::new(cache.path(&format!("apt-{arch}")), arch));
        Apt { cache, index, arch, foreign, talk: None }
    }

    /// Finds the newest version of a package in the local lists.
    pub(crate) fn newest(&self, name: &str) -> Result<Package> {
        self.look_up(name, None).map(|listed| listed.package)
    }

    /// Downloads a source package into `scratch`, and returns the path of the source archive.
    pub(crate) fn fetch_source(&self, package: &Package, scratch: &Path) -> Result<PathBuf> {
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
    ) -> Result<Vec<(String, Vec<u8>)>> {
        let file = self.download(package, scratch)?;
        read_tree(&file, package, |pipe| deb::take_modules(pipe, package, names))
    }

    /// Downloads a package into `scratch`, and returns the path of the .deb file.
    fn download(&self, package: &Package, scratch: &Path) -> Result<PathBuf> {
        let mut command = tool("apt-get");
        command.args(self.options()).arg("-q").args(DOWNLOAD_OPTIONS).args(["download", "--"]);
        command.arg(self.argument(&package.name, Some(&package.version))).current_dir(scratch);
        let output = match self.talk {
            Some(talk) => self.watch(command, package, scratch, talk)?,
            None => run(command, "apt-get", "apt")?,
        };
        if !output.status.success() {
            if let Some(error) = full_disk_in(&output.stderr) {
                return Err(cache_error("download a package to", scratch, error));
            }
            let reason = last_line(&output.stderr);
            return Err(Error::host(format!("cannot download {package}: {reason}"))
                .next("check the network, then run `sudo apt-get update`"));
        }
        let file = only_deb(scratch).map_err(|problem| bad_package(package, &problem))?;
        check_fields(&file, package, self.arch)?;
        Ok(file)
    }

    /// Runs `apt-get download`, and shows how many bytes of the file are downloaded.
    fn watch(
        &self,
        mut command: Command,
        package: &Package,
        scratch: &Path,
        talk: &Talk<'_>,
    ) -> Result<Output> {
        let failed = |error| start_error("apt-get", error);
        let total = self.size(package);
        let show = |is_over| {
            let downloaded = bytes_below(scratch);
            let done = total.filter(|_| is_over).unwrap_or(downloaded);
            let (kind, what) = (TaskKind::Download, package.name.clone());
            (talk.task)(&KernelTask { kind, what, done, total, is_over });
        };
        let mut stderr_file = talk::stderr_file().map_err(failed)?;
        command.stdout(Stdio::null()).stderr(stderr_file.try_clone().map_err(failed)?);
        let mut child = talk::start_in_group(&mut command)
            .map_err(|error| not_started("apt-get", "apt", error))?;
        show(false);
        let status = talk::wait_or_cancel(&mut child, talk, || show(false)).map_err(failed)?;
        let status = status.ok_or_else(Error::cancelled)?;
        if status.success() {
            show(true);
        }
        let stderr = talk::read_stderr(&mut stderr_file).map_err(failed)?;
        Ok(Output { status, stdout: Vec::new(), stderr })
    }

    /// Returns the argument for a package, with the architecture so that apt takes no package of
    /// another one: `NAME:amd64`.
    fn argument(&self, name: &str, version: Option<&str>) -> String {
        let arch = self.arch;
        match version {
            None => format!("{name}:{arch}"),
            Some(version) => format!("{name}:{arch}={version}"),
        }
    }

    fn options(&self) -> Vec<OsString> {
        self.foreign.as_ref().map(ForeignLists::options).unwrap_or_default()
    }
}

/// Parses the size in the output of `apt-get --print-uris`, whose lines are `'URI' FILE SIZE HASH`.
fn parse_size(text: &str) -> Option<u64> {
    let line = text.lines().rfind(|line| line.starts_with('\''))?;
    line.split(' ').nth_back(1)?.parse().ok()
}

/// Returns the bytes of the files in a directory, and of the incomplete files that apt has below
/// it.
fn bytes_below(directory: &Path) -> u64 {
    let entries = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten();
    let below = entries(directory).chain(entries(&directory.join("partial")));
    below
        .filter_map(|entry| entry.metadata().ok())
        .filter(|metadata| metadata.is_file())
        .map(|metadata| metadata.len())
        .sum()
}

/// Returns the path of the only .deb file in `scratch`.
fn only_deb(scratch: &Path) -> Result<PathBuf, String> {
    let entries = fs::read_dir(scratch).map_err(|error| error.to_string())?;
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    let mut debs = paths.filter(|path| path.extension().is_some_and(|end| end == "deb"));
    match (debs.next(), debs.next()) {
        (Some(deb), None) => Ok(deb),
        (None, _) => Err("apt downloaded no .deb file".to_owned()),
        (Some(_), Some(_)) => Err("apt downloaded several .deb files".to_owned()),
    }
}

/// Checks that a .deb file is this package.
fn check_fields(file: &Path, package: &Package, wanted: &'static str) -> Result<()> {
    let mut command = tool("dpkg-deb");
    command.arg("--field").arg(file).args(["Package", "Version", "Architecture"]);
    let output = run(command, "dpkg-deb", "dpkg")?;
    let stanza = String::from_utf8_lossy(&output.stdout);
    let has = |name, value: &str| field(&stanza, name) == Some(value);
    if !has("Package", &package.name) || !has("Version", &package.version) {
        return Err(bad_package(
            package,
            "its name or version is not the one in the package lists",
        ));
    }
    match field(&stanza, "Architecture") {
        Some(arch) if arch == wanted || arch == "all" => Ok(()),
        arch => Err(foreign_package(&package.name, arch.unwrap_or("unknown"), wanted)),
    }
}

/// Returns the error for a package of another architecture.
fn foreign_package(package: &str, arch: &str, wanted: &str) -> Error {
    let arch = escape(arch);
    Error::user(format!("package {package} is for {arch}, but one for {wanted} is needed"))
        .next(format!("give a package such as `debian:cloud-{wanted}`"))
}

/// Options of `apt-get download` and `apt-get update`. They keep root, because apt would change to
/// a user who cannot write to the directory; refuse unsigned packages; and limit the wait for a
/// dead network.
const DOWNLOAD_OPTIONS: [&str; 10] = [
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

/// Returns a command with English messages and without stdin.
fn tool(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command
}

/// Runs a command and collects its output. `tool` and `package` are for the error if it is not
/// installed.
fn run(mut command: Command, tool: &str, package: &str) -> Result<Output> {
    command.output().map_err(|error| not_started(tool, package, error))
}

fn not_started(tool: &str, package: &str, error: io::Error) -> Error {
    if error.kind() != io::ErrorKind::NotFound {
        return start_error(tool, error);
    }
    let problem = format!("`{tool}` is not installed, and `debian:` kernels need it");
    let missing =
        Error::user(problem).next(format!("install {package}, or give the path of a bzImage"));
    if tool == "apt-cache" { missing.kind(ErrorKind::NoPackageList) } else { missing }
}

/// Calls `read` with the output of `dpkg-deb --fsys-tarfile`. stderr goes to a file: a full pipe
/// would stop `dpkg-deb` for ever.
fn read_tree<T>(
    file: &Path,
    package: &Package,
    read: impl FnOnce(&mut ChildStdout) -> Result<T>,
) -> Result<T> {
    let failed = |error| start_error("dpkg-deb", error);
    let mut complaints = talk::stderr_file().map_err(failed)?;
    let mut command = tool("dpkg-deb");
    command.arg("--fsys-tarfile").arg(file).stdout(Stdio::piped());
    command.stderr(complaints.try_clone().map_err(failed)?);
    let mut child = command.spawn().map_err(|error| not_started("dpkg-deb", "dpkg", error))?;
    let contents = match child.stdout.take() {
        Some(mut pipe) => read(&mut pipe).inspect(|_| {
            // Read the padding at the end, too: a closed pipe would kill dpkg-deb, and its exit
            // status would not tell whether the package is intact.
            let _ = io::copy(&mut pipe, &mut io::sink());
        }),
        None => Err(bad_package(package, "dpkg-deb gave no output")),
    };
    let status = child.wait().map_err(failed)?;
    if contents.is_ok() && !status.success() {
        let message = talk::read_stderr(&mut complaints).map_err(failed)?;
        return Err(bad_package(package, &last_line(&message)));
    }
    contents
}

/// Parses the output of `apt-cache show`. apt treats an unknown name as a pattern, so this takes
/// only the stanza of exactly this package.
fn parse_listing(
    answer: &str,
    name: &str,
    wanted: Option<&str>,
    arch: &'static str,
) -> Result<Listed> {
    let unknown = || {
        let package = wanted.map_or(name.to_owned(), |version| format!("{name}={version}"));
        let problem = format!("apt knows no package {package} for {arch}");
        Error::user(format!("{problem}: the name is wrong, or there are no package lists"))
            .next("check the name, or run `sudo apt-get update`")
            .kind(ErrorKind::NoPackageList)
    };
    let has_name = |stanza: &&str| field(stanza, "Package") == Some(name);
    let stanza = answer.split("\n\n").find(has_name).ok_or_else(unknown)?;
    let found = field(stanza, "Architecture").unwrap_or("unknown");
    if found != arch && found != "all" {
        return Err(foreign_package(name, found, arch));
    }
    let version = field(stanza, "Version").unwrap_or("");
    let package = Package::new(name, version).ok_or_else(unknown)?;
    let leads_to = field(stanza, "Depends").and_then(kernel_dependency);
    Ok(Listed { package, leads_to })
}

/// Returns the value of a field in a stanza, without continuation lines.
fn field<'a>(stanza: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(name)?.strip_prefix(':').map(str::trim);
    stanza.lines().find_map(value)
}

/// Finds the first `linux-image-…` in a `Depends` field, with its version if that is exact.
fn kernel_dependency(depends: &str) -> Option<(String, Option<String>)> {
    let alternatives = depends.split([',', '|']).map(str::trim);
    let found = alternatives
        .filter(|alternative| alternative.starts_with("linux-image-"))
        .find_map(|alternative| {
            let (name, relation) = alternative.split_once(' ').unwrap_or((alternative, ""));
            let name = name.split(':').next().filter(|name| is_package_name(name))?;
            let version = relation.trim().strip_prefix("(=").and_then(|v| v.strip_suffix(')'));
            Some((name, version.map(str::trim).filter(|version| is_version(version))))
        });
    found.map(|(name, version)| (name.to_owned(), version.map(str::to_owned)))
}

/// The Debian release of the package lists for other architectures. It has a kernel for each of
/// them.
const SUITE: &str = "trixie";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Age at which package lists are downloaded again: a day, as apt's own timer does.
const MAX_LIST_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Package lists of another architecture, in a directory of the cache.
struct ForeignLists {
    dir: PathBuf,
    arch: &'static str,
    holder: OnceCell<Holder>,
}

impl ForeignLists {
    pub fn new(dir: PathBuf, arch: &'static str) -> ForeignLists {
        ForeignLists { dir, arch, holder: OnceCell::new() }
    }

    /// Returns the options by which apt uses these lists, and no configuration of this machine.
    pub fn options(&self) -> Vec<OsString> {
        let arch = self.arch;
        let mut options = vec![
            format!("APT::Architecture={arch}").into(),
            format!("APT::Architectures={arch}").into(),
            OsString::from("Dir::Etc::sourcelist=/dev/null"),
        ];
        for (option, name) in [
            ("Dir::Etc::sourceparts=", "parts"),
            ("Dir::State::lists=", "lists"),
            ("Dir::State::status=", "status"),
            ("Dir::Cache=", "cache"),
        ] {
            let mut option = OsString::from(option);
            option.push(self.dir.join(name));
            options.push(option);
        }
        options.into_iter().flat_map(|option| ["-o".into(), option]).collect()
    }

    /// Downloads the lists, unless they are newer than a day. If that fails, old lists are used.
    pub fn refresh(&self, note: &dyn Fn(&str)) -> Result<()> {
        let write_failed = |error| cache_error("write", &self.dir, error);
        if self.holder.get().is_none() {
            drop(self.holder.set(Holder::hold_directory(&self.dir).map_err(write_failed)?));
        }
        let stamp = self.dir.join("updated");
        let age = fs::metadata(&stamp).and_then(|file| file.modified());
        let age = age.ok().map(|time| SystemTime::now().duration_since(time).unwrap_or_default());
        if age.is_some_and(|age| age < MAX_LIST_AGE) {
            return Ok(());
        }
        note(&format!("reading Debian's package lists for {}", self.arch));
        self.prepare(&archive_address()?).map_err(write_failed)?;
        let mut command = tool("apt-get");
        command.args(self.options()).args(DOWNLOAD_OPTIONS).args(["-q", "update"]);
        command.args(["--error-on=any"]);
        let output = run(command, "apt-get", "apt")?;
        let (arch, reason) = (self.arch, last_line(&output.stderr));
        let failed =
            Error::host(format!("cannot read Debian's package lists for {arch}: {reason}"))
                .next("check the network, or give the path of a kernel")
                .kind(ErrorKind::NoPackageList);
        match (output.status.success(), age) {
            (true, _) => File::create(stamp).map(drop).map_err(write_failed),
            (false, Some(_)) => {
                note(&format!("{failed}; ktax uses the lists that it has"));
                Ok(())
            }
            (false, None) => Err(failed),
        }
    }

    /// Writes the directories and files that apt needs.
    fn prepare(&self, repository: &str) -> io::Result<()> {
        for name in ["parts", "lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(self.dir.join(name))?;
        }
        let signed_by = match Path::new(KEYRING).exists() {
            true => format!("Signed-By: {KEYRING}\n"),
            false => String::new(),
        };
        let source = format!("Types: deb\nURIs: {repository}\nSuites: {SUITE}\n");
        let source = format!("{source}Components: main\n{signed_by}");
        fs::write(self.dir.join("parts/own.sources"), source)?;
        fs::write(self.dir.join("status"), "")
    }
}

/// Returns the address of the Debian archive that this machine uses.
fn archive_address() -> Result<String> {
    let mut command = tool("apt-get");
    command.args(["indextargets", "--format", "$(REPO_URI)"]);
    command.args(["Created-By: Packages", "Origin: Debian", "Label: Debian", "Component: main"]);
    let output = run(command, "apt-get", "apt")?;
    let addresses = String::from_utf8_lossy(&output.stdout);
    let usual = "http://deb.debian.org/debian/";
    Ok(addresses.lines().next().unwrap_or(usual).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_downloads_are_read() {
        let text = "Get more\n'http://deb.debian.org/l_6.1_all.deb' l_6.1_all.deb 139330232 \
            SHA256:ab\n";
        assert_eq!(parse_size(text), Some(139_330_232));
        assert_eq!(parse_size("E: no\n"), None);
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("partial")).unwrap();
        fs::write(dir.path().join("partial/a.deb"), [0; 7]).unwrap();
        fs::write(dir.path().join("b.deb"), [0; 5]).unwrap();
        assert_eq!(bytes_below(dir.path()), 12);
    }

    #[test]
    fn a_missing_tool_is_named() {
        let error = run(tool("ktax-no-such-tool"), "apt-cache", "apt").unwrap_err();
        assert!(error.to_string().starts_with("`apt-cache` is not installed"), "{error}");
        assert_eq!(error.kind, ErrorKind::NoPackageList);
    }

    const META: &str = "Package: linux-image-cloud-amd64\nVersion: 6.1.192-2\n\
        Architecture: amd64\nDepends: linux-image-6.1.0-56-cloud-amd64 (= 6.1.192-2)\n";
    const REAL: &str = "Package: linux-image-6.1.0-56-cloud-amd64\nVersion: 6.1.192-2\n\
        Architecture: amd64\nDepends: kmod, linux-base (>= 4.3~), initramfs-tools | dracut\n\
        Description: Linux\n Version: 9 in a folded line\n";

    #[test]
    fn a_meta_package_leads_to_a_kernel() {
        let meta = parse_listing(META, "linux-image-cloud-amd64", None, "amd64").unwrap();
        let kernel = ("linux-image-6.1.0-56-cloud-amd64".to_owned(), Some("6.1.192-2".to_owned()));
        assert_eq!(meta.leads_to, Some(kernel));
        let real = parse_listing(REAL, "linux-image-6.1.0-56-cloud-amd64", None, "amd64").unwrap();
        assert_eq!(real.package.to_string(), "linux-image-6.1.0-56-cloud-amd64=6.1.192-2");
        assert_eq!(real.leads_to, None);
    }

    #[test]
    fn a_dependency_needs_no_exact_version() {
        let name = |depends| kernel_dependency(depends);
        assert_eq!(name("a, linux-image-6:any (>= 1) | b"), Some(("linux-image-6".into(), None)));
        assert_eq!(name("kmod, linux-base (= 4)"), None);
        assert_eq!(name("linux-image-../x (= 1)"), None);
    }

    #[test]
    fn only_the_stanza_of_the_exact_name_is_taken() {
        for answer in ["", META, "N: No packages found"] {
            let Err(error) = parse_listing(answer, "linux-image-6.1", None, "amd64") else {
                panic!("{answer}")
            };
            assert!(error.to_string().ends_with("run `sudo apt-get update`"), "{error}");
        }
        let both = format!("{META}\n{REAL}");
        assert!(parse_listing(&both, "linux-image-6.1.0-56-cloud-amd64", None, "amd64").is_ok());
    }

    #[test]
    fn a_package_of_another_architecture_is_refused() {
        let foreign = META.replace("Architecture: amd64", "Architecture: arm64");
        let Err(error) = parse_listing(&foreign, "linux-image-cloud-amd64", None, "amd64") else {
            panic!()
        };
        assert!(error.to_string().contains(" is for arm64, but one for amd64 "), "{error}");
    }

    #[test]
    fn foreign_lists_ignore_the_configuration_of_this_machine() {
        let foreign = ForeignLists::new("/c/apt-arm64".into(), "arm64");
        let options: Vec<String> =
            foreign.options().into_iter().map(|word| word.into_string().unwrap()).collect();
        for option in [
            "APT::Architectures=arm64",
            "Dir::Etc::sourcelist=/dev/null",
            "Dir::Etc::sourceparts=/c/apt-arm64/parts",
            "Dir::State::lists=/c/apt-arm64/lists",
        ] {
            let index = options.iter().position(|word| word == option).unwrap();
            assert_eq!(options[index - 1], "-o");
        }
    }

    #[test]
    fn new_lists_are_not_downloaded_again() {
        let dir = tempfile::tempdir().unwrap();
        File::create(dir.path().join("updated")).unwrap();
        let foreign = ForeignLists::new(dir.path().into(), "arm64");
        foreign.refresh(&|note| panic!("{note}")).unwrap();
    }
}
