//! Everything that a driver of timed pairs needs, put together and put back.

use std::io;

use super::cpus;
use super::engine::engine;
use crate::analyse::never_ran;
use crate::engine::Stop;
use crate::engine::noise::Watch;
use crate::flow::error::Error;
use crate::flow::session::Session;
use crate::model::{TimedPair, TimesPlan};
use crate::run::{Ended, TimesDriver, TimesError};
use crate::rundir::RunDir;

/// Puts everything that a driver needs together, and what was changed back.
pub(super) fn drive(
    dir: &RunDir<TimesPlan>,
    session: &Session<'_>,
    wants_more: &dyn Fn(&[TimedPair]) -> bool,
    work: impl FnOnce(&TimesDriver<'_>) -> Result<Ended, TimesError>,
) -> Result<Ended, Error> {
    dir.prepare_pairs()?;
    // Not before the engine has chosen them; and a failure has to put back what that changed.
    let watch = |work: &mut dyn FnMut()| {
        let cpus = cpus::used(dir).map_err(|error| io::Error::other(error.to_string()))?;
        let watch = Watch::start_on(&cpus)?;
        work();
        watch.end()
    };
    let between = || session.observer.tick();
    let engine = engine(dir, session, &between)?;
    let (engine, watch, cancel) = (&*engine, &watch, &session.cancel);
    let never_ran = &never_ran;
    let ended = work(&TimesDriver { dir, engine, cancel, wants_more, never_ran, watch });
    both(ended, engine.end(), |text| session.observer.note(text))
}

/// How a run ended whose changes were, or were not, put back. Of two errors the second becomes a
/// note.
fn both(
    ended: Result<Ended, TimesError>,
    put_back: Result<(), Stop>,
    say: impl FnOnce(&str),
) -> Result<Ended, Error> {
    let left = match put_back {
        Err(Stop::Failed(failure, _)) => Some(format!("{failure}; {}", failure.next_step())),
        Err(Stop::Cancelled) | Ok(()) => None,
    };
    match (ended, left) {
        (Ok(_), Some(left)) => Err(Error::Host(left)),
        (Err(error), Some(left)) => {
            say(&left);
            Err(error.into())
        }
        (ended, None) => Ok(ended?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Failure;

    #[test]
    fn what_was_not_put_back_is_said_however_the_run_ended() {
        let left = || Err(Failure::Setting { reason: "thp is still never".into() }.into());
        let failed = || Err(TimesError::Watch(std::io::ErrorKind::NotFound.into()));
        let of = |ended, put_back| {
            let mut said = String::new();
            let result = both(ended, put_back, |text| said = text.to_owned());
            (result.map_err(|error| error.to_string()), said)
        };
        let (result, said) = of(failed(), left());
        assert!(result.unwrap_err().contains("mount /proc"));
        assert!(said.starts_with("thp is still never; "), "{said}");
        let (result, said) = of(Ok(Ended::Complete), left());
        assert!(result.unwrap_err().starts_with("thp is still never; "));
        assert_eq!(said, "");
        assert!(of(failed(), Ok(())).0.unwrap_err().contains("mount /proc"));
        assert_eq!(of(Ok(Ended::Cancelled), Ok(())), (Ok(Ended::Cancelled), String::new()));
    }
}
