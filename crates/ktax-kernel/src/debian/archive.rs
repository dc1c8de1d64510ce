//! The interface to the distribution's archive, which tests replace by a fake.

use std::path::Path;

use crate::error::KernelError;
use crate::package::Package;
use ktax_host::text::escape;

/// What the local package lists say about a package.
pub(crate) struct Listed {
    /// Its name and version.
    pub package: Package,
    /// For a meta-package, the kernel package that it depends on, and its version.
    pub leads_to: Option<(String, Option<String>)>,
}

/// The files of a package that ktax keeps.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Contents {
    pub image: Vec<u8>,
    pub config: Option<Vec<u8>>,
}

/// The distribution's archive of packages.
pub(crate) trait Archive {
    /// Looks a package up in the local lists: this version, or the newest. Uses no network.
    fn look_up(&self, name: &str, version: Option<&str>) -> Result<Listed, KernelError>;
    /// Downloads a package into `scratch`, and returns the kernel in it.
    fn fetch(&self, package: &Package, scratch: &Path) -> Result<Contents, KernelError>;
}

/// The error for a package that is not as expected.
pub(super) fn bad_package(package: &Package, problem: &str) -> KernelError {
    KernelError::BadPackage { package: package.clone(), problem: escape(problem) }
}
