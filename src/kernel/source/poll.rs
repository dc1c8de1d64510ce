//! Waits for something to be ready, until the user cancels.

use std::thread;
use std::time::Duration;

use crate::kernel::error::BuildError;
use crate::kernel::talk::Talk;

const INTERVAL: Duration = Duration::from_millis(200);

/// Calls `ready` every 200 ms until it returns an answer.
///
/// # Errors
/// Those of `ready`, and [`BuildError::Cancelled`] once the user has cancelled.
pub(super) fn until<T>(
    talk: &Talk<'_>,
    mut ready: impl FnMut() -> Result<Option<T>, BuildError>,
) -> Result<T, BuildError> {
    loop {
        if let Some(answer) = ready()? {
            return Ok(answer);
        }
        if (talk.is_cancelled)() {
            return Err(BuildError::Cancelled);
        }
        thread::sleep(INTERVAL);
    }
}
