use std::path::{Path, PathBuf};

/// Where the account goes.
#[derive(Debug, clap::Args)]
pub struct AccountArgs {
    /// Write the account to FILE instead of stderr; `-` is stdout, only for `raw`
    #[arg(long, value_name = "FILE")]
    pub account: Option<PathBuf>,
}

impl AccountArgs {
    /// Whether it goes where the guest prints.
    pub fn is_stdout(&self) -> bool {
        self.account.as_deref() == Some(Path::new("-"))
    }
}
