//! Boots of hosts, all by the product's own code; what they say is kept as long as the test runs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ktax::engine::{Cancel, Limits};
use ktax::kvmhost::{Board, BoardHost, PLAIN};

use crate::common::{Need, cache, require, scratch};

/// Generous: a boot is seconds on an idle machine.
const LIMIT: Duration = Duration::from_secs(300);

/// Whether a host of it can be had; a test that needs it says so and is not run.
#[track_caller]
pub fn is_missing(board: &Board) -> bool {
    let looked = board.look(None);
    let why = looked.as_ref().err().map(|error| format!("{error}, or `sh scripts/setup-hosts.sh`"));
    !require(Need::Hosts, looked.is_ok(), why.unwrap_or_default())
}

/// All that comes by the console until the end: in each boot the same, to the byte.
pub fn boot(board: &Board, kernel: &Path, module: Option<&Path>) -> String {
    let (dir, qemu) = (scratch(), board.look(None).unwrap());
    let host = BoardHost {
        board,
        qemu: &qemu,
        kernel,
        boot_line: "",
        limits: &Limits { time: LIMIT, ..Limits::default() },
        cancel: &Cancel::default(),
        scratch: &cache().join("runs"),
    };
    let initrd = dir.path().join("initrd");
    fs::write(&initrd, host.archive(module).unwrap()).unwrap();
    let [first, second] = [(); 2].map(|()| {
        host.boot(&initrd, &PLAIN, "").unwrap_or_else(|error| panic!("{error}: {error:?}"))
    });
    assert_eq!(first, second);
    first
}
