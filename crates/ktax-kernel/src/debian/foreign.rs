//! Package lists of another architecture. This machine's apt has none, so ktax keeps its own in the
//! cache: dpkg's architectures stay as they are, and nothing needs root.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::command::{OPTIONS, run, tool};
use crate::error::KernelError;
use crate::last_line::last_line;
use ktax_host::cache::Holder;

/// The release of Debian that has kernels of each of these architectures.
const SUITE: &str = "trixie";
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// How long lists are used. A day is what apt's own timer takes.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// The lists of one architecture.
pub(super) struct Foreign {
    dir: PathBuf,
    arch: &'static str,
    holder: OnceCell<Holder>,
}

impl Foreign {
    pub fn of(dir: PathBuf, arch: &'static str) -> Foreign {
        Foreign { dir, arch, holder: OnceCell::new() }
    }

    /// The options that make apt's tools use these lists, and nothing of this machine's.
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

    /// Reads the lists from the archive, unless they are new. Old ones are better than none.
    pub fn refresh(&self, note: &dyn Fn(&str)) -> Result<(), KernelError> {
        let unwritten = |error| KernelError::cache("write", &self.dir, error);
        if self.holder.get().is_none() {
            drop(self.holder.set(Holder::of_directory(&self.dir).map_err(unwritten)?));
        }
        let stamp = self.dir.join("updated");
        let age = fs::metadata(&stamp).and_then(|file| file.modified());
        let age = age.ok().map(|time| SystemTime::now().duration_since(time).unwrap_or_default());
        if age.is_some_and(|age| age < KEPT) {
            return Ok(());
        }
        note(&format!("reading Debian's package lists for {}", self.arch));
        self.prepare(&repository()?).map_err(unwritten)?;
        let mut command = tool("apt-get");
        command.args(self.options()).args(OPTIONS).args(["-q", "update"]);
        command.args(["--error-on=any"]);
        let output = run(command, "apt-get", "apt")?;
        let failed = KernelError::NoLists { arch: self.arch, said: last_line(&output.stderr) };
        match (output.status.success(), age) {
            (true, _) => File::create(stamp).map(drop).map_err(unwritten),
            (false, Some(_)) => {
                note(&format!("{failed}; ktax uses the lists that it has"));
                Ok(())
            }
            (false, None) => Err(failed),
        }
    }

    fn prepare(&self, repository: &str) -> io::Result<()> {
        for name in ["parts", "lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(self.dir.join(name))?;
        }
        let keys = match Path::new(KEYS).exists() {
            true => format!("Signed-By: {KEYS}\n"),
            false => String::new(),
        };
        let source = format!("Types: deb\nURIs: {repository}\nSuites: {SUITE}\n");
        let source = format!("{source}Components: main\n{keys}");
        fs::write(self.dir.join("parts/own.sources"), source)?;
        fs::write(self.dir.join("status"), "")
    }
}

/// The address of the archive that this machine uses.
fn repository() -> Result<String, KernelError> {
    let mut command = tool("apt-get");
    command.args(["indextargets", "--format", "$(REPO_URI)"]);
    command.args(["Created-By: Packages", "Origin: Debian", "Label: Debian", "Component: main"]);
    let output = run(command, "apt-get", "apt")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let usual = "http://deb.debian.org/debian/";
    Ok(said.lines().next().unwrap_or(usual).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apt_sees_nothing_of_this_machine() {
        let foreign = Foreign::of("/c/apt-arm64".into(), "arm64");
        let options: Vec<String> =
            foreign.options().into_iter().map(|word| word.into_string().unwrap()).collect();
        for option in [
            "APT::Architectures=arm64",
            "Dir::Etc::sourcelist=/dev/null",
            "Dir::Etc::sourceparts=/c/apt-arm64/parts",
            "Dir::State::lists=/c/apt-arm64/lists",
        ] {
            let at = options.iter().position(|it| it == option).unwrap();
            assert_eq!(options[at - 1], "-o");
        }
    }

    #[test]
    fn new_lists_are_not_read_again() {
        let dir = tempfile::tempdir().unwrap();
        File::create(dir.path().join("updated")).unwrap();
        let foreign = Foreign::of(dir.path().into(), "arm64");
        foreign.refresh(&|note| panic!("{note}")).unwrap();
    }
}
