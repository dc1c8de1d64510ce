//! The start of a configuration.

use std::path::Path;

use super::options;
use crate::error::BuildError;
use crate::target::Target;

/// The start of a configuration, before the options.
pub(super) enum Start {
    /// The small base configuration, with this text.
    Base(&'static str),
    /// The default configuration of the architecture.
    Defconfig,
    /// A whole .config.
    Config(String),
}

impl Start {
    /// The start that the user named: `base`, `defconfig`, `running` or a file.
    pub(super) fn of(name: Option<&str>, target: &Target) -> Result<Start, BuildError> {
        match name {
            None | Some("base") => Ok(Start::Base(target.base())),
            Some("defconfig") => Ok(Start::Defconfig),
            Some("running") => running().map(Start::Config),
            Some(path) => options::read(Path::new(path)).map(Start::Config),
        }
    }

    /// How many files a first build compiles: of Linux 6.1 with the small configuration 1003. Other
    /// configurations are too different for a number.
    pub(super) fn usual_files(&self) -> Option<usize> {
        matches!(self, Start::Base(_)).then_some(1003)
    }

    /// A text that stands for it in the key.
    pub(super) fn text(&self) -> &str {
        match self {
            Start::Base(base) => base,
            Start::Defconfig => "defconfig",
            Start::Config(text) => text,
        }
    }
}

/// The config of the running kernel, from the distribution's file in /boot.
fn running() -> Result<String, BuildError> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    options::read(&Path::new("/boot").join(format!("config-{release}")))
}
