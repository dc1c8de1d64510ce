//! Programs of the user's, and of workload files, as rows.

use std::collections::BTreeSet;

use super::error::PlanError;
use super::file::ExperimentFile;
use super::program::{ProgramKeys, program, programs_of};
use super::workloads::{Definition, each_once};
use ktax_host::text::shell_line;
use ktax_model::{RUNNER, Region, Signature, UserProgram, Workload};

/// The programs, checked.
pub(super) fn programs(keys: &[ProgramKeys]) -> Result<Vec<UserProgram>, PlanError> {
    let named = |(at, of): (usize, &ProgramKeys)| {
        programs_of(of).map_err(|error| match error {
            PlanError::Program { reason } if keys.len() > 1 => {
                let reason = format!("of {} programs, number {}: {reason}", keys.len(), at + 1);
                PlanError::Program { reason }
            }
            other => other,
        })
    };
    let programs = keys.iter().enumerate().map(named).collect::<Result<Vec<_>, _>>()?.concat();
    let computed = programs.iter().flat_map(|program| {
        let names = computed_row_names(program);
        names.into_iter().map(|row| Workload { row, ..row_of(0, program) })
    });
    each_once(rows(&programs, &[]).into_iter().chain(computed).collect())?;
    Ok(programs)
}

/// The names of the rows that are computed from two sizes of a program; those of its smaller size.
fn computed_row_names(program: &UserProgram) -> Vec<String> {
    let size = program.size.as_ref().filter(|size| size.is_smallest());
    size.map_or_else(Vec::new, |size| vec![size.program.row(), size.program.row_of_start()])
}

/// The parameter that says which program of a guest runs.
const NUMBER: &str = "number";

impl ExperimentFile {
    /// Leaves the programs of these names.
    ///
    /// # Errors
    /// A program is wrong.
    pub fn choose_programs(&mut self, names: &[&str]) -> Result<(), PlanError> {
        let known = programs(&self.program)?;
        let is_asked_for = |keys: &ProgramKeys| -> Result<bool, PlanError> {
            Ok(programs_of(keys)?.iter().flat_map(row_names).any(|name| names.contains(&name)))
        };
        let asked_for =
            self.program.iter().map(is_asked_for).collect::<Result<Vec<bool>, PlanError>>();
        let mut asked_for = asked_for?.into_iter();
        self.program.retain(|_| asked_for.next().unwrap_or(false));
        self.all_programs = known.iter().map(UserProgram::row).collect();
        Ok(())
    }

    /// Checks that there are programs of these names.
    ///
    /// # Errors
    /// There is no such program, or one is wrong.
    pub fn check_programs(&self, names: &[&str]) -> Result<(), PlanError> {
        let known = programs(&self.program)?;
        let is_known = |name: &&str| known.iter().flat_map(row_names).any(|known| known == *name);
        if let Some(name) = names.iter().find(|name| !is_known(name)) {
            let rows = known.iter().map(UserProgram::row).chain(self.all_programs.iter().cloned());
            let rows = Vec::from_iter(rows.collect::<BTreeSet<_>>());
            let reason = match rows.is_empty() {
                true => format!(
                    "there is no program {name:?}, and none at all; remove -w program:{name}"
                ),
                false => format!("there is no program {name:?}; choose of {}", rows.join(", ")),
            };
            return Err(PlanError::Program { reason });
        }
        Ok(())
    }
}

/// The names that ask for a program: its own, and that of all its sizes.
fn row_names(program: &UserProgram) -> impl Iterator<Item = &str> {
    let asked = program.size.iter().map(|size| size.program.name.as_str());
    asked.chain([program.name.as_str()])
}

/// Splits names of rows into the programs of workload files that they ask for, and the others;
/// `None` where all rows are asked for, or programs alone.
pub(super) fn named(
    definitions: &[Definition],
    names: Option<&[String]>,
) -> Result<(Vec<UserProgram>, Option<Vec<String>>), PlanError> {
    let Some(names) = names else { return Ok((Vec::new(), None)) };
    let (mut programs, mut others) = (Vec::new(), Vec::new());
    for name in names {
        let is_asked_for = |it: &&Definition| match name.strip_prefix('@') {
            Some(group) => it.group == group && !it.hidden,
            None => it.name == *name,
        };
        let asked: Vec<&Definition> = definitions.iter().filter(is_asked_for).collect();
        let (program, params) = name.split_once(':').unwrap_or((name, ""));
        let has_none = |it: &Definition| it.name == program && it.run.is_some();
        if !params.is_empty() && definitions.iter().any(has_none) {
            let reason = format!("{program} takes no parameters; name it alone");
            return Err(PlanError::Program { reason });
        }
        if asked.iter().all(|it| it.run.is_none()) {
            others.push(name.clone());
            continue;
        }
        for definition in asked {
            match &definition.run {
                Some(run) => programs.push(defined(definition, run)?),
                None => others.push(definition.name.clone()),
            }
        }
    }
    let is_alone = others.is_empty() && !programs.is_empty();
    Ok((programs, (!is_alone).then_some(others)))
}

fn defined(definition: &Definition, run: &ProgramKeys) -> Result<UserProgram, PlanError> {
    let name = Some(definition.name.clone());
    let keys = ProgramKeys { name, ops: Some(definition.ops), ..run.clone() };
    Ok(UserProgram { defined: true, ..program(&keys)? })
}

/// A row for each program, as if no workload file had it.
pub fn program_rows(programs: &[UserProgram]) -> Vec<Workload> {
    rows(programs, &[])
}

/// A row for each program, in a guest that has no other.
pub(super) fn rows_alone(programs: &[UserProgram], definitions: &[Definition]) -> Vec<Workload> {
    let mut rows = rows(programs, definitions);
    for row in &mut rows {
        row.params.insert(NUMBER.to_owned(), 0);
    }
    rows
}

/// A row for each program, in guests that have them all.
pub(super) fn rows(programs: &[UserProgram], definitions: &[Definition]) -> Vec<Workload> {
    let row = |(number, program): (u64, &UserProgram)| {
        let definition = definitions.iter().find(|it| program.defined && it.name == program.name);
        let row = row_of(number, program);
        match definition {
            Some(Definition { title, operation, .. }) => {
                Workload { title: title.clone(), operation: operation.clone(), ..row }
            }
            None => row,
        }
    };
    (0..).zip(programs).map(row).collect()
}

fn row_of(number: u64, program: &UserProgram) -> Workload {
    let command = shell_line(program.command.iter().map(String::as_str));
    let prints_ops = program.numbers.contains_key(UserProgram::OPS);
    let ops = program.ops.unwrap_or(1);
    let operation = match ops {
        _ if prints_ops => "one of the operations that it prints".to_owned(),
        1 => "one run".to_owned(),
        ops => format!("one of {ops} operations of a run"),
    };
    let mut numbers = vec![
        (NUMBER, number),
        ("status", program.status.into()),
        ("user", program.user.into()),
        ("warm-up", program.warm_up.into()),
    ];
    // What is as usual is not said, so that such counts stay comparable.
    numbers.extend(program.any_output.then_some(("any-output", 1)));
    numbers.extend(prints_ops.then_some((Workload::PRINTS_OPS, 1)));
    Workload {
        row: program.row(),
        title: command,
        operation,
        program: RUNNER.to_owned(),
        ops,
        region: Region::default(),
        params: numbers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        memory_bytes: 0,
        signature: Signature::new(),
        numbers: program.numbers.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::workloads::definitions;
    use super::*;

    fn keys(command: &str) -> ProgramKeys {
        ProgramKeys { command: vec![command.to_owned()], ..ProgramKeys::default() }
    }

    #[test]
    fn of_several_programs_the_wrong_one_is_said() {
        let refused = programs(&[keys("one"), keys("")]).unwrap_err().to_string();
        assert!(refused.contains("of 2 programs, number 2: it has no command"), "{refused}");
        let alone = programs(&[keys("")]).unwrap_err().to_string();
        assert!(alone.contains(": it has no command"), "{alone}");
    }

    #[test]
    fn programs_of_a_file_are_chosen_by_name() {
        let program = vec![keys("one"), keys("two"), keys("three")];
        let mut file = ExperimentFile { program: program.clone(), ..ExperimentFile::default() };
        file.choose_programs(&["three", "one"]).unwrap();
        assert_eq!(file.program, [keys("one"), keys("three")]);
        assert!(file.check_programs(&["three"]).is_ok());
        let unknown = file.check_programs(&["four"]).unwrap_err().to_string();
        let all = "choose of program:one, program:three, program:two";
        assert!(unknown.contains(all), "{unknown}");
        file.choose_programs(&["two"]).unwrap();
        assert!(file.program.is_empty());
    }

    fn sized(command: &[&str], sizes: &[u64]) -> ProgramKeys {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        ProgramKeys { command, sizes: sizes.to_vec(), ..ProgramKeys::default() }
    }

    #[test]
    fn a_program_of_two_sizes_is_two_programs() {
        let keys = ProgramKeys {
            setup: Some("make {size}".to_owned()),
            ..sized(&["fio", "--number_ios={size}"], &[256, 1024])
        };
        let both = programs(std::slice::from_ref(&keys)).unwrap();
        assert_eq!(
            both.iter().map(UserProgram::row).collect::<Vec<_>>(),
            ["program:fio-256", "program:fio-1024"]
        );
        assert_eq!(both[0].command, ["fio", "--number_ios=256"]);
        assert_eq!(both[1].setup.as_deref(), Some("make 1024"));
        let size = both[1].size.as_ref().unwrap();
        assert_eq!((size.size, size.program.name.as_str()), (1024, "fio"));
        let mut file = ExperimentFile { program: vec![keys], ..ExperimentFile::default() };
        assert!(file.check_programs(&["fio", "fio-256"]).is_ok());
        file.choose_programs(&["fio"]).unwrap();
        assert_eq!(file.program.len(), 1);
    }

    #[test]
    fn sizes_that_say_nothing_are_refused() {
        let with_ops = ProgramKeys { ops: Some(5), ..sized(&["a", "{size}"], &[1, 2]) };
        for (keys, reason) in [
            (sized(&["a", "{size}"], &[1]), "needs two sizes"),
            (sized(&["a", "{size}"], &[2, 1]), "less than the second"),
            (sized(&["a", "{size}"], &[0, 1]), "at least 1"),
            (sized(&["a", "size"], &[1, 2]), "no size stands anywhere in it"),
            (with_ops, "remove ops and ops_from"),
        ] {
            let refused = programs(&[keys]).unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}");
        }
        // Their computed rows have names, too.
        let start = ProgramKeys { name: Some("a-start".to_owned()), ..keys("b") };
        let twice = programs(&[sized(&["a", "{size}"], &[1, 2]), start]);
        assert!(matches!(twice, Err(PlanError::Twice { .. })), "{twice:?}");
    }

    #[test]
    fn two_of_one_name_are_refused() {
        let twice = programs(&[keys("a"), keys("/bin/a")]);
        assert!(matches!(twice, Err(PlanError::Twice { .. })));
    }

    #[test]
    fn programs_of_workload_files_are_told_from_other_rows() {
        let definitions = definitions().unwrap();
        let of = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let (programs, others) = named(&definitions, Some(&names)).unwrap();
            (rows(&programs, &definitions), others)
        };
        let (rows, others) = of(&["git-status", "getppid"]);
        assert_eq!((rows[0].row.as_str(), rows.len()), ("git-status", 1));
        assert!(rows[0].title.contains("git status"), "{}", rows[0].title);
        assert_eq!(others.unwrap(), ["getppid"]);
        let (rows, others) = of(&["@applications"]);
        assert!(rows.len() > 5 && others.is_none());
        let with = named(&definitions, Some(&["git-status:ops=2".to_owned()]));
        assert!(matches!(with, Err(PlanError::Program { .. })), "{with:?}");
        // What is no program is checked by those that know all rows.
        assert_eq!(of(&["nonsense"]), (Vec::new(), Some(vec!["nonsense".into()])));
    }
}
