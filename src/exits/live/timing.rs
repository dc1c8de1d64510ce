//! KVM's own tables of a VM that runs: the files `timing` (e500, 440) and `timings` (book3s HV) in
//! debugfs, which the kernel keeps adding to. What came between two reads is a recording, so that
//! nothing is cleared that somebody else looks at.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{LiveError, Process};
use crate::exits::Per;
use crate::exits::cumulative::{since, together};
use crate::exits::files;
use crate::model::ExitTable;

/// Where KVM has its files.
const KVM: &str = "/sys/kernel/debug/kvm";

/// More than any kernel writes into one, in bytes.
const FILE_MAX: u64 = 1 << 16;

/// A VM's tables from now on.
pub struct Timing {
    root: PathBuf,
    pid: u32,
    of: String,
    before: Tables,
    /// The last read: with the VM its files go.
    now: Tables,
}

/// What its VM is called, where a process may have several, and its number.
type Vcpu = (String, u32);
type Tables = BTreeMap<Vcpu, ExitTable>;

impl Timing {
    /// Of a process that has a VM.
    pub fn open(process: &Process, of: &str) -> Result<Timing, LiveError> {
        Timing::below(Path::new(KVM), process.pid, of)
    }

    fn below(root: &Path, pid: u32, of: &str) -> Result<Timing, LiveError> {
        let before = tables(root, pid)?;
        if before.is_empty() {
            let reason = format!("process {pid} has none below {}", root.display());
            return Err(LiveError::Timing { reason });
        }
        let now = before.clone();
        Ok(Timing { root: root.to_owned(), pid, of: of.to_owned(), before, now })
    }

    /// Reads them again. A vCPU that has gone keeps what it had.
    pub fn poll(&mut self) -> Result<(), LiveError> {
        self.now.extend(tables(&self.root, self.pid)?);
        Ok(())
    }

    /// What has come since the beginning, up to the last poll.
    pub fn tables(&self, per: Per) -> Result<Vec<ExitTable>, LiveError> {
        let come = |(vcpu, now): (&Vcpu, &ExitTable)| {
            let table = match self.before.get(vcpu) {
                Some(before) => since(before, now)
                    .map_err(|error| LiveError::Timing { reason: error.to_string() })?,
                None => now.clone(),
            };
            let of = format!("{}vcpu {} of {}", vcpu.0, vcpu.1, self.of);
            Ok(ExitTable { of, ..table })
        };
        let vcpus = self.now.iter().map(come).collect::<Result<Vec<_>, LiveError>>()?;
        let source = vcpus.first().map_or(String::new(), |table| table.source.clone());
        let vm = || together(self.of.clone(), source.clone(), &vcpus);
        Ok(match per {
            Per::Vm => vec![vm()],
            Per::Vcpu => vcpus,
            Per::Both => std::iter::once(vm()).chain(vcpus.iter().cloned()).collect(),
        })
    }
}

/// The tables of a process's vCPUs, at the places of all kernels.
fn tables(root: &Path, pid: u32) -> Result<Tables, LiveError> {
    let mut tables = Tables::new();
    for (vcpu, path) in places(root, pid)? {
        let Ok(file) = File::open(&path) else { continue };
        let mut text = String::new();
        // A vCPU may end meanwhile.
        if file.take(FILE_MAX).read_to_string(&mut text).is_err() {
            continue;
        }
        let failed = |error| LiveError::Timing { reason: format!("{}: {error}", path.display()) };
        let mut found = files::read(&text, Per::Vm).map_err(failed)?;
        tables.insert(vcpu, found.swap_remove(0));
    }
    Ok(tables)
}

/// `PID-FD/vcpuN/` since 5.18; before, `vmPID/vcpuN/timings` and `vmPID_vcpuN_timing`.
fn places(root: &Path, pid: u32) -> Result<Vec<(Vcpu, PathBuf)>, LiveError> {
    let failed = |error: std::io::Error| LiveError::Timing {
        reason: format!("{}: {error}", root.display()),
    };
    let (new, old, oldest) = (format!("{pid}-"), format!("vm{pid}"), format!("vm{pid}_vcpu"));
    let mut places = Vec::new();
    for (name, path) in entries(root).map_err(failed)? {
        let number = name.strip_prefix(&oldest).and_then(|rest| rest.strip_suffix("_timing"));
        if let Some(number) = number.and_then(|number| number.parse().ok()) {
            places.push(((String::new(), number), path));
        } else if name.starts_with(&new) || name == old {
            let vm = name.strip_prefix(&new).map_or(String::new(), |fd| format!("VM {fd}, "));
            for (vcpu, path) in entries(&path).unwrap_or_default() {
                let number = vcpu.strip_prefix("vcpu").and_then(|number| number.parse().ok());
                let files = ["timing", "timings"].map(|name| path.join(name));
                let file = files.into_iter().find(|file| file.is_file());
                places.extend(number.zip(file).map(|(number, file)| ((vm.clone(), number), file)));
            }
        }
    }
    Ok(places)
}

fn entries(directory: &Path) -> std::io::Result<Vec<(String, PathBuf)>> {
    let named = |entry: fs::DirEntry| Some((entry.file_name().into_string().ok()?, entry.path()));
    Ok(fs::read_dir(directory)?.flatten().filter_map(named).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "guest: 7 70 4 20\ncede: 1 5 5 5\n";
    const LATER: &str = "guest: 9 170 4 60\ncede: 3 9 1 5\n";

    fn put(root: &Path, place: &str, text: &str) {
        let path = root.join(place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn counts(tables: &[ExitTable]) -> Vec<(String, u64, u64)> {
        let of = |table: &ExitTable| {
            let [guest, cede] = ["guest", "cede"].map(|reason| table.row(reason).unwrap());
            (table.of.clone(), guest.count, cede.sum_ns)
        };
        tables.iter().map(of).collect()
    }

    #[test]
    fn files_are_found_where_every_kernel_has_them_and_subtracted() {
        for places in [
            ["77-12/vcpu0/timings", "77-12/vcpu1/timings", "778-12/vcpu0/timings"],
            ["vm77/vcpu0/timings", "vm77/vcpu1/timings", "vm778/vcpu0/timings"],
            ["vm77_vcpu0_timing", "vm77_vcpu1_timing", "vm778_vcpu0_timing"],
            ["77-12/vcpu0/timing", "77-12/vcpu1/timing", "78-77/vcpu0/timing"],
        ] {
            let root = tempfile::tempdir().unwrap();
            places.iter().for_each(|place| put(root.path(), place, FIRST));
            let mut timing = Timing::below(root.path(), 77, "web").unwrap();
            places[1..].iter().for_each(|place| put(root.path(), place, LATER));
            timing.poll().unwrap();
            let tables = counts(&timing.tables(Per::Both).unwrap());
            let numbers: Vec<_> = tables.iter().map(|(_, guest, cede)| (*guest, *cede)).collect();
            assert_eq!(numbers, [(2, 4), (0, 0), (2, 4)], "{places:?}");
            assert!(tables[0].0 == "web" && tables[2].0.ends_with("vcpu 1 of web"), "{tables:?}");
        }
    }

    #[test]
    fn vcpus_come_and_go() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "77-12/vcpu0/timings", FIRST);
        let mut timing = Timing::below(root.path(), 77, "web").unwrap();
        put(root.path(), "77-12/vcpu0/timings", LATER);
        put(root.path(), "77-12/vcpu1/timings", FIRST);
        timing.poll().unwrap();
        fs::remove_dir_all(root.path().join("77-12")).unwrap();
        timing.poll().unwrap();
        assert_eq!(counts(&timing.tables(Per::Vm).unwrap()), [("web".into(), 9, 9)]);
    }

    #[test]
    fn what_is_not_there_or_no_table_is_said() {
        let root = tempfile::tempdir().unwrap();
        let said = || Timing::below(root.path(), 77, "web").err().unwrap().to_string();
        assert!(said().contains("process 77 has none below"), "{}", said());
        put(root.path(), "77-12/vcpu0/timings", "guest: 1\n");
        assert!(said().contains("77-12/vcpu0/timings: line 1"), "{}", said());
        let none = Timing::below(&root.path().join("none"), 77, "web").err().unwrap();
        assert!(none.to_string().contains("No such file"), "{none}");
    }
}
