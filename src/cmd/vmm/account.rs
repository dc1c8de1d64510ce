use std::path::{Path, PathBuf};

/// Where the account goes.
#[derive(Debug, clap::Args)]
pub struct AccountArgs {
    /// Write the account there instead of to stderr; `-` is stdout, where `raw` prints nothing else
    #[arg(long, value_name = "FILE")]
    pub account: Option<PathBuf>,
}

impl AccountArgs {
    /// Whether it goes where the guest prints.
    pub fn is_stdout(&self) -> bool {
        self.account.as_deref() == Some(Path::new("-"))
    }
}
