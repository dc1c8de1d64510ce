//! `ktax kvm-host`: a command in a KVM host within QEMU.

use std::io;
use std::path::PathBuf;

use super::args::HostArgs;
use super::drive::{cancel, is_cancelled, obtain, talking};
use super::exit::{Exit, UsageError};
use super::output::write_foreign;
use crate::disk::read_limited;
use crate::engine::qemu::Qemu;
use crate::kernel::{self, Kernel};
use crate::kvmhost::{self, GIVEN_MAX, Given, Host, HostError, Said};
use crate::model::Subject;
use crate::text::escape;

/// Run a command in a real KVM host, within QEMU: no KVM and no root are needed here.
///
/// The host has this ktax at /ktax, /proc, /sys with tracefs and debugfs, and the files that are
/// named with --file. What the command prints is printed here, and its exit status is ktax's.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Count time in instructions on one CPU, so that two runs do exactly the same
    #[arg(long)]
    exact: bool,
    /// Kernel of the host
    #[arg(long, value_name = "KERNEL", default_value = "debian:cloud-amd64")]
    kernel: String,
    /// Added to the host kernel's command line, such as lockdown=confidentiality
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    #[arg(value_parser = printable)]
    boot_line: String,
    /// Put a file at /files/NAME; repeat for more
    #[arg(long, value_name = "NAME=PATH", value_parser = named)]
    file: Vec<Named>,
    #[command(flatten)]
    host: HostArgs,
    /// The command, by its path in the host
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  ktax kvm-host -- /ktax vmm raw --out 2000 --hlt 1000
  ktax kvm-host --file vmlinuz=./bzImage -- /ktax vmm linux --kernel /files/vmlinuz";

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    match boot(args) {
        Ok(said) => {
            write_foreign(std::io::stdout(), &said.stdout)?;
            write_foreign(std::io::stderr(), &said.stderr)?;
            // Any status is the command's, not only those that ktax itself has.
            std::process::exit(said.status.into())
        }
        // Whatever a signal broke off.
        Err(_) if is_cancelled() => {
            note!("ktax: stopped");
            Ok(Exit::Cancelled)
        }
        Err(error) => Err(error),
    }
}

fn boot(args: &Args) -> anyhow::Result<Said> {
    let files = read(&args.file, GIVEN_MAX)?;
    let run =
        |host: &Host, _: &Kernel| kvmhost::run(host, std::slice::from_ref(&args.command), &files);
    let said = with_host(&Subject::of(&args.kernel, &args.boot_line), args.exact, &args.host, run)?;
    Ok(said.into_iter().next().expect("there is an answer to each command"))
}

/// Works with a host of this kernel and boot line; the kernel is fetched with its modules.
pub fn with_host<T>(
    subject: &Subject,
    exact: bool,
    args: &HostArgs,
    work: impl FnOnce(&Host, &Kernel) -> Result<T, HostError>,
) -> anyhow::Result<T> {
    let cancel = cancel()?;
    let qemu = Qemu::find(args.qemu.as_deref())?;
    let cache = args.cache()?;
    let own = obtain(subject, &cache)?;
    let modules = talking(|talk| kernel::modules(&own, &kvmhost::MODULES, &cache, talk))?;
    let host = Host {
        qemu: &qemu,
        kernel: &own.image,
        boot_line: &subject.boot_line,
        modules: &modules,
        exact,
        limits: &args.limits(),
        cancel: &cancel,
        scratch: &cache.join("runs"),
    };
    Ok(work(&host, &own)?)
}

/// What QEMU and the kernel take as it is.
fn printable(text: &str) -> Result<String, UsageError> {
    match text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        true => Ok(text.to_owned()),
        false => Err(UsageError::Text("a boot line is of printable ASCII".into())),
    }
}

/// A file, by its name in the host and its path here.
#[derive(Debug, Clone)]
struct Named {
    name: String,
    path: PathBuf,
}

/// All of them before anything is booted, and whatever they are: `/dev/zero` has no end.
fn read(files: &[Named], most: u64) -> Result<Vec<Given>, UsageError> {
    let mut left = most;
    let mut read = |Named { name, path }: &Named| {
        let shown = escape(&path.display().to_string());
        let wanted = "a file for the host";
        let unreadable = |reason| UsageError::Unreadable { path: shown.clone(), reason, wanted };
        let content = read_limited(path, left).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => {
                let most = most >> 20;
                let problem = format!("with {shown} the host's files are more than {most} MiB");
                UsageError::Text(format!("{problem}; give fewer or smaller ones"))
            }
            _ => unreadable(error),
        })?;
        left -= content.len() as u64;
        Ok(Given { name: name.clone(), content })
    };
    files.iter().map(&mut read).collect()
}

/// A name is one of a directory's: the archive's paths are made of it.
fn named(text: &str) -> Result<Named, UsageError> {
    let wrong = |problem: &str| UsageError::Text(format!("{problem}; write NAME=PATH"));
    let (name, path) = text.split_once('=').ok_or_else(|| wrong("no `=`"))?;
    if matches!(name, "" | "." | "..") || name.contains('/') || name.chars().any(char::is_control) {
        return Err(wrong("NAME is no name of a file"));
    }
    Ok(Named { name: name.to_owned(), path: PathBuf::from(path) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_a_limit_together_and_one_without_an_end_has_it_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("three");
        std::fs::write(&path, "abc").unwrap();
        let files = |paths: &[&str]| -> Vec<Named> {
            let named = |path: &&str| Named { name: "a".into(), path: PathBuf::from(path) };
            paths.iter().map(named).collect()
        };
        let three = path.to_str().unwrap();
        let given = read(&files(&[three, three]), 6).unwrap();
        assert_eq!(
            given.iter().map(|file| file.content.as_slice()).collect::<Vec<_>>(),
            [b"abc"; 2]
        );
        for (paths, most) in [(&[three, three][..], 5), (&["/dev/zero"], 1 << 20)] {
            let error = read(&files(paths), most).unwrap_err().to_string();
            assert!(error.contains(" MiB; give fewer or smaller ones"), "{error}");
        }
        let error = read(&files(&["/no/such\x1b"]), 5).unwrap_err().to_string();
        assert!(error.starts_with("cannot read /no/such\\u{1b}: No such file"), "{error}");
    }

    #[test]
    fn names_of_files() {
        let file = named("a=/b=c").unwrap();
        assert_eq!((file.name.as_str(), file.path), ("a", PathBuf::from("/b=c")));
        for wrong in ["a", "=b", "../a=b", "a/b=c", "..=c", "a\n=b"] {
            let error = named(wrong).unwrap_err().to_string();
            assert!(error.ends_with("write NAME=PATH"), "{error}");
        }
    }
}
