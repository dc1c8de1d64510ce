use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

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
    let machine = Machine { root };
    let proc = |path: &str| machine.read(&format!("proc/{path}"));
    let sys = |path: &str| machine.read(&format!("sys/{path}"));
    let cpu = |path: &str| sys(&format!("devices/system/cpu/{path}"));
    let cpuinfo = proc("cpuinfo").unwrap_or_default();
    let said = [
        (fact::KERNEL, proc("sys/kernel/osrelease")),
        (fact::BUILD, proc("sys/kernel/version")),
        (fact::BOOT_LINE, proc("cmdline")),
        (fact::CPU, model(&cpuinfo)),
        (fact::CPUS, cpu("online")),
        (fact::GOVERNOR, machine.governors()),
        (fact::TURBO, turbo(cpu("intel_pstate/no_turbo"), cpu("cpufreq/boost"))),
        (fact::SMT, smt(cpu("smt/active"), cpu("smt/control"))),
        (fact::CLOCK, sys("devices/system/clocksource/clocksource0/current_clocksource")),
        (fact::THP, sys("kernel/mm/transparent_hugepage/enabled").and_then(|t| chosen(&t))),
        (fact::ASLR, aslr(proc("sys/kernel/randomize_va_space"), proc("self/personality"))),
        (fact::MITIGATIONS, machine.mitigations()),
        (fact::MICROCODE, all(&cpuinfo, "microcode")),
        (fact::HYPERVISOR, hypervisor(&cpuinfo)),
        (fact::ISOLATED, cpu("isolated")),
        (fact::NOHZ_FULL, cpu("nohz_full").filter(|list| list.trim() != "(null)")),
        (fact::AFFINITY, proc("self/status").and_then(|text| all(&text, "Cpus_allowed_list"))),
    ];
    let escaped =
        said.into_iter().filter_map(|(name, text)| Some((name, escape_bytes(text?.as_bytes()))));
    let there = escaped.filter(|(_, value)| !value.is_empty());
    there.map(|(name, value)| (name.to_owned(), value)).collect()
}

struct Machine<'a> {
    root: &'a Path,
}

impl Machine<'_> {
    fn read(&self, path: &str) -> Option<String> {
        let bytes = fs::read(self.root.join(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The names of files in a directory, sorted.
    fn names(&self, directory: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.root.join(directory)).into_iter().flatten().flatten();
        let mut names: Vec<PathBuf> = entries.map(|entry| entry.file_name().into()).collect();
        names.sort();
        names
    }

    fn governors(&self) -> Option<String> {
        const POLICIES: &str = "sys/devices/system/cpu/cpufreq";
        let names = self.names(POLICIES).into_iter();
        let read =
            |name: PathBuf| self.read(&format!("{POLICIES}/{}/scaling_governor", name.to_str()?));
        joined(names.filter_map(read).map(|text| text.trim().to_owned()))
    }

    /// The CPU's vulnerabilities, each with the kernel's mitigation.
    fn mitigations(&self) -> Option<String> {
        const WEAKNESSES: &str = "sys/devices/system/cpu/vulnerabilities";
        let status = |name: PathBuf| {
            let name = name.to_str()?;
            let status = self.read(&format!("{WEAKNESSES}/{name}"))?;
            let status = status.trim();
            (status != "Not affected").then(|| format!("{name}={status}"))
        };
        let parts: Vec<String> = self.names(WEAKNESSES).into_iter().filter_map(status).collect();
        (!parts.is_empty()).then(|| parts.join(fact::PARTS))
    }
}

/// The distinct values, sorted.
fn joined(values: impl Iterator<Item = String>) -> Option<String> {
    let different: BTreeSet<String> = values.filter(|value| !value.is_empty()).collect();
    let joined = different.into_iter().collect::<Vec<_>>().join(", ");
    (!joined.is_empty()).then_some(joined)
}

/// The text after `name` and a colon, of all such lines of /proc/cpuinfo or /proc/PID/status.
fn all(text: &str, name: &str) -> Option<String> {
    let values = text.lines().filter_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim().to_owned())
    });
    joined(values)
}

/// The name of the CPU model. The keyword differs on x86, PowerPC and RISC-V; arm64 has only
/// numbers.
fn model(cpuinfo: &str) -> Option<String> {
    let named = ["model name", "cpu", "uarch"].into_iter().find_map(|name| all(cpuinfo, name));
    named.or_else(|| {
        let implementer = all(cpuinfo, "CPU implementer")?;
        Some(format!("implementer {implementer} part {}", all(cpuinfo, "CPU part")?))
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

/// The word in brackets.
fn chosen(text: &str) -> Option<String> {
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

fn aslr(randomize: Option<String>, personality: Option<String>) -> Option<String> {
    let bits = personality.and_then(|text| u32::from_str_radix(text.trim(), 16).ok());
    match bits {
        Some(bits) if bits & NO_RANDOMIZE != 0 => Some("0".into()),
        _ => randomize,
    }
}

fn hypervisor(cpuinfo: &str) -> Option<String> {
    let flags = all(cpuinfo, "flags")?;
    let is_guest = flags.split_whitespace().any(|flag| flag.trim_end_matches(',') == "hypervisor");
    Some(if is_guest { "yes" } else { "no" }.into())
}

#[cfg(test)]
#[path = "facts_tests.rs"]
mod tests;
