//! The distribution's own client, as child processes without a shell: `apt-cache` reads the local
//! lists, `apt-get download` fetches a package and checks it against the archive's signatures,
//! `dpkg-deb` opens it. Nothing is installed; no root is needed.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::deb;
use super::debian::{Archive, Contents, Listed, Package, is_package_name, is_version};
use super::error::KernelError;
use super::spec::{escape, last_line};

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
pub(super) struct Apt {
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
    /// is switched off. It checks what it finds in `index`, and makes it anew when the lists change
    /// or it is damaged.
    pub fn with_index(index: PathBuf) -> Apt {
        Apt { index }
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
    let file = only_deb(scratch).map_err(|problem| bad(package, problem))?;
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

fn tool(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command
}

fn run(
    mut command: Command,
    tool: &'static str,
    package: &'static str,
) -> Result<Output, KernelError> {
    command.output().map_err(|error| not_started(tool, package, error))
}

fn not_started(tool: &'static str, package: &'static str, error: io::Error) -> KernelError {
    if error.kind() == io::ErrorKind::NotFound {
        return KernelError::NoTool { tool, package };
    }
    KernelError::ToolFailed { tool, error }
}

/// Reads the answer of `apt-cache show`. apt takes an unknown name for a pattern, so only the
/// stanza of exactly this package counts.
fn listed(answer: &str, name: &str, wanted: Option<&str>) -> Result<Listed, KernelError> {
    let unknown = || KernelError::UnknownPackage {
        package: wanted.map_or(name.to_owned(), |version| format!("{name}={version}")),
    };
    let of_name = |stanza: &&str| field(stanza, "Package") == Some(name);
    let stanza = answer.split("\n\n").find(of_name).ok_or_else(unknown)?;
    let arch = field(stanza, "Architecture").unwrap_or("unknown");
    if !matches!(arch, "amd64" | "all") {
        return Err(KernelError::ForeignPackage { package: name.to_owned(), arch: escape(arch) });
    }
    let version = field(stanza, "Version").unwrap_or("");
    let package = Package::new(name, version).ok_or_else(unknown)?;
    let leads_to = field(stanza, "Depends").and_then(kernel_dependency);
    Ok(Listed { package, leads_to })
}

/// The value of one field of a control stanza; folded lines are not read.
fn field<'a>(stanza: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(name)?.strip_prefix(':').map(str::trim);
    stanza.lines().find_map(value)
}

/// The first `linux-image-…` in a `Depends` field, with its version if it is exact.
fn kernel_dependency(depends: &str) -> Option<(String, Option<String>)> {
    let alternatives = depends.split([',', '|']).map(str::trim);
    let found = alternatives.filter(|one| one.starts_with("linux-image-")).find_map(|one| {
        let (name, relation) = one.split_once(' ').unwrap_or((one, ""));
        let name = name.split(':').next().filter(|name| is_package_name(name))?;
        let version = relation.trim().strip_prefix("(=").and_then(|v| v.strip_suffix(')'));
        Some((name, version.map(str::trim).filter(|version| is_version(version))))
    });
    found.map(|(name, version)| (name.to_owned(), version.map(str::to_owned)))
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
        return Err(bad(package, "its name or version is another one".to_owned()));
    }
    match field(&stanza, "Architecture") {
        Some("amd64" | "all") => Ok(()),
        arch => Err(KernelError::ForeignPackage {
            package: package.name.clone(),
            arch: escape(arch.unwrap_or("unknown")),
        }),
    }
}

/// `dpkg-deb --fsys-tarfile`, piped into the reader. Its stderr goes to a file, so that neither
/// end can wait for the other.
fn read_tree<T>(
    file: &Path,
    package: &Package,
    read: impl FnOnce(&mut std::process::ChildStdout) -> Result<T, KernelError>,
) -> Result<T, KernelError> {
    let failed = |error| KernelError::ToolFailed { tool: "dpkg-deb", error };
    let mut complaints = tempfile::tempfile().map_err(failed)?;
    let mut command = tool("dpkg-deb");
    command.arg("--fsys-tarfile").arg(file).stdout(Stdio::piped());
    command.stderr(complaints.try_clone().map_err(failed)?);
    let mut child = command.spawn().map_err(|error| not_started("dpkg-deb", "dpkg", error))?;
    let contents = match child.stdout.take() {
        Some(mut pipe) => read(&mut pipe).inspect(|_| drain(&mut pipe)),
        None => Err(bad(package, "dpkg-deb has no output".to_owned())),
    };
    let status = child.wait().map_err(failed)?;
    if contents.is_ok() && !status.success() {
        let mut said = Vec::new();
        complaints.rewind().and_then(|()| complaints.read_to_end(&mut said)).map_err(failed)?;
        return Err(bad(package, last_line(&said)));
    }
    contents
}

/// Reads the padding after the last entry: a closed pipe would kill `dpkg-deb`.
fn drain(pipe: &mut impl Read) {
    // An error here shows as the exit status of the other end.
    let _ = io::copy(pipe, &mut io::sink());
}

fn bad(package: &Package, problem: String) -> KernelError {
    KernelError::BadPackage { package: package.clone(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    const META: &str = "Package: linux-image-cloud-amd64\nVersion: 6.1.192-2\n\
        Architecture: amd64\nDepends: linux-image-6.1.0-56-cloud-amd64 (= 6.1.192-2)\n";
    const REAL: &str = "Package: linux-image-6.1.0-56-cloud-amd64\nVersion: 6.1.192-2\n\
        Architecture: amd64\nDepends: kmod, linux-base (>= 4.3~), initramfs-tools | dracut\n\
        Description: Linux\n Version: 9 in a folded line\n";

    #[test]
    fn a_meta_package_leads_to_a_kernel() {
        let meta = listed(META, "linux-image-cloud-amd64", None).unwrap();
        let kernel = ("linux-image-6.1.0-56-cloud-amd64".to_owned(), Some("6.1.192-2".to_owned()));
        assert_eq!(meta.leads_to, Some(kernel));
        let real = listed(REAL, "linux-image-6.1.0-56-cloud-amd64", None).unwrap();
        assert_eq!(real.package.to_string(), "linux-image-6.1.0-56-cloud-amd64=6.1.192-2");
        assert_eq!(real.leads_to, None);
    }

    #[test]
    fn dependencies_without_an_exact_version() {
        let name = |depends| kernel_dependency(depends);
        assert_eq!(name("a, linux-image-6:any (>= 1) | b"), Some(("linux-image-6".into(), None)));
        assert_eq!(name("kmod, linux-base (= 4)"), None);
        assert_eq!(name("linux-image-../x (= 1)"), None);
    }

    #[test]
    fn only_the_exact_name_counts() {
        for answer in ["", META, "N: No packages found"] {
            let Err(error) = listed(answer, "linux-image-6.1", None) else { panic!("{answer}") };
            assert!(error.to_string().ends_with("run `sudo apt-get update`"), "{error}");
        }
        let both = format!("{META}\n{REAL}");
        assert!(listed(&both, "linux-image-6.1.0-56-cloud-amd64", None).is_ok());
    }

    #[test]
    fn another_architecture_is_said() {
        let foreign = META.replace("Architecture: amd64", "Architecture: arm64");
        let Err(error) = listed(&foreign, "linux-image-cloud-amd64", None) else { panic!() };
        assert!(matches!(error, KernelError::ForeignPackage { .. }), "{error}");
    }

    #[test]
    fn a_tool_that_is_not_here_is_named() {
        let error = run(tool("ktax-no-such-tool"), "apt-cache", "apt").unwrap_err();
        assert!(matches!(error, KernelError::NoTool { tool: "apt-cache", .. }), "{error}");
        assert!(error.is_silence());
    }

    #[test]
    fn what_a_tool_says_cannot_move_the_cursor() {
        assert_eq!(last_line(b"W: x\nE: a\x1b[2Jb\n\n"), "E: a\\u{1b}[2Jb");
        assert_eq!(last_line(b""), "it does not say why");
    }
}
