//! The files of Boots: one directory for each Step of a Plan.

use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::dir::RunDir;
use super::error::Result;
use super::files::{FILE_MAX, damaged, make_dir, read_json, remove, tidy, to_json, unread, write};
use super::profile;
use ktax_host::disk::read_own_text;
use ktax_model::{Boot, CountsPlan, Profile, Run, Step};

impl<M> RunDir<M> {
    /// The directory of one Boot; it exists once [`RunDir::prepare`] has been called.
    pub fn boot_dir(&self, step: &Step) -> PathBuf {
        self.root().join("boots").join(step.name())
    }

    /// Makes the directories of one Boot, with nothing half-written in them.
    pub fn prepare(&self, step: &Step) -> Result<()> {
        for name in ["runs", "orders"] {
            make_dir(&self.boot_dir(step).join(name))?;
        }
        tidy(&self.boot_dir(step))
    }

    /// Keeps the order that a Run was given, for the script in `argv`.
    pub fn write_order(&self, step: &Step, row: &str, order: &str) -> Result<()> {
        self.write_boot_file(step, &format!("orders/{row}"), order.as_bytes())
    }

    /// Writes one file of one Boot; `name` is ktax's own, never the guest's.
    pub fn write_boot_file(&self, step: &Step, name: &str, content: &[u8]) -> Result<()> {
        write(&self.boot_dir(step).join(name), content)
    }

    /// Records how a Boot went.
    pub fn write_boot(&self, step: &Step, boot: &Boot) -> Result<()> {
        self.seal()?;
        self.write_boot_file(step, "boot.json", &to_json(boot))
    }

    /// How a Boot went; `None` if it was not made yet.
    pub fn boot(&self, step: &Step) -> Result<Option<Boot>> {
        read_json(&self.boot_dir(step).join("boot.json"))
    }

    /// Keeps what a guest printed that could not be read; `text` is escaped.
    pub fn write_wire(&self, step: &Step, row: &str, text: &str) -> Result<()> {
        self.write_boot_file(step, &format!("runs/{row}.wire.log"), text.as_bytes())
    }

    /// Removes what an earlier try of a Run has left for people.
    pub fn forget_run(&self, step: &Step, row: &str) -> Result<()> {
        let runs = self.boot_dir(step).join("runs");
        for of_run in ["wire.log", "stdout", "stderr"] {
            remove(&runs.join(format!("{row}.{of_run}")))?;
        }
        remove(&runs.join(format!("{row}.serial.log")))
    }

    /// Keeps the console of a Run, or its end, if there was one.
    pub fn write_console(&self, step: &Step, row: &str, console: &[u8]) -> Result<()> {
        if console.is_empty() {
            return Ok(());
        }
        self.write_boot_file(step, &format!("runs/{row}.serial.log"), console)
    }

    /// Keeps what a program printed, unchanged; `output` is `stdout` or `stderr`.
    pub fn write_printed(&self, step: &Step, row: &str, output: &str, text: &[u8]) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.write_boot_file(step, &format!("runs/{row}.{output}"), text)
    }

    /// Records a Run; the profile first, so that a Run that is there has its profile.
    pub fn write_run<S: Serialize>(
        &self,
        step: &Step,
        run: &Run<S>,
        profile: Option<&str>,
    ) -> Result<()> {
        if let Some(profile) = profile {
            let name = format!("runs/{}.profile.tsv", run.row);
            self.write_boot_file(step, &name, profile.as_bytes())?;
        }
        self.write_boot_file(step, &format!("runs/{}.json", run.row), &to_json(run))
    }

    /// A Run; `None` if it was not made yet.
    pub fn run<S: DeserializeOwned>(&self, step: &Step, row: &str) -> Result<Option<Run<S>>> {
        read_json(&self.boot_dir(step).join(format!("runs/{row}.json")))
    }
}

impl RunDir<CountsPlan> {
    /// The text of that profile.
    pub fn profile_text(&self, step: &Step, row: &str) -> Result<String> {
        let path = self.boot_dir(step).join(format!("runs/{row}.profile.tsv"));
        read_own_text(&path, FILE_MAX).map_err(|error| unread(&path, error))
    }

    /// The profile of a Run that has a Sample.
    pub fn profile(&self, step: &Step, row: &str) -> Result<Profile> {
        let path = self.boot_dir(step).join(format!("runs/{row}.profile.tsv"));
        let text = self.profile_text(step, row)?;
        let parsed = profile::parse(&text).map_err(|error| damaged(&path, &error.to_string()))?;
        Ok(parsed.profile)
    }
}
