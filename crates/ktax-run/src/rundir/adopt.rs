//! A base that was measured for one comparison is the base of another, too.

use std::fs;
use std::path::Path;

use super::dir::{AnyRunDir, RunDir};
use super::error::{Result, RunDirError};
use super::files::{FILE_MAX, unread, write};
use ktax_host::disk::read_own;
use ktax_model::{CountsPlan, GuestsPlan, PlanMethod, Side, Sides, Step};

impl AnyRunDir {
    /// Copies the base's Boots from `other`, where that has the same base over the same rows and
    /// Layouts. A Boot that is here already stays.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn adopt_base(&self, other: &AnyRunDir) -> Result<()> {
        if !has_same_base(&self.plan().method, &other.plan().method) {
            return Ok(());
        }
        match (self, other) {
            (AnyRunDir::Counts(dir), AnyRunDir::Counts(other)) => {
                dir.adopt(other, &dir.plan().method.steps)
            }
            (AnyRunDir::Guests(dir), AnyRunDir::Guests(other)) => {
                dir.adopt(other, &dir.plan().method.steps)
            }
            // Times of one day say nothing of another.
            _ => Ok(()),
        }
    }
}

/// Whether nothing but the change tells one from the other.
fn has_same_base(one: &PlanMethod, other: &PlanMethod) -> bool {
    match (one, other) {
        (PlanMethod::Counts(one), PlanMethod::Counts(other)) => {
            let (subject, kernel) = (one.subjects.change.clone(), one.kernels.change.clone());
            let subjects = Sides { change: subject, ..other.subjects.clone() };
            let kernels = Sides { change: kernel, ..other.kernels.clone() };
            CountsPlan { subjects, kernels, ..other.clone() } == *one
        }
        (PlanMethod::Guests(one), PlanMethod::Guests(other)) => {
            GuestsPlan { change: one.change.clone(), ..other.clone() } == *one
        }
        _ => false,
    }
}

impl<M> RunDir<M> {
    fn adopt(&self, other: &RunDir<M>, steps: &[Step]) -> Result<()> {
        for step in steps.iter().filter(|step| step.side == Side::Base) {
            let is_whole = other.boot(step)?.is_some_and(|boot| boot.failure.is_none());
            if is_whole && self.boot(step)?.is_none() {
                self.prepare(step)?;
                self.seal()?;
                // What says that there was a boot comes last.
                for folder in ["orders", "runs", ""] {
                    let (from, to) = (other.boot_dir(step), self.boot_dir(step));
                    copy_files(&from.join(folder), &to.join(folder))?;
                }
            }
        }
        Ok(())
    }
}

/// The files of a directory, not those below it.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(from).map_err(RunDirError::io("cannot read", from))? {
        let entry = entry.map_err(RunDirError::io("cannot read", from))?;
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            names.push(entry.file_name());
        }
    }
    names.sort_by_key(|name| name == "boot.json");
    for name in names {
        let path = from.join(&name);
        let content = read_own(&path, FILE_MAX).map_err(|error| unread(&path, error))?;
        write(&to.join(&name), &content)?;
    }
    Ok(())
}
