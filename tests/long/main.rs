//! Tests that take many minutes: kernels from source, hosts of other architectures, a campaign of
//! comparisons. `make test-kernels`, `make test-hosts` and `make controls` run them.

mod campaign;
#[path = "../common/mod.rs"]
mod common;
mod hosts;
mod source;
