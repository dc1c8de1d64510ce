//! Reads the formats of tracepoints: numbers and offsets that differ from version to version
//! (Documentation/trace/events.rst, "VcpuEvent formats").

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use super::error::LiveError;
use super::hook::Field;

/// Where the kernel's trace file system is.
#[derive(Debug, Clone)]
pub struct Tracefs {
    events: PathBuf,
}

/// One tracepoint's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFormat {
    /// What perf_event_open calls it by.
    pub id: u64,
    fields: BTreeMap<String, Field>,
    /// How the kernel prints it, with the names of its numbers.
    pub print: String,
}

impl Tracefs {
    /// Finds it at one of its two usual places.
    pub fn find() -> Result<Tracefs, LiveError> {
        let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
        let mut refused = false;
        for events in places.map(|place| Path::new(place).join("events")) {
            match fs::read_dir(&events) {
                Ok(_) => return Ok(Tracefs { events }),
                Err(error) => refused |= error.kind() == io::ErrorKind::PermissionDenied,
            }
        }
        // Mounted and empty: what lockdown=confidentiality makes of it (fs/tracefs/inode.c).
        let is_empty = || places.iter().any(|place| is_tracefs(place));
        Err(match refused {
            true => LiveError::NotAllowed { what: "read tracefs" },
            false if is_empty() => LiveError::LockedDown,
            false => LiveError::NoTracefs { is_root: geteuid().is_root() },
        })
    }

    /// The tracepoints below another directory.
    #[cfg(test)]
    pub fn below(events: &Path) -> Tracefs {
        Tracefs { events: events.to_owned() }
    }

    /// A tracepoint such as `kvm/kvm_exit`, if the kernel has it.
    pub fn format(&self, event: &str) -> Option<EventFormat> {
        EventFormat::parse(&fs::read_to_string(self.events.join(event).join("format")).ok()?)
    }
}

/// By its magic number (include/uapi/linux/magic.h).
fn is_tracefs(place: &str) -> bool {
    rustix::fs::statfs(place).is_ok_and(|found| found.f_type == 0x7472_6163)
}

impl EventFormat {
    /// From the text of its `format` file.
    pub fn parse(text: &str) -> Option<EventFormat> {
        let after =
            |line: &str, key: &str| line.strip_prefix(key).map(|rest| rest.trim().to_owned());
        let id = text.lines().find_map(|line| after(line, "ID:"))?.parse().ok()?;
        let print = text.lines().find_map(|line| after(line, "print fmt:")).unwrap_or_default();
        let fields = text.lines().filter_map(field).collect();
        Some(EventFormat { id, fields, print })
    }

    /// A field by its name; nothing where it has another size than a number.
    pub fn field(&self, name: &str) -> Option<Field> {
        self.fields.get(name).copied().filter(|field| [1, 2, 4, 8].contains(&field.size))
    }
}

/// `field:unsigned int exit_reason; offset:8; size:4; signed:0;`, with tabs.
fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
    let name = parts.next()?.rsplit([' ', '*']).next()?;
    let name = name.split('[').next()?.to_owned();
    let offset = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
    let size = parts.next()?.strip_prefix("size:")?.parse().ok()?;
    Some((name, Field { offset, size }))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let (name, field) = field(line).unwrap();
        assert_eq!((name.as_str(), field.size), ("prev_comm", 16));
        let text = format!("ID: 7\n{line}\n");
        assert_eq!(EventFormat::parse(&text).unwrap().field("prev_comm"), None);
        assert_eq!(EventFormat::parse("hello"), None);
    }
}
