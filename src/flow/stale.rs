// The messages say what the fields are.
#![allow(missing_docs)]

use std::path::Path;

use thiserror::Error;

use crate::model::{Blame, Identity, Key};

/// Why a Plan does not fit what is here now.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum StalePlanError {
    #[error("no engine for {measures} is called {name:?}; plan again in a new directory")]
    NoEngine { measures: &'static str, name: String },
    /// Exact counts belong to one QEMU and one build of ktax: these are not the Plan's.
    #[error(
        "{path} was planned for QEMU {planned} and the ktax of that time, and this is QEMU \
         {found}: counts would not compare; plan again in a new directory"
    )]
    OtherKey { path: String, planned: String, found: String },
    #[error(
        "{kernel} is another kernel than when the plan was made; plan again in a \
         new directory"
    )]
    OtherKernel { kernel: String },
    #[error(
        "the program's files are not those of the plan any more; plan again in a new directory"
    )]
    OtherPrograms,
    #[error(
        "the workloads' C files are not those of the plan any more; plan again in a new directory"
    )]
    OtherWorkloads,
    #[error("plan.json has no kernel {name:?}; plan again in a new directory")]
    NoKernel { name: String },
    #[error("plan.json has a guest without a kernel; plan again in a new directory")]
    NoGuestKernel,
    #[error("{path} has another plan; give --out a new name")]
    OtherPlan { path: String },
}

impl StalePlanError {
    /// Who can do something about it.
    pub fn blame(&self) -> Blame {
        Blame::User
    }

    pub(super) fn no_engine(measures: &'static str, name: &str) -> StalePlanError {
        StalePlanError::NoEngine { measures, name: name.to_owned() }
    }

    pub(super) fn other_key(dir: &Path, planned: &Key, found: &Key) -> StalePlanError {
        let [planned, found] = [planned, found].map(|key| key.qemu.clone());
        StalePlanError::OtherKey { path: dir.display().to_string(), planned, found }
    }

    pub(super) fn other_kernel(planned: &Identity) -> StalePlanError {
        StalePlanError::OtherKernel { kernel: planned.source.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_a_plan_are_quoted_and_escaped() {
        let name = "\"warp\\u{1b}\\n\"";
        let said = StalePlanError::no_engine("times", "warp\x1b\n").to_string();
        assert_eq!(
            said,
            format!("no engine for times is called {name}; plan again in a new directory")
        );
        let said = StalePlanError::NoKernel { name: "warp\x1b\n".into() }.to_string();
        assert_eq!(said, format!("plan.json has no kernel {name}; plan again in a new directory"));
    }
}
