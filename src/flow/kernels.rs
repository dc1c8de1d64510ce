//! Kernels, with the user being told what is fetched and built.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::context::OrHost;
use super::error::Error;
use super::session::Session;
use super::stale::StalePlanError;
use crate::kernel::{self, Kernel, KernelError, KernelSpec, KernelTask, Talk, Target};
use crate::model::{Identity, Subject};
use crate::plan::ExperimentMethod;
use crate::text::escape_path;

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
        self.obtain_for(&Target::X86_64, subject)
    }

    /// Gets the Kernel of a Subject for another machine.
    pub fn obtain_for(&self, target: &Target, subject: &Subject) -> Result<Kernel, Error> {
        loop {
            let obtain = |talk: &Talk| kernel::obtain_for(target, subject, &self.cache, talk);
            let kernel = self.talking(obtain)?;
            // Another ktax may have removed it meanwhile.
            if self.holds(&kernel.image)? {
                return Ok(kernel);
            }
        }
    }

    /// Keeps an image in the cache until the session ends. Whether it is there.
    pub(super) fn holds(&self, image: &Path) -> Result<bool, Error> {
        let what = || format!("cannot use {}", escape_path(image));
        let entry = image.parent().unwrap_or(image);
        let is_held = self.holders.hold(entry).context(what(), "make it readable")?;
        Ok(is_held && image.exists())
    }

    /// Checks the names of all kernels, options and patches of an Experiment; downloads nothing.
    pub fn check_names(&self, experiment: &ExperimentMethod) -> Result<(), Error> {
        experiment.built_subjects().into_iter().try_for_each(|subject| {
            self.talking(|talk| kernel::check_names(subject, &self.cache, talk))
        })
    }

    /// Works with the user being told what is going on.
    pub fn talking<T>(
        &self,
        work: impl FnOnce(&Talk) -> Result<T, KernelError>,
    ) -> Result<T, Error> {
        let note = |note: &str| self.observer.note(note);
        let status = |status: &str| self.observer.status(status);
        let task = |task: &KernelTask| self.observer.task(task);
        let is_cancelled = || self.is_cancelled();
        let (note, status, task) = (&note, &status, &task);
        let done = work(&Talk { note, status, task, is_cancelled: &is_cancelled });
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
        // Before it is read: nobody removes it in between.
        if self.holds(&kernel::place(&planned.sha256, &self.cache))? {
            if let Some(cached) = kernel::cached(&planned.sha256, &self.cache) {
                return Ok(cached);
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Budget, clean};
    use crate::flow::Silent;

    #[test]
    fn a_kernel_stays_in_the_cache_until_the_session_ends() {
        let dir = tempfile::tempdir().unwrap();
        let session = Session { cache: dir.path().into(), ..Session::new(&Silent).unwrap() };
        let image = kernel::place(&"ab".repeat(32), &session.cache);
        assert!(!session.holds(&image).unwrap());
        std::fs::create_dir_all(image.parent().unwrap()).unwrap();
        std::fs::write(&image, "image").unwrap();
        assert!(session.holds(&image).unwrap());
        let clean = || clean(&session.cache, Budget::Bytes(0), true).unwrap().unwrap();
        assert!(clean().removed.is_empty() && image.exists());
        session.holders.release();
        assert!(clean().removed.len() == 1 && !image.exists());
    }
}
