//! Compiles the init of Linux guests (KTAX_VM_INIT), and the program with which a KVM host freezes
//! itself (KTAX_FREEZE).

use ktax_build::{compile, watch};

fn main() {
    let init = ["guest/vm/init.c".into()];
    compile("KTAX_VM_INIT", "ktax-vm-init", &init, &["-static", "-Os", "-s"]);
    let freeze = ["guest/vm/freeze.c".into(), "guest/freeze.c".into()];
    compile("KTAX_FREEZE", "ktax-freeze", &freeze, &["-static", "-Os", "-s"]);
    watch(&["guest"]);
}
