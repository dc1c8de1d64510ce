//! KVM's own tables of a running VM: the files `timing` (e500, 440) and `timings` (book3s HV) in
//! debugfs, to which the kernel only adds. The difference of two reads is a recording, so that ktax
//! clears no file that others read too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::error;
use super::process::Process;
use crate::files;
use crate::table::{Per, since, together};
use ktax_model::{Error, ExitRow, ExitTable, Result, Warning};

const KVM: &str = "/sys/kernel/debug/kvm";

/// The most that is read of one file, in bytes; no kernel writes so much.
const FILE_MAX: u64 = 1 << 16;

/// A VM's tables since the recording began.
pub struct ExitTimes {
    root: PathBuf,
    pid: u32,
    title: String,
    before: Tables,
    /// The last read, kept since the files disappear with the VM.
    now: Tables,
    /// The increase of a file until somebody cleared it.
    cleared: Vec<(VcpuId, ExitTable)>,
}

/// A vCPU: the name of its VM, where a process may have several, and its number.
type VcpuId = (String, u32);
type Tables = BTreeMap<VcpuId, ExitTable>;

impl ExitTimes {
    pub fn open(process: &Process, title: &str) -> Result<ExitTimes> {
        ExitTimes::below(Path::new(KVM), process.pid, title)
    }

    fn below(root: &Path, pid: u32, title: &str) -> Result<ExitTimes> {
        let mut before = Tables::new();
        for (vcpu, path, text) in read_files(root, pid)? {
            before.insert(vcpu, table(&text).map_err(|error| unreadable(&path, error))?);
        }
        if before.is_empty() {
            let none = format!("process {pid} has no such file");
            return Err(unreadable(root, none));
        }
        let (root, title, now, cleared) =
            (root.to_owned(), title.to_owned(), before.clone(), vec![]);
        Ok(ExitTimes { root, pid, title, before, now, cleared })
    }

    /// Reads the files again. A vCPU that has gone, or a row that cannot be read, keeps its values.
    pub fn poll(&mut self) -> Result<()> {
        for (vcpu, _, text) in read_files(&self.root, self.pid)? {
            let Ok(mut now) = table(&text) else { continue };
            if let Some(last) = self.now.get(&vcpu) {
                if since(last, &now).is_err() {
                    self.keep_cleared(&vcpu);
                } else {
                    let is_gone = |row: &&ExitRow| now.row(&row.reason).is_none();
                    let gone: Vec<ExitRow> = last.rows.iter().filter(is_gone).cloned().collect();
                    now.rows.extend(gone);
                }
            }
            self.now.insert(vcpu, now);
        }
        Ok(())
    }

    /// Keeps the increase of a file that somebody cleared, and counts from 0 again.
    fn keep_cleared(&mut self, vcpu: &VcpuId) {
        let last = &self.now[vcpu];
        let increase = self.before.remove(vcpu).map(|before| since(&before, last));
        let mut table = increase.and_then(Result::ok).unwrap_or_else(|| last.clone());
        table.warnings.push(Warning {
            fact: format!(
                "another process cleared the file of {}vcpu {} during the recording",
                vcpu.0, vcpu.1
            ),
            next_step: "record again, since up to 0.1 s is missing".into(),
        });
        self.cleared.push((vcpu.clone(), table));
    }

    /// Returns the increase since the beginning, up to the last poll.
    pub fn tables(&self, per: Per) -> Result<Vec<ExitTable>> {
        let increase = |(vcpu, now): (&VcpuId, &ExitTable)| {
            let table = match self.before.get(vcpu) {
                Some(before) => {
                    since(before, now).map_err(|error| unreadable(&self.root, error))?
                }
                None => now.clone(),
            };
            let cleared = self.cleared.iter().filter(|(other, _)| other == vcpu);
            let all: Vec<ExitTable> =
                cleared.map(|(_, table)| table.clone()).chain([table]).collect();
            let title = format!("{}vcpu {} of {}", vcpu.0, vcpu.1, self.title);
            Ok(together(title, all[0].source.clone(), &all))
        };
        let vcpus = self.now.iter().map(increase).collect::<Result<Vec<_>>>()?;
        let source = vcpus.first().map_or(String::new(), |table| table.source.clone());
        let vm = || together(self.title.clone(), source.clone(), &vcpus);
        Ok(per.choose(vm, || vcpus.clone()))
    }
}

fn unreadable(path: &Path, why: impl Display) -> Error {
    error(
        format!(
            "cannot read KVM's timing files: {}: {why}. Only PowerPC has them, on a kernel that is \
             not locked down and has CONFIG_KVM_EXIT_TIMING, CONFIG_KVM_BOOK3S_HV_P8_TIMING or \
             CONFIG_KVM_BOOK3S_HV_P9_TIMING",
            path.display()
        ),
        "type `sudo mount -t debugfs nodev /sys/kernel/debug`, and run ktax as root",
    )
}

fn table(text: &str) -> Result<ExitTable> {
    // One table, since the kernel writes one.
    Ok(files::read(text, Per::Vm)?.swap_remove(0))
}

/// Reads the files of a process's vCPUs, at the places of all kernels. A vCPU may end meanwhile.
fn read_files(root: &Path, pid: u32) -> Result<Vec<(VcpuId, PathBuf, String)>> {
    let mut texts = Vec::new();
    for (vcpu, path) in find_files(root, &threads(pid)).map_err(|error| unreadable(root, error))? {
        let mut text = String::new();
        let read = File::open(&path).and_then(|file| file.take(FILE_MAX).read_to_string(&mut text));
        match read {
            Ok(_) => texts.push((vcpu, path, text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(libc::EIO) => {}
            Err(error) => return Err(unreadable(&path, error)),
        }
    }
    Ok(texts)
}

/// Returns the numbers by which a kernel may call a VM: that of the thread which made it or its
/// vCPU.
fn threads(pid: u32) -> BTreeSet<u32> {
    let tasks = entries(Path::new(&format!("/proc/{pid}/task"))).unwrap_or_default();
    tasks.into_iter().filter_map(|(name, _)| name.parse().ok()).chain([pid]).collect()
}

/// Finds the files: `TID-FD/vcpuN/` since 5.18; before, `vmTID/vcpuN/timings` and
/// `vmTID_vcpuN_timing`.
fn find_files(root: &Path, threads: &BTreeSet<u32>) -> io::Result<Vec<(VcpuId, PathBuf)>> {
    let is_ours = |number: &str| number.parse().is_ok_and(|number| threads.contains(&number));
    let mut found = Vec::new();
    for (name, path) in entries(root)? {
        let old = name.strip_prefix("vm");
        let oldest = old.and_then(|rest| rest.strip_suffix("_timing")?.split_once("_vcpu"));
        let new = name.split_once('-').filter(|(number, _)| is_ours(number));
        if let Some((_, number)) = oldest.filter(|(number, _)| is_ours(number)) {
            found.extend(number.parse().ok().map(|number| ((String::new(), number), path)));
        } else if new.is_some() || old.is_some_and(is_ours) {
            let vm = new.map_or(String::new(), |(_, fd)| format!("VM {fd}, "));
            for (vcpu, path) in entries(&path).unwrap_or_default() {
                let number = vcpu.strip_prefix("vcpu").and_then(|number| number.parse().ok());
                let files = ["timing", "timings"].map(|name| path.join(name));
                let file = files.into_iter().find(|file| file.is_file());
                found.extend(number.zip(file).map(|(number, file)| ((vm.clone(), number), file)));
            }
        }
    }
    Ok(found)
}

fn entries(directory: &Path) -> io::Result<Vec<(String, PathBuf)>> {
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
        let numbers = |table: &ExitTable| {
            let [guest, cede] = ["guest", "cede"].map(|reason| table.row(reason).unwrap());
            (table.of.clone(), guest.count, cede.time_ns())
        };
        tables.iter().map(numbers).collect()
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
            let mut timing = ExitTimes::below(root.path(), 77, "web").unwrap();
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
        let mut timing = ExitTimes::below(root.path(), 77, "web").unwrap();
        put(root.path(), "77-12/vcpu0/timings", LATER);
        put(root.path(), "77-12/vcpu1/timings", FIRST);
        timing.poll().unwrap();
        fs::remove_dir_all(root.path().join("77-12")).unwrap();
        timing.poll().unwrap();
        assert_eq!(counts(&timing.tables(Per::Vm).unwrap()), [("web".into(), 9, 9)]);
    }

    #[test]
    fn the_number_is_that_of_any_thread() {
        let root = tempfile::tempdir().unwrap();
        for place in
            ["79-3/vcpu0/timing", "vm78_vcpu1_timing", "vm79/vcpu2/timings", "80-3/vcpu3/timing"]
        {
            put(root.path(), place, FIRST);
        }
        let found = find_files(root.path(), &BTreeSet::from([77, 78, 79])).unwrap();
        let vcpus: BTreeSet<u32> = found.iter().map(|((_, number), _)| *number).collect();
        assert_eq!(vcpus, BTreeSet::from([0, 1, 2]));
        assert!(threads(std::process::id()).len() > 1, "a test has a thread of its own");
    }

    #[test]
    fn a_file_that_somebody_clears_loses_nothing_that_was_read() {
        let root = tempfile::tempdir().unwrap();
        let put = |text: &str| put(root.path(), "77-12/vcpu0/timings", text);
        put(FIRST);
        let mut timing = ExitTimes::below(root.path(), 77, "web").unwrap();
        for text in [
            LATER,
            "guest: 3 30 10 10\ncede: 0 0 0 0\n",
            "half a tab",
            "guest: stuck\ncede: 1 6 6 6\n",
        ] {
            put(text);
            timing.poll().unwrap();
        }
        // 2 more, and 3 after that; 4 ns and 6. What was stuck has its last value.
        let table = timing.tables(Per::Vm).unwrap().remove(0);
        assert_eq!(counts(std::slice::from_ref(&table)), [("web".into(), 5, 10)]);
        let warns = table
            .warnings
            .iter()
            .any(|warning| warning.fact.contains("cleared the file of VM 12, vcpu 0"));
        assert!(warns, "{:?}", table.warnings);
    }

    #[test]
    fn what_is_not_there_or_no_table_is_said() {
        let root = tempfile::tempdir().unwrap();
        let refusal = || ExitTimes::below(root.path(), 77, "web").err().unwrap().to_string();
        assert!(refusal().contains("process 77 has no such file"), "{}", refusal());
        put(root.path(), "77-12/vcpu0/timings", "guest: 1\n");
        assert!(refusal().contains("77-12/vcpu0/timings: line 1"), "{}", refusal());
        let none = ExitTimes::below(&root.path().join("none"), 77, "web").err().unwrap();
        assert!(none.to_string().contains("No such file"), "{none}");
    }
}
