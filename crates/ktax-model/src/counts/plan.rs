use serde::{Deserialize, Serialize};

use super::super::{
    Calibration, Disk, Identity, Key, Layout, Machine, Side, Sides, Step, Subject, UserProgram,
    Workload, module_and_parameters,
};

/// What only exact counts need to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountsPlan {
    /// What the counts will be comparable with. Programs and modules in it are those that both
    /// Sides have; see [`CountsPlan::key_of`].
    pub key: Key,
    /// SHA-256 of what each Side's guest unpacks, where the Sides differ in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archives: Option<Sides<String>>,
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
    /// The file system of a Side's files; `None` where they are in memory.
    pub fn disk_of(&self, side: Side) -> Option<&Disk> {
        self.subjects.get(side).disk.as_ref().or(self.disk.as_ref())
    }

    /// The modules that a Side's guest loads, each with its parameters.
    pub fn modules_of(&self, side: Side) -> Vec<String> {
        let Subject { disk, modules, .. } = self.subjects.get(side);
        let mut all = Disk::with_modules(disk.as_ref(), &self.key.modules);
        // The Side's parameters replace those that both have.
        let is_own = |name: &str| modules.iter().any(|own| module_and_parameters(own).0 == name);
        all.retain(|module| !is_own(module_and_parameters(module).0));
        all.extend(modules.iter().cloned());
        all
    }

    /// The place of a row's program among the programs; `None` for a row that is no program.
    pub fn program_of(&self, row: &str) -> Option<usize> {
        self.programs.iter().position(|program| program.row() == row)
    }

    /// The hashes of a Side's archives: of what each guest has beside its program, where there is
    /// that; then of each program. An archive that a Key does not have is empty.
    pub fn archives_of(&self, side: Side) -> (Option<&str>, Vec<&str>) {
        let own = self.archives.as_ref().map(|archives| archives.get(side));
        let mut all = own.unwrap_or(&self.key.programs).split(AND);
        let Subject { sysctl, setup, .. } = self.subjects.get(side);
        let has_settings = !sysctl.is_empty() || setup.is_some();
        let has_beside = self.hooks.is_some() || self.disk_of(side).is_some() || has_settings;
        let beside = has_beside.then(|| all.next().unwrap_or_default());
        let mut next = || all.next().unwrap_or_default();
        (beside, self.programs.iter().map(|_| next()).collect())
    }

    /// The Key of a Side's counts of one row: with the Side's modules, and of the programs only the
    /// row's own, for there is no other in its guest.
    pub fn key_of(&self, side: Side, row: &str) -> Key {
        let (beside, programs) = self.archives_of(side);
        let own = self.program_of(row).and_then(|place| programs.get(place).copied());
        let programs = Key::of_archives(beside.into_iter().chain(own));
        Key { programs, modules: self.modules_of(side), ..self.key.clone() }
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

    fn plan(programs: &str) -> CountsPlan {
        let text = r#"{
            "key": { "engine": "exact", "qemu": "7", "machine": "q35", "cpu": "max",
                "memory_mib": 512, "guest": "g", "programs": "" },
            "machine": { "cpu": "max", "memory_mib": 512 },
            "subjects": { "base": { "kernel": "k" }, "change": { "kernel": "k" } },
            "kernels": {}, "workloads": [], "layouts": [], "steps": [] }"#;
        let mut json: serde_json::Value = serde_json::from_str(text).unwrap();
        let kernel = serde_json::json!({
            "source": "k", "sha256": "s", "arch": "x86_64", "format": "bzimage"
        });
        json["kernels"] = serde_json::json!({ "base": kernel, "change": kernel });
        json["key"]["programs"] = programs.into();
        let plan: CountsPlan = serde_json::from_value(json).unwrap();
        let named = |name: &str| UserProgram { name: name.to_owned(), ..UserProgram::default() };
        let programs = vec![named("one"), named("two")];
        CountsPlan { programs, hooks: Some(named("rows")), ..plan }
    }

    #[test]
    fn a_rows_key_has_its_own_archive_and_what_all_guests_have() {
        let plan = plan("beside+one+two");
        assert_eq!(plan.archives_of(Side::Base), (Some("beside"), vec!["one", "two"]));
        let programs = |row: &str| plan.key_of(Side::Base, row).programs;
        assert_eq!(programs("program:two"), "beside+two");
        assert_eq!(programs("getppid"), "beside");
        let plan = CountsPlan { hooks: None, ..plan };
        assert_eq!(plan.key_of(Side::Base, "program:one").programs, "beside");
        // Without hooks the first archive is that of the first program.
        assert_eq!(plan.archives_of(Side::Base), (None, vec!["beside", "one"]));
    }

    #[test]
    fn a_side_with_a_setup_has_an_archive_of_its_own() {
        let (base, change) = ("one+two".to_owned(), "setup+one+two".to_owned());
        let mut plan = CountsPlan { hooks: None, ..plan("") };
        plan.archives = Some(Sides { base, change });
        plan.subjects.change.setup = Some("true".to_owned());
        assert_eq!(plan.archives_of(Side::Base), (None, vec!["one", "two"]));
        assert_eq!(plan.archives_of(Side::Change), (Some("setup"), vec!["one", "two"]));
        assert_eq!(plan.key_of(Side::Change, "program:two").programs, "setup+two");
        assert_eq!(plan.key_of(Side::Base, "getppid").programs, "");
    }
}
