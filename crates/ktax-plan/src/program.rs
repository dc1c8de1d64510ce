//! Programs of the user: their keys, checked, and the rows that they make.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::experiment::{Error, PROGRAM, program_error};
use crate::file::ExperimentFile;
use crate::workloads::{Definition, each_once};
use ktax_host::text::{escape, shell_line};
use ktax_model::{ProgramSize, RUNNER, Region, Signature, Subject, UserProgram, Workload};
use serde::{Deserialize, Serialize};

const LONGEST_NAME: usize = 32;
const MOST_NUMBERS: usize = 16;
/// Most words of a command. The guest reads 4096, including the path and an end.
const MOST_WORDS: usize = 4000;

/// Directories that a guest mounts over what the archive has there.
const GUEST_MOUNTS: [&str; 4] = ["/dev", "/proc", "/run", "/sys"];

/// The command that runs a script.
const SCRIPT_COMMAND: [&str; 3] = ["sh", "-e", UserProgram::SCRIPT];

/// Keys of a program in an experiment file or on the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProgramKeys {
    /// Name of its row, without `program:`; by default the command's name.
    pub name: Option<String>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// A shell script, in the place of a command.
    pub script: Option<String>,
    /// More files for it, `PATH` or `PATH:AT`: `AT` is absolute or below `/work`.
    pub files: Vec<String>,
    /// A directory or a tar archive whose content becomes the root directory of the guest.
    pub root: Option<String>,
    /// True to run it once on this machine, in a sandbox, to find the files that it needs.
    pub trace_files: bool,
    /// Environment beside the usual one: `NAME=VALUE`.
    pub env: Vec<String>,
    /// The file that it reads from its standard input.
    pub stdin: Option<String>,
    /// User and group that it runs as, by number.
    pub user: Option<u32>,
    /// Exit status of success.
    pub status: Option<u32>,
    /// Commands for a shell in its root directory, before anything is measured.
    pub setup: Option<String>,
    /// Commands for a shell in its root directory, before each run.
    pub prepare: Option<String>,
    /// Numbers in its output that are part of its work signature: by name, the text before each.
    pub numbers: BTreeMap<String, String>,
    /// Set if its output may differ each time.
    pub any_output: bool,
    /// Number of runs before it is counted.
    pub warm_up: Option<u32>,
    /// Number of operations in one run.
    pub ops: Option<u64>,
    /// Text in its output before the number of its operations.
    pub ops_from: Option<String>,
    /// Two sizes; each replaces `{size}` in its texts.
    pub sizes: Vec<u64>,
}

/// Checked program, once for each of its sizes.
fn sized_programs(keys: &ProgramKeys) -> Result<Vec<UserProgram>, Error> {
    let refuse = |reason: &str| Err(program_error(reason));
    if keys.sizes.is_empty() {
        return Ok(vec![checked_program(keys)?]);
    }
    let [from, to] = keys.sizes[..] else {
        return refuse("it needs two sizes; write --sizes 1000,2000");
    };
    if from == 0 || from >= to {
        return refuse("its first size must be at least 1, and less than the second");
    }
    if keys.ops.is_some() || keys.ops_from.is_some() {
        return refuse("its sizes say how many operations it does; remove ops and ops_from");
    }
    if with_size(keys, from).1 == 0 {
        return refuse(
            "no size stands anywhere in it; write {size} in its command, script, setup or prepare, \
             where the number of its operations stands",
        );
    }
    let asked = checked_program(keys)?;
    let program_of_size = |size: u64| {
        let (sized, _) = with_size(keys, size);
        let sized = ProgramKeys { name: Some(format!("{}-{size}", asked.name)), ..sized };
        let sizes = keys.sizes.clone();
        let size = Box::new(ProgramSize { size, sizes, program: asked.clone() });
        Ok(UserProgram { size: Some(size), ..checked_program(&sized)? })
    };
    keys.sizes.iter().copied().map(program_of_size).collect()
}

/// Program with a size in its texts, and the number of texts that have one.
fn with_size(keys: &ProgramKeys, size: u64) -> (ProgramKeys, usize) {
    let mut sized = ProgramKeys { sizes: Vec::new(), ..keys.clone() };
    let ProgramKeys { command, script, env, setup, prepare, .. } = &mut sized;
    let texts = command.iter_mut().chain(env).chain(script).chain(setup).chain(prepare);
    let with_place = texts.filter(|text| text.contains(UserProgram::SIZE));
    let replaced =
        with_place.map(|text| *text = text.replace(UserProgram::SIZE, &size.to_string()));
    let count = replaced.count();
    (sized, count)
}

pub(super) fn checked_program(keys: &ProgramKeys) -> Result<UserProgram, Error> {
    let refuse = |reason: &str| Err(program_error(reason));
    let texts = || {
        let optional = [&keys.root, &keys.stdin, &keys.script, &keys.setup, &keys.prepare];
        let optional = optional.into_iter().chain([&keys.ops_from]).flatten();
        let lists = keys.command.iter().chain(&keys.files).chain(&keys.env);
        lists.chain(optional).chain(keys.numbers.values())
    };
    let command = command_words(keys)?;
    if texts().any(|text| text.contains('\0')) {
        return refuse("a text has a NUL character; remove it");
    }
    let usual = || keys.command.first().map_or("script".to_owned(), |command| usual_name(command));
    let name = keys.name.clone().unwrap_or_else(usual);
    if !is_name(&name) {
        let name = escape(&name).to_string();
        let reason = format!(
            "its name must be of a-z, 0-9 and -, at most 32, and {name:?} is not; give it another \
             one with --name"
        );
        return Err(program_error(reason));
    }
    check_files(&keys.files)?;
    let numbers = checked_numbers(keys)?;
    let (status, warm_up) = (keys.status.unwrap_or(0), keys.warm_up.unwrap_or(0));
    if status > 255 {
        return refuse("its status must be of 0 to 255; give it another status");
    }
    if warm_up > 1000 {
        return refuse("its warm_up must be of 0 to 1000; give it fewer warm-up runs");
    }
    if keys.ops == Some(0) {
        return refuse("its ops must be at least 1; give it the number of its operations");
    }
    Ok(UserProgram {
        name,
        command,
        script: keys.script.clone(),
        files: keys.files.clone(),
        root: keys.root.clone(),
        trace_files: keys.trace_files,
        traced: Vec::new(),
        env: keys.env.clone(),
        stdin: keys.stdin.clone(),
        user: keys.user.unwrap_or(0),
        status,
        setup: keys.setup.clone(),
        prepare: keys.prepare.clone(),
        numbers,
        any_output: keys.any_output,
        warm_up,
        ops: keys.ops,
        size: None,
        is_from_workload_file: false,
    })
}

fn command_words(keys: &ProgramKeys) -> Result<Vec<String>, Error> {
    let refuse = |reason: &str| Err(program_error(reason));
    match (keys.command.as_slice(), &keys.script) {
        (command, None) if command.first().is_none_or(String::is_empty) => {
            refuse("it has no command; write -- ./program, or command = [\"./program\"]")
        }
        (command, None) if command.len() > MOST_WORDS => {
            refuse("its command has more than 4000 words; write them into a file that it reads")
        }
        (command, None) => Ok(command.to_vec()),
        ([], Some(_)) => Ok(SCRIPT_COMMAND.map(str::to_owned).to_vec()),
        _ => refuse("it has a command and a script; remove one of them"),
    }
}

/// Refuses files without a path, or without a place of their own in the guest.
pub(super) fn check_files(files: &[String]) -> Result<(), Error> {
    let mut places = BTreeSet::new();
    for file in files {
        let refuse = |why: &str| {
            let reason = format!("its file {} {why}", escape(file));
            Err(program_error(reason))
        };
        let (path, place) = UserProgram::path_and_guest_path(file);
        if path.is_empty() {
            return refuse("has no path; write PATH or PATH:AT");
        }
        let Some(place) = place else { continue };
        let parts = || Path::new(place).components().filter(|part| *part != Component::CurDir);
        let names = || parts().filter(|part| matches!(part, Component::Normal(_)));
        if names().next().is_none() || parts().any(|part| part == Component::ParentDir) {
            return refuse(
                "has no place in the guest; give one without `..` behind the colon: relative to \
                 /work, or absolute",
            );
        }
        let place = Path::new(UserProgram::WORK).join(parts().collect::<PathBuf>());
        if let Some(directory) = GUEST_MOUNTS.iter().find(|mounted| place.starts_with(mounted)) {
            return refuse(&format!(
                "would be hidden, because the guest mounts {directory}; give another place"
            ));
        }
        if !places.insert(place) {
            return refuse("has the place of another; give it one of its own");
        }
    }
    Ok(())
}

/// Named numbers in the output, checked; `ops` is the operation count.
fn checked_numbers(keys: &ProgramKeys) -> Result<BTreeMap<String, String>, Error> {
    let refuse = |reason: String| Err(program_error(reason));
    let is_taken = |name: &str| ["exit-status", "stdout", UserProgram::OPS].contains(&name);
    let ops_number = keys.ops_from.iter().map(|text| (UserProgram::OPS, text));
    let user_numbers = keys.numbers.iter().map(|(name, text)| (name.as_str(), text));
    if let Some((name, _)) = user_numbers.clone().find(|(name, _)| !is_name(name) || is_taken(name))
    {
        let name = escape(name);
        return refuse(format!("a number cannot be called \"{name}\"; give it another name"));
    }
    if user_numbers.clone().chain(ops_number.clone()).any(|(_, text)| text.is_empty()) {
        return refuse("there is no text before a number; write what it prints before it".into());
    }
    if keys.numbers.len() > MOST_NUMBERS {
        return refuse(format!("it has more than {MOST_NUMBERS} numbers; name fewer"));
    }
    if keys.ops.is_some() && keys.ops_from.is_some() {
        return refuse("it has ops and ops_from; remove one of them".into());
    }
    Ok(user_numbers.chain(ops_number).map(|(name, text)| (name.to_owned(), text.clone())).collect())
}

/// Checked hooks: commands beside rows that are no programs, in a root directory of their own.
pub(super) fn checked_hooks(keys: &ProgramKeys) -> Result<UserProgram, Error> {
    let ProgramKeys { files, root, trace_files, env, setup, prepare, .. } = keys.clone();
    let command = vec!["sh".to_owned()];
    let name = Some("rows".to_owned());
    let hooks = ProgramKeys {
        command,
        name,
        files,
        root,
        trace_files,
        env,
        setup,
        prepare,
        ..ProgramKeys::default()
    };
    let is_all = *keys == ProgramKeys { command: Vec::new(), name: None, ..hooks.clone() };
    if !is_all || (keys.setup.is_none() && keys.prepare.is_none()) {
        let reason =
            "hooks have setup or prepare, and files, root, trace_files and env; remove other keys";
        return Err(program_error(reason));
    }
    checked_program(&hooks)
}

/// Commands and files that only one Side's guest has, in a root directory of their own.
pub fn own_setup(subject: &Subject) -> Option<UserProgram> {
    let setup = Some(subject.setup.clone()?);
    let (name, command) = ("side".to_owned(), vec!["sh".to_owned()]);
    let files = subject.files.clone();
    Some(UserProgram { name, command, files, setup, ..UserProgram::default() })
}

/// File of a kernel setting, by its name in sysctl(8). Of `.` and `/`, the one that comes first
/// separates the parts, and the other one stands for a dot within a part.
pub fn sysctl_file(name: &str) -> String {
    let is_dotted = name.find(['.', '/']).is_none_or(|index| name.as_bytes()[index] == b'.');
    let swap = |c: char| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    let below = if is_dotted { name.chars().map(swap).collect() } else { name.to_owned() };
    format!("/proc/sys/{below}")
}

/// Refuses kernel settings that cannot be written; the error is the reason.
pub(super) fn check_sysctl(sysctl: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in sysctl {
        let file = sysctl_file(name);
        let is_part = |part: &str| !["", ".", ".."].contains(&part);
        let is_plain = name.bytes().all(|byte| byte.is_ascii_graphic()) && file.len() < 200;
        if !is_plain || !file["/proc/sys/".len()..].split('/').all(is_part) {
            let name = escape(name);
            return Err(format!("{name:?} is no name that sysctl -a lists; correct it"));
        }
        if value.is_empty() || value.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(format!("{name} needs a value of one line; write {name}=1"));
        }
    }
    Ok(())
}

/// Returns true if a row or a guest's program can have this name.
pub(super) fn is_name(name: &str) -> bool {
    let is_of_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(is_of_name)
}

/// Default name of a program: its file name, with `-` for characters that a row's name cannot have.
fn usual_name(command: &str) -> String {
    let file = command.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let allowed = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    let name: String = file.chars().map(allowed).take(LONGEST_NAME).collect();
    name.trim_matches('-').to_owned()
}

pub(super) fn checked_programs(keys: &[ProgramKeys]) -> Result<Vec<UserProgram>, Error> {
    let numbered_error = |(index, program): (usize, &ProgramKeys)| {
        sized_programs(program).map_err(|error| match error.to_string().strip_prefix(PROGRAM) {
            Some(reason) if keys.len() > 1 => {
                program_error(format!("of {} programs, number {}: {reason}", keys.len(), index + 1))
            }
            _ => error,
        })
    };
    let programs =
        keys.iter().enumerate().map(numbered_error).collect::<Result<Vec<_>, _>>()?.concat();
    let computed = programs.iter().flat_map(|program| {
        let names = computed_row_names(program);
        names.into_iter().map(|row| Workload { row, ..program_row(0, program) })
    });
    each_once(rows_with_definitions(&programs, &[]).into_iter().chain(computed).collect())?;
    Ok(programs)
}

/// Names of the rows that are computed from two sizes of a program; empty for its larger size.
fn computed_row_names(program: &UserProgram) -> Vec<String> {
    let size = program.size.as_ref().filter(|size| size.is_smallest());
    size.map_or_else(Vec::new, |size| vec![size.program.row(), size.program.start_row()])
}

/// Parameter that selects one of a guest's programs.
const NUMBER: &str = "number";

impl ExperimentFile {
    /// Keeps the programs of these names and removes the others.
    pub fn choose_programs(&mut self, names: &[&str]) -> Result<(), Error> {
        let known = checked_programs(&self.program)?;
        let is_asked_for = |keys: &ProgramKeys| -> Result<bool, Error> {
            Ok(sized_programs(keys)?.iter().flat_map(row_names).any(|name| names.contains(&name)))
        };
        let asked_for = self.program.iter().map(is_asked_for).collect::<Result<Vec<bool>, Error>>();
        let mut asked_for = asked_for?.into_iter();
        self.program.retain(|_| asked_for.next().unwrap_or(false));
        self.all_programs = known.iter().map(UserProgram::row).collect();
        Ok(())
    }

    /// Checks that there are programs of these names.
    pub fn check_programs(&self, names: &[&str]) -> Result<(), Error> {
        let known = checked_programs(&self.program)?;
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
            return Err(program_error(reason));
        }
        Ok(())
    }
}

/// Names that ask for a program: its own, and that of all its sizes.
fn row_names(program: &UserProgram) -> impl Iterator<Item = &str> {
    let asked = program.size.iter().map(|size| size.program.name.as_str());
    asked.chain([program.name.as_str()])
}

/// Splits names of rows into programs of workload files and others. The others are `None` if all
/// rows are asked for, or only programs.
pub(super) fn split_names(
    definitions: &[Definition],
    names: Option<&[String]>,
) -> Result<(Vec<UserProgram>, Option<Vec<String>>), Error> {
    let Some(names) = names else { return Ok((Vec::new(), None)) };
    let (mut programs, mut others) = (Vec::new(), Vec::new());
    for name in names {
        let is_asked_for = |definition: &&Definition| match name.strip_prefix('@') {
            Some(group) => definition.group == group && !definition.hidden,
            None => definition.name == *name,
        };
        let asked: Vec<&Definition> = definitions.iter().filter(is_asked_for).collect();
        let (program, params) = name.split_once(':').unwrap_or((name, ""));
        let has_none =
            |definition: &Definition| definition.name == program && definition.run.is_some();
        if !params.is_empty() && definitions.iter().any(has_none) {
            let reason = format!("{program} takes no parameters; name it alone");
            return Err(program_error(reason));
        }
        if asked.iter().all(|definition| definition.run.is_none()) {
            others.push(name.clone());
            continue;
        }
        for definition in asked {
            match &definition.run {
                Some(run) => programs.push(defined_program(definition, run)?),
                None => others.push(definition.name.clone()),
            }
        }
    }
    let is_alone = others.is_empty() && !programs.is_empty();
    Ok((programs, (!is_alone).then_some(others)))
}

fn defined_program(definition: &Definition, run: &ProgramKeys) -> Result<UserProgram, Error> {
    let name = Some(definition.name.clone());
    let keys = ProgramKeys { name, ops: Some(definition.ops), ..run.clone() };
    Ok(UserProgram { is_from_workload_file: true, ..checked_program(&keys)? })
}

/// A row for each program, without titles of workload files.
pub fn program_rows(programs: &[UserProgram]) -> Vec<Workload> {
    rows_with_definitions(programs, &[])
}

/// A row for each program, in a guest that has only that program.
pub(super) fn rows_alone(programs: &[UserProgram], definitions: &[Definition]) -> Vec<Workload> {
    let mut rows = rows_with_definitions(programs, definitions);
    for row in &mut rows {
        row.params.insert(NUMBER.to_owned(), 0);
    }
    rows
}

/// A row for each program, in guests that have all of them.
pub(super) fn rows_with_definitions(
    programs: &[UserProgram],
    definitions: &[Definition],
) -> Vec<Workload> {
    let row = |(number, program): (u64, &UserProgram)| {
        let definition = definitions
            .iter()
            .find(|definition| program.is_from_workload_file && definition.name == program.name);
        let row = program_row(number, program);
        match definition {
            Some(Definition { title, operation, .. }) => {
                Workload { title: title.clone(), operation: operation.clone(), ..row }
            }
            None => row,
        }
    };
    (0..).zip(programs).map(row).collect()
}

fn program_row(number: u64, program: &UserProgram) -> Workload {
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
    // Usual values are left out, so that counts stay comparable with older ones.
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
    use super::*;
    use crate::workloads::definitions;

    fn keys(command: &[&str]) -> ProgramKeys {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        ProgramKeys { command, ..ProgramKeys::default() }
    }

    fn with_files(files: &[&str]) -> ProgramKeys {
        let files = files.iter().map(|file| (*file).to_owned()).collect();
        ProgramKeys { files, ..keys(&["a"]) }
    }

    fn number(name: &str, text: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(name.to_owned(), text.to_owned())])
    }

    #[test]
    fn a_file_may_have_a_place_outside_of_the_working_directory() {
        let asked = with_files(&["a:/etc/passwd", "b:etc/passwd", "c:below/./it"]);
        assert_eq!(checked_program(&asked).unwrap().files, asked.files);
    }

    #[test]
    fn hooks_are_no_program() {
        let setup = ProgramKeys { setup: Some("true".into()), ..ProgramKeys::default() };
        assert_eq!(checked_hooks(&setup).unwrap().setup.unwrap(), "true");
        for bad in
            [ProgramKeys { ops: Some(1), ..setup.clone() }, ProgramKeys { setup: None, ..setup }]
        {
            assert!(checked_hooks(&bad).unwrap_err().to_string().starts_with(PROGRAM));
        }
    }

    #[test]
    fn a_kernel_setting_is_a_file_below_proc_sys() {
        assert_eq!(sysctl_file("kernel.randomize_va_space"), "/proc/sys/kernel/randomize_va_space");
        let mtu = "/proc/sys/net/ipv4/conf/eth0.100/mtu";
        assert_eq!(sysctl_file("net.ipv4.conf.eth0/100.mtu"), mtu);
        assert_eq!(sysctl_file("net/ipv4/conf/eth0.100/mtu"), mtu);
        let check = |name: &str, value: &str| check_sysctl(&[(name.into(), value.into())].into());
        assert_eq!(check("vm.swappiness", "10"), Ok(()));
        for (name, value) in
            [("vm..x", "1"), ("../x", "1"), ("vm.x y", "1"), ("vm.x", ""), ("vm.x", "1\n2")]
        {
            assert!(check(name, value).is_err(), "{name}={value}");
        }
    }

    #[test]
    fn a_row_is_named_after_its_command() {
        let named = |command: &str| checked_program(&keys(&[command])).unwrap().row();
        assert_eq!(named("git"), "program:git");
        assert_eq!(named("./build/My_Test.sh"), "program:my-test-sh");
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        for (bad, reason) in [
            (keys(&[]), "command"),
            (keys(&["a\0b"]), "NUL"),
            (keys(&["__"]), "name"),
            (ProgramKeys { status: Some(256), ..keys(&["a"]) }, "status"),
            (ProgramKeys { warm_up: Some(1001), ..keys(&["a"]) }, "warm_up"),
            (ProgramKeys { ops: Some(0), ..keys(&["a"]) }, "ops"),
            (ProgramKeys { numbers: number("stdout", "x"), ..keys(&["a"]) }, "called"),
            (ProgramKeys { numbers: number("n", ""), ..keys(&["a"]) }, "no text"),
            (with_files(&[":x"]), "no path"),
            (with_files(&["a:"]), "no place"),
            (with_files(&["a:."]), "no place"),
            (with_files(&["a:/"]), "no place"),
            (with_files(&["a:../x"]), "no place"),
            (with_files(&["a:/etc/../../x"]), "no place"),
            (with_files(&["a:/proc/x"]), "mounts /proc"),
            (with_files(&["a:/dev"]), "mounts /dev"),
            (with_files(&["a:x", "b", "c:./x"]), "place of another"),
            (with_files(&["a:x", "c:/work/x"]), "place of another"),
            (ProgramKeys { script: Some("a".into()), ..keys(&["a"]) }, "script"),
        ] {
            let refused = checked_program(&bad).unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}");
        }
    }

    fn one_word(command: &str) -> ProgramKeys {
        ProgramKeys { command: vec![command.to_owned()], ..ProgramKeys::default() }
    }

    #[test]
    fn the_wrong_one_of_several_programs_is_named() {
        let refused = checked_programs(&[one_word("one"), one_word("")]).unwrap_err().to_string();
        assert!(refused.contains("of 2 programs, number 2: it has no command"), "{refused}");
        let alone = checked_programs(&[one_word("")]).unwrap_err().to_string();
        assert!(alone.contains(": it has no command"), "{alone}");
    }

    #[test]
    fn programs_of_a_file_are_chosen_by_name() {
        let program = vec![one_word("one"), one_word("two"), one_word("three")];
        let mut file = ExperimentFile { program: program.clone(), ..ExperimentFile::default() };
        file.choose_programs(&["three", "one"]).unwrap();
        assert_eq!(file.program, [one_word("one"), one_word("three")]);
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
        let both = checked_programs(std::slice::from_ref(&keys)).unwrap();
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
            let refused = checked_programs(&[keys]).unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}");
        }
        // Computed rows have names that can collide too.
        let start = ProgramKeys { name: Some("a-start".to_owned()), ..one_word("b") };
        let twice = checked_programs(&[sized(&["a", "{size}"], &[1, 2]), start]);
        assert!(twice.unwrap_err().to_string().contains("is named twice"));
    }

    #[test]
    fn two_of_one_name_are_refused() {
        let twice = checked_programs(&[one_word("a"), one_word("/bin/a")]);
        assert!(twice.unwrap_err().to_string().contains("is named twice"));
    }

    #[test]
    fn programs_of_workload_files_are_told_from_other_rows() {
        let definitions = definitions().unwrap();
        let split = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let (programs, others) = split_names(&definitions, Some(&names)).unwrap();
            (rows_with_definitions(&programs, &definitions), others)
        };
        let (rows, others) = split(&["git-status", "getppid"]);
        assert_eq!((rows[0].row.as_str(), rows.len()), ("git-status", 1));
        assert!(rows[0].title.contains("git status"), "{}", rows[0].title);
        assert_eq!(others.unwrap(), ["getppid"]);
        let (rows, others) = split(&["@applications"]);
        assert!(rows.len() > 5 && others.is_none());
        let with = split_names(&definitions, Some(&["git-status:ops=2".to_owned()]));
        assert!(with.unwrap_err().to_string().starts_with(PROGRAM));
        // Names that are no programs are checked where all rows are known.
        assert_eq!(split(&["nonsense"]), (Vec::new(), Some(vec!["nonsense".into()])));
    }
}
