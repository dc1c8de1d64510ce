//! Flags of what only one side has beside its kernel and boot line.

use clap::Args;

use crate::flow::Error;
use crate::plan::{DiskKeys, ExperimentFile, SubjectKeys};

/// What only one side has.
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
    /// Puts the flags in the place of the file's keys; modules and files are added to them.
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

/// `flag` is what the text was typed behind.
fn set(flag: &str, keys: &mut SubjectKeys, text: &str) -> Result<(), Error> {
    let wrong = |reason: &str| {
        let text = text.escape_default();
        Error::usage(format!(
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
