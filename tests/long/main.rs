//! Tests that take many minutes: kernels from source, hosts of other architectures, a campaign of
//! comparisons, the experiments' answers, and what is released. `make test-kernels`, `make
//! test-hosts`, `make controls`, `make test-long` and `make test-install` run them.

mod answers;
mod applications;
#[path = "../common/mod.rs"]
mod common;
mod cpus;
mod disks;
mod fleet;
mod functions;
mod hosts;
mod hundred;
mod install;
mod machine;
mod programs;
mod publication;
mod source;
mod versions;
