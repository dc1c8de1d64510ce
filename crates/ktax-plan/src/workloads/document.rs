use serde::{Deserialize, Serialize};

/// The documents that ktax grew from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub enum Document {
    /// Ingo Molnar on the cost of CONFIG_PARAVIRT.
    #[serde(rename = "paravirt-2009")]
    Paravirt,
    /// The exit timings of KVM on embedded PowerPC.
    #[serde(rename = "exit-timing-2008")]
    ExitTiming,
    /// The cost of the Linux Security Modules framework.
    #[serde(rename = "lsm-2002")]
    Lsm,
    /// The discussion of queued spinlocks for guests.
    #[serde(rename = "qspinlock-2015")]
    Qspinlock,
    /// Shared page tables, with contest.
    #[serde(rename = "page-tables-2002")]
    PageTables,
}

impl Document {
    /// As it is written in workload files: `lsm-2002`.
    pub fn name(self) -> &'static str {
        match self {
            Document::Paravirt => "paravirt-2009",
            Document::ExitTiming => "exit-timing-2008",
            Document::Lsm => "lsm-2002",
            Document::Qspinlock => "qspinlock-2015",
            Document::PageTables => "page-tables-2002",
        }
    }
}
