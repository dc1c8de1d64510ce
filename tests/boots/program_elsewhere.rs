//! A program of the user's in the commands that ask more than one comparison.

use std::fs;
use std::path::Path;

use ktax::model::Verdict;

use crate::common::kvm::compiled;
use crate::common::{KERNEL, QUICK_BOOT, ktax, printed, run, scratch};

const CALLS: &str = "#include <sys/syscall.h>\n#include <unistd.h>\n\
    int main(void) { for (int i = 0; i < 1000; i++) syscall(SYS_getppid); return 0; }\n";

#[test]
fn a_search_finds_what_a_program_pays_for() {
    let dir = scratch();
    let dir = dir.path();
    let program = program(dir);
    let change = format!("{QUICK_BOOT} ktax.a=1 audit=1 ktax.c=1");
    let subjects = ["--kernel", KERNEL, "--base-boot-line", QUICK_BOOT, "--change-boot-line"];
    let mut ktax = ktax();
    let ktax = ktax.current_dir(dir).args(["bisect", "start", "--json"]).args(subjects);
    let ran = run(ktax.arg(&change).args(["--out", "search", "--", &program, "1000"]));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let bisection = printed::bisection(&ran.stdout);
    let found = bisection.found.as_deref().unwrap();
    let names: Vec<_> = found.iter().map(|one| &*bisection.elements[one.after].name).collect();
    assert_eq!(names, ["audit=1"]);
}

#[test]
fn a_ledger_says_what_a_program_pays_for_each_addition() {
    let dir = scratch();
    let dir = dir.path();
    let program = program(dir);
    let text = format!(
        "title = \"t\"\nlayouts = 5\n\
         base = {{ kernel = \"{KERNEL}\", boot_line = \"{QUICK_BOOT}\" }}\n\
         add = [{{ name = \"nothing\", boot_line = \"ktax.a=1\" }},\n\
         {{ name = \"audit\", boot_line = \"audit=1\" }}]\n[[program]]\ncommand = [\"{program}\"]\n"
    );
    fs::write(dir.join("l.toml"), text).unwrap();
    let args = ["ledger", "l.toml", "--json", "--out", "ledger"];
    let ran = run(ktax().current_dir(dir).args(args));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let ledger = printed::ledger(&ran.stdout);
    let [row] = &ledger.rows[..] else { panic!("{:?}", ledger.rows) };
    assert_eq!(row.row, "program:program");
    let entries: Vec<_> =
        row.entries.iter().map(|entry| (entry.name.as_str(), entry.verdict)).collect();
    assert_eq!(entries, [("audit", Verdict::Slower), ("nothing", Verdict::NoDetectedChange)]);
}

/// Compiles the program; returns its name as seen from the directory.
fn program(dir: &Path) -> String {
    let path = compiled(dir, CALLS);
    format!("./{}", path.file_name().unwrap().to_str().unwrap())
}
