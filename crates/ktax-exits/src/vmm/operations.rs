//! What costly instructions take on this machine's processor, in cycles of its time-stamp counter:
//! guests without an operating system execute them in the kernel's mode.

use std::sync::Arc;

use vm_memory::{Bytes, GuestAddress};

use super::error::VmmError;
use super::machine::{Machine, Memory, write};
use super::operation_code::{CODE, RESULTS, ROUNDS, WARM_UP, Way, nothing, ways};
use super::outcome::{GuestEnd, GuestOutcome};
use super::raw::{Ports, vcpu_at};
use super::{crew, long_mode};
use ktax_model::{Costly, LowHigh, hull};
use ktax_stats::repeats::nine_of_ten;

const MEMORY_BYTES: usize = 1 << 20;

/// Cycles of one such instruction: 9 of 10 values lie between. `None` where this processor, or the
/// hypervisor below it, does not execute it, where it cannot be timed so, and if the user stops it.
///
/// # Errors
/// There is no KVM, or it refuses such a guest.
pub fn cycles(kind: Costly) -> Result<Option<LowHigh>, VmmError> {
    let each: Result<Vec<_>, _> = ways(kind).iter().map(cycles_of).collect();
    Ok(hull(each?.into_iter().flatten()))
}

/// Cycles of an instruction that does nothing. Where that is many, the hypervisor executes each
/// instruction itself, and no time here is the processor's.
///
/// # Errors
/// As of [`cycles`].
pub fn cycles_of_nothing() -> Result<Option<f64>, VmmError> {
    Ok(cycles_of(&nothing())?.map(|[low, _]| low))
}

fn cycles_of(way: &Way) -> Result<Option<LowHigh>, VmmError> {
    let machine = Machine::new(MEMORY_BYTES)?;
    long_mode::write_tables(&machine.memory)?;
    write(&machine.memory, "the code", &way.assemble(), Way::address())?;
    let vcpu = vcpu_at(&machine, 0, CODE.into())?;
    let GuestOutcome { ended, .. } = crew::run(vec![vcpu], &Arc::new(Ports))?;
    match ended {
        Ok(GuestEnd::ByGuest) => Ok(Some(nine_of_ten(&times(&machine.memory)?, way.count()))),
        // What does not exist is an exception, for which this guest has no handler.
        Ok(GuestEnd::BySignal) | Err(VmmError::Shutdown { .. } | VmmError::GaveUp { .. }) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// What each round that was warm took for the empty chain, and for the other one.
fn times(memory: &Memory) -> Result<Vec<[u64; 2]>, VmmError> {
    let mut bytes = [0; ROUNDS as usize * 16];
    let read = memory.read_slice(&mut bytes, GuestAddress(RESULTS.into()));
    read.map_err(|_| VmmError::OutOfMemory { what: "the times" })?;
    let mut words = bytes.chunks_exact(8).map(|it| u64::from_le_bytes(it.try_into().expect("8")));
    let rounds = std::iter::from_fn(|| Some([words.next()?, words.next()?]));
    Ok(rounds.skip(WARM_UP).collect())
}
