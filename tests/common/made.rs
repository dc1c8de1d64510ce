//! Parts of plans and results that no machine made.

use ktax_model::{Arch, Identity, ImageFormat, Key, Machine, Region, Workload};

/// Key of the exact engine with this version of QEMU.
pub fn key(qemu: &str) -> Key {
    Key {
        engine: "exact".into(),
        qemu: qemu.into(),
        machine_type: "pc-q35-7.2".into(),
        machine: Machine::default(),
        guest: "9".repeat(64),
        programs: String::new(),
        modules: Vec::new(),
    }
}

/// Kernel of this source, whose hash repeats two digits.
pub fn identity(source: &str, digits: &str) -> Identity {
    Identity {
        source: source.into(),
        sha256: digits.repeat(32),
        release: None,
        package_date: None,
        build_id: None,
        config_sha256: None,
        arch: Arch::X86_64,
        format: ImageFormat::BzImage,
    }
}

/// Row of a workload, without parameters and without a signature.
pub fn workload(row: &str, ops: u64) -> Workload {
    Workload {
        row: row.into(),
        title: format!("{row}, modelled"),
        operation: "one call".into(),
        program: row.split(':').next().unwrap_or(row).into(),
        ops,
        region: Region::Marked,
        memory_bytes: 0,
        params: Default::default(),
        signature: Default::default(),
        numbers: Default::default(),
    }
}
