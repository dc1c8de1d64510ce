//! Programs of the user's: each has a guest of its own, and one that fails says what it lacked.

use std::fs;
use std::path::Path;

use ktax::engine::RawAnswer;
use ktax::model::{Failure, Outcome, Sample, Side, UserProgram};
use ktax::program::{PackedPrograms, ProgramsAlone, pack_alone};

use super::scene::Scene;
use crate::common::{open_counts, scratch};

const MIB: u64 = 1 << 20;

/// Programs of these names beside the row `getppid`.
fn scene(names: &[&str], dir: &Path) -> Scene {
    let rows: Vec<String> = names.iter().map(|name| format!("program:{name}")).collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).chain(["getppid"]).collect();
    let mut scene = Scene::new(&rows);
    let program = |name: &&str| {
        let command = vec!["true".to_owned(), (*name).to_owned()];
        UserProgram { name: (*name).to_owned(), command, ops: Some(1), ..UserProgram::default() }
    };
    let programs: Vec<UserProgram> = names.iter().map(program).collect();
    let pack = |program| pack_alone(program, (0, None), dir, 64 * MIB, &dir.join("cache"));
    let packed: Vec<PackedPrograms> =
        programs.iter().map(|program| pack(program).unwrap()).collect();
    scene.programs = ProgramsAlone { beside: None, programs: packed };
    scene.plan.method.asked.guest.programs = programs;
    for row in &mut scene.plan.method.workloads {
        if UserProgram::is_row(&row.row) {
            row.program = "program".to_owned();
        }
    }
    scene
}

#[test]
fn each_program_has_a_guest_without_the_others() {
    let dir = scratch();
    let scene = scene(&["one", "two"], dir.path());
    let ran = scene.run(&dir.path().join("out")).complete();
    let archive = |place: usize| scene.programs.programs[place].sha256.clone();
    let with = |place: usize| format!("000-base boot with {}", archive(place));
    let run = "000-base program".to_owned();
    let wanted = [
        "000-base boot".to_owned(),
        with(0),
        run.clone(),
        with(1),
        run,
        "000-base getppid".to_owned(),
    ];
    assert_eq!(ran.calls[..6], wanted);
    let script = fs::read_to_string(dir.path().join("out/boots/000-base/argv")).unwrap();
    assert_eq!(script.matches("program:").count(), 2, "{script}");
}

#[test]
fn a_program_alone_is_in_the_first_guest() {
    let dir = scratch();
    let mut scene = scene(&["one"], dir.path());
    scene.plan.method.workloads.truncate(1);
    let ran = scene.run(&dir.path().join("out")).complete();
    let with = format!("boot with {}", scene.programs.programs[0].sha256);
    assert_eq!(ran.calls[..2], [format!("000-base {with}"), "000-base program".to_owned()]);
}

#[test]
fn a_program_that_fails_says_which_files_of_this_machine_it_lacked() {
    let dir = scratch();
    let answer = |text: &str| {
        let wire = format!("ktax 1\nstart program\n{text}").into_bytes();
        RawAnswer { wire, ..RawAnswer::default() }
    };
    let scene = scene(&["one"], dir.path())
        .answer("program", Side::Change, 0, answer("fail its exit status is 2, expected 0: no x\n"))
        .answer(
            "program traced",
            Side::Change,
            0,
            answer("opened /etc\nmissing /nowhere\nmissing /etc/passwd\nvalue status 2\nend\n"),
        );
    scene.run(&dir.path().join("out")).complete();
    let out = open_counts(&dir.path().join("out")).unwrap();
    let run = out.run::<Sample>(&out.plan().method.steps[1], "program:one").unwrap().unwrap();
    let Outcome::Failed(Failure::Program { message }) = run.outcome else { panic!("{run:?}") };
    assert_eq!(
        message,
        "its exit status is 2, expected 0: no x; the guest lacks /etc/passwd, which is on this \
         machine: add --trace-files, or --file for each"
    );
}
