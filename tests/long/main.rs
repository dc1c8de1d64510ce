//! Tests that take many minutes: kernels from source, hosts of other architectures, a campaign of
//! comparisons, and the experiments' answers. `make test-kernels`, `make test-hosts`, `make
//! controls` and `make test-long` run them.

mod answers;
#[path = "../common/mod.rs"]
mod common;
mod fleet;
mod hosts;
mod hundred;
mod source;
