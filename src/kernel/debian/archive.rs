//! The boundary to the distribution's archive, so that tests can fake it.

use std::path::Path;

use crate::kernel::error::KernelError;
use crate::kernel::package::Package;
use crate::kernel::text::escape;

/// What the local package lists say of a package.
pub(crate) struct Listed {
    pub package: Package,
    /// The kernel package that a meta-package depends on, and its version.
    pub leads_to: Option<(String, Option<String>)>,
}

/// What a package holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Contents {
    pub image: Vec<u8>,
    pub config: Option<Vec<u8>>,
}

/// The distribution's archive of packages.
pub(crate) trait Archive {
    /// Looks in the local lists, newest version unless one is given; no network.
    fn look_up(&self, name: &str, version: Option<&str>) -> Result<Listed, KernelError>;
    /// Downloads a package into `scratch` and takes the kernel out of it.
    fn fetch(&self, package: &Package, scratch: &Path) -> Result<Contents, KernelError>;
}

/// The error for a package that is not what it should be.
pub(super) fn bad_package(package: &Package, problem: &str) -> KernelError {
    KernelError::BadPackage { package: package.clone(), problem: escape(problem) }
}
