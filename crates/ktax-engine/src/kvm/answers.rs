//! Assigns the parts of the wire to the loops.

use crate::wire::{is_finished, split_answers};
use ktax_host::text::counted;
use ktax_model::Failure;

/// For each loop its answer, or why it has none. `ended` is how the guest ended. After a failure,
/// loops with a complete answer keep it, and all others get that failure.
pub fn assign(
    wire: &[u8],
    loops: usize,
    ended: &Result<(), Failure>,
    wire_bytes: u64,
) -> Vec<Result<Vec<u8>, Failure>> {
    // The first part is the hello.
    let answers = split_answers(wire).split_off(1.min(wire.len()));
    let said = answers.len();
    if said > loops || (said < loops && ended.is_ok()) {
        // More parts than loops: nobody knows which answer belongs to which loop.
        let reason = format!("{} to {}", counted(said, "answer"), counted(loops, "order"));
        return vec![Err(Failure::Garbled { reason }); loops];
    }
    let mut answers = answers.into_iter();
    let one = |_| match (answers.next(), ended) {
        (Some(answer), _) if answer.len() as u64 > wire_bytes => {
            Err(Failure::Flood { limit_bytes: wire_bytes })
        }
        (Some(answer), Ok(())) => Ok(answer.to_vec()),
        (Some(answer), Err(_)) if is_finished(answer) => Ok(answer.to_vec()),
        (_, Err(failure)) => Err(failure.clone()),
        (None, Ok(())) => unreachable!("there are as many answers as loops"),
    };
    (0..loops).map(one).collect()
}

/// How many orders have an answer.
pub fn finished(wire: &[u8]) -> usize {
    split_answers(wire).iter().skip(1).filter(|answer| is_finished(answer)).count()
}

/// The offset of the last part; `None` if a part is too long, or there are more parts than orders.
pub fn last_begins(wire: &[u8], loops: usize, wire_bytes: u64) -> Option<u64> {
    let parts = split_answers(wire);
    let is_short = |part: &&[u8]| part.len() as u64 <= wire_bytes;
    let keeps = parts.len() <= loops.saturating_add(1) && parts.iter().all(is_short);
    keeps.then(|| (wire.len() - parts.last().map_or(0, |last| last.len())) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: &str = "ktax 1\nrelease 6.12.0\nready\n";
    const WELL: &str = "ktax 1\nstart pipe\nsig calls 7\nend\n";
    const FAILED: &str = "ktax 1\nstart pipe\nfail ended by signal 11\n";
    const LIMIT: u64 = 100;

    fn panic() -> Failure {
        Failure::Panic { message: "no".into() }
    }

    fn assigned(answers: &[&str], ended: Result<(), Failure>) -> Vec<Result<String, Failure>> {
        let wire = HELLO.to_owned() + &answers.concat();
        let assigned = assign(wire.as_bytes(), 3, &ended, LIMIT);
        assigned.into_iter().map(|one| one.map(|wire| String::from_utf8(wire).unwrap())).collect()
    }

    #[test]
    fn each_has_its_own_and_a_failure_takes_no_other_away() {
        let found = assigned(&[WELL, FAILED, WELL], Ok(()));
        assert_eq!(found, [Ok(WELL.into()), Ok(FAILED.into()), Ok(WELL.into())]);
        assert_eq!(finished((HELLO.to_owned() + WELL + FAILED + "ktax 1\n").as_bytes()), 2);
    }

    #[test]
    fn what_was_whole_before_a_bad_end_stands() {
        let torn = &WELL[..20];
        for last in [torn, "ktax 1\n", "kta", ""] {
            let found = assigned(&[WELL, last], Err(panic()));
            assert_eq!(found, [Ok(WELL.into()), Err(panic()), Err(panic())], "{last:?}");
        }
        assert_eq!(assigned(&[], Err(panic())), vec![Err(panic()); 3]);
        assert_eq!(assign(b"", 1, &Err(panic()), LIMIT), [Err(panic())]);
    }

    #[test]
    fn an_answer_that_is_torn_is_left_to_its_reader() {
        let found = assigned(&[WELL, &WELL[..18], WELL], Ok(()));
        assert_eq!(found, [Ok(WELL.into()), Ok(WELL[..18].into()), Ok(WELL.into())]);
    }

    #[test]
    fn where_it_is_not_known_whose_is_whose_nobody_has_one() {
        // The third answer begins within a line that was cut off.
        for answers in [&[WELL; 4][..], &[WELL; 2], &[WELL, &WELL[..20], WELL]] {
            let found = assigned(answers, Ok(()));
            assert!(found.iter().all(|one| matches!(one, Err(Failure::Garbled { .. }))));
        }
        let found = assigned(&[WELL; 4], Err(panic()));
        assert!(found.iter().all(|one| matches!(one, Err(Failure::Garbled { .. }))));
    }

    #[test]
    fn a_flood_is_of_one_loop() {
        let flood = format!("ktax 1\n{}\nend\n", "x".repeat(100));
        let found = assigned(&[WELL, &flood, WELL], Ok(()));
        assert_eq!(found[1], Err(Failure::Flood { limit_bytes: LIMIT }));
        assert_eq!((&found[0], &found[2]), (&Ok(WELL.into()), &Ok(WELL.into())));
    }

    #[test]
    fn an_answer_has_its_own_limit_and_there_is_one_to_an_order() {
        let begins = |wire: &str| last_begins(wire.as_bytes(), 2, 40);
        let first = HELLO.to_owned() + WELL;
        assert_eq!((begins(""), begins(HELLO)), (Some(0), Some(0)));
        assert_eq!(begins(&first), Some(HELLO.len() as u64));
        assert_eq!(begins(&(first.clone() + WELL)), Some(first.len() as u64));
        let (endless, whole) = ("ktax 1\n".to_owned() + &"x".repeat(40), first.clone() + WELL);
        assert_eq!(begins(&(first.clone() + &endless)), None);
        assert_eq!(begins(&(HELLO.to_owned() + &endless + "\nend\n" + WELL)), None);
        assert_eq!(begins(&(whole + "ktax 1\n")), None);
    }
}
