//! Flags of the guests' machine, of the program that is measured, and of the settings of one side.

use std::collections::BTreeSet;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use crate::cmd::options::{machine_key, number};
use crate::flow::Error;
use crate::model::Method;
use crate::plan::{
    DiskKeys, ExperimentFile, ExperimentKey, KEYS, MachineFlag, ProgramKeys, SubjectKeys, help,
};

/// Flags of the keys of `[machine]` that counted guests have, or of all other keys. The table of
/// keys defines the flags. Each value is a flag and the text that the user typed.
#[derive(Debug, Clone)]
pub struct MachineArgs<const ARE_COUNTED: bool>(Vec<(&'static MachineFlag, String)>);

impl<const ARE_COUNTED: bool> MachineArgs<ARE_COUNTED> {
    fn keys() -> impl Iterator<Item = (&'static ExperimentKey, &'static MachineFlag)> {
        let is_included =
            |key: &&ExperimentKey| key.methods.contains(&Method::Counts) == ARE_COUNTED;
        KEYS.iter().filter(is_included).filter_map(|key| Some((key, key.flag.as_ref()?)))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces keys of the file by flags.
    pub fn apply(&self, file: &mut ExperimentFile) -> Result<(), Error> {
        let mut set = self.0.iter().map(|(flag, text)| (flag.set)(&mut file.machine, text));
        set.try_for_each(|result| result.map_err(Error::user))
    }
}

impl<const ARE_COUNTED: bool> Args for MachineArgs<ARE_COUNTED> {
    fn augment_args(command: Command) -> Command {
        let heading = if ARE_COUNTED { "Subjects" } else { "Timed engines" };
        command.args(Self::keys().map(|(key, flag)| {
            let long = key.flags[0].trim_start_matches('-');
            Arg::new(long)
                .long(long)
                .aliases(flag.alias)
                .value_name(flag.value_name)
                .value_parser(machine_key(key, flag))
                .allow_negative_numbers(key.is_number())
                .hide_possible_values(true)
                .help(key.help(0))
                .help_heading(heading)
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const ARE_COUNTED: bool> FromArgMatches for MachineArgs<ARE_COUNTED> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flag_and_text = |(key, flag): (&ExperimentKey, &'static MachineFlag)| {
            let long = key.flags[0].trim_start_matches('-');
            Some((flag, matches.get_one::<String>(long)?.clone()))
        };
        Ok(MachineArgs(Self::keys().filter_map(flag_and_text).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Flags of a program.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Your program")]
pub struct ProgramArgs {
    #[arg(last = true, value_name = "CMD ARG…", help = help("program"))]
    command: Vec<String>,
    #[arg(long, value_name = "COMMANDS", conflicts_with = "command", help = help("program.script"))]
    script: Option<String>,
    #[arg(long, value_name = "NAME", help = help("program.name"))]
    name: Option<String>,
    #[arg(long, value_name = "PATH[:AT]", help = help("program.files"))]
    file: Vec<String>,
    #[arg(long, value_name = "DIR|TAR", help = help("program.root"))]
    root: Option<String>,
    #[arg(long, help = help("program.trace_files"))]
    trace_files: bool,
    #[arg(long, value_name = "NAME=VALUE", help = help("program.env"))]
    env: Vec<String>,
    #[arg(long, value_name = "FILE", help = help("program.stdin"))]
    stdin: Option<String>,
    #[arg(long, value_name = "UID", value_parser = number(0..=u32::MAX - 1))]
    #[arg(help = help("program.user"))]
    user: Option<u32>,
    #[arg(long, value_name = "N", help = help("program.status"))]
    status: Option<u32>,
    #[arg(long, value_name = "COMMANDS", help = help("program.setup"))]
    setup: Option<String>,
    #[arg(long, value_name = "COMMANDS", help = help("program.prepare"))]
    prepare: Option<String>,
    #[arg(long, value_name = "NAME=TEXT", value_parser = named_number)]
    #[arg(help = help("program.numbers"))]
    number: Vec<(String, String)>,
    #[arg(long, help = help("program.any_output"))]
    any_output: bool,
    #[arg(long, value_name = "N", help = help("program.warm_up"))]
    warm_up: Option<u32>,
    #[arg(long, value_name = "N", help = help("program.ops"))]
    ops: Option<u64>,
    #[arg(long, value_name = "TEXT", conflicts_with = "ops", help = help("program.ops_from"))]
    ops_from: Option<String>,
    #[arg(long, value_name = "N,M", value_delimiter = ',', num_args = 1)]
    #[arg(help = help("program.sizes"))]
    sizes: Vec<u64>,
}

/// Parses `NAME=TEXT`: the name of a number, and the text before the number in the output.
fn named_number(text: &str) -> Result<(String, String), String> {
    let (name, text_before) =
        text.split_once('=').ok_or("write it as NAME=TEXT: --number rows=total")?;
    Ok((name.to_owned(), text_before.to_owned()))
}

impl ProgramArgs {
    /// Adds the program to those of the file.
    pub fn apply(&self, file: &mut ExperimentFile) -> Result<(), Error> {
        let keys = self.keys();
        let has_hooks = keys.setup.is_some() || keys.prepare.is_some();
        let has_no_program = keys.command.is_empty() && keys.script.is_none();
        match (has_no_program, keys == ProgramKeys::default()) {
            (true, _) if std::env::args_os().next_back().is_some_and(|last| last == "--") => {
                Err(Error::user("there is no program after --; write one, or remove --"))
            }
            (true, true) => Ok(()),
            (true, false) if has_hooks => {
                file.hooks = Some(keys);
                Ok(())
            }
            (true, false) => Err(Error::user(
                "--name, --file, --root, --trace-files, --env, --stdin, --user, --status, \
                 --number, --any-output, --warm-up, --ops, --ops-from and --sizes only \
                 apply to a program; write one after them: -- ./program",
            )),
            (false, _) => {
                self.check_numbers()?;
                file.program.push(keys);
                Ok(())
            }
        }
    }

    fn check_numbers(&self) -> Result<(), Error> {
        let mut seen = BTreeSet::new();
        match self.number.iter().find(|(name, _)| !seen.insert(name)) {
            Some((name, _)) => Err(Error::user(format!(
                "--number gives two numbers the name {name:?}; give each number its own name"
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
    #[arg(long, value_name = "NAME=VALUE", help = help("base.sysctl"))]
    base_set: Vec<String>,
    #[arg(long, value_name = "NAME=VALUE", help = help("change.sysctl"))]
    change_set: Vec<String>,
    #[arg(long, value_name = "COMMANDS", help = help("base.setup"))]
    base_setup: Option<String>,
    #[arg(long, value_name = "COMMANDS", help = help("change.setup"))]
    change_setup: Option<String>,
    #[arg(long, value_name = "PATH[:AT]", help = help("base.files"))]
    base_file: Vec<String>,
    #[arg(long, value_name = "PATH[:AT]", help = help("change.files"))]
    change_file: Vec<String>,
    #[arg(long, value_name = "NAME [PARAMETERS]", help = help("base.modules"))]
    base_module: Vec<String>,
    #[arg(long, value_name = "NAME [PARAMETERS]", help = help("change.modules"))]
    change_module: Vec<String>,
    #[arg(long, value_name = "FS [KEY=VALUE]…", help = help("base.disk"))]
    base_disk: Option<String>,
    #[arg(long, value_name = "FS [KEY=VALUE]…", help = help("change.disk"))]
    change_disk: Option<String>,
}

impl SideArgs {
    /// Replaces keys of the file by flags; adds modules and files to those of the file.
    pub fn apply(&self, file: &mut ExperimentFile) -> Result<(), Error> {
        let base = |text: &String| set_setting("--base-set", &mut file.base, text);
        self.base_set.iter().try_for_each(base)?;
        let change = |text: &String| set_setting("--change-set", file.change_mut(), text);
        self.change_set.iter().try_for_each(change)?;
        let SideArgs { base_setup, base_file, base_module, base_disk, .. } = self;
        set_subject_keys(&mut file.base, base_setup, base_file, base_module, base_disk)?;
        let SideArgs { change_setup, change_file, change_module, change_disk, .. } = self;
        let mut change = file.change.clone().unwrap_or_default();
        set_subject_keys(&mut change, change_setup, change_file, change_module, change_disk)?;
        if file.change.is_some() || change != SubjectKeys::default() {
            file.change = Some(change);
        }
        Ok(())
    }
}

fn set_subject_keys(
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

/// Sets the key of a setting such as `thp=never`. `flag` names the option in messages.
fn set_setting(flag: &str, keys: &mut SubjectKeys, text: &str) -> Result<(), Error> {
    let error = |reason: &str| {
        let text = text.escape_default();
        Error::user(format!(
            "{flag} {text}: {reason}; write {flag} thp=never or {flag} vm.swappiness=10"
        ))
    };
    let (name, value) = text.split_once('=').ok_or_else(|| error("there is no `=`"))?;
    let owned = value.to_owned();
    match name {
        "prefix" => {
            keys.prefix = shlex::split(value).ok_or_else(|| error("a quote is not closed"))?;
        }
        "thp" => keys.thp = Some(owned),
        "governor" => keys.governor = Some(owned),
        "kernel" => keys.kernel = Some(owned),
        name if name.contains(['.', '/']) => drop(keys.sysctl.insert(name.to_owned(), owned)),
        _ => return Err(error("the name of a sysctl has a dot or a slash")),
    }
    Ok(())
}
