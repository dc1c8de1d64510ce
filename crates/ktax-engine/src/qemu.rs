//! Finds QEMU and reads its version.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;

use ktax_host::text::{did_you_mean_quoted, escape_bytes, nearest, shell_path};
use ktax_model::{Error, Result};

/// The oldest QEMU with the plugins and the icount that ktax needs.
const OLDEST: (u32, u32) = (7, 2);

/// The oldest QEMU with a plugin that may end a CPU's slice.
const OLDEST_WITH_SEVERAL_CPUS: (u32, u32) = (10, 0);

/// A QEMU of known version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Qemu {
    pub program: PathBuf,
    /// The version with the distribution's suffix: `7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)`.
    pub version: String,
}

impl Qemu {
    /// Finds the program that `--qemu` or KTAX_QEMU names, or the distribution's.
    pub fn find(named: Option<&Path>) -> Result<Qemu> {
        const ANOTHER: &str = "name another QEMU with --qemu";
        let program = named.unwrap_or(Path::new("qemu-system-x86_64"));
        let name = program.display();
        let missing = |reason: String| {
            Error::guest(format!("cannot start {name}: {reason}"))
                .next("install QEMU with `sudo apt-get install qemu-system-x86`")
        };
        let output = Command::new(program).arg("--version").stdin(Stdio::null()).output();
        let output = output.map_err(|error| missing(error.to_string()))?;
        if !output.status.success() {
            return Err(missing(escape_bytes(&output.stderr)));
        }
        let version = parse_version(&output.stdout).ok_or_else(|| {
            let output = escape_bytes(&output.stdout);
            Error::guest(format!("cannot read the version of {name} from {output:?}")).next(ANOTHER)
        })?;
        if number(&version) < Some(OLDEST) {
            let message = format!("QEMU {version} is too old: ktax needs 7.2 or later");
            return Err(Error::guest(message).next(ANOTHER));
        }
        Ok(Qemu { program: absolute(program), version })
    }

    pub fn has_several_cpus(&self) -> bool {
        number(&self.version) >= Some(OLDEST_WITH_SEVERAL_CPUS)
    }

    /// Refuses more CPUs than this QEMU can count with.
    pub fn check_cpus(&self, cpus: u32) -> Result<()> {
        if cpus == 1 || self.has_several_cpus() {
            return Ok(());
        }
        let found = &self.version;
        Err(Error::guest(format!(
            "--cpus {cpus} (machine.cpus) needs QEMU 10.0 or later, and this is {found}: Debian 13 \
             has it, and on Debian 12 `ktax doctor --newer-qemu DIR` unpacks that of backports \
             beside the installed one"
        ))
        .next("name it with --qemu"))
    }

    /// Refuses a CPU model that this QEMU does not list; features behind the name are its own
    /// business. A QEMU that lists nothing is asked when it boots.
    pub fn check_cpu(&self, cpu: &str) -> Result<()> {
        let mut help = Command::new(&self.program);
        let Ok(output) = help.args(["-cpu", "help"]).stdin(Stdio::null()).output() else {
            return Ok(());
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let models = parse_cpus(&text);
        let name = cpu.split(',').next().unwrap_or_default();
        let model = name.strip_suffix("-x86_64-cpu").unwrap_or(name);
        if models.is_empty() || models.contains(&model) {
            return Ok(());
        }
        let near = did_you_mean_quoted(nearest(model, models));
        let program = shell_path(self.program.display().to_string());
        Err(Error::user(format!(
            "--cpu (machine.cpu) is {name:?}, and QEMU has no such CPU model{near}"
        ))
        .next(format!("`{program} -cpu help` lists its models")))
    }
}

/// Parses the models of `-cpu help`: the first paragraph, whose lines begin with `x86` before QEMU
/// 9.
fn parse_cpus(help: &str) -> Vec<&str> {
    let lines = help.lines().skip_while(|line| !line.starts_with("Available CPUs"));
    let lines = lines.skip(1).take_while(|line| !line.is_empty());
    let names = lines.map(|line| line.strip_prefix("x86 ").unwrap_or(line));
    names.filter_map(|line| line.split_whitespace().next()).collect()
}

fn parse_version(output: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(output).ok()?;
    let version = text.lines().next()?.strip_prefix("QEMU emulator version ")?;
    number(version).map(|_| escape_bytes(version.as_bytes()))
}

fn number(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Returns the program's absolute path: it stays the same program when the directory or PATH
/// changes.
fn absolute(program: &Path) -> PathBuf {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let candidates: Vec<PathBuf> = if program.components().count() > 1 {
        vec![program.to_owned()]
    } else {
        std::env::split_paths(&search).map(|dir| dir.join(program)).collect()
    };
    let found = candidates.into_iter().find(|path| path.is_file());
    found.and_then(|path| std::path::absolute(path).ok()).unwrap_or_else(|| program.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_models_are_read_as_old_and_new_qemus_list_them() {
        let old = "Available CPUs:\nx86 486    (alias)\nx86 max    Enables\n\nRecognized flags:\n";
        let new = "Available CPUs:\n  486    (alias)\n  max    Enables\n\nRecognized:\n  3dnow\n";
        assert_eq!(parse_cpus(old), ["486", "max"]);
        assert_eq!(parse_cpus(new), ["486", "max"]);
        assert!(parse_cpus("no help\n").is_empty());
    }

    #[test]
    fn versions_are_read_with_their_suffix() {
        let debian = b"QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright\n";
        let version = parse_version(debian).unwrap();
        assert_eq!(version, "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)");
        assert_eq!(number(&version), Some((7, 2)));
        assert_eq!(number("10.0.2"), Some((10, 0)));
        assert_eq!(parse_version(b"hello\n"), None);
    }
}
