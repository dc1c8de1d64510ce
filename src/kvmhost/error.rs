use std::io;

use crate::engine::qemu::QemuError;
use crate::model::Failure;

/// Why there is no answer from a host. Each message ends with the next step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    #[error("cannot make the host's files from {path}: {error}: make it readable, with space left")]
    File { path: String, error: io::Error },
    #[error("{path} is no program that the host could run ({reason}): build ktax for this machine")]
    Program { path: String, reason: &'static str },
    #[error("the KVM host is not usable: {reason}: give a kernel with KVM for AMD, --kernel")]
    Unusable { reason: String },
    #[error(
        "the KVM host did not answer: {failure}; its console ends with `{console}`: \
         try a longer --time-limit, or run `ktax doctor`"
    )]
    Failed { failure: Failure, console: String },
    #[error("{row}: {what}; it said `{said}`: try it by hand with `ktax kvm-host`")]
    Guest { row: String, what: String, said: String },
    #[error(
        "for a KVM host on {name} {missing} is missing: \
         `sudo apt-get install --no-install-recommends {packages}`"
    )]
    Missing { name: &'static str, missing: String, packages: String },
    #[error("{compiler}-gcc cannot compile the host's program: {said}: install it again")]
    Compiler { compiler: &'static str, said: String },
    #[error(transparent)]
    Qemu(#[from] QemuError),
    #[error(
        "the KVM host on {name} did not answer: {problem}: all that it said is in {console}; \
         see what its kernel lacks, or try a longer --time-limit"
    )]
    Board { name: &'static str, problem: String, console: String },
    #[error("stopped: run the same command again")]
    Cancelled,
}
