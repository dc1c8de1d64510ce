//! A program of the user's, as a file or the command line says it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use super::error::PlanError;
use ktax_host::text::escape;
use ktax_model::{ProgramSize, Subject, UserProgram};

const LONGEST_NAME: usize = 32;
const MOST_NUMBERS: usize = 16;
/// The guest reads 4096, the path and an end among them.
const MOST_WORDS: usize = 4000;

/// Directories that a guest mounts over what is there.
const MADE_BY_THE_GUEST: [&str; 4] = ["/dev", "/proc", "/run", "/sys"];

/// The command that runs a script.
const OF_SCRIPT: [&str; 3] = ["sh", "-e", UserProgram::SCRIPT];

/// What an experiment file or the command line says of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProgramKeys {
    /// What its row is called, behind `program:`; the command's name where absent.
    pub name: Option<String>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// A shell script, in the place of a command.
    pub script: Option<String>,
    /// More files for it, `PATH` or `PATH:AT`: `AT` is absolute or below `/work`.
    pub files: Vec<String>,
    /// A directory or a tar archive whose content becomes the root directory of the guest.
    pub root: Option<String>,
    /// Whether to run it once on this machine, in a sandbox, to find the files that it needs.
    pub trace_files: bool,
    /// Its environment beside the usual one: `NAME=VALUE`.
    pub env: Vec<String>,
    /// The file that it reads from its standard input.
    pub stdin: Option<String>,
    /// The user, and the group, that it runs as, by number.
    pub user: Option<u32>,
    /// The exit status that says that it did its work.
    pub status: Option<u32>,
    /// Commands for a shell in its root directory, before anything is measured.
    pub setup: Option<String>,
    /// The same, before each run.
    pub prepare: Option<String>,
    /// Numbers that it prints, as a part of its work signature: by name, the text before each.
    pub numbers: BTreeMap<String, String>,
    /// Whether it may print something else each time.
    pub any_output: bool,
    /// How often it runs before it is counted.
    pub warm_up: Option<u32>,
    /// How many operations one run of it is.
    pub ops: Option<u64>,
    /// The text before the number of its operations in what it prints.
    pub ops_from: Option<String>,
    /// Two sizes, of which each stands for `{size}` in its texts.
    pub sizes: Vec<u64>,
}

/// The program, checked: one for each of its sizes.
pub(super) fn programs_of(keys: &ProgramKeys) -> Result<Vec<UserProgram>, PlanError> {
    let refuse = |reason: &str| Err(PlanError::Program { reason: reason.to_owned() });
    if keys.sizes.is_empty() {
        return Ok(vec![program(keys)?]);
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
    let asked = program(keys)?;
    let of_size = |size: u64| {
        let (own, _) = with_size(keys, size);
        let own = ProgramKeys { name: Some(format!("{}-{size}", asked.name)), ..own };
        let sizes = keys.sizes.clone();
        let size = Box::new(ProgramSize { size, sizes, program: asked.clone() });
        Ok(UserProgram { size: Some(size), ..program(&own)? })
    };
    keys.sizes.iter().copied().map(of_size).collect()
}

/// The program with a size in its texts, and in how many of them it stands.
fn with_size(keys: &ProgramKeys, size: u64) -> (ProgramKeys, usize) {
    let mut own = ProgramKeys { sizes: Vec::new(), ..keys.clone() };
    let ProgramKeys { command, script, env, setup, prepare, .. } = &mut own;
    let texts = command.iter_mut().chain(env).chain(script).chain(setup).chain(prepare);
    let with_place = texts.filter(|text| text.contains(UserProgram::SIZE));
    let replaced =
        with_place.map(|text| *text = text.replace(UserProgram::SIZE, &size.to_string()));
    let count = replaced.count();
    (own, count)
}

/// The program, checked.
pub(super) fn program(keys: &ProgramKeys) -> Result<UserProgram, PlanError> {
    let refuse = |reason: &str| Err(PlanError::Program { reason: reason.to_owned() });
    let texts = || {
        let optional = [&keys.root, &keys.stdin, &keys.script, &keys.setup, &keys.prepare];
        let optional = optional.into_iter().chain([&keys.ops_from]).flatten();
        let lists = keys.command.iter().chain(&keys.files).chain(&keys.env);
        lists.chain(optional).chain(keys.numbers.values())
    };
    let command = command(keys)?;
    if texts().any(|text| text.contains('\0')) {
        return refuse("a text has a NUL character; remove it");
    }
    let usual = || keys.command.first().map_or("script".to_owned(), |it| usual_name(it));
    let name = keys.name.clone().unwrap_or_else(usual);
    if !is_name(&name) {
        let name = escape(&name).to_string();
        let reason = format!(
            "its name must be of a-z, 0-9 and -, at most 32, and {name:?} is not; give it another \
             one with --name"
        );
        return Err(PlanError::Program { reason });
    }
    check_files(&keys.files)?;
    let numbers = numbers(keys)?;
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
        defined: false,
    })
}

fn command(keys: &ProgramKeys) -> Result<Vec<String>, PlanError> {
    let refuse = |reason: &str| Err(PlanError::Program { reason: reason.to_owned() });
    match (keys.command.as_slice(), &keys.script) {
        (command, None) if command.first().is_none_or(String::is_empty) => {
            refuse("it has no command; write -- ./program, or command = [\"./program\"]")
        }
        (command, None) if command.len() > MOST_WORDS => {
            refuse("its command has more than 4000 words; write them into a file that it reads")
        }
        (command, None) => Ok(command.to_vec()),
        ([], Some(_)) => Ok(OF_SCRIPT.map(str::to_owned).to_vec()),
        _ => refuse("it has a command and a script; remove one of them"),
    }
}

/// Each file has a path, and a place of its own below the working directory.
pub(super) fn check_files(files: &[String]) -> Result<(), PlanError> {
    let mut places = BTreeSet::new();
    for file in files {
        let refuse = |why: &str| {
            let reason = format!("its file {} {why}", escape(file));
            Err(PlanError::Program { reason })
        };
        let (path, at) = UserProgram::path_and_place(file);
        if path.is_empty() {
            return refuse("has no path; write PATH or PATH:AT");
        }
        let Some(at) = at else { continue };
        let parts = || Path::new(at).components().filter(|part| *part != Component::CurDir);
        let names = || parts().filter(|part| matches!(part, Component::Normal(_)));
        if names().next().is_none() || parts().any(|part| part == Component::ParentDir) {
            return refuse(
                "has no place in the guest; give one without `..` behind the colon: relative to \
                 /work, or absolute",
            );
        }
        let place = Path::new(UserProgram::WORK).join(parts().collect::<PathBuf>());
        if let Some(directory) = MADE_BY_THE_GUEST.iter().find(|mounted| place.starts_with(mounted))
        {
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

/// The numbers that it prints, of which one may be that of its operations.
fn numbers(keys: &ProgramKeys) -> Result<BTreeMap<String, String>, PlanError> {
    let refuse = |reason: String| Err(PlanError::Program { reason });
    let is_taken = |name: &str| ["exit-status", "stdout", UserProgram::OPS].contains(&name);
    let of_ops = keys.ops_from.iter().map(|text| (UserProgram::OPS, text));
    let of_user = keys.numbers.iter().map(|(name, text)| (name.as_str(), text));
    if let Some((name, _)) = of_user.clone().find(|(name, _)| !is_name(name) || is_taken(name)) {
        let name = escape(name);
        return refuse(format!("a number cannot be called \"{name}\"; give it another name"));
    }
    if of_user.clone().chain(of_ops.clone()).any(|(_, text)| text.is_empty()) {
        return refuse("there is no text before a number; write what it prints before it".into());
    }
    if keys.numbers.len() > MOST_NUMBERS {
        return refuse(format!("it has more than {MOST_NUMBERS} numbers; name fewer"));
    }
    if keys.ops.is_some() && keys.ops_from.is_some() {
        return refuse("it has ops and ops_from; remove one of them".into());
    }
    Ok(of_user.chain(of_ops).map(|(name, text)| (name.to_owned(), text.clone())).collect())
}

/// What runs beside rows that are no programs, in a root directory of its own.
pub(super) fn hooks(keys: &ProgramKeys) -> Result<UserProgram, PlanError> {
    let ProgramKeys { files, root, trace_files, env, setup, prepare, .. } = keys.clone();
    let command = vec!["sh".to_owned()];
    let name = Some("rows".to_owned());
    let of_hooks = ProgramKeys {
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
    let is_all = *keys == ProgramKeys { command: Vec::new(), name: None, ..of_hooks.clone() };
    if !is_all || (keys.setup.is_none() && keys.prepare.is_none()) {
        let reason =
            "hooks have setup or prepare, and files, root, trace_files and env; remove other keys";
        return Err(PlanError::Program { reason: reason.into() });
    }
    program(&of_hooks)
}

/// The commands and files that only one Side's guest has, in a root directory of their own.
pub fn own_setup(subject: &Subject) -> Option<UserProgram> {
    let setup = Some(subject.setup.clone()?);
    let (name, command) = ("side".to_owned(), vec!["sh".to_owned()]);
    let files = subject.files.clone();
    Some(UserProgram { name, command, files, setup, ..UserProgram::default() })
}

/// The file of a kernel setting, by its name as sysctl(8) has it: of `.` and `/`, the one that
/// comes first separates the parts, and the other one stands for a dot within a part.
pub fn sysctl_file(name: &str) -> String {
    let is_dotted = name.find(['.', '/']).is_none_or(|at| name.as_bytes()[at] == b'.');
    let swap = |c: char| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    let below = if is_dotted { name.chars().map(swap).collect() } else { name.to_owned() };
    format!("/proc/sys/{below}")
}

/// Why these kernel settings cannot be written.
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

/// Whether a row or a guest's program can have this name.
pub(super) fn is_name(name: &str) -> bool {
    let is_of_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(is_of_name)
}

/// The file's name, with what a row's name cannot have as `-`.
fn usual_name(command: &str) -> String {
    let file = command.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let of = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    let name: String = file.chars().map(of).take(LONGEST_NAME).collect();
    name.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(program(&asked).unwrap().files, asked.files);
    }

    #[test]
    fn hooks_are_no_program() {
        let setup = ProgramKeys { setup: Some("true".into()), ..ProgramKeys::default() };
        assert_eq!(hooks(&setup).unwrap().setup.unwrap(), "true");
        for bad in
            [ProgramKeys { ops: Some(1), ..setup.clone() }, ProgramKeys { setup: None, ..setup }]
        {
            assert!(matches!(hooks(&bad), Err(PlanError::Program { .. })));
        }
    }

    #[test]
    fn a_kernel_setting_is_a_file_below_proc_sys() {
        assert_eq!(sysctl_file("kernel.randomize_va_space"), "/proc/sys/kernel/randomize_va_space");
        let of_interface = "/proc/sys/net/ipv4/conf/eth0.100/mtu";
        assert_eq!(sysctl_file("net.ipv4.conf.eth0/100.mtu"), of_interface);
        assert_eq!(sysctl_file("net/ipv4/conf/eth0.100/mtu"), of_interface);
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
        let named = |command: &str| program(&keys(&[command])).unwrap().row();
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
            let refused = program(&bad).unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
