use crate::model::{GuestSide, GuestWork, GuestsPlan, Side};
use crate::report::number;
use crate::report::view::SideLine;
use crate::report::words::counted;

/// What stands above the columns of [`sides`].
pub const HEADS: [&str; 2] = ["guest's kernel", "what it is"];

/// The guests; one line where there is no change.
pub fn sides(plan: &GuestsPlan) -> Vec<SideLine> {
    let has_kernel = plan.rows.iter().any(|row| !matches!(row.work, GuestWork::Raw { .. }));
    let line = |side: Side| {
        let guest = plan.side(side)?;
        let what = match &guest.kernel {
            Some(kernel) if has_kernel => kernel.name().to_owned(),
            _ => "a guest without a kernel".to_owned(),
        };
        Some(SideLine { side: side.name(), what, beside: beside(guest, has_kernel) })
    };
    Side::BOTH.into_iter().filter_map(line).collect()
}

/// `1 vCPU, 256 MiB, without kvmclock kvm-pv-eoi, nopti`. Raw guests alone boot none of the kernel
/// that the experiment names, and have a machine of their own.
fn beside(guest: &GuestSide, has_kernel: bool) -> String {
    let subject = &guest.subject;
    let kernel = subject.kernel.as_ref().filter(|_| has_kernel);
    let mut parts = Vec::new();
    if kernel.is_some() {
        parts.push(counted(subject.cpus.into(), "vCPU"));
        parts.push(format!("{} MiB", number::whole(subject.memory_mib.into())));
    }
    if !subject.without.is_empty() {
        parts.push(format!("without {}", subject.without.join(" ")));
    }
    let beside = kernel.map(|kernel| kernel.beside_kernel());
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
