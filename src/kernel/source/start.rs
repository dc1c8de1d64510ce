//! What a configuration begins with.

use std::path::Path;

use super::options;
use crate::kernel::error::BuildError;
use crate::kernel::target::Target;

/// What a configuration begins with.
pub(super) enum Start {
    /// Nothing but the small base configuration, which this is.
    Base(&'static str),
    /// The architecture's own.
    Defconfig,
    /// A whole .config.
    Config(String),
}

impl Start {
    pub fn of(name: Option<&str>, target: &Target) -> Result<Start, BuildError> {
        match name {
            None | Some("base") => Ok(Start::Base(target.base())),
            Some("defconfig") => Ok(Start::Defconfig),
            Some("running") => running().map(Start::Config),
            Some(path) => options::read(Path::new(path)).map(Start::Config),
        }
    }

    pub fn text(&self) -> &str {
        match self {
            Start::Base(base) => base,
            Start::Defconfig => "defconfig",
            Start::Config(text) => text,
        }
    }
}

/// The running kernel's, where the distribution keeps it.
fn running() -> Result<String, BuildError> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    options::read(&Path::new("/boot").join(format!("config-{release}")))
}
