use crate::number;
use crate::view::SideLine;
use ktax_host::text::counted;
use ktax_model::{GuestSide, GuestWork, GuestsPlan, Side};

/// What stands above the columns of [`sides`].
pub const HEADS: [&str; 2] = ["guest's kernel", "what it is"];

/// The guests; one line where there is no change.
pub fn sides(plan: &GuestsPlan) -> Vec<SideLine> {
    let shows = shows(plan);
    let line = |side: Side| {
        let guest = plan.side(side)?;
        let what = match &guest.kernel {
            Some(kernel) if shows.has_kernel => kernel.name().to_owned(),
            _ => "a guest without a kernel".to_owned(),
        };
        Some(SideLine { side: side.name(), what, beside: beside(guest, shows) })
    };
    Side::BOTH.into_iter().filter_map(line).collect()
}

/// What of a Side its rows need.
#[derive(Clone, Copy)]
struct Shows {
    has_kernel: bool,
    has_machine: bool,
}

/// Raw guests alone boot none of the kernel that the experiment names, look for none of KVM's
/// features, and have a machine of their own. On a board, the kernel is that of the host.
fn shows(plan: &GuestsPlan) -> Shows {
    let boots = plan.rows.iter().any(|row| !matches!(row.work, GuestWork::Raw { .. }));
    Shows { has_kernel: boots || plan.host.is_board(), has_machine: boots }
}

/// `1 vCPU, 256 MiB, without kvmclock kvm-pv-eoi, nopti`.
fn beside(guest: &GuestSide, shows: Shows) -> String {
    let subject = &guest.subject;
    let kernel = subject.kernel.as_ref().filter(|_| shows.has_kernel);
    let mut parts = Vec::new();
    if shows.has_machine {
        parts.push(counted(subject.cpus.into(), "vCPU"));
        parts.push(format!("{} MiB", number::whole(subject.memory_mib.into())));
    }
    if shows.has_kernel && !subject.without.is_empty() {
        parts.push(format!("without {}", subject.without.join(" ")));
    }
    let beside = kernel.map(|kernel| kernel.beside_kernel());
    parts.extend(beside.filter(|beside| !beside.is_empty()));
    parts.join(", ")
}

/// `exact · QEMU 7.2.22 · KVM of 6.1.0-56-cloud-amd64 · 5 layouts`.
pub fn how(plan: &GuestsPlan) -> String {
    let beside = plan.host_subject.beside_kernel();
    let kernel = format!(": KVM of {} {beside}", plan.host_kernel.name());
    // On a board, a side's kernel is its host's.
    let of_sides = plan.host.is_board() && plan.base.kernel.is_some();
    let kernel = if of_sides { "" } else { kernel.trim_end() };
    format!(
        "{} · QEMU {} · host {}{kernel} · {}",
        plan.key.engine,
        plan.key.qemu,
        plan.host.name(),
        counted(plan.layouts.len(), "layout")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_model::{GuestSubject, Subject};

    #[test]
    fn features_stand_only_where_a_guest_looks_for_them() {
        let kernel = Some(Subject::of("debian:cloud-amd64", ""));
        let without = vec!["kvmclock".to_owned()];
        let subject = GuestSubject { kernel, without, cpus: 1, memory_mib: 256 };
        let guest = GuestSide { subject, kernel: None };
        let shown = |has_kernel, has_machine| beside(&guest, Shows { has_kernel, has_machine });
        assert_eq!(shown(false, false), "");
        assert_eq!(shown(true, true), "1 vCPU, 256 MiB, without kvmclock");
        // A board's raw guests do, or do not, find its page.
        assert_eq!(shown(true, false), "without kvmclock");
    }
}
