//! The only reader and writer of a run directory; `docs/rundir.md` lists every file.
//!
//! Every file is written beside its place, synced and renamed, so that a file that is there is
//! whole.

mod atomic;
pub mod profile;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::model::{Boot, Comparison, FORMAT, Plan, Profile, Run, Side, Step};

pub use atomic::write_atomically;

/// Why a run directory cannot be used.
#[derive(Debug, Error)]
pub enum RunDirError {
    #[error(
        "{path} exists and is not empty; give --out a new name, or resume with `ktax run {path}`"
    )]
    Exists { path: String },
    #[error(
        "{path} is no run directory (it has no plan.json); make one with `ktax plan --out {path}`"
    )]
    NoPlan { path: String },
    #[error("cannot create {path}: {reason}; give --out another place")]
    Create { path: String, reason: io::Error },
    #[error("{path} is in use by another ktax; wait for it to end, or give --out a new name")]
    InUse { path: String },
    #[error("{path} is not of format {FORMAT}: {reason}; plan again with this version of ktax")]
    Format { path: String, reason: String },
    #[error(
        "{operation} {path}: {reason}; check the permissions and the space left, \
         or give --out another place"
    )]
    Io { operation: &'static str, path: String, reason: io::Error },
}

impl RunDirError {
    fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.display().to_string();
        move |reason| RunDirError::Io { operation, path, reason }
    }
}

type Result<T> = std::result::Result<T, RunDirError>;

/// A run directory with its Plan. [`RunDir::lock`] it before writing.
#[derive(Debug)]
pub struct RunDir {
    root: PathBuf,
    plan: Plan,
}

/// The right to write; held until dropped, and by the operating system let go when the process
/// ends.
#[derive(Debug)]
pub struct Lock {
    _file: fs::File,
}

impl RunDir {
    /// Makes a new run directory with nothing in it but the Plan.
    pub fn create(root: &Path, plan: Plan) -> Result<RunDir> {
        let mut names = root.read_dir().into_iter().flatten().flatten().map(|e| e.file_name());
        let occupied = names.any(|name| !atomic::is_unfinished(&name));
        if occupied {
            return Err(RunDirError::Exists { path: root.display().to_string() });
        }
        let path = root.display().to_string();
        fs::create_dir_all(root).map_err(|reason| RunDirError::Create { path, reason })?;
        let dir = RunDir { root: root.to_owned(), plan };
        dir.write_json("plan.json", &dir.plan)?;
        Ok(dir)
    }

    /// Opens an existing run directory, finished or not.
    pub fn open(root: &Path) -> Result<RunDir> {
        let plan = read_json(&root.join("plan.json"))?
            .ok_or_else(|| RunDirError::NoPlan { path: root.display().to_string() })?;
        check(&plan).map_err(|reason| RunDirError::Format {
            path: root.join("plan.json").display().to_string(),
            reason: reason.into(),
        })?;
        Ok(RunDir { root: root.to_owned(), plan })
    }

    /// Takes the right to write, or says that another process has it.
    pub fn lock(&self) -> Result<Lock> {
        let path = self.root.join("lock");
        let file = fs::File::create(&path).map_err(RunDirError::io("cannot create", &path))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| RunDirError::InUse { path: self.root.display().to_string() })?;
        tidy(&self.root)?;
        Ok(Lock { _file: file })
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What was planned.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The directory of one Boot; it exists once [`RunDir::prepare`] has been called.
    pub fn boot_dir(&self, step: &Step) -> PathBuf {
        self.root.join("boots").join(step.name())
    }

    /// Makes the directories of one Boot, with nothing half-written in them.
    pub fn prepare(&self, step: &Step) -> Result<()> {
        for name in ["runs", "orders"] {
            let path = self.boot_dir(step).join(name);
            fs::create_dir_all(&path).map_err(RunDirError::io("cannot create", &path))?;
            tidy(&path)?;
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

    /// Records a Run; the profile first, so that a Run that is there has its profile.
    pub fn write_run(&self, step: &Step, run: &Run, profile: Option<&str>) -> Result<()> {
        if let Some(profile) = profile {
            let name = format!("runs/{}.profile.tsv", run.row);
            self.write_boot_file(step, &name, profile.as_bytes())?;
        }
        self.write_boot_file(step, &format!("runs/{}.json", run.row), &to_json(run))
    }

    /// A Run; `None` if it was not made yet.
    pub fn run(&self, step: &Step, row: &str) -> Result<Option<Run>> {
        read_json(&self.boot_dir(step).join(format!("runs/{row}.json")))
    }

    /// The profile of a Run that has a Sample.
    pub fn profile(&self, step: &Step, row: &str) -> Result<Profile> {
        let path = self.boot_dir(step).join(format!("runs/{row}.profile.tsv"));
        let text = fs::read_to_string(&path).map_err(RunDirError::io("cannot read", &path))?;
        profile::parse(&text).map(|parsed| parsed.profile).map_err(|reason| RunDirError::Format {
            path: path.display().to_string(),
            reason: reason.to_string(),
        })
    }

    /// Records the Comparison.
    pub fn write_comparison(&self, comparison: &Comparison) -> Result<()> {
        self.write_json("comparison.json", comparison)
    }

    /// Writes a report beside the Comparison.
    pub fn write_report(&self, name: &str, text: &str) -> Result<()> {
        write(&self.root.join(name), text.as_bytes())
    }

    /// The Comparison; `None` if the directory was not analysed yet.
    pub fn comparison(&self) -> Result<Option<Comparison>> {
        read_json(&self.root.join("comparison.json"))
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<()> {
        write(&self.root.join(name), &to_json(value))
    }
}

/// A plan may come from anywhere, and its row names and hashes become file names.
fn check(plan: &Plan) -> std::result::Result<(), &'static str> {
    let of_row =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-:=,".contains(&byte);
    let is_row = |row: &str| (1..=100).contains(&row.len()) && row.bytes().all(of_row);
    let is_hash = |text: &str| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let rows = plan.workloads.iter().map(|workload| &workload.row).collect::<BTreeSet<_>>();
    let names = plan.steps.iter().map(Step::name).collect::<BTreeSet<_>>();
    if plan.format != FORMAT {
        Err("another format")
    } else if !Side::BOTH.iter().all(|side| is_hash(&plan.kernels.get(*side).sha256)) {
        Err("a kernel's sha256 is not of 64 hexadecimal digits")
    } else if rows.len() != plan.workloads.len() {
        Err("a row is there twice")
    } else if names.len() != plan.steps.len() {
        Err("a step is there twice")
    } else if !plan.workloads.iter().all(|workload| is_row(&workload.row)) {
        Err("a row's name is not of [a-z0-9:=,-]")
    } else if !plan.steps.iter().all(|step| step.layout < plan.layouts.len()) {
        Err("a step's layout does not exist")
    } else {
        Ok(())
    }
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    write_atomically(path, content).map_err(RunDirError::io("cannot write", path))
}

fn tidy(dir: &Path) -> Result<()> {
    atomic::remove_unfinished(dir).map_err(RunDirError::io("cannot tidy", dir))
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("plain data serialises");
    text.push(b'\n');
    text
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(RunDirError::io("cannot read", path)(error)),
    };
    serde_json::from_slice(&text).map(Some).map_err(|error| RunDirError::Format {
        path: path.display().to_string(),
        reason: printable(&error.to_string()),
    })
}

/// The reason may quote a file that came from anywhere.
fn printable(text: &str) -> String {
    let escape = |c: char| c.escape_default().to_string();
    text.chars()
        .map(|c| if c.is_ascii_graphic() || c == ' ' { c.to_string() } else { escape(c) })
        .collect()
}
