//! Kernels, with the user being told what is fetched and built.

use std::path::PathBuf;
use std::str::FromStr;

use super::error::Error;
use super::session::Session;
use super::stale::StalePlanError;
use crate::kernel::{self, Kernel, KernelError, KernelSpec, Talk, Target};
use crate::model::{Identity, Subject};

/// Why a Kernel cannot be built, if its source or its options are to blame; any other error is no
/// verdict on them.
pub fn why_unbuilt(error: Error) -> Result<String, Error> {
    match &error {
        Error::Kernel(kernel) => kernel.why_unbuilt().ok_or(error),
        _ => Err(error),
    }
}

impl Session<'_> {
    /// Gets the Kernel of a Subject.
    pub fn obtain(&self, subject: &Subject) -> Result<Kernel, Error> {
        self.talking(|talk| kernel::obtain(subject, &self.cache, talk))
    }

    /// Gets the Kernel of a Subject for another machine.
    pub fn obtain_for(&self, target: &Target, subject: &Subject) -> Result<Kernel, Error> {
        self.talking(|talk| kernel::obtain_for(target, subject, &self.cache, talk))
    }

    /// Works with the user being told what is going on.
    pub fn talking<T>(
        &self,
        work: impl FnOnce(&Talk) -> Result<T, KernelError>,
    ) -> Result<T, Error> {
        let note = |note: &str| self.observer.note(note);
        let status = |status: &str| self.observer.status(status);
        let is_cancelled = || self.is_cancelled();
        let done = work(&Talk { note: &note, status: &status, is_cancelled: &is_cancelled });
        self.observer.status("");
        self.unless_cancelled(done)
    }

    /// The image of a planned Kernel: from the cache by its hash, or fetched again.
    pub(super) fn image(&self, planned: &Identity, subject: &Subject) -> Result<PathBuf, Error> {
        self.image_for(&Target::X86_64, planned, subject)
    }

    /// Like [`Session::image`], for another machine.
    pub(super) fn image_for(
        &self,
        target: &Target,
        planned: &Identity,
        subject: &Subject,
    ) -> Result<PathBuf, Error> {
        if let Some(cached) = kernel::cached(&planned.sha256, &self.cache) {
            return Ok(cached);
        }
        // A newer package may have come since; the plan has the version.
        let named = match subject.is_built() || KernelSpec::from_str(&subject.kernel)?.is_source() {
            true => subject.clone(),
            false => Subject::of(&planned.source, ""),
        };
        let kernel = self.obtain_for(target, &named)?;
        if kernel.identity.sha256 != planned.sha256 {
            return Err(StalePlanError::other_kernel(planned).into());
        }
        Ok(kernel.image)
    }
}
