use serde::{Deserialize, Serialize};

use super::super::{
    Calibration, Disk, Identity, Key, Layout, Machine, Sides, Step, Subject, UserProgram, Workload,
};

/// What only exact counts need to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountsPlan {
    /// What the counts will be comparable with.
    pub key: Key,
    /// The shape of the computer.
    pub machine: Machine,
    /// What is compared.
    pub subjects: Sides<Subject>,
    /// The Subjects' Kernels.
    pub kernels: Sides<Identity>,
    /// What the machine that is modelled takes, if its file says so: for estimates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// The file system of the guest's files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
    /// The programs of the user's, of which each is a row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<UserProgram>,
    /// What runs beside rows that are no programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<UserProgram>,
    /// The directory of the user's workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workloads_from: Option<String>,
    /// The rows.
    pub workloads: Vec<Workload>,
    /// The perturbations.
    pub layouts: Vec<Layout>,
    /// The Boots in order.
    pub steps: Vec<Step>,
}

/// What stands between the hashes of several archives in a Key.
const AND: char = '+';

impl CountsPlan {
    /// The place of a row's program among the programs; `None` for a row that is no program.
    pub fn program_of(&self, row: &str) -> Option<usize> {
        self.programs.iter().position(|program| program.row() == row)
    }

    /// The hashes of a Key's archives: of what each guest has beside its program, where there is
    /// that; then of each program. An archive that a Key does not have is empty.
    pub fn archives(&self) -> (Option<&str>, Vec<&str>) {
        let mut all = self.key.programs.split(AND);
        let has_beside = self.hooks.is_some() || self.disk.is_some();
        let beside = has_beside.then(|| all.next().unwrap_or_default());
        let mut next = || all.next().unwrap_or_default();
        (beside, self.programs.iter().map(|_| next()).collect())
    }

    /// The Key of the counts of one row: of the programs it has only the row's own, for there is no
    /// other in its guest.
    pub fn key_of(&self, row: &str) -> Key {
        let (beside, programs) = self.archives();
        let own = self.program_of(row).and_then(|place| programs.get(place).copied());
        Key { programs: Key::of_archives(beside.into_iter().chain(own)), ..self.key.clone() }
    }
}

impl Key {
    /// What a Key says of these archives.
    pub fn of_archives<'a>(archives: impl IntoIterator<Item = &'a str>) -> String {
        Vec::from_iter(archives).join(&AND.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rows_key_has_its_own_archive_and_what_all_guests_have() {
        let text = r#"{
            "key": { "engine": "exact", "qemu": "7", "machine": "q35", "cpu": "max",
                "memory_mib": 512, "guest": "g", "programs": "beside+one+two" },
            "machine": { "cpu": "max", "memory_mib": 512 },
            "subjects": { "base": { "kernel": "k" }, "change": { "kernel": "k" } },
            "kernels": {}, "workloads": [], "layouts": [], "steps": [] }"#;
        let mut json: serde_json::Value = serde_json::from_str(text).unwrap();
        let kernel = serde_json::json!({
            "source": "k", "sha256": "s", "arch": "x86_64", "format": "bzimage"
        });
        json["kernels"] = serde_json::json!({ "base": kernel, "change": kernel });
        let mut plan: CountsPlan = serde_json::from_value(json).unwrap();
        let named = |name: &str| UserProgram { name: name.to_owned(), ..UserProgram::default() };
        plan.programs = vec![named("one"), named("two")];
        plan.hooks = Some(named("rows"));
        assert_eq!(plan.archives(), (Some("beside"), vec!["one", "two"]));
        let programs = |row: &str| plan.key_of(row).programs;
        assert_eq!(programs("program:two"), "beside+two");
        assert_eq!(programs("getppid"), "beside");
        let plan = CountsPlan { hooks: None, ..plan };
        assert_eq!(plan.key_of("program:one").programs, "beside");
        // Without hooks the first archive is that of the first program.
        assert_eq!(plan.archives(), (None, vec!["beside", "one"]));
    }
}
