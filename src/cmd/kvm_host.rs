//! `ktax kvm-host`: a command in a KVM host within QEMU.

use std::io::Write;
use std::path::PathBuf;

use super::args::HostArgs;
use super::drive::{cancel, is_cancelled, obtain, talking};
use super::exit::{Exit, UsageError};
use crate::engine::qemu::Qemu;
use crate::kernel;
use crate::kvmhost::{self, Given, Host, Said};
use crate::model::Subject;

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
    /// Put a file at /files/NAME; repeat for more
    #[arg(long, value_name = "NAME=PATH", value_parser = given)]
    file: Vec<Given>,
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
            std::io::stdout().write_all(&said.stdout)?;
            std::io::stderr().write_all(&said.stderr)?;
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
    let cancel = cancel()?;
    let qemu = Qemu::find(args.host.qemu.as_deref())?;
    let cache = args.host.cache()?;
    let kernel = obtain(&Subject::of(&args.kernel, ""), &cache)?;
    let modules = talking(|talk| kernel::modules(&kernel, &kvmhost::MODULES, &cache, talk))?;
    let host = Host {
        qemu: &qemu,
        kernel: &kernel.image,
        modules: &modules,
        exact: args.exact,
        limits: &args.host.limits(),
        cancel: &cancel,
        scratch: &cache.join("runs"),
    };
    let said = kvmhost::run(&host, std::slice::from_ref(&args.command), &args.file)?;
    Ok(said.into_iter().next().expect("there is an answer to each command"))
}

/// A name is one of a directory's: the archive's paths are made of it.
fn given(text: &str) -> Result<Given, UsageError> {
    let wrong = |problem: &str| UsageError::Text(format!("{problem}; write NAME=PATH"));
    let (name, path) = text.split_once('=').ok_or_else(|| wrong("no `=`"))?;
    if matches!(name, "" | "." | "..") || name.contains('/') || name.chars().any(char::is_control) {
        return Err(wrong("NAME is no name of a file"));
    }
    Ok(Given { name: name.to_owned(), path: PathBuf::from(path) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files() {
        let file = given("a=/b=c").unwrap();
        assert_eq!((file.name.as_str(), file.path), ("a", PathBuf::from("/b=c")));
        for wrong in ["a", "=b", "../a=b", "a/b=c", "..=c", "a\n=b"] {
            let error = given(wrong).unwrap_err().to_string();
            assert!(error.ends_with("write NAME=PATH"), "{error}");
        }
    }
}
