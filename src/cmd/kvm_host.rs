//! `ktax kvm-host`: runs a command in a KVM host within QEMU.

use std::path::PathBuf;

use super::Exit;
use super::host::HostArgs;
use super::output::{note, write_foreign};
use super::terminal::Terminal;
use crate::flow::kvm_host::{CommandOutput, FileForHost, HostOrder};
use crate::flow::{Error, kvm_host};
use crate::model::Subject;
use crate::text::escape;

/// Run a command in a KVM host within QEMU, which needs neither KVM nor root.
///
/// The host has this ktax at /ktax, the files of --file, /proc, and /sys with tracefs and debugfs.
/// ktax prints what the command prints, and exits with its status. A program that is not linked
/// statically needs its dynamic linker and libraries as files, too.
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
    file: Vec<FileForHost>,
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
    let answer = match boot(args) {
        Ok(answer) => answer,
        // Nothing is kept from which the command could continue.
        Err(error) if error.is_cancelled() => {
            note!("ktax: stopped");
            return Ok(Exit::Cancelled);
        }
        Err(error) => return Err(error),
    };
    write_foreign(std::io::stdout(), &answer.stdout)?;
    write_foreign(std::io::stderr(), &answer.stderr)?;
    // Pass on any status of the command.
    std::process::exit(answer.status.into())
}

fn boot(args: &Args) -> Result<CommandOutput, Error> {
    let terminal = Terminal::new();
    let order = HostOrder {
        kernel: Subject::new(&args.kernel, &args.boot_line),
        exact: args.exact,
        files: args.file.clone(),
        command: args.command.clone(),
    };
    kvm_host::run(&order, &args.host.session(&terminal)?)
}

/// Parses a boot line, which QEMU and the kernel accept as printable ASCII.
fn printable(text: &str) -> Result<String, Error> {
    match text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        true => Ok(text.to_owned()),
        false => {
            Err(Error::user("the boot line has a character that is not printable ASCII; remove it"))
        }
    }
}

/// Parses `NAME=PATH`. NAME becomes a path of an archive, so it must be a plain file name.
fn named(text: &str) -> Result<FileForHost, Error> {
    let wrong =
        |problem: &str| Error::user(format!("`{}` {problem}; write NAME=PATH", escape(text)));
    let (name, path) = text.split_once('=').ok_or_else(|| wrong("has no `=`"))?;
    if matches!(name, "" | "." | "..") || name.contains('/') || name.chars().any(char::is_control) {
        return Err(wrong("has a NAME that is not a file name"));
    }
    Ok(FileForHost { name: name.to_owned(), path: PathBuf::from(path) })
}

#[cfg(test)]
mod tests {
    use super::*;

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
