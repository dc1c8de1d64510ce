// The messages say what the fields are.
#![allow(missing_docs)]

use thiserror::Error;

use crate::engine::noise;
use crate::model::{Blame, RunsOn, Side};
use crate::text::shell_path;

/// Why there is no block, or something else than blocks of kernels that the user boots.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum BlockError {
    /// One command measures both Sides, and cannot boot another kernel in the middle.
    #[error("the sides are kernels that you boot; {next}")]
    Booted { next: String },
    #[error(
        "--side does not apply, because {}; type `ktax run {}`",
        both_sides(*.runs_on),
        shell_path(.path)
    )]
    NotBooted { path: String, runs_on: RunsOn },
    #[error(
        "--side only applies to timed runs whose kernels you boot; type `ktax run {}`",
        shell_path(.path)
    )]
    NotTimed { path: String },
    #[error("the {} was already measured since this machine booted; reboot first", .side.name())]
    SameBoot { side: Side },
    /// What runs is not the kernel on which the Side was measured first.
    #[error(
        "this is kernel {}, but the {} was measured on a kernel with another release, build or \
         boot line; boot that one",
        .kernel.escape_default(),
        .side.name()
    )]
    OtherKernel { kernel: String, side: Side },
    /// What runs is the kernel of the other Side.
    #[error(
        "this is kernel {}, on which the {} was measured; boot the kernel of the {}",
        .kernel.escape_default(),
        .measured.name(),
        .side.name()
    )]
    OtherSide { kernel: String, measured: Side, side: Side },
}

impl BlockError {
    /// Who can do something about it.
    pub fn blame(&self) -> Blame {
        Blame::User
    }
}

fn both_sides(runs_on: RunsOn) -> &'static str {
    match runs_on {
        RunsOn::RunningKernel => "both sides run on this kernel",
        RunsOn::Guests => "ktax starts both sides itself",
    }
}

/// Why vCPUs cannot be kept on the CPUs that were asked for, or on which a run began.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum CpuError {
    #[error(
        "--cores (machine.cores) is {cores}, but this machine has {there} CPUs; use at most {there}"
    )]
    TooFew { cores: usize, there: usize },
    #[error(
        "--cores (machine.cores) is {cores}, but ktax may use only {allowed} of this machine's \
         {there} CPUs; use at most {allowed}, or allow ktax more CPUs (taskset, cpusets)"
    )]
    TooFewAllowed { cores: usize, allowed: usize, there: usize },
    #[error(
        "CPU {cpu}, on which this run began, is not among those that ktax may use ({}); let ktax \
         use it, or measure again into a new directory",
        noise::list(.allowed)
    )]
    NotAllowed { cpu: u32, allowed: Vec<u32> },
    #[error(
        "CPU {cpu}, on which this run began, is offline; bring it online, or measure again into a \
         new directory"
    )]
    Offline { cpu: u32 },
}

impl CpuError {
    /// Who can do something about it.
    pub fn blame(&self) -> Blame {
        Blame::User
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_kernel_is_escaped() {
        let kernel = "6.1\u{1b}".to_owned();
        let said = BlockError::OtherKernel { kernel, side: Side::Change }.to_string();
        assert!(said.starts_with("this is kernel 6.1\\u{1b}, but the change was"), "{said}");
    }

    #[test]
    fn cpus_have_their_numbers_and_what_to_do() {
        let (cores, there) = (3, 2);
        for (error, said) in [
            (CpuError::TooFew { cores, there }, "is 3, but this machine has 2 CPUs; use at most 2"),
            (
                CpuError::TooFewAllowed { cores, allowed: 1, there },
                "is 3, but ktax may use only 1 of this machine's 2 CPUs; use at most 1, or",
            ),
            (
                CpuError::NotAllowed { cpu: 0, allowed: vec![2, 3] },
                "CPU 0, on which this run began, is not among those that ktax may use (2-3); let",
            ),
            (CpuError::Offline { cpu: 5 }, "CPU 5, on which this run began, is offline; bring it"),
        ] {
            assert!(error.to_string().contains(said), "{error}");
        }
    }
}
