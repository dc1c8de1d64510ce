//! Everything that a driver of timed pairs needs, put together and put back.

use super::super::args::HostArgs;
use super::super::drive::cancel;
use super::engine::engine;
use super::judged;
use super::progress::Progress;
use crate::analyse::{never_ran, wants_more};
use crate::engine::Stop;
use crate::engine::noise::Watch;
use crate::model::TimedPair;
use crate::run::{Ended, TimedDriver, TimedError};
use crate::rundir::TimedDir;

/// How pairs are run.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// Whether estimates are shown.
    pub peek: bool,
    /// Whether the Sides may differ in more than was declared, if the Plan does not say so.
    pub allow_differences: bool,
}

/// Runs the pairs that are still missing.
pub(super) fn run(dir: &TimedDir, how: Run, host: &HostArgs) -> anyhow::Result<Ended> {
    let progress = Progress::new(how.peek);
    let plan = judged(dir, how.allow_differences);
    let ask = |pairs: &[TimedPair]| {
        progress.show(&plan, pairs);
        wants_more(&plan, pairs)
    };
    let ended = drive(dir, host, &ask, |driver| driver.run());
    progress.finish();
    ended
}

/// Puts everything that a driver needs together, and what was changed back.
pub fn drive(
    dir: &TimedDir,
    host: &HostArgs,
    wants_more: &dyn Fn(&[TimedPair]) -> bool,
    work: impl FnOnce(&TimedDriver<'_>) -> Result<Ended, TimedError>,
) -> anyhow::Result<Ended> {
    let cancel = cancel()?;
    let watch = |work: &mut dyn FnMut()| {
        let watch = Watch::start()?;
        work();
        watch.end()
    };
    let engine = engine(dir, host, &cancel)?;
    let (engine, watch, cancel) = (&*engine, &watch, &cancel);
    let never_ran = &never_ran;
    let ended = work(&TimedDriver { dir, engine, cancel, wants_more, never_ran, watch });
    both(ended, engine.end(), |text| note!("ktax: {text}"))
}

/// How a run ended whose changes were, or were not, put back. Of two errors the second is said.
fn both(
    ended: Result<Ended, TimedError>,
    put_back: Result<(), Stop>,
    say: impl FnOnce(&str),
) -> anyhow::Result<Ended> {
    let left = match put_back {
        Err(Stop::Failed(failure, _)) => Some(format!("{failure}; {}", failure.next_step())),
        Err(Stop::Cancelled) | Ok(()) => None,
    };
    match (ended, left) {
        (Ok(_), Some(left)) => anyhow::bail!(left),
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
        let failed = || Err(TimedError::Watch(std::io::ErrorKind::NotFound.into()));
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
