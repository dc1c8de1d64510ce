//! One line of a trace: `perf script`, `trace-cmd report`, and the kernel's own `trace` file.

/// One event's line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub comm: &'a str,
    pub tid: u32,
    pub ns: u64,
    /// Without its subsystem.
    pub event: &'a str,
    pub text: &'a str,
    /// Whether its time says more than microseconds.
    pub is_fine: bool,
    /// Whether perf wrote it: perf names the subsystem.
    pub is_perf: bool,
}

/// Parses a line such as `CPU 0/KVM  1234 [001] 5.000001: kvm:kvm_exit: …`, or
/// `CPU 0/KVM-1234 [001] d..1. 5.000001: …`; `None` for other lines.
pub(super) fn line(text: &str) -> Option<Line<'_>> {
    let (before, time, rest) = split_at_time(text)?;
    let (seconds, fraction) = time.split_once('.')?;
    let digits = fraction.len();
    let fraction: u64 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    let ns = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)?;
    let (comm, tid) = task(before)?;
    let (is_perf, event, text) = event(rest.trim())?;
    Some(Line { comm, tid, ns, event, text: text.trim(), is_fine: digits > 6, is_perf })
}

/// The task, the time and the event. The number of the CPU, `[001]`, and flags are between the
/// first two; some programs leave out the CPU.
fn split_at_time(text: &str) -> Option<(&str, &str, &str)> {
    let cpu = text.match_indices(" [").find(|(at, _)| {
        let number = text[at + 2..].split(']').next().unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    if let Some((at, _)) = cpu {
        let (before, after) = text.split_at(at);
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

/// Whether perf wrote it, the event and its text: `kvm:kvm_exit: …`, and as ftrace prints system
/// calls, `sys_ioctl(fd: d, …)` and `sys_ioctl -> 0x0`.
fn event(rest: &str) -> Option<(bool, &str, &str)> {
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

/// `comm-tid`, `comm-tid (pid)`, `comm tid`, `comm pid/tid`.
fn task(text: &str) -> Option<(&str, u32)> {
    let text = text.trim();
    let text = match text.strip_suffix(')') {
        Some(inner) => inner.rsplit_once('(')?.0.trim_end(),
        None => text,
    };
    let before = text.trim_end_matches(|c: char| c.is_ascii_digit());
    let tid = text[before.len()..].parse().ok()?;
    // What stands between the name and the number.
    let (name, separator) = before.split_at(before.char_indices().next_back()?.0);
    let comm = match separator {
        "/" => name.trim_end_matches(|c: char| c.is_ascii_digit()),
        _ => name,
    };
    Some((comm.trim(), tid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_each_program_are_read() {
        let perf = "  CPU 0/KVM 6965/6971 [001] 38470.760158562: kvm:kvm_exit: reason npf rip 0x1";
        let read = line(perf).unwrap();
        assert_eq!((read.comm, read.tid, read.ns), ("CPU 0/KVM", 6971, 38_470_760_158_562));
        assert_eq!((read.event, read.is_fine, read.is_perf), ("kvm_exit", true, true));
        let ftrace =
            "       CPU 1/KVM-77      [003] d..1.    12.000345: kvm_entry: vcpu 1, rip 0x2";
        let read = line(ftrace).unwrap();
        assert_eq!((read.comm, read.tid, read.ns), ("CPU 1/KVM", 77, 12_000_345_000));
        assert_eq!((read.event, read.is_fine, read.is_perf), ("kvm_entry", false, false));
        let tgid = "   qemu-x-99   (   88) [000] 1.5: sched_wakeup: comm=a pid=3 prio=120";
        assert_eq!(line(tgid).unwrap().comm, "qemu-x");
        assert_eq!(line("kvm\u{fffd}7 [000] 1.5: kvm_entry: vcpu 0").unwrap().tid, 7);
        let without_cpu = line("CPU 0/KVM 6971 760.158562: kvm:kvm_entry: vcpu 0").unwrap();
        assert_eq!((without_cpu.comm, without_cpu.tid), ("CPU 0/KVM", 6971));
        assert_eq!(line("# tracer: nop"), None);
        assert_eq!(line("[  1.5] kernel: hello"), None);
    }
}
