//! Reads facts of the machine that change times from files in /proc and /sys.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::bracketed_word;
use ktax_host::text::escape_bytes;
use ktax_model::{Facts, fact};

/// ADDR_NO_RANDOMIZE of personality(2), which `setarch -R` sets.
const NO_RANDOMIZE: u32 = 0x0004_0000;

/// Reads the facts of this machine.
pub fn facts() -> Facts {
    facts_below(Path::new("/"))
}

/// Reads the facts of the machine whose /proc and /sys are below `root`.
pub fn facts_below(root: &Path) -> Facts {
    let machine = MachineFiles { root };
    let proc = |path: &str| machine.read(&format!("proc/{path}"));
    let sys = |path: &str| machine.read(&format!("sys/{path}"));
    let cpu = |path: &str| sys(&format!("devices/system/cpu/{path}"));
    let cpuinfo = proc("cpuinfo").unwrap_or_default();
    let thp = sys("kernel/mm/transparent_hugepage/enabled");
    let affinity = proc("self/status").and_then(|text| values_of(&text, "Cpus_allowed_list"));
    let read = [
        (fact::KERNEL, proc("sys/kernel/osrelease")),
        (fact::BUILD, proc("sys/kernel/version")),
        (fact::BOOT_LINE, proc("cmdline")),
        (fact::CPU, cpu_model(&cpuinfo)),
        (fact::CPUS, cpu("online")),
        (fact::GOVERNOR, machine.governors()),
        (fact::TURBO, turbo(cpu("intel_pstate/no_turbo"), cpu("cpufreq/boost"))),
        (fact::SMT, smt(cpu("smt/active"), cpu("smt/control"))),
        (fact::CLOCK, sys("devices/system/clocksource/clocksource0/current_clocksource")),
        (fact::THP, thp.and_then(|list| bracketed_word(&list).map(str::to_owned))),
        (fact::ASLR, aslr(proc("sys/kernel/randomize_va_space"), proc("self/personality"))),
        (fact::MITIGATIONS, machine.mitigations()),
        (fact::MICROCODE, values_of(&cpuinfo, "microcode")),
        (fact::HYPERVISOR, hypervisor(&cpuinfo)),
        (fact::ISOLATED, cpu("isolated")),
        (fact::NOHZ_FULL, cpu("nohz_full").filter(|list| list.trim() != "(null)")),
        (fact::AFFINITY, affinity),
    ];
    let escaped =
        read.into_iter().filter_map(|(name, text)| Some((name, escape_bytes(text?.as_bytes()))));
    let present = escaped.filter(|(_, value)| !value.is_empty());
    present.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The kernel's files below a root.
struct MachineFiles<'a> {
    root: &'a Path,
}

impl MachineFiles<'_> {
    fn read(&self, path: &str) -> Option<String> {
        let bytes = fs::read(self.root.join(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the names of files in a directory, sorted.
    fn names(&self, directory: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.root.join(directory)).into_iter().flatten().flatten();
        let mut names: Vec<PathBuf> = entries.map(|entry| entry.file_name().into()).collect();
        names.sort();
        names
    }

    /// Returns the distinct frequency governors of all policies.
    fn governors(&self) -> Option<String> {
        const POLICIES: &str = "sys/devices/system/cpu/cpufreq";
        let names = self.names(POLICIES).into_iter();
        let read =
            |name: PathBuf| self.read(&format!("{POLICIES}/{}/scaling_governor", name.to_str()?));
        join_distinct(names.filter_map(read).map(|text| text.trim().to_owned()))
    }

    /// Returns the vulnerabilities of the CPU, each with the kernel's mitigation.
    fn mitigations(&self) -> Option<String> {
        const VULNERABILITIES: &str = "sys/devices/system/cpu/vulnerabilities";
        let status = |name: PathBuf| {
            let name = name.to_str()?;
            let status = self.read(&format!("{VULNERABILITIES}/{name}"))?;
            let status = status.trim();
            (status != "Not affected").then(|| format!("{name}={status}"))
        };
        let parts: Vec<String> =
            self.names(VULNERABILITIES).into_iter().filter_map(status).collect();
        (!parts.is_empty()).then(|| parts.join(fact::PART_SEPARATOR))
    }
}

/// Joins the distinct values, sorted; `None` without values.
fn join_distinct(values: impl Iterator<Item = String>) -> Option<String> {
    let distinct: BTreeSet<String> = values.filter(|value| !value.is_empty()).collect();
    let joined = distinct.into_iter().collect::<Vec<_>>().join(", ");
    (!joined.is_empty()).then_some(joined)
}

/// Returns the distinct values of a field in the text of /proc/cpuinfo or /proc/PID/status, whose
/// lines are `name: value`.
fn values_of(text: &str, name: &str) -> Option<String> {
    let values = text.lines().filter_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim().to_owned())
    });
    join_distinct(values)
}

/// Returns the name of the CPU model. Its field has another name on x86, PowerPC and RISC-V; arm64
/// has only numbers.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let fields = ["model name", "cpu", "uarch"];
    let name = fields.into_iter().find_map(|field| values_of(cpuinfo, field));
    name.or_else(|| {
        let implementer = values_of(cpuinfo, "CPU implementer")?;
        Some(format!("implementer {implementer} part {}", values_of(cpuinfo, "CPU part")?))
    })
}

fn turbo(no_turbo: Option<String>, boost: Option<String>) -> Option<String> {
    let no_turbo = no_turbo.map(|text| format!("no_turbo={}", text.trim()));
    no_turbo.or_else(|| Some(format!("boost={}", boost?.trim())))
}

fn smt(active: Option<String>, control: Option<String>) -> Option<String> {
    match active.as_deref().map(str::trim) {
        Some("1") => Some("on".into()),
        Some("0") => Some("off".into()),
        _ => control,
    }
}

fn aslr(randomize: Option<String>, personality: Option<String>) -> Option<String> {
    let bits = personality.and_then(|text| u32::from_str_radix(text.trim(), 16).ok());
    match bits {
        Some(bits) if bits & NO_RANDOMIZE != 0 => Some("0".into()),
        _ => randomize,
    }
}

fn hypervisor(cpuinfo: &str) -> Option<String> {
    let flags = values_of(cpuinfo, "flags")?;
    let is_guest = flags.split_whitespace().any(|flag| flag.trim_end_matches(',') == "hypervisor");
    Some(if is_guest { "yes" } else { "no" }.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn write_files(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    /// Returns the sorted facts of a machine with these files, each as `name: value`.
    fn facts_of(files: &[(&str, &str)]) -> Vec<String> {
        let root = write_files(files);
        facts_below(root.path()).iter().map(|(name, value)| format!("{name}: {value}")).collect()
    }

    /// A laptop with SMT. The vulnerabilities are as in Documentation/admin-guide/hw-vuln/.
    const X86: [(&str, &str); 22] = [
        ("proc/sys/kernel/osrelease", "6.1.0-28-amd64\n"),
        ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.119-1 (2024-11-22)\n"),
        ("proc/cmdline", "BOOT_IMAGE=/vmlinuz-6.1.0-28-amd64 root=/dev/sda1 ro quiet isolcpus=3\n"),
        (
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: Intel(R) Core(TM) i7-8550U CPU @ 1.80GHz\n\
             microcode\t: 0xf6\nflags\t\t: fpu vme tsc\n\n\
             processor\t: 1\nmodel name\t: Intel(R) Core(TM) i7-8550U CPU @ 1.80GHz\n\
             microcode\t: 0xf4\nflags\t\t: fpu vme tsc\n\n",
        ),
        ("proc/sys/kernel/randomize_va_space", "2\n"),
        ("proc/self/personality", "00000000\n"),
        ("proc/self/status", "Name:\tktax\nCpus_allowed:\t7\nCpus_allowed_list:\t0-2\n"),
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("sys/devices/system/cpu/isolated", "3\n"),
        ("sys/devices/system/cpu/nohz_full", "  (null)\n"),
        ("sys/devices/system/cpu/smt/active", "1\n"),
        ("sys/devices/system/cpu/smt/control", "on\n"),
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave\n"),
        ("sys/devices/system/cpu/cpufreq/policy1/scaling_governor", "performance\n"),
        ("sys/devices/system/cpu/cpufreq/policy2/scaling_governor", "powersave\n"),
        ("sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n"),
        ("sys/devices/system/cpu/vulnerabilities/srbds", "Not affected\n"),
        (
            "sys/devices/system/cpu/vulnerabilities/mds",
            "Mitigation: Clear CPU buffers; SMT vulnerable\n",
        ),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ("sys/kernel/mm/other", "\n"),
    ];

    #[test]
    fn the_facts_of_a_laptop_are_read() {
        let expected = [
            "ASLR: 2",
            "CPU model: Intel(R) Core(TM) i7-8550U CPU @ 1.80GHz",
            "SMT: on",
            "THP: madvise",
            "affinity: 0-2",
            "boot line: BOOT_IMAGE=/vmlinuz-6.1.0-28-amd64 root=/dev/sda1 ro quiet isolcpus=3",
            "clock source: tsc",
            "governor: performance, powersave",
            "hypervisor: no",
            "isolated CPUs: 3",
            "kernel: 6.1.0-28-amd64",
            "kernel build: #1 SMP PREEMPT_DYNAMIC Debian 6.1.119-1 (2024-11-22)",
            "microcode: 0xf4, 0xf6",
            "mitigations: mds=Mitigation: Clear CPU buffers; SMT vulnerable | \
             meltdown=Mitigation: PTI",
            "online CPUs: 0-3",
            "turbo: no_turbo=0",
        ];
        assert_eq!(facts_of(&X86), expected);
    }

    #[test]
    fn the_facts_of_an_arm64_guest_are_read() {
        let files = [
            (
                "proc/cpuinfo",
                "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\n\
                 CPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n",
            ),
            (
                "sys/devices/system/clocksource/clocksource0/current_clocksource",
                "arch_sys_counter\n",
            ),
            ("sys/devices/system/cpu/smt/control", "notimplemented\n"),
            ("sys/devices/system/cpu/cpufreq/boost", "1\n"),
            ("sys/devices/system/cpu/isolated", "\n"),
        ];
        let expected = [
            "CPU model: implementer 0x41 part 0xd0c",
            "SMT: notimplemented",
            "clock source: arch_sys_counter",
            "turbo: boost=1",
        ];
        assert_eq!(facts_of(&files), expected);
        assert_eq!(facts_of(&[]), Vec::<String>::new());
    }

    #[test]
    fn some_facts_have_a_second_source() {
        let aslr = |personality| {
            let value = ("proc/sys/kernel/randomize_va_space", "2\n");
            facts_of(&[value, ("proc/self/personality", personality)])
        };
        assert_eq!(aslr("00040000\n"), ["ASLR: 0"]);
        assert_eq!(aslr("00400000\n"), ["ASLR: 2"]);
        let guest = "flags\t: fpu hypervisor tsc\nflags\t: fpu tsc\n";
        assert_eq!(facts_of(&[("proc/cpuinfo", guest)]), ["hypervisor: yes"]);
        let last = "flags\t: fpu hypervisor\nflags\t: tsc\n";
        assert_eq!(facts_of(&[("proc/cpuinfo", last)]), ["hypervisor: yes"]);
        let siblings_offline = [
            ("sys/devices/system/cpu/smt/active", "0\n"),
            ("sys/devices/system/cpu/smt/control", "on\n"),
        ];
        assert_eq!(facts_of(&siblings_offline), ["SMT: off"]);
        let power = "cpu\t\t: POWER9 (raw), altivec supported\n";
        assert_eq!(
            facts_of(&[("proc/cpuinfo", power)]),
            ["CPU model: POWER9 (raw), altivec supported"]
        );
    }

    #[test]
    fn control_characters_are_escaped() {
        let root = write_files(&[("proc/cmdline", "")]);
        fs::write(root.path().join("proc/cmdline"), b"quiet \x1b[31m\xff\tx\n").unwrap();
        let facts = facts_below(root.path());
        assert_eq!(facts[fact::BOOT_LINE], "quiet \\x1b[31m\\xef\\xbf\\xbd x");
    }

    proptest! {
        // Fewer cases than usual, because each case writes a tree of files.
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_text_becomes_printable_facts(
            text in "\\PC*[\\x00-\\x1f]?\\PC*",
            name in "[a-z ]*",
        ) {
            let files = X86.map(|(path, _)| (path, text.as_str()));
            let root = write_files(&files);
            for value in facts_below(root.path()).values() {
                prop_assert!(!value.is_empty() && value.chars().all(|c| (' '..='~').contains(&c)));
            }
            let _ = (values_of(&text, &name), cpu_model(&text), hypervisor(&text));
        }

        #[test]
        fn words_and_fields_are_found(word in "[a-z][a-z0-9]{0,8}", other in "[a-z]{1,8}") {
            let text = format!("{other} [{word}] never");
            prop_assert_eq!(bracketed_word(&text), Some(word.as_str()));
            let info = format!("microcode\t: {word}\nmicrocode : {word}\nmicrocodes : {other}\n");
            prop_assert_eq!(values_of(&info, "microcode"), Some(word));
        }
    }
}
