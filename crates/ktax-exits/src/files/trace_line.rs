//! Lines of traces as text: the prefix that each tool writes, and the reason of an exit.

use crate::architecture::{ARCHITECTURES, Architecture, CEDED, CEDED_SUFFIX, scause_name};
use crate::live::Names;
use crate::recording::Reason;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct TraceLine<'a> {
    pub comm: &'a str,
    pub tid: u32,
    pub ns: u64,
    pub event: &'a str,
    pub text: &'a str,
    /// True if the time has more digits than microseconds.
    pub is_fine: bool,
    /// True if perf wrote it: perf names the subsystem.
    pub is_perf: bool,
}

/// Parses a line such as `CPU 0/KVM  1234 [001] 5.000001: kvm:kvm_exit: …`, or
/// `CPU 0/KVM-1234 [001] d..1. 5.000001: …`; `None` for other lines.
pub(super) fn parse_line(text: &str) -> Option<TraceLine<'_>> {
    let (before, time, rest) = split_at_time(text)?;
    let (seconds, fraction) = time.split_once('.')?;
    let digits = fraction.len();
    let fraction: u64 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    let ns = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)?;
    let (comm, tid) = parse_task(before)?;
    let (is_perf, event, text) = parse_event(rest.trim())?;
    Some(TraceLine { comm, tid, ns, event, text: text.trim(), is_fine: digits > 6, is_perf })
}

/// Splits a line into the task, the time and the event. The number of the CPU, `[001]`, and flags
/// are between the first two; some programs leave out the CPU.
fn split_at_time(text: &str) -> Option<(&str, &str, &str)> {
    let cpu = text.match_indices(" [").find(|(start, _)| {
        let number = text[start + 2..].split(']').next().unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    if let Some((start, _)) = cpu {
        let (before, after) = text.split_at(start);
        let (_, after) = after.split_once(']')?;
        let time = after.split_whitespace().take(2).find(|word| word.ends_with(':'))?;
        let (_, rest) = after.split_once(time)?;
        return Some((before, time.trim_end_matches(':'), rest));
    }
    let is_time = |word: &&str| {
        let number = word.strip_suffix(':').and_then(|word| word.split_once('.'));
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        number.is_some_and(|(seconds, fraction)| is_number(seconds) && is_number(fraction))
    };
    let time = text.split_whitespace().find(is_time)?;
    let (before, rest) = text.split_once(time)?;
    Some((before, time.trim_end_matches(':'), rest))
}

/// Parses the event and its text, and true if perf wrote it: `kvm:kvm_exit: …`, and as ftrace
/// prints system calls, `sys_ioctl(fd: d, …)` and `sys_ioctl -> 0x0`.
fn parse_event(rest: &str) -> Option<(bool, &str, &str)> {
    if let Some(text) = rest.strip_prefix("sys_ioctl(") {
        return Some((false, "sys_enter_ioctl", text.trim_end_matches(')')));
    }
    if let Some(text) = rest.strip_prefix("sys_ioctl -> ") {
        return Some((false, "sys_exit_ioctl", text));
    }
    let (event, text) = rest.split_once(": ").or(rest.split_once(':'))?;
    match event.rsplit_once(':') {
        Some((_, event)) => Some((true, event, text)),
        None => Some((false, event, text)),
    }
}

/// Parses `comm-tid`, `comm-tid (pid)`, `comm tid`, `comm pid/tid`.
fn parse_task(text: &str) -> Option<(&str, u32)> {
    let text = text.trim();
    let text = match text.strip_suffix(')') {
        Some(inner) => inner.rsplit_once('(')?.0.trim_end(),
        None => text,
    };
    let before = text.trim_end_matches(|c: char| c.is_ascii_digit());
    let tid = text[before.len()..].parse().ok()?;
    let (name, separator) = before.split_at(before.char_indices().next_back()?.0);
    let comm = match separator {
        "/" => name.trim_end_matches(|c: char| c.is_ascii_digit()),
        _ => name,
    };
    Some((comm.trim(), tid))
}

/// The row of exits whose text has no reason that ktax can read.
pub(super) const UNREADABLE: &str = "unreadable";

const FAILED: &str = "[FAILED TO PARSE]";

/// Format in which the kernel prints a return of KVM_RUN.
const RETURN: &str = include_str!("../kvm_userspace_exit.format");

/// Words with which an x86 kernel begins the text behind a reason.
const AFTER_REASON: [&str; 10] = [
    "rip",
    "info",
    "info1",
    "info2",
    "intr_info",
    "error_code",
    "requests",
    "vcpu",
    "isa",
    "guest_rip",
];

/// Returns the reason of an exit; [`UNREADABLE`] if the text has none.
pub(super) fn exit_reason(text: &str) -> String {
    let known = match text.strip_prefix(FAILED) {
        Some(fields) => raw_reason(fields),
        None if text.split_whitespace().any(|word| word == "reason") => x86(text),
        None => arm64(text)
            .map(str::to_owned)
            .or_else(|| between(text, "SCAUSE:", ",").map(|code| scause_name(code).to_owned()))
            .or_else(|| book3s_hv(text))
            .or_else(|| s390(text))
            .or_else(|| before_counter(text)),
    };
    known.filter(|reason| !reason.is_empty()).unwrap_or_else(|| UNREADABLE.to_owned())
}

/// Returns the architecture on which KVM prints such an exit; `None` if several do.
pub(super) fn architecture(event: &str, text: &str) -> Option<&'static Architecture> {
    let named = |name| Some(Architecture::named(name));
    match event {
        "kvm_guest_enter" | "kvm_guest_exit" => return named("PowerPC book3s HV"),
        "kvm_s390_sie_enter" | "kvm_s390_sie_exit" => return named("s390"),
        "kvm_enter" | "kvm_reenter" => return named("LoongArch and MIPS"),
        "kvm_book3s_reenter" => return named("PowerPC book3s PR"),
        "kvm_exit" => {}
        _ => return None,
    }
    match text {
        text if text.contains("HSR_EC") || text.contains("esr_ec=") => named("arm64"),
        text if text.contains("SCAUSE") || text.contains("scause=") => named("RISC-V"),
        text if text.contains("exit_nr=") || text.starts_with("exit=") => {
            // No other architecture prints SRR1.
            let is_book3s = text.contains("srr1=");
            named(if is_book3s { "PowerPC book3s PR" } else { "PowerPC Book E" })
        }
        text if text.starts_with('[') && !text.starts_with(FAILED) => named("LoongArch and MIPS"),
        text if text.contains("reason ") || text.contains("exit_reason=") => named("x86"),
        _ => None,
    }
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    Some(text.split_once(start)?.1.split_once(end)?.0.trim())
}

/// `… reason NAME rip 0x…`: the words behind `reason` that can be part of a name. AMD's names may
/// have two words, and a failed entry adds its flag.
fn x86(text: &str) -> Option<String> {
    let start = text.strip_prefix("reason ").or_else(|| Some(text.split_once(" reason ")?.1))?;
    let is_after = |word: &&str| AFTER_REASON.contains(word) || word.contains('=');
    let words: Vec<&str> = start.split_whitespace().collect();
    let end = match words.iter().position(is_after) {
        Some(end) => end,
        None if words.get(1) == Some(&"excp") => 2,
        None => words.len().min(1),
    };
    (end > 0).then(|| words[..end].join(" "))
}

/// `TRAP: HSR_EC: 0x0024 (NAME), PC: …`, `IRQ: HSR_EC: …`.
fn arm64(text: &str) -> Option<&str> {
    let (kind, rest) = text.split_once(": HSR_EC")?;
    let class =
        || rest.split_once("PC:")?.0.split_once('(')?.1.split_once(')').map(|(name, _)| name);
    if kind == "TRAP" { class().or(Some(kind)) } else { Some(kind) }
}

/// `VCPU 0: trap=NAME pc=0x… msr=0x…, ceded=1`.
fn book3s_hv(text: &str) -> Option<String> {
    let name = text.split_once("trap=")?.1.split_whitespace().next()?;
    let ceded = field(text, CEDED).is_some_and(|ceded| ceded != 0);
    Some(format!("{name}{}", if ceded { CEDED_SUFFIX } else { "" }))
}

/// `00[mask-address]: exit sie icptcode 28 (Wait state)`; a code without a name is in the
/// parentheses again.
fn s390(text: &str) -> Option<String> {
    let (code, name) = text.split_once("icptcode ")?.1.split_once(" (")?;
    let name = name.split_once(')').map_or(name, |(name, _)| name);
    let code = code.parse().ok()?;
    Some(if name.starts_with("0x") { reason_name("s390", code, 0) } else { name.to_owned() })
}

/// Returns the reason of a record that was printed as numbers: `exit_reason=44 guest_rip=0x…
/// isa=1`.
fn raw_reason(text: &str) -> Option<String> {
    let code = |architecture: &Architecture| {
        Some((architecture.name, field(text, architecture.reason)?, architecture.detail))
    };
    let (name, code, detail) = ARCHITECTURES.iter().find_map(code)?;
    let detail = detail.and_then(|detail| field(text, detail));
    // Intel and AMD have the same numbers for different reasons.
    if name == "x86" && detail.is_none() {
        return Some(format!("{code:#x}"));
    }
    Some(reason_name(name, code, detail.unwrap_or(0) as u32))
}

fn reason_name(architecture: &str, code: u64, detail: u32) -> String {
    let architecture = Architecture::named(architecture);
    Names::new(architecture.print, architecture.reason, architecture.detail)
        .name(Reason { code, detail })
}

/// Parses `name=NUMBER`, decimal or hexadecimal.
pub(super) fn field(text: &str, name: &str) -> Option<u64> {
    let word = |word: &str| {
        let (key, value) = word.trim_end_matches(',').split_once('=')?;
        if key != name {
            return None;
        }
        match value.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => value.parse().ok().or_else(|| value.parse::<i64>().ok().map(|n| n as u64)),
        }
    };
    text.split_whitespace().find_map(word)
}

/// Returns the reason in the text of other architectures, such as `exit=SYSCALL | pc=0x… | …` or
/// `[WAIT]PC: 0x…`, without the guest's position.
fn before_counter(text: &str) -> Option<String> {
    let ends = ["PC:", "PC=", "pc:", "pc=", "|"].iter().filter_map(|end| text.find(end));
    let name = text[..ends.min().unwrap_or(text.len())].trim();
    let name = name.strip_prefix("exit=").unwrap_or(name);
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    // A number behind a word is an address or a count, which is no part of a name.
    let is_name = !name.is_empty() && !name.contains('=') && !name.contains(" 0x");
    is_name.then(|| name.to_owned())
}

/// `reason KVM_EXIT_IO (2)`, `reason restart (-4)`, and of trace-cmd `reason=2 errno=0`.
pub(super) fn return_reason(text: &str) -> String {
    const EINTR: u64 = 4;
    if let Some(code) = text.strip_prefix(FAILED).and_then(|fields| field(fields, "reason")) {
        let error =
            field(text, "errno").map(|errno| errno as u32 as i32).filter(|errno| *errno < 0);
        let code = error.map_or(code, |errno| i64::from(errno) as u64);
        return Names::new(RETURN, "reason", None).name(Reason { code, detail: 0 });
    }
    let name = text.strip_prefix("reason ").unwrap_or(text);
    match name.split_once(" (") {
        Some(("restart", _)) => "signal".to_owned(),
        Some(("error", number)) if number.trim_end_matches(')') == EINTR.to_string() => {
            "signal".to_owned()
        }
        Some((name, _)) => name.to_owned(),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_each_program_are_read() {
        let perf = "  CPU 0/KVM 6965/6971 [001] 38470.760158562: kvm:kvm_exit: reason npf rip 0x1";
        let read = parse_line(perf).unwrap();
        assert_eq!((read.comm, read.tid, read.ns), ("CPU 0/KVM", 6971, 38_470_760_158_562));
        assert_eq!((read.event, read.is_fine, read.is_perf), ("kvm_exit", true, true));
        let ftrace =
            "       CPU 1/KVM-77      [003] d..1.    12.000345: kvm_entry: vcpu 1, rip 0x2";
        let read = parse_line(ftrace).unwrap();
        assert_eq!((read.comm, read.tid, read.ns), ("CPU 1/KVM", 77, 12_000_345_000));
        assert_eq!((read.event, read.is_fine, read.is_perf), ("kvm_entry", false, false));
        let tgid = "   qemu-x-99   (   88) [000] 1.5: sched_wakeup: comm=a pid=3 prio=120";
        assert_eq!(parse_line(tgid).unwrap().comm, "qemu-x");
        assert_eq!(parse_line("kvm\u{fffd}7 [000] 1.5: kvm_entry: vcpu 0").unwrap().tid, 7);
        let without_cpu = parse_line("CPU 0/KVM 6971 760.158562: kvm:kvm_entry: vcpu 0").unwrap();
        assert_eq!((without_cpu.comm, without_cpu.tid), ("CPU 0/KVM", 6971));
        assert_eq!(parse_line("# tracer: nop"), None);
        assert_eq!(parse_line("[  1.5] kernel: hello"), None);
    }

    #[test]
    fn the_reason_is_the_name_behind_the_word_reason() {
        for (text, reason) in [
            ("vcpu 0 reason PF excp rip 0xffff info1 0x0", "PF excp"),
            ("reason EXIT_HLT rip 0xffff info 0 0", "EXIT_HLT"),
            ("vcpu 3 reason DR_ACCESS info1 0x0000000000000216", "DR_ACCESS"),
            ("vcpu 3 reason VMREAD", "VMREAD"),
            ("vcpu 3 reason DB excp", "DB excp"),
            ("vcpu 3 reason MSR_WRITE 0x1b written", "MSR_WRITE"),
            ("reason INVALID_STATE FAILED_VMENTRY rip 0x1", "INVALID_STATE FAILED_VMENTRY"),
            ("reason UNKNOWN (131072) rip 0x1", "UNKNOWN (131072)"),
            ("reason 0x20000 rip 0x1", "0x20000"),
            ("vcpu 0 reason ", "unreadable"),
            ("reason rip 0x1", "unreadable"),
        ] {
            assert_eq!(exit_reason(text), reason, "{text}");
        }
    }

    #[test]
    fn reasons_of_each_architecture_are_found() {
        for (text, reason) in [
            ("TRAP: HSR_EC: 0x0024 (DABT_LOW), PC: 0x1", "DABT_LOW"),
            ("IRQ: HSR_EC: 0x0000 (UNKNOWN), PC: 0x1", "IRQ"),
            ("SEPC:0x1, SCAUSE:0x17, STVAL:0x2", "store guest-page fault"),
            ("SEPC:0x1, SCAUSE:0x1f, STVAL:0x2", "0x1f"),
            ("VCPU 0: trap=SYSCALL pc=0xc0 msr=0x80, ceded=0", "SYSCALL"),
            ("VCPU 0: trap=SYSCALL pc=0xc0 msr=0x80, ceded=1", "SYSCALL, ceded"),
            ("VCPU 0: trap=0xea0 pc=0xc0 msr=0x80, ceded=0", "0xea0"),
            (
                "00[0404c00180000000-000000000010b2a6]: exit sie icptcode 28 (Wait state)",
                "Wait state",
            ),
            (
                "00[0404c00180000000-000000000010b2a6]: exit sie icptcode 0 (0x0)",
                "Host interruption",
            ),
            ("00[0404c00180000000-000000000010b2a6]: exit sie icptcode 64 (0x40)", "0x40"),
            ("exit=SYSCALL | pc=0xc0001 | msr=0x1", "SYSCALL"),
            ("[WAIT]PC: 0x8001", "WAIT"),
            ("[0x16]PC: 0x9000000000223344", "0x16"),
            ("HYPCALL", "HYPCALL"),
            ("pc=0x8001", "unreadable"),
            ("at 0x8001", "unreadable"),
            ("SCAUSE:,", "unreadable"),
            ("", "unreadable"),
        ] {
            assert_eq!(exit_reason(text), reason, "{text}");
        }
        assert_eq!(return_reason("reason restart (-4)"), "signal");
        assert_eq!(return_reason("reason error (4)"), "signal");
        assert_eq!(return_reason("reason KVM_EXIT_IO (2)"), "KVM_EXIT_IO");
    }

    #[test]
    fn a_record_that_nobody_printed_is_decoded() {
        for (fields, reason) in [
            ("exit_reason=44 guest_rip=0xc01185ed isa=1 info1=4272 info2=0", "APIC_ACCESS"),
            ("exit_reason=0x30 guest_rip=0x1 isa=1", "EPT_VIOLATION"),
            ("exit_reason=1024 guest_rip=0x1 isa=2", "npf"),
            ("exit_reason=120 guest_rip=0x1 isa=2", "hlt"),
            ("exit_reason=2147483681 isa=1", "INVALID_STATE +0x80000000"),
            ("exit_reason=48 guest_rip=0x1", "0x30"),
            ("ret=2 esr_ec=36 vcpu_pc=0x1", "DABT_LOW"),
            ("ret=0 esr_ec=0 vcpu_pc=0x1", "IRQ"),
            ("sepc=0x1 scause=23 stval=0x1", "store guest-page fault"),
            ("vcpu_id=0 trap=3072 pc=0x1 msr=0x1 ceded=1", "SYSCALL, ceded"),
            ("id=0 pswmask=0x1 pswaddr=0x2 icptcode=28", "Wait state"),
            ("guest_rip=0x1 isa=1", "unreadable"),
            ("exit_reason=many", "unreadable"),
        ] {
            assert_eq!(exit_reason(&format!("[FAILED TO PARSE] {fields}")), reason, "{fields}");
        }
        assert_eq!(return_reason("[FAILED TO PARSE] reason=6 errno=0"), "KVM_EXIT_MMIO");
        assert_eq!(return_reason("[FAILED TO PARSE] reason=10 errno=-4"), "signal");
    }

    #[test]
    fn an_exit_tells_the_architecture() {
        for (event, text, name) in [
            ("kvm_exit", "vcpu 0 reason HLT rip 0x1", "x86"),
            ("kvm_exit", "[FAILED TO PARSE] exit_reason=44 isa=1", "x86"),
            ("kvm_exit", "TRAP: HSR_EC: 0x0024 (DABT_LOW), PC: 0x1", "arm64"),
            ("kvm_exit", "SEPC:0x1, SCAUSE:0x17, STVAL:0x2", "RISC-V"),
            ("kvm_exit", "[IDLE]PC: 0x8001", "LoongArch and MIPS"),
            ("kvm_exit", "exit=SYSCALL | pc=0x1 | msr=0x1 | srr1=0x2", "PowerPC book3s PR"),
            ("kvm_exit", "exit=DEC | pc=0x1 | msr=0x1", "PowerPC Book E"),
            ("kvm_guest_exit", "", "PowerPC book3s HV"),
            ("kvm_s390_sie_exit", "", "s390"),
        ] {
            assert_eq!(architecture(event, text).map(|one| one.name), Some(name), "{text}");
        }
        assert_eq!(architecture("kvm_exit", "HYPCALL"), None);
    }
}
