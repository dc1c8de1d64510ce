use crate::model::{GuestSide, GuestsPlan, Side};
use crate::report::number;
use crate::report::view::SideLine;
use crate::report::words::counted;

/// What stands above the columns of [`sides`].
pub const HEADS: [&str; 2] = ["guest's kernel", "what it is"];

/// The guests; one line where there is no change.
pub fn sides(plan: &GuestsPlan) -> Vec<SideLine> {
    let line = |side: Side| {
        let guest = plan.side(side)?;
        let what = match &guest.kernel {
            Some(kernel) => kernel.name().to_owned(),
            None => "a guest without a kernel".to_owned(),
        };
        Some(SideLine { side: side.name(), what, beside: beside(guest) })
    };
    Side::BOTH.into_iter().filter_map(line).collect()
}

/// `1 vCPU, 256 MiB, without kvmclock kvm-pv-eoi, nopti`.
fn beside(guest: &GuestSide) -> String {
    let subject = &guest.subject;
    let mut parts = Vec::new();
    if subject.kernel.is_some() {
        parts.push(counted(subject.cpus.into(), "vCPU"));
        parts.push(format!("{} MiB", number::whole(subject.memory_mib.into())));
    }
    if !subject.without.is_empty() {
        parts.push(format!("without {}", subject.without.join(" ")));
    }
    let beside = subject.kernel.as_ref().map(|kernel| kernel.beside_kernel());
    parts.extend(beside.filter(|beside| !beside.is_empty()));
    parts.join(", ")
}

/// `exact · QEMU 7.2.22 · KVM of 6.1.0-56-cloud-amd64 · 5 layouts`.
pub fn how(plan: &GuestsPlan) -> String {
    let beside = plan.host_subject.beside_kernel();
    let host = format!("{} {beside}", plan.host_kernel.name());
    format!(
        "{} · QEMU {} · host {}: KVM of {} · {}",
        plan.key.engine,
        plan.key.qemu,
        plan.host.name(),
        host.trim_end(),
        counted(plan.layouts.len(), "layout")
    )
}
