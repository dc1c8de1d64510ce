//! Programs of the user: checks of their keys, and their rows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::experiment::{Error, PROGRAM_ERROR, program_error};
use crate::file::ExperimentFile;
use crate::workloads::{Definition, unique_rows};
use ktax_host::text::{escape, shell_line};
use ktax_model::{ProgramSize, RUNNER, Region, Signature, Subject, UserProgram, Workload};
use serde::{Deserialize, Serialize};

/// Maximum length of the name of a program.
const MAX_NAME_LENGTH: usize = 32;
/// Maximum number of named numbers in the output of a program.
const MAX_NUMBERS: usize = 16;
/// Maximum number of words of a command. The guest reads 4096 words, with the path and a
/// terminator.
const MAX_WORDS: usize = 4000;

/// Mount points of a guest, which hide the files of the archive below them.
const GUEST_MOUNTS: [&str; 4] = ["/dev", "/proc", "/run", "/sys"];

/// The command that runs a script.
const SCRIPT_COMMAND: [&str; 3] = ["sh", "-e", UserProgram::SCRIPT];

/// Keys of a program in an experiment file or on the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProgramKeys {
    /// Name of the row, without `program:`; by default the file name of the command.
    pub name: Option<String>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Shell script, instead of a command.
    pub script: Option<String>,
    /// Additional files, `PATH` or `PATH:AT`: `AT` is absolute or relative to `/work`.
    pub files: Vec<String>,
    /// A directory or a tar archive whose content becomes the root directory of the guest.
    pub root: Option<String>,
    /// True to run the program once on this machine, in a sandbox, to find the files that it needs.
    pub trace_files: bool,
    /// Additional environment variables: `NAME=VALUE`.
    pub env: Vec<String>,
    /// File that the program reads from its standard input.
    pub stdin: Option<String>,
    /// Number of the user and group that run the program.
    pub user: Option<u32>,
    /// Exit status of success.
    pub status: Option<u32>,
    /// Shell commands in the root directory of the program, run once before all measurements.
    pub setup: Option<String>,
    /// Shell commands in the root directory of the program, run before each run.
    pub prepare: Option<String>,
    /// Numbers in the output that are part of the work signature: name, and text before the number.
    pub numbers: BTreeMap<String, String>,
    /// True if the output may differ between runs.
    pub any_output: bool,
    /// Number of runs before the counted run.
    pub warm_up: Option<u32>,
    /// Number of operations in one run.
    pub ops: Option<u64>,
    /// Text in the output before the number of operations.
    pub ops_from: Option<String>,
    /// Two sizes; each replaces `{size}` in the texts of the program.
    pub sizes: Vec<u64>,
}

/// Checks a program. Returns a program for each size.
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
        return refuse("its sizes are the numbers of its operations; remove ops and ops_from");
    }
    if replace_size(keys, from).1 == 0 {
        return refuse(
            "it does not contain {size}; write {size} in its command, script, setup or prepare \
             instead of the number of its operations",
        );
    }
    let unsized_program = checked_program(keys)?;
    let program_of_size = |size: u64| {
        let (sized, _) = replace_size(keys, size);
        let sized = ProgramKeys { name: Some(format!("{}-{size}", unsized_program.name)), ..sized };
        let sizes = keys.sizes.clone();
        let size = Box::new(ProgramSize { size, sizes, program: unsized_program.clone() });
        Ok(UserProgram { size: Some(size), ..checked_program(&sized)? })
    };
    keys.sizes.iter().copied().map(program_of_size).collect()
}

/// Replaces `{size}` in the texts of a program. Also returns the number of texts with `{size}`.
fn replace_size(keys: &ProgramKeys, size: u64) -> (ProgramKeys, usize) {
    let mut sized = ProgramKeys { sizes: Vec::new(), ..keys.clone() };
    let ProgramKeys { command, script, env, setup, prepare, .. } = &mut sized;
    let texts = command.iter_mut().chain(env).chain(script).chain(setup).chain(prepare);
    let sized_texts = texts.filter(|text| text.contains(UserProgram::SIZE));
    let replacements =
        sized_texts.map(|text| *text = text.replace(UserProgram::SIZE, &size.to_string()));
    let count = replacements.count();
    (sized, count)
}

/// Checks a program without sizes.
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
    let default =
        || keys.command.first().map_or("script".to_owned(), |command| default_name(command));
    let name = keys.name.clone().unwrap_or_else(default);
    if !is_name(&name) {
        let name = escape(&name).to_string();
        let reason = format!(
            "its name must consist of at most 32 of a-z, 0-9 and -, but is {name:?}; give it \
             another name with --name"
        );
        return Err(program_error(reason));
    }
    check_files(&keys.files)?;
    let numbers = checked_numbers(keys)?;
    let (status, warm_up) = (keys.status.unwrap_or(0), keys.warm_up.unwrap_or(0));
    if status > 255 {
        return refuse("its status must be 0 to 255; give it another status");
    }
    if warm_up > 1000 {
        return refuse("its warm_up must be 0 to 1000; give it fewer warm-up runs");
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

/// Words of the command, or of the shell that runs the script.
fn command_words(keys: &ProgramKeys) -> Result<Vec<String>, Error> {
    let refuse = |reason: &str| Err(program_error(reason));
    match (keys.command.as_slice(), &keys.script) {
        (command, None) if command.first().is_none_or(String::is_empty) => {
            refuse("it has no command; write -- ./program, or command = [\"./program\"]")
        }
        (command, None) if command.len() > MAX_WORDS => refuse(
            "its command has more than 4000 words; write the words into a file that it reads",
        ),
        (command, None) => Ok(command.to_vec()),
        ([], Some(_)) => Ok(SCRIPT_COMMAND.map(str::to_owned).to_vec()),
        _ => refuse("it has a command and a script; remove one of them"),
    }
}

/// Refuses files without a path, and files whose path in the guest is invalid or not unique.
pub(super) fn check_files(files: &[String]) -> Result<(), Error> {
    let mut guest_paths = BTreeSet::new();
    for file in files {
        let refuse = |problem: &str| {
            let reason = format!("its file {} {problem}", escape(file));
            Err(program_error(reason))
        };
        let (path, guest_path) = UserProgram::path_and_guest_path(file);
        if path.is_empty() {
            return refuse("has no path; write PATH or PATH:AT");
        }
        let Some(guest_path) = guest_path else { continue };
        let parts = || Path::new(guest_path).components().filter(|part| *part != Component::CurDir);
        let names = || parts().filter(|part| matches!(part, Component::Normal(_)));
        if names().next().is_none() || parts().any(|part| part == Component::ParentDir) {
            return refuse(
                "has no path in the guest; write one without `..` after the colon: relative to \
                 /work, or absolute",
            );
        }
        let guest_path = Path::new(UserProgram::WORK).join(parts().collect::<PathBuf>());
        if let Some(directory) = GUEST_MOUNTS.iter().find(|mounted| guest_path.starts_with(mounted))
        {
            return refuse(&format!(
                "would be hidden, because the guest mounts {directory}; give another path"
            ));
        }
        if !guest_paths.insert(guest_path) {
            return refuse("has the same path in the guest as another file; give it another path");
        }
    }
    Ok(())
}

/// Checks the named numbers in the output; `ops` is the operation count.
fn checked_numbers(keys: &ProgramKeys) -> Result<BTreeMap<String, String>, Error> {
    let refuse = |reason: String| Err(program_error(reason));
    let is_reserved = |name: &str| ["exit-status", "stdout", UserProgram::OPS].contains(&name);
    let ops_number = keys.ops_from.iter().map(|text| (UserProgram::OPS, text));
    let user_numbers = keys.numbers.iter().map(|(name, text)| (name.as_str(), text));
    if let Some((name, _)) =
        user_numbers.clone().find(|(name, _)| !is_name(name) || is_reserved(name))
    {
        let name = escape(name);
        return refuse(format!("a number cannot be called \"{name}\"; give it another name"));
    }
    if user_numbers.clone().chain(ops_number.clone()).any(|(_, text)| text.is_empty()) {
        return refuse(
            "there is no text before a number; write the text that the program prints before it"
                .into(),
        );
    }
    if keys.numbers.len() > MAX_NUMBERS {
        return refuse(format!("it has more than {MAX_NUMBERS} numbers; name fewer"));
    }
    if keys.ops.is_some() && keys.ops_from.is_some() {
        return refuse("it has ops and ops_from; remove one of them".into());
    }
    Ok(user_numbers.chain(ops_number).map(|(name, text)| (name.to_owned(), text.clone())).collect())
}

/// Checks hooks: commands for rows that are not programs, with their own root directory.
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
    let has_only_hook_keys =
        *keys == ProgramKeys { command: Vec::new(), name: None, ..hooks.clone() };
    if !has_only_hook_keys || (keys.setup.is_none() && keys.prepare.is_none()) {
        let reason = "hooks need setup or prepare, and may have files, root, trace_files and env; \
                      remove other keys";
        return Err(program_error(reason));
    }
    checked_program(&hooks)
}

/// Commands and files that only the guest of one Side has, with their own root directory; `None`
/// without commands.
pub fn own_setup(subject: &Subject) -> Option<UserProgram> {
    let setup = Some(subject.setup.clone()?);
    let (name, command) = ("side".to_owned(), vec!["sh".to_owned()]);
    let files = subject.files.clone();
    Some(UserProgram { name, command, files, setup, ..UserProgram::default() })
}

/// Path of a kernel setting, by its name in sysctl(8). The first `.` or `/` is the separator of the
/// parts, and the other character stands for a dot within a part.
pub fn sysctl_file(name: &str) -> String {
    let is_dotted = name.find(['.', '/']).is_none_or(|index| name.as_bytes()[index] == b'.');
    let swap = |c: char| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    let relative = if is_dotted { name.chars().map(swap).collect() } else { name.to_owned() };
    format!("/proc/sys/{relative}")
}

/// Refuses kernel settings that cannot be written; the error is the reason.
pub(super) fn check_sysctl(sysctl: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in sysctl {
        let file = sysctl_file(name);
        let is_part = |part: &str| !["", ".", ".."].contains(&part);
        let is_plain = name.bytes().all(|byte| byte.is_ascii_graphic()) && file.len() < 200;
        if !is_plain || !file["/proc/sys/".len()..].split('/').all(is_part) {
            let name = escape(name);
            return Err(format!(
                "{name:?} is not the name of a sysctl; `sysctl -a` lists the names"
            ));
        }
        if value.is_empty() || value.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(format!("{name} needs a value of one line; write {name}=1"));
        }
    }
    Ok(())
}

/// Returns true if a row or a guest's program can have this name.
pub(super) fn is_name(name: &str) -> bool {
    let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=MAX_NAME_LENGTH).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// Default name of a program: its file name, with `-` instead of characters that a row's name
/// cannot have.
fn default_name(command: &str) -> String {
    let file = command.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let allowed = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    let name: String = file.chars().map(allowed).take(MAX_NAME_LENGTH).collect();
    name.trim_matches('-').to_owned()
}

/// Checks all programs of a file, and their names. Returns a program for each size.
pub(super) fn checked_programs(keys: &[ProgramKeys]) -> Result<Vec<UserProgram>, Error> {
    let numbered_error = |(index, program): (usize, &ProgramKeys)| {
        sized_programs(program).map_err(|error| {
            match error.to_string().strip_prefix(PROGRAM_ERROR) {
                Some(reason) if keys.len() > 1 => program_error(format!(
                    "number {} of {} programs: {reason}",
                    index + 1,
                    keys.len()
                )),
                _ => error,
            }
        })
    };
    let programs =
        keys.iter().enumerate().map(numbered_error).collect::<Result<Vec<_>, _>>()?.concat();
    let computed = programs.iter().flat_map(|program| {
        let names = computed_row_names(program);
        names.into_iter().map(|row| Workload { row, ..program_row(0, program) })
    });
    unique_rows(rows_with_definitions(&programs, &[]).into_iter().chain(computed).collect())?;
    Ok(programs)
}

/// Names of the rows that are computed from two sizes of a program. Only the smaller size has these
/// rows, so that each is listed once.
fn computed_row_names(program: &UserProgram) -> Vec<String> {
    let size = program.size.as_ref().filter(|size| size.is_smallest());
    size.map_or_else(Vec::new, |size| vec![size.program.row(), size.program.start_row()])
}

/// Name of the parameter that selects a program of the guest.
const PROGRAM_NUMBER: &str = "number";

impl ExperimentFile {
    /// Keeps the programs with these names and removes all others.
    pub fn choose_programs(&mut self, names: &[&str]) -> Result<(), Error> {
        let programs = checked_programs(&self.program)?;
        let is_selected = |keys: &ProgramKeys| -> Result<bool, Error> {
            Ok(sized_programs(keys)?.iter().flat_map(row_names).any(|name| names.contains(&name)))
        };
        let selected = self.program.iter().map(is_selected).collect::<Result<Vec<bool>, Error>>();
        let mut selected = selected?.into_iter();
        self.program.retain(|_| selected.next().unwrap_or(false));
        self.all_programs = programs.iter().map(UserProgram::row).collect();
        Ok(())
    }

    /// Refuses names that no program has.
    pub fn check_programs(&self, names: &[&str]) -> Result<(), Error> {
        let programs = checked_programs(&self.program)?;
        let is_known =
            |name: &&str| programs.iter().flat_map(row_names).any(|row_name| row_name == *name);
        if let Some(name) = names.iter().find(|name| !is_known(name)) {
            let rows =
                programs.iter().map(UserProgram::row).chain(self.all_programs.iter().cloned());
            let rows = Vec::from_iter(rows.collect::<BTreeSet<_>>());
            let reason = match rows.is_empty() {
                true => format!(
                    "there is no program {name:?}, because none is defined; remove -w \
                     program:{name}"
                ),
                false => format!("there is no program {name:?}; choose one of {}", rows.join(", ")),
            };
            return Err(program_error(reason));
        }
        Ok(())
    }
}

/// Names that select a program: its own name, and the common name of its sizes.
fn row_names(program: &UserProgram) -> impl Iterator<Item = &str> {
    let common = program.size.iter().map(|size| size.program.name.as_str());
    common.chain([program.name.as_str()])
}

/// Splits the names of rows into programs of workload files and other names. The other names are
/// `None` if `names` is, or if all names are programs.
pub(super) fn split_names(
    definitions: &[Definition],
    names: Option<&[String]>,
) -> Result<(Vec<UserProgram>, Option<Vec<String>>), Error> {
    let Some(names) = names else { return Ok((Vec::new(), None)) };
    let (mut programs, mut others) = (Vec::new(), Vec::new());
    for name in names {
        let is_selected = |definition: &&Definition| match name.strip_prefix('@') {
            Some(group) => definition.group == group && !definition.hidden,
            None => definition.name == *name,
        };
        let selected: Vec<&Definition> = definitions.iter().filter(is_selected).collect();
        let (program, params) = name.split_once(':').unwrap_or((name, ""));
        let is_program =
            |definition: &Definition| definition.name == program && definition.run.is_some();
        if !params.is_empty() && definitions.iter().any(is_program) {
            let reason = format!("{program} takes no parameters; name it alone");
            return Err(program_error(reason));
        }
        if selected.iter().all(|definition| definition.run.is_none()) {
            others.push(name.clone());
            continue;
        }
        for definition in selected {
            match &definition.run {
                Some(run) => programs.push(defined_program(definition, run)?),
                None => others.push(definition.name.clone()),
            }
        }
    }
    let has_only_programs = others.is_empty() && !programs.is_empty();
    Ok((programs, (!has_only_programs).then_some(others)))
}

fn defined_program(definition: &Definition, run: &ProgramKeys) -> Result<UserProgram, Error> {
    let name = Some(definition.name.clone());
    let keys = ProgramKeys { name, ops: Some(definition.ops), ..run.clone() };
    Ok(UserProgram { is_from_workload_file: true, ..checked_program(&keys)? })
}

/// Row of each program, without the titles of workload files.
pub fn program_rows(programs: &[UserProgram]) -> Vec<Workload> {
    rows_with_definitions(programs, &[])
}

/// Row of each program, in a guest that has only that program.
pub(super) fn rows_of_separate_guests(
    programs: &[UserProgram],
    definitions: &[Definition],
) -> Vec<Workload> {
    let mut rows = rows_with_definitions(programs, definitions);
    for row in &mut rows {
        row.params.insert(PROGRAM_NUMBER.to_owned(), 0);
    }
    rows
}

/// Row of each program, in guests that have all programs.
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
        (PROGRAM_NUMBER, number),
        ("status", program.status.into()),
        ("user", program.user.into()),
        ("warm-up", program.warm_up.into()),
    ];
    // Leave out default values, so that counts stay comparable with older counts.
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

    fn program_with_files(files: &[&str]) -> ProgramKeys {
        let files = files.iter().map(|file| (*file).to_owned()).collect();
        ProgramKeys { files, ..keys(&["a"]) }
    }

    fn number(name: &str, text: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(name.to_owned(), text.to_owned())])
    }

    #[test]
    fn files_may_have_a_path_outside_of_the_working_directory() {
        let asked = program_with_files(&["a:/etc/passwd", "b:etc/passwd", "c:below/./it"]);
        assert_eq!(checked_program(&asked).unwrap().files, asked.files);
    }

    #[test]
    fn hooks_have_no_keys_of_programs() {
        let setup = ProgramKeys { setup: Some("true".into()), ..ProgramKeys::default() };
        assert_eq!(checked_hooks(&setup).unwrap().setup.unwrap(), "true");
        for bad in
            [ProgramKeys { ops: Some(1), ..setup.clone() }, ProgramKeys { setup: None, ..setup }]
        {
            assert!(checked_hooks(&bad).unwrap_err().to_string().starts_with(PROGRAM_ERROR));
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
    fn the_default_name_is_the_file_name_of_the_command() {
        let named = |command: &str| checked_program(&keys(&[command])).unwrap().row();
        assert_eq!(named("git"), "program:git");
        assert_eq!(named("./build/My_Test.sh"), "program:my-test-sh");
    }

    #[test]
    fn invalid_programs_are_refused() {
        for (bad, reason) in [
            (keys(&[]), "command"),
            (keys(&["a\0b"]), "NUL"),
            (keys(&["__"]), "name"),
            (ProgramKeys { status: Some(256), ..keys(&["a"]) }, "status"),
            (ProgramKeys { warm_up: Some(1001), ..keys(&["a"]) }, "warm_up"),
            (ProgramKeys { ops: Some(0), ..keys(&["a"]) }, "ops"),
            (ProgramKeys { numbers: number("stdout", "x"), ..keys(&["a"]) }, "called"),
            (ProgramKeys { numbers: number("n", ""), ..keys(&["a"]) }, "no text"),
            (program_with_files(&[":x"]), "no path"),
            (program_with_files(&["a:"]), "no path in"),
            (program_with_files(&["a:."]), "no path in"),
            (program_with_files(&["a:/"]), "no path in"),
            (program_with_files(&["a:../x"]), "no path in"),
            (program_with_files(&["a:/etc/../../x"]), "no path in"),
            (program_with_files(&["a:/proc/x"]), "mounts /proc"),
            (program_with_files(&["a:/dev"]), "mounts /dev"),
            (program_with_files(&["a:x", "b", "c:./x"]), "same path in the guest as another"),
            (program_with_files(&["a:x", "c:/work/x"]), "same path in the guest as another"),
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
    fn errors_of_several_programs_have_their_number() {
        let refused = checked_programs(&[one_word("one"), one_word("")]).unwrap_err().to_string();
        assert!(refused.contains("number 2 of 2 programs: it has no command"), "{refused}");
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
        let all = "choose one of program:one, program:three, program:two";
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
    fn invalid_sizes_are_refused() {
        let with_ops = ProgramKeys { ops: Some(5), ..sized(&["a", "{size}"], &[1, 2]) };
        for (keys, reason) in [
            (sized(&["a", "{size}"], &[1]), "needs two sizes"),
            (sized(&["a", "{size}"], &[2, 1]), "less than the second"),
            (sized(&["a", "{size}"], &[0, 1]), "at least 1"),
            (sized(&["a", "size"], &[1, 2]), "it does not contain {size}"),
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
    fn programs_with_the_same_name_are_refused() {
        let twice = checked_programs(&[one_word("a"), one_word("/bin/a")]);
        assert!(twice.unwrap_err().to_string().contains("is named twice"));
    }

    #[test]
    fn programs_of_workload_files_are_split_from_other_rows() {
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
        let with_params = split_names(&definitions, Some(&["git-status:ops=2".to_owned()]));
        assert!(with_params.unwrap_err().to_string().starts_with(PROGRAM_ERROR));
        // Names that are no programs are checked where all rows are known.
        assert_eq!(split(&["nonsense"]), (Vec::new(), Some(vec!["nonsense".into()])));
    }
}
