//! Tests of guests on KVM: of this machine, and of a KVM host within QEMU. `make test-exits` runs
//! them.

mod calibrate;
#[path = "../common/mod.rs"]
mod common;
mod exits_command;
mod exits_host;
mod exits_live;
mod kvm_engine;
mod kvm_host;
mod vmm;
