//! KVM's own counters, without events.
//!
//! Statistics of each vCPU (KVM_GET_STATS_FD, Documentation/virt/kvm/api.rst 4.131): the number of
//! all exits, of exits for some reasons, other counts, and times of halts alone. They cost nothing,
//! and need no privilege but that over the VMM. Only the VMM can open them (KVM refuses every other
//! process's ioctl), so ktax takes the file descriptors of a VMM that has opened them, as QEMU 8
//! and later do.
//!
//! Tables of PowerPC: the files `timing` (e500, 440) and `timings` (book3s HV) in debugfs, to which
//! the kernel only adds. The difference of two reads is a recording, so ktax clears no file that
//! others read too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use super::{Process, error};
use crate::files;
use crate::table::{Per, add_tables, subtract_tables};
use ktax_model::{Error, ExitCounter, ExitRow, ExitTable, Result, Warning};

/// Largest description that is read, in bytes; no kernel has so much.
const DESCRIPTORS_MAX: usize = 1 << 20;

pub struct Stats {
    title: String,
    vcpus: Vec<VcpuStats>,
}

struct VcpuStats {
    file: File,
    described: Vec<Statistic>,
    before: Values,
}

/// One statistic, as far as ktax uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Statistic {
    name: String,
    is_cumulative: bool,
    is_histogram: bool,
    offset: u64,
    words: usize,
}

/// Values by name; a histogram has the number of its values.
type Values = BTreeMap<String, u64>;

impl Stats {
    pub fn open(process: &Process, title: &str) -> Result<Stats> {
        let directory = format!("/proc/{}/fd", process.pid);
        let mut vcpus = Vec::new();
        for entry in fs::read_dir(directory).map_err(no_statistics)?.flatten() {
            let link = fs::read_link(entry.path()).unwrap_or_default();
            let number = entry.file_name().to_string_lossy().parse::<i32>();
            let is_statistics = link.to_string_lossy().contains("kvm-vcpu-stats");
            if let (true, Ok(number)) = (is_statistics, number) {
                vcpus.push(VcpuStats::open(process, number).map_err(no_statistics)?);
            }
        }
        match vcpus.is_empty() {
            true => Err(no_statistics(io::Error::other("the VMM has no such file open"))),
            false => Ok(Stats { title: title.to_owned(), vcpus }),
        }
    }

    /// Returns the increase since the recording began, all vCPUs together.
    pub fn tables(&self) -> Result<Vec<ExitTable>> {
        let mut sums = Values::new();
        for vcpu in &self.vcpus {
            for (name, value) in vcpu.values().map_err(no_statistics)? {
                let before = vcpu.before.get(&name).copied().unwrap_or(0);
                *sums.entry(name).or_default() += value.saturating_sub(before);
            }
        }
        Ok(vec![statistics_table(&self.title, statistics_rows(&sums))])
    }
}

fn no_statistics(reason: io::Error) -> Error {
    error(
        format!("cannot read KVM's statistics: {reason}"),
        "use a VMM that opens them, such as QEMU 8, and run ktax as the VMM's user",
    )
}

fn statistics_table(title: &str, rows: Vec<ExitRow>) -> ExitTable {
    let (title, source) = (title.to_owned(), "KVM's statistics".to_owned());
    ExitTable { name: title, source, rows, ..ExitTable::default() }
}

impl VcpuStats {
    fn open(process: &Process, number: i32) -> io::Result<VcpuStats> {
        let file = File::from(pidfd_getfd(&process.handle, number, PidfdGetfdFlags::empty())?);
        let described = describe(|offset, bytes| file.read_exact_at(bytes, offset))?;
        let mut this = VcpuStats { file, described, before: Values::new() };
        this.before = this.values()?;
        Ok(this)
    }

    fn values(&self) -> io::Result<Values> {
        let mut values = Values::new();
        for statistic in self
            .described
            .iter()
            .filter(|statistic| statistic.is_cumulative || statistic.is_histogram)
        {
            let mut words = vec![0u8; 8 * statistic.words];
            self.file.read_exact_at(&mut words, statistic.offset)?;
            let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
            let sum = words.chunks_exact(8).map(word).fold(0, u64::saturating_add);
            values.insert(statistic.name.clone(), sum);
        }
        Ok(values)
    }
}

/// Reads the descriptors; `read` reads bytes from an offset on.
fn describe(read: impl Fn(u64, &mut [u8]) -> io::Result<()>) -> io::Result<Vec<Statistic>> {
    const HEADER: usize = 24;
    const FIXED: usize = 16;
    let mut header = [0u8; HEADER];
    read(0, &mut header)?;
    let [_, name_size, number, _, descriptors, data] =
        [0, 1, 2, 3, 4, 5].map(|word| number_at(&header, 4 * word));
    let each = FIXED + name_size as usize;
    let size = each.checked_mul(number as usize).filter(|size| *size <= DESCRIPTORS_MAX);
    let size = size.ok_or_else(|| io::Error::other("KVM describes too many statistics"))?;
    let mut bytes = vec![0u8; size];
    read(u64::from(descriptors), &mut bytes)?;
    let statistic = |bytes: &[u8]| {
        let flags = number_at(bytes, 0);
        let half = |offset: usize| u16::from_ne_bytes([bytes[offset], bytes[offset + 1]]);
        let name = bytes[FIXED..].split(|byte| *byte == 0).next().unwrap_or_default();
        Statistic {
            name: String::from_utf8_lossy(name).into_owned(),
            is_cumulative: flags & 0xf == 0,
            is_histogram: matches!(flags & 0xf, 3 | 4),
            offset: u64::from(data) + u64::from(number_at(bytes, 8)),
            words: usize::from(half(6)),
        }
    };
    Ok(bytes.chunks_exact(each).map(statistic).collect())
}

fn number_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_ne_bytes(bytes[offset..offset + 4].try_into().expect("four bytes"))
}

/// Makes the rows. Halts have times, `halt_wait_ns`, and histograms, `halt_wait_hist`; all else is
/// counts.
fn statistics_rows(values: &Values) -> Vec<ExitRow> {
    let is_time = |name: &str| name.ends_with("_ns") || name.ends_with("_hist");
    let times = values.iter().filter_map(|(name, sum_ns)| {
        let stem = name.strip_suffix("_ns")?;
        let count = values.get(&format!("{stem}_hist"))?;
        Some(statistic_row(stem, *count, Some(*sum_ns)))
    });
    let counts = values.iter().filter(|(name, _)| !is_time(name));
    times.chain(counts.map(|(name, count)| statistic_row(name, *count, None))).collect()
}

fn statistic_row(name: &str, count: u64, sum_ns: Option<u64>) -> ExitRow {
    ExitRow {
        reason: name.to_owned(),
        count,
        sum_ns,
        counter: classify(name),
        ..ExitRow::default()
    }
}

/// Classifies a statistic by its name: `exits` (PowerPC's `sum_exits`) has them all; `io_exits`,
/// arm64's `wfi_exit_stat` and s390's `exit_io_request` are exits for one reason. All else is none.
fn classify(name: &str) -> Option<ExitCounter> {
    let is_exit_counter = || name.split('_').any(|word| matches!(word, "exit" | "exits"));
    match name {
        "exits" | "sum_exits" => Some(ExitCounter::AllExits),
        _ if is_exit_counter() => None,
        _ => Some(ExitCounter::Other),
    }
}

// The tables of PowerPC.

const KVM: &str = "/sys/kernel/debug/kvm";

/// Most bytes that are read of one file; no kernel writes so much.
const FILE_MAX: u64 = 1 << 16;

/// A VM's tables since the recording began.
pub struct ExitTimes {
    root: PathBuf,
    pid: u32,
    title: String,
    before: Tables,
    /// Last read, kept since the files disappear with the VM.
    now: Tables,
    /// Increase of a file until somebody cleared it.
    cleared: Vec<(VcpuId, ExitTable)>,
}

/// Name of the VM, where a process may have several, and number of the vCPU.
type VcpuId = (String, u32);
type Tables = BTreeMap<VcpuId, ExitTable>;

impl ExitTimes {
    pub fn open(process: &Process, title: &str) -> Result<ExitTimes> {
        ExitTimes::below(Path::new(KVM), process.pid, title)
    }

    fn below(root: &Path, pid: u32, title: &str) -> Result<ExitTimes> {
        let mut before = Tables::new();
        for (vcpu, path, text) in read_files(root, pid)? {
            before.insert(vcpu, read_table(&text).map_err(|error| unreadable(&path, error))?);
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
            let Ok(mut now) = read_table(&text) else { continue };
            if let Some(last) = self.now.get(&vcpu) {
                if subtract_tables(last, &now).is_err() {
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
        let increase = self.before.remove(vcpu).map(|before| subtract_tables(&before, last));
        let mut table = increase.and_then(Result::ok).unwrap_or_else(|| last.clone());
        let (vm, number) = vcpu;
        table.warnings.push(Warning::new(
            format!("another process cleared the file of {vm}vcpu {number} during the recording"),
            "record again, since up to 0.1 s is missing",
        ));
        self.cleared.push((vcpu.clone(), table));
    }

    /// Returns the increase since the beginning, up to the last poll.
    pub fn tables(&self, per: Per) -> Result<Vec<ExitTable>> {
        let increase = |(vcpu, now): (&VcpuId, &ExitTable)| {
            let table = match self.before.get(vcpu) {
                Some(before) => {
                    subtract_tables(before, now).map_err(|error| unreadable(&self.root, error))?
                }
                None => now.clone(),
            };
            let cleared = self.cleared.iter().filter(|(other, _)| other == vcpu);
            let tables: Vec<ExitTable> =
                cleared.map(|(_, table)| table.clone()).chain([table]).collect();
            let title = format!("{}vcpu {} of {}", vcpu.0, vcpu.1, self.title);
            Ok(add_tables(title, tables[0].source.clone(), &tables))
        };
        let vcpus = self.now.iter().map(increase).collect::<Result<Vec<_>>>()?;
        let source = vcpus.first().map_or(String::new(), |table| table.source.clone());
        let vm = || add_tables(self.title.clone(), source.clone(), &vcpus);
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

fn read_table(text: &str) -> Result<ExitTable> {
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

/// Returns the numbers by which a kernel may call a VM: that of the thread that made it or its
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
    use proptest::prelude::*;

    fn described(bytes: &[u8]) -> io::Result<Vec<Statistic>> {
        describe(|offset, out| {
            let start = usize::try_from(offset).unwrap();
            let found = bytes.get(start..).and_then(|rest| rest.get(..out.len()));
            out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    #[test]
    fn a_time_and_its_histogram_are_one_row() {
        let values = [("exits", 7), ("halt_wait_hist", 3), ("halt_wait_ns", 900)];
        let rows = statistics_rows(&values.map(|(name, value)| (name.to_owned(), value)).into());
        let rows: Vec<_> = rows.iter().map(|row| (&*row.reason, row.count, row.sum_ns)).collect();
        assert_eq!(rows, [("halt_wait", 3, Some(900)), ("exits", 7, None)]);
    }

    /// KVM's statistics of one second of a guest that only writes to a port.
    #[test]
    fn exits_are_counted_once_whatever_else_kvm_counts() {
        let counted = [
            ("exits", 40_818),
            ("fpu_reload", 40_816),
            ("insn_emulation", 122_440),
            ("io_exits", 40_806),
            ("irq_exits", 12),
        ];
        let rows = statistics_rows(&counted.map(|(name, value)| (name.to_owned(), value)).into());
        let is_reason: Vec<_> = rows.iter().map(|row| (&*row.reason, row.is_reason())).collect();
        assert_eq!(
            is_reason,
            [
                ("exits", false),
                ("fpu_reload", false),
                ("insn_emulation", false),
                ("io_exits", true),
                ("irq_exits", true)
            ]
        );
        assert_eq!(statistics_table("", rows).exits(), 40_818);
        // Of other architectures.
        for (name, expected) in [
            ("sum_exits", Some(ExitCounter::AllExits)),
            ("wfi_exit_stat", None),
            ("exit_io_request", None),
            ("halt_wait", Some(ExitCounter::Other)),
        ] {
            assert_eq!(classify(name), expected, "{name}");
        }
    }

    #[test]
    fn a_descriptor_is_read() {
        let mut bytes = Vec::new();
        [0u32, 8, 1, 0, 24, 48].iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes.extend((2u32 << 4).to_ne_bytes());
        bytes.extend((-9i16).to_ne_bytes());
        bytes.extend(1u16.to_ne_bytes());
        bytes.extend(16u32.to_ne_bytes());
        bytes.extend(0u32.to_ne_bytes());
        bytes.extend(b"wait_ns\0");
        let one = described(&bytes).unwrap().remove(0);
        assert!(one.is_cumulative && !one.is_histogram);
        assert_eq!((one.name.as_str(), one.offset, one.words), ("wait_ns", 64, 1));
        assert!(described(&bytes[..bytes.len() - 1]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_described_or_an_error(
            bytes in prop::collection::vec(prop_oneof![Just(0u8), 0u8..40, any::<u8>()], 0..200),
        ) {
            let _ = described(&bytes);
        }
    }

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
            (table.name.clone(), guest.count, cede.time_ns())
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
