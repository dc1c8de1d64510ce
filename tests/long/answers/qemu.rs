//! Which QEMU an experiment runs on: that of the distribution, or a newer one, for several CPUs and
//! for the reason that a file has behind `# newer QEMU: `.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::require::newer_qemu;
use crate::common::{KERNEL, counts_plan, ktax, run};

/// The newer one, for what needs that; `None` inside for all else, and outside where there is none.
pub fn qemu_of(text: &str) -> Option<Option<PathBuf>> {
    let parsed: toml::Table = toml::from_str(text).unwrap();
    let machine = parsed.get("machine").and_then(|machine| machine.get("cpus"));
    let needs_newer = machine.is_some() || text.contains("\n# newer QEMU: ");
    if needs_newer { newer_qemu().map(Some) } else { Some(None) }
}

/// `ktax` with that QEMU.
pub fn with_qemu(qemu: Option<&Path>) -> Command {
    let mut command = ktax();
    command.envs(qemu.map(|qemu| ("KTAX_QEMU", qemu)));
    command
}

/// QEMU's version, as results name it.
pub fn version_of_now(qemu: Option<&Path>) -> String {
    let plan = ["plan", "--same", "--kernel", KERNEL, "-w", "getppid"];
    counts_plan(&run(with_qemu(qemu).args(plan)).stdout).key.qemu
}
