//! `ktax kvm-host`: run a command in a KVM host within QEMU.

use std::io;
use std::path::PathBuf;

use super::exit::Exit;
use super::host::HostArgs;
use super::output::write_foreign;
use super::progress::Terminal;
use crate::cmd::note::note;
use crate::disk::read_limited;
use crate::engine::qemu::Qemu;
use crate::flow::Error;
use crate::kvmhost::{GIVEN_MAX, Given, KvmHost, PLAIN, Said};
use crate::model::Subject;
use crate::text::escape;

/// Run a command in a KVM host within QEMU, which needs neither KVM nor root.
///
/// The host has this ktax at /ktax, the files of --file, /proc, and /sys with tracefs and debugfs.
/// ktax prints what the command prints, and exits with its status.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Count time in instructions of one CPU, so that a second run is identical
    #[arg(long)]
    exact: bool,
    /// Boot this kernel as the host
    #[arg(long, value_name = "KERNEL", default_value = "debian:cloud-amd64")]
    kernel: String,
    /// Add TEXT to the boot line of the host's kernel, such as lockdown=confidentiality
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    #[arg(value_parser = printable)]
    boot_line: String,
    /// Put a file at /files/NAME; repeat for more
    #[arg(long, value_name = "NAME=PATH", value_parser = named)]
    file: Vec<Named>,
    #[command(flatten)]
    host: HostArgs,
    /// Run this command, by its path in the host
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  ktax kvm-host -- /ktax vmm raw --out 2000 --hlt 1000
  ktax kvm-host --file vmlinuz=./bzImage -- /ktax vmm linux --kernel /files/vmlinuz";

pub fn run(args: &Args) -> Result<Exit, Error> {
    let said = match boot(args) {
        Ok(said) => said,
        // Nothing is kept of it that the same command could go on with.
        Err(Error::Cancelled) => {
            note!("ktax: stopped");
            return Ok(Exit::Cancelled);
        }
        Err(error) => return Err(error),
    };
    write_foreign(std::io::stdout(), &said.stdout)?;
    write_foreign(std::io::stderr(), &said.stderr)?;
    // Any status is the command's, not only those that ktax itself has.
    std::process::exit(said.status.into())
}

fn boot(args: &Args) -> Result<Said, Error> {
    let files = read(&args.file, GIVEN_MAX)?;
    let terminal = Terminal::new();
    let session = args.host.session(&terminal)?;
    let qemu = Qemu::find(session.qemu.as_deref())?;
    let kernel = session.kvm_host(&Subject::of(&args.kernel, &args.boot_line))?;
    let host = KvmHost {
        qemu: &qemu,
        kernel: &kernel.image,
        boot_line: &kernel.boot_line,
        modules: &kernel.modules,
        exact: args.exact,
        layout: &PLAIN,
        limits: &session.limits,
        cancel: &session.cancel,
        scratch: &session.cache.join("runs"),
    };
    let said = session.unless_cancelled(host.run(std::slice::from_ref(&args.command), &files))?;
    Ok(said.into_iter().next().expect("there is an answer to each command"))
}

/// What QEMU and the kernel take as it is.
fn printable(text: &str) -> Result<String, Error> {
    match text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        true => Ok(text.to_owned()),
        false => Err(Error::Usage(
            "the boot line has a character that is not printable ASCII; remove it".into(),
        )),
    }
}

/// A file, by its name in the host and its path here.
#[derive(Debug, Clone)]
struct Named {
    name: String,
    path: PathBuf,
}

/// All of them before anything is booted, and whatever they are: `/dev/zero` has no end.
fn read(files: &[Named], most: u64) -> Result<Vec<Given>, Error> {
    let mut left = most;
    let mut read = |Named { name, path }: &Named| {
        let shown = escape(&path.display().to_string());
        let wanted = "a file for the host";
        let unreadable = |reason| Error::Unreadable { path: shown.clone(), reason, wanted };
        let content = read_limited(path, left).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => {
                let most = most >> 20;
                let problem = format!("with {shown} the host's files exceed {most} MiB");
                Error::Usage(format!("{problem}; give fewer or smaller files"))
            }
            _ => unreadable(error),
        })?;
        left -= content.len() as u64;
        Ok(Given { name: name.clone(), content })
    };
    files.iter().map(&mut read).collect()
}

/// A name is one of a directory's: the archive's paths are made of it.
fn named(text: &str) -> Result<Named, Error> {
    let wrong =
        |problem: &str| Error::Usage(format!("`{}` {problem}; write NAME=PATH", escape(text)));
    let (name, path) = text.split_once('=').ok_or_else(|| wrong("has no `=`"))?;
    if matches!(name, "" | "." | "..") || name.contains('/') || name.chars().any(char::is_control) {
        return Err(wrong("has a NAME that is not a file name"));
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
            assert!(error.contains(" MiB; give fewer or smaller files"), "{error}");
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
