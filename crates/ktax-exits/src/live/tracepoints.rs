//! Tracepoints of this kernel: their records' fields in tracefs, and the kernel's names for exit
//! reasons.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::process::geteuid;

use super::error;
use crate::architecture::{ARCHITECTURES, Architecture, CEDED, CEDED_SUFFIX, KVM_RUN, SCAUSE};
use crate::recording::Reason;
use ktax_model::{Error, Result};

/// Events between which a recording measures time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventLevel {
    /// The guest's exits and entries, with the processor's reasons.
    Exits,
    /// Returns and calls of KVM_RUN, on any KVM: only exits that reach the VMM.
    Run,
}

#[derive(Debug, Clone)]
pub struct Tracepoints {
    pub level: EventLevel,
    pub points: Vec<HookPoint>,
    pub names: ReasonNames,
}

const USERSPACE_EXIT: &str = "kvm/kvm_userspace_exit";
const SYS_ENTER_IOCTL: &str = "syscalls/sys_enter_ioctl";
const SCHED_SWITCH: &str = "sched/sched_switch";
const SCHED_WAKEUP: &str = "sched/sched_wakeup";

pub fn find_tracepoints(level: EventLevel, tracefs: &Tracefs) -> Result<Tracepoints> {
    let (kvm_points, names) = match level {
        EventLevel::Exits => find_exit_points(tracefs)?,
        EventLevel::Run => find_run_points(tracefs)?,
    };
    // The scheduler's events are attached first: then every switch of a recorded thread is seen.
    let (switch, wakeup) = (tracefs.event(SCHED_SWITCH)?, tracefs.event(SCHED_WAKEUP)?);
    let switch_hook = Hook::Switch {
        prev_pid: switch.required_field(SCHED_SWITCH, "prev_pid")?,
        prev_state: switch.required_field(SCHED_SWITCH, "prev_state")?,
        next_pid: switch.required_field(SCHED_SWITCH, "next_pid")?,
    };
    let wakeup_hook = Hook::Wakeup { pid: wakeup.required_field(SCHED_WAKEUP, "pid")? };
    let scheduler =
        [switch.point(SCHED_SWITCH, switch_hook), wakeup.point(SCHED_WAKEUP, wakeup_hook)];
    Ok(Tracepoints { level, points: scheduler.into_iter().chain(kvm_points).collect(), names })
}

/// Finds exits and entries of the first architecture whose tracepoints and fields this kernel has.
fn find_exit_points(tracefs: &Tracefs) -> Result<(Vec<HookPoint>, ReasonNames)> {
    let mut first_failure = None;
    for architecture in &ARCHITECTURES {
        let exit_path = tracefs_path(architecture.exit);
        let Some(exit) = tracefs.format(&exit_path) else { continue };
        match exit_points(architecture, &exit_path, &exit, tracefs) {
            Ok(points) => {
                let (reason, detail) = (architecture.reason, architecture.detail);
                return Ok((points, ReasonNames::new(&exit.print, reason, detail)));
            }
            Err(error) => first_failure = first_failure.or(Some(error)),
        }
    }
    Err(first_failure.unwrap_or_else(|| no_event(&tracefs_path(ARCHITECTURES[0].exit))))
}

fn exit_points(
    architecture: &Architecture,
    exit_path: &str,
    exit: &EventFormat,
    tracefs: &Tracefs,
) -> Result<Vec<HookPoint>> {
    let reason = exit.required_field(exit_path, architecture.reason)?;
    let entry_point = |entry: &&str| {
        let path = tracefs_path(entry);
        Ok(tracefs.event(&path)?.point(&path, Hook::Enter { filter: None }))
    };
    let mut points = architecture.entries.iter().map(entry_point).collect::<Result<Vec<_>>>()?;
    if points.is_empty() {
        return Err(no_entries(architecture.name));
    }
    let detail = architecture.detail.and_then(|detail| exit.field(detail));
    points.push(exit.point(exit_path, Hook::Exit { reason, detail }));
    if let (Some(user_exit), Ok((ioctl, filter))) =
        (tracefs.format(USERSPACE_EXIT), kvm_run_calls(tracefs))
    {
        points.push(user_exit.point(USERSPACE_EXIT, Hook::ToUser));
        points.push(ioctl.point(SYS_ENTER_IOCTL, Hook::ToKernel { filter }));
    }
    Ok(points)
}

/// Returns the path of a tracepoint below tracefs' `events`: `kvm/kvm_exit` for `kvm:kvm_exit`.
fn tracefs_path(event: &str) -> String {
    event.replace(':', "/")
}

fn find_run_points(tracefs: &Tracefs) -> Result<(Vec<HookPoint>, ReasonNames)> {
    let user_exit = tracefs.event(USERSPACE_EXIT)?;
    let reason = user_exit.required_field(USERSPACE_EXIT, "reason")?;
    let errno = user_exit.required_field(USERSPACE_EXIT, "errno")?;
    let (ioctl, filter) = kvm_run_calls(tracefs)?;
    let enter = ioctl.point(SYS_ENTER_IOCTL, Hook::Enter { filter: Some(filter) });
    let points = vec![enter, user_exit.point(USERSPACE_EXIT, Hook::Return { reason, errno })];
    Ok((points, ReasonNames::new(&user_exit.print, "reason", None)))
}

/// Returns the format of ioctl calls, and the filter that selects those of KVM_RUN.
fn kvm_run_calls(tracefs: &Tracefs) -> Result<(EventFormat, FieldFilter)> {
    let format = tracefs.event(SYS_ENTER_IOCTL)?;
    let field = format.required_field(SYS_ENTER_IOCTL, "cmd")?;
    Ok((format, FieldFilter { field, value: KVM_RUN }))
}

const USE_STATS: &str = "use --via stats, which reads no tracepoints but only counts";

/// Makes the error for a tracepoint that this kernel lacks.
fn no_event(event: &str) -> Error {
    let next_step = match event.split_once('/') {
        Some(("kvm", _)) => {
            "load KVM with `sudo modprobe kvm`, or use a kernel with CONFIG_KVM".to_owned()
        }
        Some(("syscalls", _)) => {
            format!("use a kernel with CONFIG_FTRACE_SYSCALLS, or {USE_STATS}")
        }
        _ => format!("use a kernel with CONFIG_EVENT_TRACING, or {USE_STATS}"),
    };
    error(format!("this kernel has no tracepoint {event}"), next_step)
}

/// Makes the error for a field that the records of a tracepoint lack, or that is not a number.
fn no_field(event: &str, field: &str) -> Error {
    let message =
        format!("the tracepoint {event} of this kernel has no field {field} with a number");
    error(message, USE_STATS)
}

/// Makes the error for a KVM whose entries have no tracepoint.
fn no_entries(architecture: &str) -> Error {
    let message = format!(
        "KVM of this processor ({architecture}) reports exits but not entries, so the time between \
         them is unknown"
    );
    error(message, "use --via timing, or --level run")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordField {
    pub offset: u16,
    /// 1, 2, 4 or 8 bytes.
    pub size: u8,
}

/// Selects the records whose field has this value in its low four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldFilter {
    pub field: RecordField,
    pub value: u32,
}

/// What an event means for a vCPU's thread, with the record fields that a recorder reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// The thread enters the guest.
    Enter { filter: Option<FieldFilter> },
    /// The thread has left the guest.
    Exit { reason: RecordField, detail: Option<RecordField> },
    /// KVM_RUN returns to the VMM: the end of an interval of KVM_RUN.
    Return { reason: RecordField, errno: RecordField },
    /// The thread returns to the VMM, within an exit.
    ToUser,
    /// The thread calls KVM_RUN again, within an exit.
    ToKernel { filter: FieldFilter },
    /// A CPU switches from one thread to another.
    Switch { prev_pid: RecordField, prev_state: RecordField, next_pid: RecordField },
    /// A sleeping thread becomes runnable.
    Wakeup { pid: RecordField },
}

impl Hook {
    /// Returns true if a recorder reads fields of the record, not only the time and the thread.
    pub fn needs_record(self) -> bool {
        !matches!(self, Hook::Enter { filter: None } | Hook::ToUser)
    }

    /// Returns true if this event occurs exactly once for each exit of the guest.
    pub fn is_guest_exit(self) -> bool {
        matches!(self, Hook::Exit { .. } | Hook::Return { .. })
    }

    /// Returns true if the event occurs for every task of the machine.
    pub fn is_scheduler_event(self) -> bool {
        matches!(self, Hook::Switch { .. } | Hook::Wakeup { .. })
    }
}

/// State bits of a sleeping thread in sched_switch; a thread without any of them is runnable.
/// (`TASK_REPORT` and `TASK_REPORT_IDLE` in include/linux/sched.h; preemption is the next bit.)
pub const SLEEPING_STATES: i32 = 0xff;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookPoint {
    /// Path below tracefs' `events`, such as `kvm/kvm_exit`.
    pub event: String,
    pub id: u64,
    pub hook: Hook,
}

#[derive(Debug, Clone)]
pub struct Tracefs {
    events: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFormat {
    /// Number for perf_event_open.
    pub id: u64,
    fields: BTreeMap<String, RecordField>,
    /// The kernel's print format, which has names for numbers.
    pub print: String,
}

impl Tracefs {
    pub fn find() -> Result<Tracefs> {
        let mount_points = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
        let mut is_refused = false;
        for events in mount_points.map(|directory| Path::new(directory).join("events")) {
            match fs::read_dir(&events) {
                Ok(_) => return Ok(Tracefs { events }),
                Err(error) => is_refused |= error.kind() == io::ErrorKind::PermissionDenied,
            }
        }
        // lockdown=confidentiality leaves tracefs mounted and empty (fs/tracefs/inode.c).
        let is_empty = || mount_points.iter().any(|directory| is_tracefs(directory));
        let as_root = "run ktax as root, or with CAP_BPF and CAP_PERFMON";
        let mount = "type: sudo mount -t tracefs nodev /sys/kernel/tracing. --via stats needs no \
                     tracefs, but only counts";
        Err(match is_refused {
            true => error(
                "this user may not read tracefs",
                format!("{as_root}; --via stats needs no tracefs, but only counts"),
            ),
            false if is_empty() => error(
                "cannot read this kernel's tracepoints, because the kernel is locked down (see \
                 /sys/kernel/security/lockdown)",
                "boot it without lockdown=confidentiality, or use --via stats",
            ),
            false => error(
                "the kernel's trace file system is not mounted",
                match geteuid().is_root() {
                    true => mount.to_owned(),
                    false => format!("{as_root}, and first {mount}"),
                },
            ),
        })
    }

    #[cfg(test)]
    pub fn with_events(events: &Path) -> Tracefs {
        Tracefs { events: events.to_owned() }
    }

    /// Returns the format of a tracepoint such as `kvm/kvm_exit`; `None` if the kernel lacks it.
    pub fn format(&self, event: &str) -> Option<EventFormat> {
        EventFormat::parse(&fs::read_to_string(self.events.join(event).join("format")).ok()?)
    }

    /// Returns the format of a tracepoint that a recording needs.
    fn event(&self, event: &str) -> Result<EventFormat> {
        self.format(event).ok_or_else(|| no_event(event))
    }
}

/// Returns true if tracefs is mounted at `directory`, by its magic number
/// (include/uapi/linux/magic.h).
fn is_tracefs(directory: &str) -> bool {
    rustix::fs::statfs(directory).is_ok_and(|statfs| statfs.f_type == 0x7472_6163)
}

impl EventFormat {
    pub fn parse(text: &str) -> Option<EventFormat> {
        let value =
            |line: &str, key: &str| line.strip_prefix(key).map(|rest| rest.trim().to_owned());
        let id = text.lines().find_map(|line| value(line, "ID:"))?.parse().ok()?;
        let print = text.lines().find_map(|line| value(line, "print fmt:")).unwrap_or_default();
        let fields = text.lines().filter_map(parse_field).collect();
        Some(EventFormat { id, fields, print })
    }

    /// Returns a field by its name; `None` if the record lacks it or its size fits no integer.
    pub fn field(&self, name: &str) -> Option<RecordField> {
        self.fields.get(name).copied().filter(|field| [1, 2, 4, 8].contains(&field.size))
    }

    /// Returns a field that a recording needs; an error names `event`.
    fn required_field(&self, event: &str, name: &str) -> Result<RecordField> {
        self.field(name).ok_or_else(|| no_field(event, name))
    }

    fn point(&self, event: &str, hook: Hook) -> HookPoint {
        HookPoint { event: event.to_owned(), id: self.id, hook }
    }
}

/// Parses `field:unsigned int exit_reason; offset:8; size:4; signed:0;`, with tabs.
fn parse_field(line: &str) -> Option<(String, RecordField)> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
    let name = parts.next()?.rsplit([' ', '*']).next()?;
    let name = name.split('[').next()?.to_owned();
    let offset = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
    let size = parts.next()?.strip_prefix("size:")?.parse().ok()?;
    Some((name, RecordField { offset, size }))
}

/// The kernel's names for the exit reasons of one tracepoint.
#[derive(Debug, Clone, Default)]
pub struct ReasonNames {
    lists: Vec<NameList>,
    reason: String,
    detail: Option<String>,
}

/// One `__print_symbolic(REC->FIELD & MASK, { NUMBER, "NAME" }, …)` of a print format.
#[derive(Debug, Clone)]
struct NameList {
    field: String,
    mask: u64,
    /// Value of the detail field for which the kernel uses this list; `None` for any value.
    detail: Option<u32>,
    names: BTreeMap<u64, String>,
}

const PRINT_SYMBOLIC: &str = "__print_symbolic(";

impl ReasonNames {
    /// Parses a print format; `reason` and `detail` are the fields that identify an exit reason.
    pub fn new(print: &str, reason: &str, detail: Option<&str>) -> ReasonNames {
        let mut lists = Vec::new();
        let mut rest = print;
        while let Some(start) = rest.find(PRINT_SYMBOLIC) {
            let before = &rest[..start];
            rest = &rest[start + PRINT_SYMBOLIC.len()..];
            lists.extend(parse_list(before, rest, detail));
        }
        if reason == "scause" {
            let names = SCAUSE.map(|(code, name)| (code, name.to_owned())).into();
            lists.push(NameList { field: reason.to_owned(), mask: u64::MAX, detail: None, names });
        }
        ReasonNames { lists, reason: reason.to_owned(), detail: detail.map(str::to_owned) }
    }

    /// Returns the kernel's name for a reason, or its number.
    pub fn name(&self, reason: Reason) -> String {
        const EINTR: i64 = 4;
        match reason.code as i64 {
            // Between a call of KVM_RUN and its return KVM runs too, not only the guest.
            _ if reason == Reason::GUEST && self.reason == "reason" => return "KVM_RUN".to_owned(),
            _ if reason == Reason::GUEST => return "TIMEINGUEST".to_owned(),
            code if code == -EINTR => return "signal".to_owned(),
            code if (-4095..0).contains(&code) => return format!("error {}", -code),
            _ => {}
        }
        if let Some(field) = &self.detail {
            let list = self.lists.iter().find(|list| list.field == *field);
            let name = list.and_then(|list| list.names.get(&u64::from(reason.detail)));
            if let Some(name) = name.filter(|_| reason.detail != 0) {
                return name.clone();
            }
        }
        let name = self.code_name(reason);
        // `ceded` has no list of names: its value 1 is a reason of its own.
        let is_ceded = self.detail.as_deref() == Some(CEDED) && reason.detail != 0;
        if is_ceded { name + CEDED_SUFFIX } else { name }
    }

    fn code_name(&self, reason: Reason) -> String {
        let is_match = |list: &&NameList| {
            list.field == self.reason && list.detail.is_none_or(|value| value == reason.detail)
        };
        let number = || format!("{:#x}", reason.code);
        let Some(list) = self.lists.iter().find(is_match) else { return number() };
        let Some(name) = list.names.get(&(reason.code & list.mask)) else { return number() };
        // A code with flags, such as that of a failed entry, is a reason of its own.
        match reason.code & !list.mask {
            0 => name.clone(),
            flags => format!("{name} +{flags:#x}"),
        }
    }
}

/// Parses the arguments of a `__print_symbolic`; the text before the call has its condition.
fn parse_list(before: &str, arguments: &str, detail: Option<&str>) -> Option<NameList> {
    let (expression, entries) = arguments.split_once(',')?;
    let (field, mask) = match expression.split_once('&') {
        Some((field, mask)) => (field, parse_number(mask.trim().trim_matches(['(', ')']))?),
        None => (expression, u64::MAX),
    };
    let field = field.trim().trim_matches(['(', ')', ' ']).strip_prefix("REC->")?.to_owned();
    let condition = detail.and_then(|detail| {
        let (_, value) = before.rsplit_once(&format!("REC->{detail} == "))?;
        // The condition must end right before this call; otherwise it is that of an earlier list.
        let (value, rest) = value.split_once(')')?;
        rest.trim().eq("?").then(|| value.trim().parse().ok())?
    });
    let mut names = BTreeMap::new();
    let mut entries = entries;
    while let Some(rest) = entries.trim_start_matches([',', ' ', '\n']).strip_prefix('{') {
        let (entry, after) = rest.split_once('}')?;
        entries = after;
        if let Some((code, name)) =
            entry.split_once(',').and_then(|(a, b)| Some((parse_number(a)?, b)))
        {
            // C concatenates adjacent string literals.
            let name: String = name.split('"').skip(1).step_by(2).collect();
            names.entry(code).or_insert(name);
        }
    }
    Some(NameList { field, mask, detail: condition, names })
}

/// Parses `33`, `0x21`, `0x040 + 14`, with C's suffixes.
fn parse_number(text: &str) -> Option<u64> {
    let parse_term = |text: &str| {
        let text = text.trim().trim_matches(['(', ')']).trim_end_matches(['U', 'L', 'u', 'l']);
        match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        }
    };
    text.split('+').map(parse_term).try_fold(0u64, |sum, term| sum.checked_add(term?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    use proptest::prelude::*;

    fn write(events: &Path, event: &str, fields: &[&str]) {
        let directory = events.join(event);
        fs::create_dir_all(&directory).unwrap();
        let field = |name: &&str| format!("\tfield:u32 {name};\toffset:8;\tsize:4;\tsigned:0;\n");
        let fields: String = fields.iter().map(field).collect();
        fs::write(directory.join("format"), format!("ID: 7\n{fields}\nprint fmt: \"\"\n")).unwrap();
    }

    /// Makes the tracepoints of a kernel whose KVM is of this architecture.
    fn kernel(architecture: &Architecture) -> tempfile::TempDir {
        let events = tempfile::tempdir().unwrap();
        for entry in architecture.entries {
            write(events.path(), &tracefs_path(entry), &[]);
        }
        let fields: Vec<&str> =
            [architecture.reason].into_iter().chain(architecture.detail).collect();
        write(events.path(), &tracefs_path(architecture.exit), &fields);
        write(events.path(), "sched/sched_switch", &["prev_pid", "prev_state", "next_pid"]);
        write(events.path(), "sched/sched_wakeup", &["pid"]);
        events
    }

    #[test]
    fn exits_and_entries_of_every_architecture_are_recorded() {
        for architecture in &ARCHITECTURES {
            let events = kernel(architecture);
            let found = find_tracepoints(EventLevel::Exits, &Tracefs::with_events(events.path()));
            if architecture.entries.is_empty() {
                let message = found.unwrap_err().to_string();
                assert!(
                    message.contains("--via timing") && !message.contains("kvm_entry"),
                    "{message}"
                );
                continue;
            }
            let found = found.unwrap();
            let names: Vec<&str> = found.points.iter().map(|point| point.event.as_str()).collect();
            let expected: Vec<String> = architecture.events().map(tracefs_path).collect();
            assert_eq!(names[2..], expected, "{}", architecture.name);
        }
    }

    #[test]
    fn an_error_names_the_tracepoint_or_the_field_that_is_missing() {
        let remove = |events: &Path, event: &str| fs::remove_dir_all(events.join(event)).unwrap();
        type Damage<'a> = &'a dyn Fn(&Path);
        let cases: [(Damage, &str, &str); 5] = [
            (
                &|events| remove(events, "kvm"),
                "this kernel has no tracepoint kvm/kvm_exit; ",
                "sudo modprobe kvm",
            ),
            (
                &|events| remove(events, "kvm/kvm_entry"),
                "this kernel has no tracepoint kvm/kvm_entry; ",
                "sudo modprobe kvm",
            ),
            (
                &|events| write(events, "kvm/kvm_exit", &["cause"]),
                "the tracepoint kvm/kvm_exit of this kernel has no field exit_reason with a number",
                "--via stats",
            ),
            (
                &|events| write(events, SCHED_SWITCH, &["prev_pid", "next_pid"]),
                "the tracepoint sched/sched_switch of this kernel has no field prev_state with a ",
                "--via stats",
            ),
            (
                &|events| remove(events, SCHED_WAKEUP),
                "this kernel has no tracepoint sched/sched_wakeup; ",
                "CONFIG_EVENT_TRACING",
            ),
        ];
        for (damage, message, next_step) in cases {
            let events = kernel(&ARCHITECTURES[0]);
            damage(events.path());
            let tracefs = Tracefs::with_events(events.path());
            let error = find_tracepoints(EventLevel::Exits, &tracefs).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
            assert!(error.contains(next_step), "{error}");
            assert_eq!(error.contains("modprobe"), next_step.contains("modprobe"), "{error}");
        }
        let events = kernel(&ARCHITECTURES[0]);
        write(events.path(), USERSPACE_EXIT, &["reason", "errno"]);
        let tracefs = Tracefs::with_events(events.path());
        let error = find_tracepoints(EventLevel::Run, &tracefs).unwrap_err().to_string();
        assert!(
            error.contains("sys_enter_ioctl; use a kernel with CONFIG_FTRACE_SYSCALLS"),
            "{error}"
        );
    }

    const KVM_EXIT: &str = include_str!("../kvm_exit-x86.format");

    #[test]
    fn the_fields_of_a_real_record_are_found() {
        let format = EventFormat::parse(KVM_EXIT).unwrap();
        assert_eq!(format.id, 103);
        assert_eq!(format.field("exit_reason"), Some(RecordField { offset: 8, size: 4 }));
        assert_eq!(format.field("isa"), Some(RecordField { offset: 24, size: 4 }));
        assert_eq!(format.field("reason"), None);
        assert!(format.print.starts_with("\"vcpu %u reason"));
    }

    #[test]
    fn a_field_that_is_not_an_integer_is_absent() {
        let line = "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;";
        let (name, field) = parse_field(line).unwrap();
        assert_eq!((name.as_str(), field.size), ("prev_comm", 16));
        let text = format!("ID: 7\n{line}\n");
        assert_eq!(EventFormat::parse(&text).unwrap().field("prev_comm"), None);
        assert_eq!(EventFormat::parse("hello"), None);
    }

    const RETURN: &str = include_str!("../kvm_userspace_exit.format");

    fn name(names: &ReasonNames, code: u64, detail: u32) -> String {
        names.name(Reason { code, detail })
    }

    #[test]
    fn intel_and_amd_have_their_own_names() {
        let names = ReasonNames::new(KVM_EXIT, "exit_reason", Some("isa"));
        assert_eq!(name(&names, 12, 1), "HLT");
        assert_eq!(name(&names, 48, 1), "EPT_VIOLATION");
        assert_eq!(name(&names, 0x78, 2), "hlt");
        assert_eq!(name(&names, 0x40 + 14, 2), "PF excp");
        assert_eq!(name(&names, 0x400, 2), "npf");
    }

    #[test]
    fn a_code_without_a_name_is_a_number_and_flags_are_added() {
        let names = ReasonNames::new(KVM_EXIT, "exit_reason", Some("isa"));
        assert_eq!(name(&names, 131_072, 2), "0x20000");
        assert_eq!(name(&names, 327_680, 2), "0x50000");
        assert_eq!(name(&names, 0x8000_0021, 1), "INVALID_STATE +0x80000000");
        assert_eq!(name(&ReasonNames::default(), 7, 0), "0x7");
        assert_eq!(name(&ReasonNames::new("", "scause", None), 23, 0), "store guest-page fault");
    }

    #[test]
    fn a_ceded_powerpc_exit_has_a_reason_of_its_own() {
        let print = r#"__print_symbolic(REC->trap, { 0xc00, "SYSCALL" }), REC->ceded"#;
        let names = ReasonNames::new(print, "trap", Some("ceded"));
        assert_eq!(name(&names, 0xc00, 0), "SYSCALL");
        assert_eq!(name(&names, 0xc00, 1), "SYSCALL, ceded");
        assert_eq!(name(&names, 0xea0, 1), "0xea0, ceded");
    }

    #[test]
    fn returns_of_kvm_run_are_named_by_reason_or_error() {
        let names = ReasonNames::new(RETURN, "reason", None);
        assert_eq!(name(&names, 2, 0), "KVM_EXIT_IO");
        assert_eq!(name(&names, (-4i64) as u64, 0), "signal");
        assert_eq!(name(&names, (-14i64) as u64, 0), "error 14");
        assert_eq!(names.name(Reason::GUEST), "KVM_RUN");
        assert_eq!(ReasonNames::default().name(Reason::GUEST), "TIMEINGUEST");
    }

    #[test]
    fn an_arm64_trap_is_named_by_its_exception_class() {
        let print = concat!(
            r#""%s", __print_symbolic(REC->ret, {0, "IRQ" }, {2, "TRAP"}), REC->esr_ec, "#,
            r#"__print_symbolic(REC->esr_ec, { (0x01), "WFx" }, { 0x24, "DABT_LOW" })"#,
        );
        let names = ReasonNames::new(print, "ret", Some("esr_ec"));
        assert_eq!(name(&names, 0, 0), "IRQ");
        assert_eq!(name(&names, 2, 1), "WFx");
        assert_eq!(name(&names, 2, 0x24), "DABT_LOW");
    }

    proptest! {
        #[test]
        fn any_text_gives_names(print in "(__print_symbolic\\(|REC->isa|[{}(),\" &0-9x]|\\PC)*") {
            let names = ReasonNames::new(&print, "exit_reason", Some("isa"));
            let _ = names.name(Reason { code: 3, detail: 1 });
        }
    }
}
