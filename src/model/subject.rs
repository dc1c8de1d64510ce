use serde::{Deserialize, Serialize};

/// One of the two Subjects of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// What the change is measured against.
    Base,
    /// What is measured.
    Change,
}

impl Side {
    /// Both Sides, base first.
    pub const BOTH: [Side; 2] = [Side::Base, Side::Change];

    /// `base` or `change`.
    pub fn name(self) -> &'static str {
        match self {
            Side::Base => "base",
            Side::Change => "change",
        }
    }
}

/// One value for each Side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sides<T> {
    /// The base's value.
    pub base: T,
    /// The change's value.
    pub change: T,
}

impl<T> Sides<T> {
    /// The value of one Side.
    pub fn get(&self, side: Side) -> &T {
        match side {
            Side::Base => &self.base,
            Side::Change => &self.change,
        }
    }

    /// Calls `make` for each Side, base first.
    pub fn try_from_fn<E>(mut make: impl FnMut(Side) -> Result<T, E>) -> Result<Self, E> {
        Ok(Sides { base: make(Side::Base)?, change: make(Side::Change)? })
    }
}

/// The shape of the computer; both Sides share it unless it is the declared factor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Machine {
    /// QEMU's name of a CPU model, with its features (`max`, `EPYC,-x2apic`).
    pub cpu: String,
    /// Guest memory in MiB.
    pub memory_mib: u32,
}

impl Default for Machine {
    fn default() -> Self {
        Machine { cpu: "max".into(), memory_mib: 512 }
    }
}

/// What is measured: a Kernel by its specification, and the boot line it is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// A path, or `debian:…`; see `ktax help compare`.
    pub kernel: String,
    /// Kernel parameters beyond those that the engine needs.
    #[serde(default)]
    pub boot_line: String,
}
