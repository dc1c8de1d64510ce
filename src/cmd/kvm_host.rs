//! `ktax kvm-host` runs a command in a KVM host within QEMU. `ktax vmm` runs small guests and
//! counts their exits to user space.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgMatches, FromArgMatches, Subcommand};

use super::Exit;
use super::options::HostArgs;
use super::output::{note, note_stopped, write_foreign, write_stdout};
use super::terminal::Terminal;
use crate::flow::kvm_host::{self, CommandOutput, FileForHost};
use crate::flow::{Error, ErrorContext};
use crate::model::{RawKind, Subject};
use crate::text::escape;
use crate::vmm::linux::{CPUS_MAX, KvmFeature, LinuxConfig, MEMORY_MIB};
use crate::vmm::{Account, GuestEnd, GuestOutcome, RawLoops};

/// Run a command in a KVM host within QEMU, which needs neither KVM nor root.
///
/// The host has this ktax at /ktax, the files of --file, /proc, and /sys with tracefs and debugfs.
/// ktax prints what the command prints, and exits with its status. A program that is not linked
/// statically needs its dynamic linker and libraries as files, too.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct KvmHostArgs {
    /// Count time in instructions of one CPU, so that a second run is identical
    #[arg(long)]
    exact: bool,
    /// Boot this kernel as the host
    #[arg(long, value_name = "KERNEL", default_value = "debian:cloud-amd64")]
    kernel: String,
    /// Add TEXT to the boot line of the host's kernel, such as lockdown=confidentiality
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    #[arg(value_parser = boot_line)]
    boot_line: String,
    /// Put a file at /files/NAME; repeat for more
    #[arg(long, value_name = "NAME=PATH", value_parser = file_for_host)]
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

pub fn run_in_host(args: &KvmHostArgs) -> Result<Exit, Error> {
    let answer = match boot(args) {
        Ok(answer) => answer,
        // No state is kept, so no command can resume.
        Err(error) if error.is_cancelled() => return Ok(note_stopped("")),
        Err(error) => return Err(error),
    };
    write_foreign(std::io::stdout(), &answer.stdout)?;
    write_foreign(std::io::stderr(), &answer.stderr)?;
    // Pass on any status of the command.
    std::process::exit(answer.status.into())
}

fn boot(args: &KvmHostArgs) -> Result<CommandOutput, Error> {
    let terminal = Terminal::new();
    let kernel = Subject::new(&args.kernel, &args.boot_line);
    let session = args.host.session(&terminal)?;
    kvm_host::run(&kernel, args.exact, &args.file, args.command.clone(), &session)
}

/// Parses a boot line, which QEMU and the kernel accept as printable ASCII.
fn boot_line(text: &str) -> Result<String, Error> {
    match text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        true => Ok(text.to_owned()),
        false => {
            Err(Error::user("the boot line has a character that is not printable ASCII; remove it"))
        }
    }
}

/// Parses `NAME=PATH`. NAME becomes a path in an archive, so it must be a plain file name.
fn file_for_host(text: &str) -> Result<FileForHost, Error> {
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
    fn the_name_of_a_file_has_no_directory() {
        let file = file_for_host("a=/b=c").unwrap();
        assert_eq!((file.name.as_str(), file.path), ("a", PathBuf::from("/b=c")));
        for wrong in ["a", "=b", "../a=b", "a/b=c", "..=c", "a\n=b"] {
            let error = file_for_host(wrong).unwrap_err().to_string();
            assert!(error.ends_with("write NAME=PATH"), "{error}");
        }
    }
}

/// Run a small guest on /dev/kvm and count its exits to user space.
///
/// When the guest ends, ktax prints the account: one line of JSON with the wall time of each vCPU,
/// and with how often KVM_RUN returned for each reason.
#[derive(Debug, clap::Args)]
pub struct VmmArgs {
    #[command(subcommand)]
    command: VmmCommand,
}

#[derive(Debug, Subcommand)]
enum VmmCommand {
    Raw(RawArgs),
    Linux(LinuxArgs),
}

pub fn run_vmm(args: &VmmArgs) -> Result<Exit, Error> {
    let (outcome, account_args) = match &args.command {
        VmmCommand::Raw(args) => (crate::vmm::raw::run(&args.loops.0)?, &args.account),
        // The account would be mixed with what the guest prints.
        VmmCommand::Linux(args) if args.account.is_stdout() => {
            let problem = "stdout is what the guest prints; remove --account, or name a file";
            return Err(Error::user(problem));
        }
        VmmCommand::Linux(args) => (crate::vmm::linux::run(&args.config())?, &args.account),
    };
    let GuestOutcome { account, end } = outcome;
    write_account(&account, account_args)?;
    Ok(match end? {
        GuestEnd::ByGuest => Exit::Ok,
        GuestEnd::BySignal => Exit::Cancelled,
    })
}

fn write_account(account: &Account, args: &AccountArgs) -> Result<(), Error> {
    let line = serde_json::to_string(account)?;
    match args.account.as_deref() {
        None => note!("{line}"),
        Some(_) if args.is_stdout() => write_stdout(&(line + "\n"))?,
        Some(path) => std::fs::write(path, line + "\n")
            .or_host(format!("cannot write {}", path.display()), "name another file")?,
    }
    Ok(())
}

/// Option for the account.
#[derive(Debug, clap::Args)]
struct AccountArgs {
    /// Write the account to FILE instead of stderr; `-` is stdout, only for `raw`
    #[arg(long, value_name = "FILE")]
    pub account: Option<PathBuf>,
}

impl AccountArgs {
    /// Returns true if the account goes to stdout.
    fn is_stdout(&self) -> bool {
        self.account.as_deref() == Some(Path::new("-"))
    }
}

/// Run machine code without an operating system, with a known number of exits
///
/// The guest ends with one OUT of its own, so KVM_EXIT_IO is one more than its loops need. The
/// account is JSON. For each vCPU it has `wall_ns`, the time from the first call of KVM_RUN to the
/// last return; `turn_ns`, the median time from one return to the next, or 0 if there are fewer
/// than two returns (both in ns); and `exits`, the number of returns by KVM's `exit_reason`.
#[derive(Debug, clap::Args)]
struct RawArgs {
    #[command(flatten)]
    loops: LoopArgs,
    #[command(flatten)]
    account: AccountArgs,
}

/// Number of operations of each kind, with one option for each kind.
#[derive(Debug)]
struct LoopArgs(RawLoops);

impl clap::Args for LoopArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(RawKind::ALL.map(|kind| {
            let option = Arg::new(kind.name()).long(kind.name()).help(kind.help());
            option.value_name("N").default_value("0").value_parser(clap::value_parser!(u32))
        }))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        LoopArgs::augment_args(command)
    }
}

impl FromArgMatches for LoopArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<LoopArgs, clap::Error> {
        let count = |kind: RawKind| matches.get_one(kind.name()).copied().unwrap_or_default();
        let kinds = RawKind::ALL.into_iter();
        Ok(LoopArgs(
            kinds.fold(RawLoops::default(), |loops, kind| loops.with_count(kind, count(kind))),
        ))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = LoopArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Boot a Linux kernel with one serial port
#[derive(Debug, clap::Args)]
struct LinuxArgs {
    /// Boot this bzImage of a 64-bit kernel
    #[arg(long, value_name = "FILE")]
    kernel: PathBuf,
    /// Give the kernel this initial RAM disk
    #[arg(long, value_name = "FILE")]
    initrd: Option<PathBuf>,
    /// Boot with these kernel parameters
    #[arg(long, value_name = "LINE", default_value = "console=ttyS0 reboot=k panic=-1")]
    append: String,
    /// Give the guest this much memory, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    #[arg(value_parser = clap::value_parser!(u64).range(MEMORY_MIB))]
    memory_mib: u64,
    /// Give the guest N vCPUs
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=i64::from(CPUS_MAX)))]
    cpus: u8,
    /// Hide one of KVM's own features from the guest; repeat for more
    #[arg(long, value_name = "FEATURE", value_parser = feature())]
    without: Vec<KvmFeature>,
    /// Stop (SIGSTOP) where the guest writes to port 0x5ea, for `exits record --from-stop`
    #[arg(long)]
    stop_at_marks: bool,
    #[command(flatten)]
    account: AccountArgs,
}

/// Parses the name of one of KVM's own features.
fn feature() -> impl TypedValueParser<Value = KvmFeature> {
    let names = PossibleValuesParser::new(KvmFeature::ALL.map(|feature| feature.name));
    names.map(|name| KvmFeature::named(&name).expect("the parser accepts no other name"))
}

impl LinuxArgs {
    fn config(&self) -> LinuxConfig {
        LinuxConfig {
            kernel: self.kernel.clone(),
            initrd: self.initrd.clone(),
            append: self.append.clone(),
            memory_mib: self.memory_mib,
            cpus: self.cpus,
            without: self.without.clone(),
            stops_at_marks: self.stop_at_marks,
        }
    }
}
