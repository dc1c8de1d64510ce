//! A function that getppid calls directly, through a pointer, and by a tail call, and a locked
//! instruction: each path has its calls, each kind its count, and nothing else moves.

use std::fs;

use ktax::model::{Comparison, Context, Costly, Verdict};
use ktax::rundir::profile;

use super::SOURCE;
use crate::common::rows::costly_of;
use crate::common::{ktax, measurements, printed, row, run, scratch};

const FUNCTIONS: &str = "\
#define PLANTED static noinline __attribute__((__noipa__)) int
PLANTED planted(int x)
{
	asm volatile(\".rept 10\\n\\tnop\\n\\t.endr\");
	return x;
}
static int (*volatile planted_pointer)(int) = planted;
static atomic_t planted_counter;
PLANTED planted_by_pointer(int x)
{
	return planted_pointer(x) + 1;
}
PLANTED planted_tail(int x)
{
	return planted(x + 1);
}
";

const CALLS: &str = "\
	planted(1);
	planted_by_pointer(2);
	planted_tail(3);
	asm volatile(\"lock incl %0\" : \"+m\"(planted_counter.counter));
";

/// Those above the planted function.
const PATHS: [&str; 3] = [
    ";__do_sys_getppid;planted",
    ";__do_sys_getppid;planted_by_pointer;planted",
    ";__do_sys_getppid;planted_tail;planted",
];

fn patch() -> String {
    let added = |lines: &str| lines.lines().map(|line| format!("+{line}\n")).collect::<String>();
    let count = 5 + FUNCTIONS.lines().count() + CALLS.lines().count();
    format!(
        "--- a/kernel/sys.c\n+++ b/kernel/sys.c\n@@ -984,5 +984,{count} @@\n{} \
         SYSCALL_DEFINE0(getppid)\n {{\n \tint pid;\n{} \n \trcu_read_lock();\n",
        added(FUNCTIONS),
        added(CALLS)
    )
}

/// Calls and instructions below each of the paths, by what ends so.
fn reached(profile: Vec<u8>) -> [(u64, u64); 3] {
    let parsed = profile::parse(&String::from_utf8(profile).unwrap()).unwrap();
    let mut above: Vec<String> = Vec::new();
    let mut found = [(0, 0); 3];
    for path in parsed.profile.paths.iter().filter(|path| path.context == Context::Process) {
        above.truncate(path.depth as usize);
        above.push(path.function.clone());
        let stack = above.join(";");
        for (end, found) in PATHS.iter().zip(&mut found) {
            if stack.ends_with(end) {
                *found =
                    (found.0 + path.calls, found.1 + path.counts[ktax::model::Basic::Instructions]);
            }
        }
    }
    found
}

#[test]
fn a_function_is_found_below_each_path_that_reaches_it_and_nothing_else_moves() {
    let dir = scratch();
    fs::write(dir.path().join("reached.patch"), patch()).unwrap();
    let subject = format!("kernel = \"{SOURCE}\", config = [\"CONFIG_KALLSYMS_ALL=y\"]");
    let text = format!(
        "title = \"t\"\nbase = {{ {subject} }}\n\
         change = {{ {subject}, patches = [\"reached.patch\"] }}\nworkloads = [\"getppid\"]\n"
    );
    fs::write(dir.path().join("e.toml"), text).unwrap();
    let command = ["compare", "e.toml", "--json", "--out", "out"];
    let ran = run(ktax().current_dir(dir.path()).args(command));
    assert_eq!(ran.status, 3, "{}\n{}", ran.stderr, ran.stdout);
    let comparison: Comparison = printed::comparison(&ran.stdout);
    let row = row(&comparison, "getppid");
    let effect = &row.effects()[0];
    assert_eq!(effect.verdict, Verdict::Slower);
    let is_own = |name: &str| {
        name.starts_with("planted") || name == "__do_sys_getppid" || name.starts_with("__x86_")
    };
    let others: Vec<_> = effect.functions.iter().filter(|one| !is_own(&one.function)).collect();
    assert!(others.is_empty(), "{others:?}");
    // A return that jumps to a thunk is one more for each of the functions.
    let mut changed = costly_of(row, |effect| effect.verdict.is_change());
    changed.retain(|(kind, _)| *kind != Costly::ReturnThunk);
    assert_eq!(changed, [(Costly::Locked, 1.0), (Costly::Indirect, 1.0)]);

    let mut seen = 0;
    for (path, profile) in measurements(&dir.path().join("out")) {
        let name = path.to_string_lossy().into_owned();
        if !name.ends_with("getppid.profile.tsv") {
            continue;
        }
        let found = reached(profile);
        match name.contains("-base/") {
            true => assert_eq!(found, [(0, 0); 3], "{name}"),
            false => assert!(
                found.iter().all(|one| *one == found[0])
                    && found[0].0 == row.ops
                    && found[0].1 >= 10 * row.ops,
                "{name}: {found:?}"
            ),
        }
        seen += 1;
    }
    assert_eq!(seen, 10);
}
