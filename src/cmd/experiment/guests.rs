//! Flags of what guests have beside their kernels: a program as a row, and what one side has alone.

use std::collections::BTreeSet;

use clap::Args;

use crate::cmd::choice::number as number_of;
use crate::flow::Error;
use crate::plan::{DiskKeys, ExperimentFile, ProgramKeys, SubjectKeys};

/// Flags of a program.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Your program")]
pub struct ProgramArgs {
    /// Measure this program. In the guest it is counted from its exec to its exit, and the files
    /// and directories that its arguments name are copied there; the host engine times it where it
    /// is
    #[arg(last = true, value_name = "CMD ARG…")]
    command: Vec<String>,
    /// Measure this shell script in the place of CMD
    #[arg(long, value_name = "COMMANDS", conflicts_with = "command")]
    script: Option<String>,
    /// Name its row program:NAME [default: the file name of CMD]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Copy one more file or directory into the guest; AT is its place there, absolute or below
    /// /work; repeat for more
    #[arg(long, value_name = "PATH[:AT]")]
    file: Vec<String>,
    /// Copy the content of this directory or tar archive into the guest's root directory; CMD is
    /// looked up there first
    #[arg(long, value_name = "DIR|TAR")]
    root: Option<String>,
    /// Run it once on this machine, in a sandbox that discards what it writes, and copy the files
    /// that it opens into the guest
    #[arg(long)]
    trace_files: bool,
    /// Set this variable in its environment; repeat for more
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Let it read this file from its standard input [default: an empty file]
    #[arg(long, value_name = "FILE")]
    stdin: Option<String>,
    /// Run it as the user and group of this number [default: 0]
    #[arg(long, value_name = "UID", value_parser = number_of(0..=u32::MAX - 1))]
    user: Option<u32>,
    /// Expect this exit status [default: 0]
    #[arg(long, value_name = "N")]
    status: Option<u32>,
    /// Run these shell commands in the guest before anything is measured, in the program's root
    /// directory; without a program, beside the rows
    #[arg(long, value_name = "COMMANDS")]
    setup: Option<String>,
    /// Run these shell commands before each run; they are not counted
    #[arg(long, value_name = "COMMANDS")]
    prepare: Option<String>,
    /// Make the number that it prints behind TEXT a part of its work signature; TEXT may be a
    /// regular expression with a group of digits, such as 'did (\d+) calls'; repeat for more
    #[arg(long, value_name = "NAME=TEXT", value_parser = number)]
    number: Vec<(String, String)>,
    /// Let it print something else each time
    #[arg(long)]
    any_output: bool,
    /// Run it N times before the run that is counted [default: 0]
    #[arg(long, value_name = "N")]
    warm_up: Option<u32>,
    /// Divide its counts by this number of operations [default: 1]
    #[arg(long, value_name = "N")]
    ops: Option<u64>,
    /// Divide them by the number that it prints behind TEXT, on either output; TEXT may be a
    /// regular expression with a group of digits
    #[arg(long, value_name = "TEXT", conflicts_with = "ops")]
    ops_from: Option<String>,
    /// Run it twice, with each number in the place of {size}, so that what an operation costs and
    /// what its start costs are apart: --sizes 1000,2000
    #[arg(long, value_name = "N,M", value_delimiter = ',', num_args = 1)]
    sizes: Vec<u64>,
}

fn number(text: &str) -> Result<(String, String), String> {
    let (name, before) =
        text.split_once('=').ok_or("write it as NAME=TEXT: --number rows=total")?;
    Ok((name.to_owned(), before.to_owned()))
}

impl ProgramArgs {
    /// Adds the program to those of the file.
    pub fn apply(&self, file: &mut ExperimentFile) -> Result<(), Error> {
        let keys = self.keys();
        let is_hook = keys.setup.is_some() || keys.prepare.is_some();
        let is_none = keys.command.is_empty() && keys.script.is_none();
        match (is_none, keys == ProgramKeys::default()) {
            (true, _) if std::env::args_os().next_back().is_some_and(|last| last == "--") => {
                Err(Error::user("there is no program behind --; write one, or leave -- out"))
            }
            (true, true) => Ok(()),
            (true, false) if is_hook => {
                file.hooks = Some(keys);
                Ok(())
            }
            (true, false) => Err(Error::user(
                "--name, --file, --root, --trace-files, --env, --stdin, --user, --status, \
                 --number, --any-output, --warm-up, --ops, --ops-from and --sizes are of a \
                 program; write it behind them: -- ./program",
            )),
            (false, _) => {
                self.check_numbers()?;
                file.program.push(keys);
                Ok(())
            }
        }
    }

    fn check_numbers(&self) -> Result<(), Error> {
        let mut known = BTreeSet::new();
        match self.number.iter().find(|(name, _)| !known.insert(name)) {
            Some((name, _)) => Err(Error::user(format!(
                "--number gives two numbers the name {name:?}; give each its own"
            ))),
            None => Ok(()),
        }
    }

    fn keys(&self) -> ProgramKeys {
        let flags = self.clone();
        ProgramKeys {
            name: flags.name,
            command: flags.command,
            script: flags.script,
            files: flags.file,
            root: flags.root,
            trace_files: flags.trace_files,
            env: flags.env,
            stdin: flags.stdin,
            user: flags.user,
            status: flags.status,
            setup: flags.setup,
            prepare: flags.prepare,
            numbers: flags.number.into_iter().collect(),
            any_output: flags.any_output,
            warm_up: flags.warm_up,
            ops: flags.ops,
            ops_from: flags.ops_from,
            sizes: flags.sizes,
        }
    }
}

/// Flags of one side.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "One side alone")]
pub struct SideArgs {
    /// Use this setting for the base; NAME is a sysctl, or on the running kernel also thp,
    /// governor, prefix (a command that runs each loop: prefix='taskset -c 1') or kernel (one that
    /// you boot); repeat for more
    #[arg(long, value_name = "NAME=VALUE")]
    base_set: Vec<String>,
    /// Use this setting for the change; repeat for more
    #[arg(long, value_name = "NAME=VALUE")]
    change_set: Vec<String>,
    /// Run these shell commands once in the base's guest, before anything is measured
    #[arg(long, value_name = "COMMANDS")]
    base_setup: Option<String>,
    /// Run these shell commands once in the change's guest, before anything is measured
    #[arg(long, value_name = "COMMANDS")]
    change_setup: Option<String>,
    /// Copy this file or directory into the base's guest alone, for programs and commands; repeat
    /// for more
    #[arg(long, value_name = "PATH[:AT]")]
    base_file: Vec<String>,
    /// Copy this file or directory into the change's guest alone; repeat for more
    #[arg(long, value_name = "PATH[:AT]")]
    change_file: Vec<String>,
    /// Load this module in the base's guest alone; repeat for more
    #[arg(long, value_name = "NAME [PARAMETERS]")]
    base_module: Vec<String>,
    /// Load this module in the change's guest alone; repeat for more
    #[arg(long, value_name = "NAME [PARAMETERS]")]
    change_module: Vec<String>,
    /// Put the base's files on this file system [default: that of --disk]
    #[arg(long, value_name = "FS [KEY=VALUE]…")]
    base_disk: Option<String>,
    /// Put the change's files on this file system [default: that of --disk]
    #[arg(long, value_name = "FS [KEY=VALUE]…")]
    change_disk: Option<String>,
}

impl SideArgs {
    /// Replaces keys of the file by flags; modules and files are added.
    pub fn apply(&self, file: &mut ExperimentFile) -> Result<(), Error> {
        let base = |text: &String| set("--base-set", &mut file.base, text);
        self.base_set.iter().try_for_each(base)?;
        let change = |text: &String| set("--change-set", file.change_mut(), text);
        self.change_set.iter().try_for_each(change)?;
        let SideArgs { base_setup, base_file, base_module, base_disk, .. } = self;
        put(&mut file.base, base_setup, base_file, base_module, base_disk)?;
        let SideArgs { change_setup, change_file, change_module, change_disk, .. } = self;
        let mut change = file.change.clone().unwrap_or_default();
        put(&mut change, change_setup, change_file, change_module, change_disk)?;
        if file.change.is_some() || change != SubjectKeys::default() {
            file.change = Some(change);
        }
        Ok(())
    }
}

fn put(
    keys: &mut SubjectKeys,
    setup: &Option<String>,
    files: &[String],
    modules: &[String],
    disk: &Option<String>,
) -> Result<(), Error> {
    if setup.is_some() {
        keys.setup.clone_from(setup);
    }
    keys.files.extend_from_slice(files);
    keys.modules.extend_from_slice(modules);
    if let Some(disk) = disk {
        keys.disk = Some(DiskKeys::parse(disk)?);
    }
    Ok(())
}

/// Sets a key. `flag` names the option in messages.
fn set(flag: &str, keys: &mut SubjectKeys, text: &str) -> Result<(), Error> {
    let wrong = |reason: &str| {
        let text = text.escape_default();
        Error::user(format!(
            "{flag} {text}: {reason}; write {flag} thp=never or {flag} vm.swappiness=10"
        ))
    };
    let (name, value) = text.split_once('=').ok_or_else(|| wrong("there is no `=`"))?;
    let owned = value.to_owned();
    match name {
        "prefix" => {
            keys.prefix = shlex::split(value).ok_or_else(|| wrong("a quote is not closed"))?;
        }
        "thp" => keys.thp = Some(owned),
        "governor" => keys.governor = Some(owned),
        "kernel" => keys.kernel = Some(owned),
        name if name.contains(['.', '/']) => drop(keys.sysctl.insert(name.to_owned(), owned)),
        _ => return Err(wrong("the name of a sysctl has a dot or a slash")),
    }
    Ok(())
}
