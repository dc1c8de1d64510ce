//! The exit status says who can do something about an error.

use std::io;

use ktax::cmd::Exit;
use ktax::exits::live::find_vm_by_name;
use ktax::flow::Error;
use ktax::flow::exits::tables;
use ktax::kernel::KernelSpec;
use ktax::kvmhost;
use ktax::model::{Blame, Failure};
use ktax::rundir::AnyRunDir;

use crate::common::{ktax, run};

fn no_directory() -> Error {
    AnyRunDir::open("no/such/directory".as_ref()).unwrap_err()
}

/// An error of every kind and every layer.
fn errors() -> Vec<(Error, Blame)> {
    use Blame::{Guest, Host, User};
    let panic = || Failure::Panic { message: "no init".to_owned() };
    vec![
        (tables("Cargo.toml", None).unwrap_err(), User),
        (find_vm_by_name("no such VM").unwrap_err(), Host),
        (Error::user("wrong"), User),
        (no_directory(), User),
        ("".parse::<KernelSpec>().unwrap_err(), User),
        (ktax::model::Error::guest("the build failed"), Guest),
        (ktax::model::Error::host("the build was killed"), Host),
        (kvmhost::init().unwrap_err(), Host),
        (Error::host("no signals"), Host),
        (panic().into(), Host),
        (io::Error::other("x").into(), Host),
    ]
}

#[test]
fn each_blame_has_its_exit_status() {
    for (error, blame) in errors() {
        assert_eq!(error.blame, blame, "{error}");
        let status = match blame {
            Blame::User => 2,
            Blame::Guest => 69,
            Blame::Host => 1,
        };
        assert_eq!(Exit::from_error(&error) as u8, status, "{error}");
        assert!(!error.is_cancelled(), "{error}");
    }
}

#[test]
fn an_interrupt_has_its_own_exit_status() {
    assert_eq!(Exit::from_error(&Error::cancelled()) as u8, 130);
}

/// A ledger's statuses are not those of a comparison, so its help has them, and its page the same.
#[test]
fn the_help_and_the_page_of_a_ledger_say_what_its_exit_status_means() {
    let help = run(ktax().args(["ledger", "--help"])).stdout;
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/ledger.md"));
    let page = page.unwrap();
    let rows = page.lines().filter_map(|line| {
        let (status, meaning) = line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")?;
        Some((status.parse::<u8>().ok()?, meaning))
    });
    let rows: Vec<(u8, &str)> = rows.collect();
    let statuses: Vec<u8> = rows.iter().map(|(status, _)| *status).collect();
    let exits = [Exit::Ok, Exit::Internal, Exit::Usage, Exit::Inconclusive, Exit::NotRun];
    assert_eq!(statuses, [&exits.map(|exit| exit as u8)[..], &[Exit::Cancelled as u8]].concat());
    for (status, meaning) in rows {
        let is_documented =
            help.lines().any(|line| line.contains(&format!("{status} ")) && line.contains(meaning));
        assert!(is_documented, "{status}: {meaning}\n{help}");
    }
}

/// `git bisect run` takes 1 to 124 as "bad": a typo must not blame a commit, and what is missing
/// here is missing with every commit.
#[test]
fn errors_without_a_measurement_stop_a_bisection() {
    let compare = |arguments: &[&str]| {
        let mut ktax = ktax();
        ktax.args(["compare", "--bisect", "--out", "/dev/null/run"]).args(arguments);
        run(ktax.env("KTAX_QEMU", "/nonexistent/qemu")).status
    };
    let sides = ["--kernel", "/etc/hostname", "--change-boot-line", "nosmp", "-w", "getppid"];
    assert_eq!(compare(&["--nosuch"]), 130);
    assert_eq!(compare(&["--layouts", "x"]), 130);
    assert_eq!(compare(&[&sides[..], &["-w", "nosuch"]].concat()), 130);
    assert_eq!(compare(&sides), 128 + 69);
    assert_eq!(run(ktax().args(["compare", "--bisect", "--help"])).status, 0);
}
