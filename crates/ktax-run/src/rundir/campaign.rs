use std::path::{Path, PathBuf};

use super::files::{
    check_campaign, damaged, exists_error, io_error, read, read_json, read_versioned, to_json,
};
use ktax_host::disk::{is_sha256, write_once};
use ktax_host::text::shell_path;
use ktax_model::{CampaignPlan, CampaignUnit, Error, Identity, Result};

const PLAN: &str = "campaign.json";

/// The directory of a campaign, which machines share or copy.
#[derive(Debug, Clone)]
pub struct CampaignDir {
    root: PathBuf,
    plan: CampaignPlan,
}

impl CampaignDir {
    /// A campaign without a plan on disk; [`CampaignDir::begin`] writes the plan.
    pub fn new(root: &Path, plan: CampaignPlan) -> CampaignDir {
        CampaignDir { root: root.to_owned(), plan }
    }

    /// Writes the plan, which makes the directory a campaign; an error if another process wrote
    /// one.
    pub fn begin(self) -> Result<CampaignDir> {
        let path = self.root.join(PLAN);
        match write_new(&path, &to_json(&self.plan))? {
            true => CampaignDir::open(&self.root),
            false => Err(exists_error(&self.root)),
        }
    }

    /// Opens the directory of a campaign.
    pub fn open(root: &Path) -> Result<CampaignDir> {
        let path = root.join(PLAN);
        let no_campaign = || {
            let out = shell_path(root.display().to_string());
            Error::user(format!("{} has no campaign.json", root.display()))
                .next(format!("`ktax campaign plan FILE --out {out}` makes a campaign there"))
        };
        let (plan, _): (CampaignPlan, _) = read_versioned(&path)?.ok_or_else(no_campaign)?;
        check_campaign(&plan).map_err(|reason| damaged(&path, reason))?;
        Ok(CampaignDir { root: root.to_owned(), plan })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn plan(&self) -> &CampaignPlan {
        &self.plan
    }

    /// Store of the shards' measurements.
    pub fn store(&self) -> PathBuf {
        self.root.join("store")
    }

    /// Directory of the pages that are made from the store.
    pub fn site(&self) -> PathBuf {
        self.root.join("site")
    }

    /// Run directory of a unit. The directory is kept only if the unit failed.
    pub fn unit_dir(&self, unit: &CampaignUnit) -> PathBuf {
        let first = unit.rows.first().copied().unwrap_or_default();
        self.root.join("runs").join(format!("{:03}-{first:03}", unit.subject))
    }

    /// Run directory of a timed experiment.
    pub fn timed_dir(&self, name: &str) -> PathBuf {
        self.root.join("timed").join(name)
    }

    /// Kernel of a Subject; `None` if the Kernel is not built yet.
    pub fn kernel(&self, subject: usize) -> Result<Option<Identity>> {
        match &self.plan.subjects[subject].kernel {
            Some(kernel) => Ok(Some(kernel.clone())),
            None => self.built_kernel(subject),
        }
    }

    fn built_kernel(&self, subject: usize) -> Result<Option<Identity>> {
        let path = self.kernel_path(subject);
        let found: Option<Identity> = read_json(&path)?;
        match &found {
            Some(kernel) if !is_sha256(&kernel.sha256) => Err(damaged(&path, "it has no sha256")),
            _ => Ok(found),
        }
    }

    /// Records the Kernel that was built from a Subject's source. A second writer changes nothing.
    pub fn write_kernel(&self, subject: usize, kernel: &Identity) -> Result<()> {
        write_new(&self.kernel_path(subject), &to_json(kernel)).map(drop)
    }

    /// Path of a Kernel's image, from which other machines read the image.
    pub fn image(&self, sha256: &str) -> PathBuf {
        self.root.join("images").join(sha256)
    }

    /// Copies an image to [`CampaignDir::image`], unless the campaign has the image.
    pub fn write_image(&self, sha256: &str, from: &Path) -> Result<()> {
        let to = self.image(sha256);
        if to.exists() {
            return Ok(());
        }
        match read(from)? {
            Some(image) => write_new(&to, &image).map(drop),
            None => Err(damaged(from, "it was removed")),
        }
    }

    fn kernel_path(&self, subject: usize) -> PathBuf {
        self.root.join("kernels").join(format!("{subject:03}.json"))
    }
}

/// Writes a file that does not exist yet, and returns whether it was written.
fn write_new(path: &Path, bytes: &[u8]) -> Result<bool> {
    let dir = path.parent().unwrap_or(path);
    std::fs::create_dir_all(dir).map_err(io_error("cannot create", dir))?;
    write_once(path, bytes).map_err(io_error("cannot write", path))
}
