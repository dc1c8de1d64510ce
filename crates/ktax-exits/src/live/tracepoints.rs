//! Tracepoints of this kernel and architecture, with the fields of their records in tracefs and the
//! names of the values.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::process::geteuid;

use super::error;
use crate::architecture::{ARCHITECTURES, CEDED, CEDED_SUFFIX, SCAUSE};
use crate::recording::Reason;
use ktax_model::{Error, Result};

/// Points between which time is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The guest's exits and entries: the processor's reasons.
    Exits,
    /// KVM_RUN's returns and calls: what reaches the VMM, on any KVM.
    Run,
}

#[derive(Debug, Clone)]
pub struct Points {
    pub level: Level,
    pub points: Vec<HookPoint>,
    pub names: Names,
}

const RETURN: &str = "kvm/kvm_userspace_exit";
const IOCTL: &str = "syscalls/sys_enter_ioctl";
const SWITCH: &str = "sched/sched_switch";
const WAKEUP: &str = "sched/sched_wakeup";

/// `_IO(KVMIO, 0x80)`; some architectures write "no data" as a bit.
const KVM_RUN: u32 = match cfg!(any(target_arch = "powerpc64", target_arch = "mips64")) {
    true => 0x2000_ae80,
    false => 0xae80,
};

pub fn find_points(level: Level, tracefs: &Tracefs) -> Result<Points> {
    let (kvm, names) = match level {
        Level::Exits => exits(tracefs)?,
        Level::Run => run(tracefs)?,
    };
    // The scheduler's events come first, so that no thread is known before its switches are seen.
    let (switch, wakeup) = (tracefs.event(SWITCH)?, tracefs.event(WAKEUP)?);
    let switched = Hook::Switch {
        from: switch.number(SWITCH, "prev_pid")?,
        state: switch.number(SWITCH, "prev_state")?,
        to: switch.number(SWITCH, "next_pid")?,
    };
    let woken = Hook::Wakeup { thread: wakeup.number(WAKEUP, "pid")? };
    let scheduler = [switch.point(SWITCH, switched), wakeup.point(WAKEUP, woken)];
    Ok(Points { level, points: scheduler.into_iter().chain(kvm).collect(), names })
}

fn exits(tracefs: &Tracefs) -> Result<(Vec<HookPoint>, Names)> {
    let mut without_entries = None;
    for architecture in &ARCHITECTURES {
        let exit_path = path(architecture.exit);
        let Some(exit) = tracefs.format(&exit_path) else { continue };
        let Some(reason) = exit.field(architecture.reason) else { continue };
        let enter = |entry: &&str| {
            Some(tracefs.format(&path(entry))?.point(&path(entry), Hook::Enter { only: None }))
        };
        let entries = architecture.entries.iter().map(enter).collect::<Option<Vec<_>>>();
        let Some(mut points) = entries else { continue };
        if points.is_empty() {
            without_entries = Some(architecture.name);
            continue;
        }
        let detail = architecture.detail.and_then(|detail| exit.field(detail));
        points.push(exit.point(&exit_path, Hook::Exit { reason, detail }));
        if let (Some(returns), Ok((calls, only))) = (tracefs.format(RETURN), kvm_run(tracefs)) {
            points.push(returns.point(RETURN, Hook::ToUser));
            points.push(calls.point(IOCTL, Hook::ToKernel { only }));
        }
        return Ok((points, Names::new(&exit.print, architecture.reason, architecture.detail)));
    }
    Err(match without_entries {
        None => no_event(EXIT),
        Some(kvm) => error(
            format!(
                "KVM of this processor ({kvm}) reports exits and no entries, so their time is \
                 unknown"
            ),
            "use --via timing, or --level run",
        ),
    })
}

fn path(event: &str) -> String {
    event.replace(':', "/")
}

/// Exit tracepoint of the KVM of this machine's architecture.
const EXIT: &str = if cfg!(target_arch = "powerpc64") {
    "kvm_hv/kvm_guest_exit"
} else if cfg!(target_arch = "s390x") {
    "kvm/kvm_s390_sie_exit"
} else {
    "kvm/kvm_exit"
};

fn run(tracefs: &Tracefs) -> Result<(Vec<HookPoint>, Names)> {
    let returns = tracefs.event(RETURN)?;
    let (reason, errno) = (returns.number(RETURN, "reason")?, returns.number(RETURN, "errno")?);
    let (calls, only) = kvm_run(tracefs)?;
    let enter = calls.point(IOCTL, Hook::Enter { only: Some(only) });
    let points = vec![enter, returns.point(RETURN, Hook::Return { reason, errno })];
    Ok((points, Names::new(&returns.print, "reason", None)))
}

fn kvm_run(tracefs: &Tracefs) -> Result<(EventFormat, FieldFilter)> {
    let format = tracefs.event(IOCTL)?;
    let field = format.number(IOCTL, "cmd")?;
    Ok((format, FieldFilter { field, value: KVM_RUN }))
}

fn no_event(event: &str) -> Error {
    let module = if event.starts_with("kvm_hv/") { "kvm_hv" } else { "kvm" };
    error(
        format!("this kernel has no tracepoint {event}"),
        format!(
            "load KVM with `sudo modprobe {module}`, or use a kernel with CONFIG_KVM and \
             CONFIG_FTRACE_SYSCALLS"
        ),
    )
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    pub offset: u16,
    /// 1, 2, 4 or 8 bytes.
    pub size: u8,
}

/// Selects records whose field has this value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldFilter {
    pub field: Field,
    pub value: u32,
}

/// Meaning of an event for a vCPU's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// The thread enters the guest.
    Enter { only: Option<FieldFilter> },
    /// The thread has left the guest.
    Exit { reason: Field, detail: Option<Field> },
    /// KVM_RUN returns to the VMM: the other end of the time *in* it.
    Return { reason: Field, errno: Field },
    /// The thread goes on in the VMM.
    ToUser,
    /// The thread comes back from the VMM.
    ToKernel { only: FieldFilter },
    /// A CPU goes from one thread to another.
    Switch { from: Field, state: Field, to: Field },
    /// A thread that slept could run.
    Wakeup { thread: Field },
}

impl Hook {
    /// Returns true if the record is needed, and not only the time and the thread.
    pub fn reads_record(self) -> bool {
        !matches!(self, Hook::Enter { only: None } | Hook::ToUser)
    }

    /// Returns true if the guest is left here: once for each exit.
    pub fn leaves(self) -> bool {
        matches!(self, Hook::Exit { .. } | Hook::Return { .. })
    }

    /// Returns true if this runs for every task of the machine.
    pub fn is_scheduling(self) -> bool {
        matches!(self, Hook::Switch { .. } | Hook::Wakeup { .. })
    }
}

/// Bits of a thread's state in sched_switch; without any it could go on running. (`TASK_REPORT` and
/// `TASK_REPORT_IDLE` in include/linux/sched.h; a preempted thread has the next bit.)
pub const ASLEEP: i32 = 0xff;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookPoint {
    /// `kvm/kvm_exit`.
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
    fields: BTreeMap<String, Field>,
    /// Print format of the kernel, with the names of its numbers.
    pub print: String,
}

impl Tracefs {
    pub fn find() -> Result<Tracefs> {
        let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
        let mut refused = false;
        for events in places.map(|directory| Path::new(directory).join("events")) {
            match fs::read_dir(&events) {
                Ok(_) => return Ok(Tracefs { events }),
                Err(error) => refused |= error.kind() == io::ErrorKind::PermissionDenied,
            }
        }
        // Mounted and empty: the effect of lockdown=confidentiality (fs/tracefs/inode.c).
        let is_empty = || places.iter().any(|directory| is_tracefs(directory));
        let as_root = "run ktax as root, or with CAP_BPF and CAP_PERFMON";
        let mount = "type: sudo mount -t tracefs nodev /sys/kernel/tracing. --via stats needs no \
                     tracefs, but only counts";
        Err(match refused {
            true => error(
                "not allowed to read tracefs",
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
    pub fn below(events: &Path) -> Tracefs {
        Tracefs { events: events.to_owned() }
    }

    /// Returns a tracepoint such as `kvm/kvm_exit`, if the kernel has it.
    pub fn format(&self, event: &str) -> Option<EventFormat> {
        EventFormat::parse(&fs::read_to_string(self.events.join(event).join("format")).ok()?)
    }

    fn event(&self, event: &str) -> Result<EventFormat> {
        self.format(event).ok_or_else(|| no_event(event))
    }
}

/// Returns true if a tracefs is mounted there, by its magic number (include/uapi/linux/magic.h).
fn is_tracefs(directory: &str) -> bool {
    rustix::fs::statfs(directory).is_ok_and(|found| found.f_type == 0x7472_6163)
}

impl EventFormat {
    pub fn parse(text: &str) -> Option<EventFormat> {
        let after =
            |line: &str, key: &str| line.strip_prefix(key).map(|rest| rest.trim().to_owned());
        let id = text.lines().find_map(|line| after(line, "ID:"))?.parse().ok()?;
        let print = text.lines().find_map(|line| after(line, "print fmt:")).unwrap_or_default();
        let fields = text.lines().filter_map(parse_field).collect();
        Some(EventFormat { id, fields, print })
    }

    /// Returns a field by its name; `None` if its size is not that of a number.
    pub fn field(&self, name: &str) -> Option<Field> {
        self.fields.get(name).copied().filter(|field| [1, 2, 4, 8].contains(&field.size))
    }

    /// Returns a field that `event` needs.
    fn number(&self, event: &str, name: &str) -> Result<Field> {
        self.field(name).ok_or_else(|| no_event(event))
    }

    fn point(&self, event: &str, hook: Hook) -> HookPoint {
        HookPoint { event: event.to_owned(), id: self.id, hook }
    }
}

/// Parses `field:unsigned int exit_reason; offset:8; size:4; signed:0;`, with tabs.
fn parse_field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
    let name = parts.next()?.rsplit([' ', '*']).next()?;
    let name = name.split('[').next()?.to_owned();
    let offset = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
    let size = parts.next()?.strip_prefix("size:")?.parse().ok()?;
    Some((name, Field { offset, size }))
}

/// Lists of names of one tracepoint.
#[derive(Debug, Clone, Default)]
pub struct Names {
    lists: Vec<NameList>,
    reason: String,
    detail: Option<String>,
}

/// `__print_symbolic(REC->FIELD & MASK, { NUMBER, "NAME" }, …)`, if the other field has a value.
#[derive(Debug, Clone)]
struct NameList {
    field: String,
    mask: u64,
    detail: Option<u32>,
    names: BTreeMap<u64, String>,
}

const CALL: &str = "__print_symbolic(";

impl Names {
    /// Parses the kernel's print format for these fields of a record.
    pub fn new(print: &str, reason: &str, detail: Option<&str>) -> Names {
        let mut lists = Vec::new();
        let mut rest = print;
        while let Some(start) = rest.find(CALL) {
            let before = &rest[..start];
            rest = &rest[start + CALL.len()..];
            lists.extend(parse_list(before, rest, detail));
        }
        if reason == "scause" {
            let names = SCAUSE.map(|(code, name)| (code, name.to_owned())).into();
            lists.push(NameList { field: reason.to_owned(), mask: u64::MAX, detail: None, names });
        }
        Names { lists, reason: reason.to_owned(), detail: detail.map(str::to_owned) }
    }

    /// Returns the kernel's name for a reason, or its number.
    pub fn name(&self, reason: Reason) -> String {
        const EINTR: i64 = 4;
        match reason.code as i64 {
            // More than the guest runs between a call of KVM_RUN and its return.
            _ if reason == Reason::GUEST && self.reason == "reason" => return "KVM_RUN".to_owned(),
            _ if reason == Reason::GUEST => return "TIMEINGUEST".to_owned(),
            code if code == -EINTR => return "signal".to_owned(),
            code if (-4095..0).contains(&code) => return format!("error {}", -code),
            _ => {}
        }
        if let Some(field) = &self.detail {
            let what = self.lists.iter().find(|list| list.field == *field);
            let name = what.and_then(|list| list.names.get(&u64::from(reason.detail)));
            if let Some(name) = name.filter(|_| reason.detail != 0) {
                return name.clone();
            }
        }
        let name = self.name_of_code(reason);
        // A waiting guest is not in a list of names, but another reason.
        let is_ceded = self.detail.as_deref() == Some(CEDED) && reason.detail != 0;
        if is_ceded { name + CEDED_SUFFIX } else { name }
    }

    fn name_of_code(&self, reason: Reason) -> String {
        let is_match = |list: &&NameList| {
            list.field == self.reason && list.detail.is_none_or(|value| value == reason.detail)
        };
        let number = || format!("{:#x}", reason.code);
        let Some(list) = self.lists.iter().find(is_match) else { return number() };
        let Some(name) = list.names.get(&(reason.code & list.mask)) else { return number() };
        // Flags beside the number, such as that of an entry that failed, are another reason.
        match reason.code & !list.mask {
            0 => name.clone(),
            flags => format!("{name} +{flags:#x}"),
        }
    }
}

/// Parses the text between a call's parentheses, and the condition before it.
fn parse_list(before: &str, text: &str, detail: Option<&str>) -> Option<NameList> {
    let (subject, entries) = text.split_once(',')?;
    let (field, mask) = match subject.split_once('&') {
        Some((field, mask)) => (field, parse_number(mask.trim().trim_matches(['(', ')']))?),
        None => (subject, u64::MAX),
    };
    let field = field.trim().trim_matches(['(', ')', ' ']).strip_prefix("REC->")?.to_owned();
    let condition = detail.and_then(|detail| {
        let (_, value) = before.rsplit_once(&format!("REC->{detail} == "))?;
        // Uses the list's own condition, and not an earlier one's.
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
            // C joins strings that stand beside each other.
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

    /// The tracepoints of a kernel whose KVM is of this architecture.
    fn kernel(one: &crate::architecture::Architecture) -> tempfile::TempDir {
        let events = tempfile::tempdir().unwrap();
        one.entries.iter().for_each(|entry| write(events.path(), &path(entry), &[]));
        let fields: Vec<&str> = [one.reason].into_iter().chain(one.detail).collect();
        write(events.path(), &path(one.exit), &fields);
        write(events.path(), "sched/sched_switch", &["prev_pid", "prev_state", "next_pid"]);
        write(events.path(), "sched/sched_wakeup", &["pid"]);
        events
    }

    #[test]
    fn exits_and_entries_of_every_architecture_are_recorded() {
        for one in &ARCHITECTURES {
            let events = kernel(one);
            let found = find_points(Level::Exits, &Tracefs::below(events.path()));
            if one.entries.is_empty() {
                let message = found.unwrap_err().to_string();
                assert!(
                    message.contains("--via timing") && !message.contains("kvm_entry"),
                    "{message}"
                );
                continue;
            }
            let found = found.unwrap();
            let names: Vec<&str> = found.points.iter().map(|point| point.event.as_str()).collect();
            let expected: Vec<String> = one.events().map(path).collect();
            assert_eq!(names[2..], expected, "{}", one.name);
        }
    }

    #[test]
    fn a_kernel_without_kvm_is_told_what_to_load() {
        let events = kernel(&ARCHITECTURES[0]);
        fs::remove_dir_all(events.path().join("kvm")).unwrap();
        let message =
            find_points(Level::Exits, &Tracefs::below(events.path())).unwrap_err().to_string();
        assert!(message.starts_with("this kernel has no tracepoint kvm"), "{message}");
        assert!(message.contains("sudo modprobe kvm"), "{message}");
    }

    const KVM_EXIT: &str = include_str!("../kvm_exit-x86.format");

    #[test]
    fn the_fields_of_a_real_record_are_found() {
        let format = EventFormat::parse(KVM_EXIT).unwrap();
        assert_eq!(format.id, 103);
        assert_eq!(format.field("exit_reason"), Some(Field { offset: 8, size: 4 }));
        assert_eq!(format.field("isa"), Some(Field { offset: 24, size: 4 }));
        assert_eq!(format.field("reason"), None);
        assert!(format.print.starts_with("\"vcpu %u reason"));
    }

    #[test]
    fn what_is_no_number_is_no_field() {
        let line = "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;";
        let (name, field) = parse_field(line).unwrap();
        assert_eq!((name.as_str(), field.size), ("prev_comm", 16));
        let text = format!("ID: 7\n{line}\n");
        assert_eq!(EventFormat::parse(&text).unwrap().field("prev_comm"), None);
        assert_eq!(EventFormat::parse("hello"), None);
    }

    const RETURN: &str = include_str!("../kvm_userspace_exit.format");

    fn name(names: &Names, code: u64, detail: u32) -> String {
        names.name(Reason { code, detail })
    }

    #[test]
    fn both_processors_of_x86_have_their_own_names() {
        let names = Names::new(KVM_EXIT, "exit_reason", Some("isa"));
        assert_eq!(name(&names, 12, 1), "HLT");
        assert_eq!(name(&names, 48, 1), "EPT_VIOLATION");
        assert_eq!(name(&names, 0x78, 2), "hlt");
        assert_eq!(name(&names, 0x40 + 14, 2), "PF excp");
        assert_eq!(name(&names, 0x400, 2), "npf");
    }

    #[test]
    fn what_has_no_name_is_a_number_and_a_flag_is_said() {
        let names = Names::new(KVM_EXIT, "exit_reason", Some("isa"));
        assert_eq!(name(&names, 131_072, 2), "0x20000");
        assert_eq!(name(&names, 327_680, 2), "0x50000");
        assert_eq!(name(&names, 0x8000_0021, 1), "INVALID_STATE +0x80000000");
        assert_eq!(name(&Names::default(), 7, 0), "0x7");
        assert_eq!(name(&Names::new("", "scause", None), 23, 0), "store guest-page fault");
    }

    #[test]
    fn a_guest_that_waits_on_powerpc_has_a_reason_of_its_own() {
        let print = r#"__print_symbolic(REC->trap, { 0xc00, "SYSCALL" }), REC->ceded"#;
        let names = Names::new(print, "trap", Some("ceded"));
        assert_eq!(name(&names, 0xc00, 0), "SYSCALL");
        assert_eq!(name(&names, 0xc00, 1), "SYSCALL, ceded");
        assert_eq!(name(&names, 0xea0, 1), "0xea0, ceded");
    }

    #[test]
    fn the_return_of_kvm_run_has_names_and_errors() {
        let names = Names::new(RETURN, "reason", None);
        assert_eq!(name(&names, 2, 0), "KVM_EXIT_IO");
        assert_eq!(name(&names, (-4i64) as u64, 0), "signal");
        assert_eq!(name(&names, (-14i64) as u64, 0), "error 14");
        assert_eq!(names.name(Reason::GUEST), "KVM_RUN");
        assert_eq!(Names::default().name(Reason::GUEST), "TIMEINGUEST");
    }

    #[test]
    fn a_trap_of_arm64_is_named_by_its_class() {
        let print = concat!(
            r#""%s", __print_symbolic(REC->ret, {0, "IRQ" }, {2, "TRAP"}), REC->esr_ec, "#,
            r#"__print_symbolic(REC->esr_ec, { (0x01), "WFx" }, { 0x24, "DABT_LOW" })"#,
        );
        let names = Names::new(print, "ret", Some("esr_ec"));
        assert_eq!(name(&names, 0, 0), "IRQ");
        assert_eq!(name(&names, 2, 1), "WFx");
        assert_eq!(name(&names, 2, 0x24), "DABT_LOW");
    }

    proptest! {
        #[test]
        fn any_text_gives_names(print in "(__print_symbolic\\(|REC->isa|[{}(),\" &0-9x]|\\PC)*") {
            let names = Names::new(&print, "exit_reason", Some("isa"));
            let _ = names.name(Reason { code: 3, detail: 1 });
        }
    }
}
