//! Flags of a program that is a row: `ktax compare … -- CMD ARG…`.

use clap::Args;

use crate::flow::Error;
use crate::plan::{ExperimentFile, ProgramKeys};

/// The program, and what it runs with.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Your program")]
pub struct ProgramArgs {
    /// Count this program in the guest, from its exec to its exit; the files and directories that
    /// its arguments name are copied into the guest
    #[arg(last = true, value_name = "CMD ARG…")]
    command: Vec<String>,
    /// Name its row program:NAME [default: the file name of CMD]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Copy one more file or directory into the guest; AT is its place there, from /work on;
    /// repeat for more
    #[arg(long, value_name = "PATH[:AT]")]
    file: Vec<String>,
    /// Copy the content of this directory or tar archive into the guest's root directory; CMD is
    /// looked up there first
    #[arg(long, value_name = "DIR|TAR")]
    root: Option<String>,
    /// Set this variable in its environment; repeat for more
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Let it read this file from its standard input [default: an empty file]
    #[arg(long, value_name = "FILE")]
    stdin: Option<String>,
    /// Run it as the user and group of this number [default: 0]
    #[arg(long, value_name = "UID")]
    user: Option<u32>,
    /// Expect this exit status [default: 0]
    #[arg(long, value_name = "N")]
    status: Option<u32>,
    /// Run it N times before the run that is counted [default: 0]
    #[arg(long, value_name = "N")]
    warm_up: Option<u32>,
    /// Divide its counts by this number of operations [default: 1]
    #[arg(long, value_name = "N")]
    ops: Option<u64>,
}

impl ProgramArgs {
    /// Adds the program to those of the file.
    pub fn apply(&self, file: &mut ExperimentFile) -> Result<(), Error> {
        let ProgramArgs { command, name, file: files, root, env, stdin, .. } = self.clone();
        let ProgramArgs { user, status, warm_up, ops, .. } = *self;
        let keys =
            ProgramKeys { command, name, files, root, env, stdin, user, status, warm_up, ops };
        match (keys.command.is_empty(), keys == ProgramKeys::default()) {
            (true, true) => Ok(()),
            (true, false) => Err(Error::usage(
                "--name, --file, --root, --env, --stdin, --user, --status, --warm-up and --ops are \
                 of a program; write it behind them: -- git status",
            )),
            (false, _) => {
                file.program.push(keys);
                Ok(())
            }
        }
    }
}
