//! Tests that boot the distribution's kernel under QEMU's translator, or need its image.

mod bisect;
mod campaign;
mod cli;
#[path = "../common/mod.rs"]
mod common;
mod controls;
mod costly;
mod cpus;
mod digits;
mod disk;
mod docs;
mod exact;
mod failures;
mod hooks;
mod kernels;
mod kvm_engine;
mod ledger;
mod machine;
mod newer_qemu;
mod paths;
mod program;
mod resume;
mod self_test;
mod snapshots;
mod store;
mod unwind;
mod validate;
mod workloads;
