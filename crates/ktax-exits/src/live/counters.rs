//! Recorders that read KVM's own counters instead of events.
//!
//! [`StatsRecorder`] reads the statistics of each vCPU (KVM_GET_STATS_FD,
//! Documentation/virt/kvm/api.rst 4.131): the number of all exits, of exits for some reasons, other
//! counts, and times of halts only. Reading them costs the guest nothing and needs no privilege but
//! to trace the VMM. KVM lets only the VMM open the statistics, so ktax duplicates the file
//! descriptors of a VMM that has opened them, as QEMU 8 and later do.
//!
//! [`DebugfsRecorder`] reads PowerPC's tables in debugfs: the files `timing` (e500, 440) and
//! `timings` (book3s HV), whose counts the kernel only increases. A recording is the difference of
//! two reads, so ktax clears no file that other programs read too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use super::{Process, error};
use crate::files;
use crate::table::{TableScope, add_tables, subtract_tables};
use ktax_model::{Error, ExitCounter, ExitRow, ExitTable, Result, Warning};

/// Maximum size of all descriptors of a vCPU's statistics, in bytes; no kernel has so many.
const MAX_DESCRIPTORS_BYTES: usize = 1 << 20;

/// Recorder of KVM's statistics.
pub struct StatsRecorder {
    title: String,
    vcpus: Vec<VcpuStats>,
}

struct VcpuStats {
    file: File,
    statistics: Vec<Statistic>,
    /// Values at the start of the recording.
    initial: Values,
}

/// The parts of `struct kvm_stats_desc` that ktax uses.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Statistic {
    name: String,
    is_cumulative: bool,
    is_histogram: bool,
    /// Offset of the first value in the file.
    offset: u64,
    /// Number of 8-byte values.
    words: usize,
}

/// Values by the name of the statistic; that of a histogram is the sum of its buckets.
type Values = BTreeMap<String, u64>;

impl StatsRecorder {
    /// Duplicates the VMM's descriptors of statistics and reads their initial values.
    pub fn open(process: &Process, title: &str) -> Result<StatsRecorder> {
        let directory = format!("/proc/{}/fd", process.pid);
        let mut vcpus = Vec::new();
        for entry in fs::read_dir(directory).map_err(statistics_error)?.flatten() {
            let link = fs::read_link(entry.path()).unwrap_or_default();
            let number = entry.file_name().to_string_lossy().parse::<i32>();
            let is_statistics = link.to_string_lossy().contains("kvm-vcpu-stats");
            if let (true, Ok(number)) = (is_statistics, number) {
                vcpus.push(VcpuStats::open(process, number).map_err(statistics_error)?);
            }
        }
        match vcpus.is_empty() {
            true => Err(statistics_error(io::Error::other("the VMM has not opened them"))),
            false => Ok(StatsRecorder { title: title.to_owned(), vcpus }),
        }
    }

    /// Returns one table: the increase of all vCPUs' statistics since the recording started.
    pub fn tables(&self) -> Result<Vec<ExitTable>> {
        let mut sums = Values::new();
        for vcpu in &self.vcpus {
            for (name, value) in vcpu.values().map_err(statistics_error)? {
                let initial = vcpu.initial.get(&name).copied().unwrap_or(0);
                *sums.entry(name).or_default() += value.saturating_sub(initial);
            }
        }
        Ok(vec![statistics_table(&self.title, statistics_rows(&sums))])
    }
}

fn statistics_error(reason: io::Error) -> Error {
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
        let statistics = read_descriptors(|offset, bytes| file.read_exact_at(bytes, offset))?;
        let mut vcpu = VcpuStats { file, statistics, initial: Values::new() };
        vcpu.initial = vcpu.values()?;
        Ok(vcpu)
    }

    fn values(&self) -> io::Result<Values> {
        let mut values = Values::new();
        let is_used = |statistic: &&Statistic| statistic.is_cumulative || statistic.is_histogram;
        for statistic in self.statistics.iter().filter(is_used) {
            let mut words = vec![0u8; 8 * statistic.words];
            self.file.read_exact_at(&mut words, statistic.offset)?;
            let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
            let sum = words.chunks_exact(8).map(word).fold(0, u64::saturating_add);
            values.insert(statistic.name.clone(), sum);
        }
        Ok(values)
    }
}

/// Reads the descriptors of a statistics file; `read` fills a buffer from an offset.
fn read_descriptors(read: impl Fn(u64, &mut [u8]) -> io::Result<()>) -> io::Result<Vec<Statistic>> {
    /// Size of `struct kvm_stats_header`.
    const HEADER: usize = 24;
    /// Size of `struct kvm_stats_desc` without the name at its end.
    const FIXED: usize = 16;
    let mut header = [0u8; HEADER];
    read(0, &mut header)?;
    let [_, name_size, count, _, descriptors_offset, data_offset] =
        [0, 1, 2, 3, 4, 5].map(|word| read_u32(&header, 4 * word));
    let descriptor_size = FIXED + name_size as usize;
    let size =
        descriptor_size.checked_mul(count as usize).filter(|size| *size <= MAX_DESCRIPTORS_BYTES);
    let size = size.ok_or_else(|| io::Error::other("KVM describes too many statistics"))?;
    let mut bytes = vec![0u8; size];
    read(u64::from(descriptors_offset), &mut bytes)?;
    let statistic = |bytes: &[u8]| {
        let flags = read_u32(bytes, 0);
        let read_u16 = |offset: usize| u16::from_ne_bytes([bytes[offset], bytes[offset + 1]]);
        let name = bytes[FIXED..].split(|byte| *byte == 0).next().unwrap_or_default();
        Statistic {
            name: String::from_utf8_lossy(name).into_owned(),
            is_cumulative: flags & 0xf == 0,
            is_histogram: matches!(flags & 0xf, 3 | 4),
            offset: u64::from(data_offset) + u64::from(read_u32(bytes, 8)),
            words: usize::from(read_u16(6)),
        }
    };
    Ok(bytes.chunks_exact(descriptor_size).map(statistic).collect())
}

fn read_u32(bytes: &[u8], offset: usize) -> u32 {
    u32::from_ne_bytes(bytes[offset..offset + 4].try_into().expect("four bytes"))
}

/// Makes the rows of a table. A time such as `halt_wait_ns` and the histogram `halt_wait_hist`
/// become one row; other statistics are counts.
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

/// Classifies a statistic by its name. `exits` (PowerPC: `sum_exits`) counts all exits. `io_exits`,
/// arm64's `wfi_exit_stat` and s390's `exit_io_request` count exits for one reason (`None`). Other
/// statistics count no exits.
fn classify(name: &str) -> Option<ExitCounter> {
    let is_exit_counter = || name.split('_').any(|word| matches!(word, "exit" | "exits"));
    match name {
        "exits" | "sum_exits" => Some(ExitCounter::AllExits),
        _ if is_exit_counter() => None,
        _ => Some(ExitCounter::Other),
    }
}

// PowerPC's tables in debugfs.

const KVM_DEBUGFS: &str = "/sys/kernel/debug/kvm";

/// Maximum size of a file, in bytes; no kernel writes so much.
const MAX_FILE_BYTES: u64 = 1 << 16;

/// Recorder of a VM's tables in debugfs.
pub struct DebugfsRecorder {
    root: PathBuf,
    pid: u32,
    title: String,
    /// Tables at the start of the recording.
    initial: Tables,
    /// Tables of the last read, because the files disappear with the VM.
    latest: Tables,
    /// Increases of files up to the moment when another process cleared them.
    cleared: Vec<(VcpuId, ExitTable)>,
}

/// Prefix with the VM's number (empty if the process has only one VM), and the vCPU's number.
type VcpuId = (String, u32);
/// Table of each vCPU.
type Tables = BTreeMap<VcpuId, ExitTable>;

impl DebugfsRecorder {
    pub fn open(process: &Process, title: &str) -> Result<DebugfsRecorder> {
        DebugfsRecorder::open_in(Path::new(KVM_DEBUGFS), process.pid, title)
    }

    fn open_in(root: &Path, pid: u32, title: &str) -> Result<DebugfsRecorder> {
        let mut initial = Tables::new();
        for (vcpu, path, text) in read_files(root, pid)? {
            let table = read_table(&text).map_err(|error| unreadable_files(&path, error))?;
            initial.insert(vcpu, table);
        }
        if initial.is_empty() {
            let reason = format!("process {pid} has no such file");
            return Err(unreadable_files(root, reason));
        }
        let (root, title) = (root.to_owned(), title.to_owned());
        let (latest, cleared) = (initial.clone(), vec![]);
        Ok(DebugfsRecorder { root, pid, title, initial, latest, cleared })
    }

    /// Reads the files again. A vCPU without a file, or a row that the kernel could not read, keeps
    /// its last values.
    pub fn poll(&mut self) -> Result<()> {
        for (vcpu, _, text) in read_files(&self.root, self.pid)? {
            let Ok(mut table) = read_table(&text) else { continue };
            if let Some(last) = self.latest.get(&vcpu) {
                if subtract_tables(last, &table).is_err() {
                    self.store_cleared(&vcpu);
                } else {
                    let is_absent = |row: &&ExitRow| table.row(&row.reason).is_none();
                    let absent: Vec<ExitRow> =
                        last.rows.iter().filter(is_absent).cloned().collect();
                    table.rows.extend(absent);
                }
            }
            self.latest.insert(vcpu, table);
        }
        Ok(())
    }

    /// Stores the increase of a file that another process cleared, and counts from 0 again.
    fn store_cleared(&mut self, vcpu: &VcpuId) {
        let last = &self.latest[vcpu];
        let increase = self.initial.remove(vcpu).map(|initial| subtract_tables(&initial, last));
        let mut table = increase.and_then(Result::ok).unwrap_or_else(|| last.clone());
        let (vm, number) = vcpu;
        table.warnings.push(Warning::new(
            format!("another process cleared the file of {vm}vcpu {number} during the recording"),
            "record again, since up to 0.1 s is missing",
        ));
        self.cleared.push((vcpu.clone(), table));
    }

    /// Returns the increase from the start of the recording to the last poll.
    pub fn tables(&self, scope: TableScope) -> Result<Vec<ExitTable>> {
        let increase = |(vcpu, latest): (&VcpuId, &ExitTable)| {
            let table = match self.initial.get(vcpu) {
                Some(initial) => subtract_tables(initial, latest)
                    .map_err(|error| unreadable_files(&self.root, error))?,
                None => latest.clone(),
            };
            let cleared = self.cleared.iter().filter(|(other, _)| other == vcpu);
            let tables: Vec<ExitTable> =
                cleared.map(|(_, table)| table.clone()).chain([table]).collect();
            let title = format!("{}vcpu {} of {}", vcpu.0, vcpu.1, self.title);
            Ok(add_tables(title, tables[0].source.clone(), &tables))
        };
        let vcpus = self.latest.iter().map(increase).collect::<Result<Vec<_>>>()?;
        let source = vcpus.first().map_or(String::new(), |table| table.source.clone());
        let vm = || add_tables(self.title.clone(), source.clone(), &vcpus);
        Ok(scope.choose(vm, || vcpus.clone()))
    }
}

fn unreadable_files(path: &Path, reason: impl Display) -> Error {
    error(
        format!(
            "cannot read KVM's timing files: {}: {reason}. Only PowerPC has them, on a kernel that \
             is not locked down and has CONFIG_KVM_EXIT_TIMING, CONFIG_KVM_BOOK3S_HV_P8_TIMING or \
             CONFIG_KVM_BOOK3S_HV_P9_TIMING",
            path.display()
        ),
        "type `sudo mount -t debugfs nodev /sys/kernel/debug`, and run ktax as root",
    )
}

fn read_table(text: &str) -> Result<ExitTable> {
    // The kernel writes one table to a file.
    Ok(files::read(text, TableScope::Vm)?.swap_remove(0))
}

/// Reads the files of a process's vCPUs. A vCPU that ends meanwhile is left out.
fn read_files(root: &Path, pid: u32) -> Result<Vec<(VcpuId, PathBuf, String)>> {
    let mut texts = Vec::new();
    for (vcpu, path) in
        find_files(root, &thread_ids(pid)).map_err(|error| unreadable_files(root, error))?
    {
        let mut text = String::new();
        let read =
            File::open(&path).and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text));
        match read {
            Ok(_) => texts.push((vcpu, path, text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(libc::EIO) => {}
            Err(error) => return Err(unreadable_files(&path, error)),
        }
    }
    Ok(texts)
}

/// Returns the thread ids of a process. Kernels name a VM's files by the thread that made the VM or
/// the vCPU.
fn thread_ids(pid: u32) -> BTreeSet<u32> {
    let tasks = entries(Path::new(&format!("/proc/{pid}/task"))).unwrap_or_default();
    tasks.into_iter().filter_map(|(name, _)| name.parse().ok()).chain([pid]).collect()
}

/// Finds the files of all kernels: `TID-FD/vcpuN/timing` or `timings` since Linux 5.18, and before
/// `vmTID/vcpuN/timings` and `vmTID_vcpuN_timing`.
fn find_files(root: &Path, threads: &BTreeSet<u32>) -> io::Result<Vec<(VcpuId, PathBuf)>> {
    let is_ours = |tid: &str| tid.parse().is_ok_and(|tid| threads.contains(&tid));
    let mut found = Vec::new();
    for (name, path) in entries(root)? {
        let vm_tid = name.strip_prefix("vm");
        let vm_vcpu = vm_tid.and_then(|rest| rest.strip_suffix("_timing")?.split_once("_vcpu"));
        let tid_fd = name.split_once('-').filter(|(tid, _)| is_ours(tid));
        if let Some((_, number)) = vm_vcpu.filter(|(tid, _)| is_ours(tid)) {
            found.extend(number.parse().ok().map(|number| ((String::new(), number), path)));
        } else if tid_fd.is_some() || vm_tid.is_some_and(is_ours) {
            let vm = tid_fd.map_or(String::new(), |(_, fd)| format!("VM {fd}, "));
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

/// Returns the names and paths of a directory's entries, without names that are not UTF-8.
fn entries(directory: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let named = |entry: fs::DirEntry| Some((entry.file_name().into_string().ok()?, entry.path()));
    Ok(fs::read_dir(directory)?.flatten().filter_map(named).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn descriptors(bytes: &[u8]) -> io::Result<Vec<Statistic>> {
        read_descriptors(|offset, out| {
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
    fn other_statistics_are_not_counted_as_exits() {
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
        // Statistics of other architectures.
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
        let statistic = descriptors(&bytes).unwrap().remove(0);
        assert!(statistic.is_cumulative && !statistic.is_histogram);
        let Statistic { name, offset, words, .. } = statistic;
        assert_eq!((name.as_str(), offset, words), ("wait_ns", 64, 1));
        assert!(descriptors(&bytes[..bytes.len() - 1]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_descriptors_or_an_error(
            bytes in prop::collection::vec(prop_oneof![Just(0u8), 0u8..40, any::<u8>()], 0..200),
        ) {
            let _ = descriptors(&bytes);
        }
    }

    const FIRST: &str = "guest: 7 70 4 20\ncede: 1 5 5 5\n";
    const LATER: &str = "guest: 9 170 4 60\ncede: 3 9 1 5\n";

    fn put(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
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
    fn files_of_every_kernel_are_found_and_subtracted() {
        for names in [
            ["77-12/vcpu0/timings", "77-12/vcpu1/timings", "778-12/vcpu0/timings"],
            ["vm77/vcpu0/timings", "vm77/vcpu1/timings", "vm778/vcpu0/timings"],
            ["vm77_vcpu0_timing", "vm77_vcpu1_timing", "vm778_vcpu0_timing"],
            ["77-12/vcpu0/timing", "77-12/vcpu1/timing", "78-77/vcpu0/timing"],
        ] {
            let root = tempfile::tempdir().unwrap();
            names.iter().for_each(|name| put(root.path(), name, FIRST));
            let mut recorder = DebugfsRecorder::open_in(root.path(), 77, "web").unwrap();
            names[1..].iter().for_each(|name| put(root.path(), name, LATER));
            recorder.poll().unwrap();
            let tables = counts(&recorder.tables(TableScope::Both).unwrap());
            let numbers: Vec<_> = tables.iter().map(|(_, guest, cede)| (*guest, *cede)).collect();
            assert_eq!(numbers, [(2, 4), (0, 0), (2, 4)], "{names:?}");
            assert!(tables[0].0 == "web" && tables[2].0.ends_with("vcpu 1 of web"), "{tables:?}");
        }
    }

    #[test]
    fn vcpus_that_start_or_end_during_the_recording_are_counted() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "77-12/vcpu0/timings", FIRST);
        let mut recorder = DebugfsRecorder::open_in(root.path(), 77, "web").unwrap();
        put(root.path(), "77-12/vcpu0/timings", LATER);
        put(root.path(), "77-12/vcpu1/timings", FIRST);
        recorder.poll().unwrap();
        fs::remove_dir_all(root.path().join("77-12")).unwrap();
        recorder.poll().unwrap();
        assert_eq!(counts(&recorder.tables(TableScope::Vm).unwrap()), [("web".into(), 9, 9)]);
    }

    #[test]
    fn files_named_by_any_thread_of_the_process_are_found() {
        let root = tempfile::tempdir().unwrap();
        for name in
            ["79-3/vcpu0/timing", "vm78_vcpu1_timing", "vm79/vcpu2/timings", "80-3/vcpu3/timing"]
        {
            put(root.path(), name, FIRST);
        }
        let found = find_files(root.path(), &BTreeSet::from([77, 78, 79])).unwrap();
        let vcpus: BTreeSet<u32> = found.iter().map(|((_, number), _)| *number).collect();
        assert_eq!(vcpus, BTreeSet::from([0, 1, 2]));
        assert!(thread_ids(std::process::id()).len() > 1, "a test has a thread of its own");
    }

    #[test]
    fn a_file_that_is_cleared_keeps_what_was_read() {
        let root = tempfile::tempdir().unwrap();
        let put = |text: &str| put(root.path(), "77-12/vcpu0/timings", text);
        put(FIRST);
        let mut recorder = DebugfsRecorder::open_in(root.path(), 77, "web").unwrap();
        for text in [
            LATER,
            "guest: 3 30 10 10\ncede: 0 0 0 0\n",
            "half a tab",
            "guest: stuck\ncede: 1 6 6 6\n",
        ] {
            put(text);
            recorder.poll().unwrap();
        }
        // The guest count rose by 2 and, after the clearing, by 3; cede by 4 and 6 ns. The stuck
        // row keeps its last value.
        let table = recorder.tables(TableScope::Vm).unwrap().remove(0);
        assert_eq!(counts(std::slice::from_ref(&table)), [("web".into(), 5, 10)]);
        let warns = table
            .warnings
            .iter()
            .any(|warning| warning.fact.contains("cleared the file of VM 12, vcpu 0"));
        assert!(warns, "{:?}", table.warnings);
    }

    #[test]
    fn a_missing_or_damaged_file_is_an_error_with_its_path() {
        let root = tempfile::tempdir().unwrap();
        let refusal =
            || DebugfsRecorder::open_in(root.path(), 77, "web").err().unwrap().to_string();
        assert!(refusal().contains("process 77 has no such file"), "{}", refusal());
        put(root.path(), "77-12/vcpu0/timings", "guest: 1\n");
        assert!(refusal().contains("77-12/vcpu0/timings: line 1"), "{}", refusal());
        let missing = DebugfsRecorder::open_in(&root.path().join("none"), 77, "web").err().unwrap();
        assert!(missing.to_string().contains("No such file"), "{missing}");
    }
}
