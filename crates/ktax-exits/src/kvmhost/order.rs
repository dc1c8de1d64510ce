use serde::{Deserialize, Serialize};

/// QEMU's fw_cfg has the order of a frozen host under this name.
pub(super) const ORDER_ITEM: &str = "opt/ktax/order";

/// What the host's init is told to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Order {
    /// Iterations of an empty loop before the first command: they move it against the timer tick.
    pub phase: u64,
    /// Each command's program and arguments, in the order in which they run.
    pub commands: Vec<Vec<String>>,
}

impl Order {
    /// As init reads it.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and text have a form in JSON")
    }
}
