//! KVM's own statistics of each vCPU (KVM_GET_STATS_FD, Documentation/virt/kvm/api.rst 4.131):
//! how many exits there were, how many for some reasons, other counts, and times of halts alone.
//! They cost nothing, and need no privilege but that over the VMM. Only the VMM can open them (KVM
//! refuses every other process's ioctl), so ktax takes the file descriptors of a VMM that has
//! opened them, as QEMU 8 and later do.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use super::error;
use super::process::Process;
use ktax_model::{Error, ExitCounter, ExitRow, ExitTable, Result};

/// The largest description that is read, in bytes; no kernel has so much.
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

/// Values by name; of a histogram, the number of its values.
type Values = BTreeMap<String, u64>;

impl Stats {
    pub fn open(process: &Process, title: &str) -> Result<Stats> {
        let directory = format!("/proc/{}/fd", process.pid);
        let mut vcpus = Vec::new();
        for entry in fs::read_dir(directory).map_err(unreadable)?.flatten() {
            let link = fs::read_link(entry.path()).unwrap_or_default();
            let number = entry.file_name().to_string_lossy().parse::<i32>();
            let is_statistics = link.to_string_lossy().contains("kvm-vcpu-stats");
            if let (true, Ok(number)) = (is_statistics, number) {
                vcpus.push(VcpuStats::open(process, number).map_err(unreadable)?);
            }
        }
        match vcpus.is_empty() {
            true => Err(unreadable(io::Error::other("the VMM has no such file open"))),
            false => Ok(Stats { title: title.to_owned(), vcpus }),
        }
    }

    /// Returns the increase since the recording began, all vCPUs together.
    pub fn tables(&self) -> Result<Vec<ExitTable>> {
        let mut all = Values::new();
        for vcpu in &self.vcpus {
            for (name, value) in vcpu.values().map_err(unreadable)? {
                let before = vcpu.before.get(&name).copied().unwrap_or(0);
                *all.entry(name).or_default() += value.saturating_sub(before);
            }
        }
        Ok(vec![table(&self.title, rows(&all))])
    }
}

fn unreadable(reason: io::Error) -> Error {
    error(
        format!("cannot read KVM's statistics: {reason}"),
        "use a VMM that opens them, such as QEMU 8, and run ktax as the VMM's user",
    )
}

fn table(title: &str, rows: Vec<ExitRow>) -> ExitTable {
    let (title, source) = (title.to_owned(), "KVM's statistics".to_owned());
    ExitTable { of: title, source, rows, ..ExitTable::default() }
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
        for one in self.described.iter().filter(|one| one.is_cumulative || one.is_histogram) {
            let mut words = vec![0u8; 8 * one.words];
            self.file.read_exact_at(&mut words, one.offset)?;
            let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
            let sum = words.chunks_exact(8).map(word).fold(0, u64::saturating_add);
            values.insert(one.name.clone(), sum);
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
    let one = |bytes: &[u8]| {
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
    Ok(bytes.chunks_exact(each).map(one).collect())
}

fn number_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_ne_bytes(bytes[offset..offset + 4].try_into().expect("four bytes"))
}

/// Makes the rows. Halts have times, `halt_wait_ns`, and histograms, `halt_wait_hist`; all else is
/// counts.
fn rows(values: &Values) -> Vec<ExitRow> {
    let is_time = |name: &str| name.ends_with("_ns") || name.ends_with("_hist");
    let times = values.iter().filter_map(|(name, sum_ns)| {
        let stem = name.strip_suffix("_ns")?;
        let count = values.get(&format!("{stem}_hist"))?;
        Some(row(stem, *count, Some(*sum_ns)))
    });
    let counts = values.iter().filter(|(name, _)| !is_time(name));
    times.chain(counts.map(|(name, count)| row(name, *count, None))).collect()
}

fn row(name: &str, count: u64, sum_ns: Option<u64>) -> ExitRow {
    ExitRow { reason: name.to_owned(), count, sum_ns, counter: counter(name), ..ExitRow::default() }
}

/// Classifies a statistic by its name: `exits` (PowerPC's `sum_exits`) has them all; `io_exits`,
/// arm64's `wfi_exit_stat` and s390's `exit_io_request` are exits for one reason. All else is none.
fn counter(name: &str) -> Option<ExitCounter> {
    let is_exit_counter = || name.split('_').any(|word| matches!(word, "exit" | "exits"));
    match name {
        "exits" | "sum_exits" => Some(ExitCounter::AllExits),
        _ if is_exit_counter() => None,
        _ => Some(ExitCounter::Other),
    }
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
        let rows = rows(&values.map(|(name, value)| (name.to_owned(), value)).into());
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
        let rows = rows(&counted.map(|(name, value)| (name.to_owned(), value)).into());
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
        assert_eq!(table("", rows).exits(), 40_818);
        // Of other architectures.
        for (name, expected) in [
            ("sum_exits", Some(ExitCounter::AllExits)),
            ("wfi_exit_stat", None),
            ("exit_io_request", None),
            ("halt_wait", Some(ExitCounter::Other)),
        ] {
            assert_eq!(counter(name), expected, "{name}");
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
}
