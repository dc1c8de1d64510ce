//! Many comparisons on this machine's running kernel: how often something is found where nothing
//! differs, and how often 5 % are found where they were planted. `make controls` runs it; it takes
//! a machine that is otherwise idle, and says what it saw in the words of METHODOLOGY.md.

use crate::common::{ktax, run, scratch};
use ktax::model::{Comparison, Verdict};

/// The comparisons of equals, and of 5 %.
const EQUALS: u32 = 60;
const PLANTED: u32 = 40;

/// A row of user mode, in which time can be planted, and one of the kernel.
const ROWS: [&str; 4] = ["-w", "control-planted:ops=80", "-w", "getppid:ops=30000"];

/// 100 000 turns of the loop and 5 % more. Its call and its last turn, which is mispredicted, take
/// as long as a hundred turns: of 1000 turns, 50 more are 4.5 % on a fast machine.
const TURNS: &str = "prefix=env KTAX_PLANTED=99000";
const FIVE_PERCENT_MORE: &str = "prefix=env KTAX_PLANTED=104000";

fn comparison(seed: u32, change: &str) -> Comparison {
    let (dir, seed) = (scratch(), seed.to_string());
    // Equals are asked for.
    let fixed =
        ["compare", "--engine", "host", "--same", "--loops", "3", "--json", "--seed", &seed];
    // Both Sides have the same commands in front, so that nothing but the turns differs.
    let sides = ["--base-set", TURNS, "--change-set"];
    run(ktax()
        .args(fixed)
        .args(ROWS)
        .args(sides)
        .arg(change)
        .arg("--out")
        .arg(dir.path().join("run")))
    .comparison()
}

fn is_found(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Slower | Verdict::Faster)
}

fn is_no_answer(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::TooFewBoots | Verdict::Inconclusive)
}

#[test]
#[ignore = "takes an idle machine and many minutes: make controls"]
fn equals_are_not_told_apart_and_five_percent_are() {
    let (mut wrong, mut small, mut silent, mut pairs) = (0, 0, 0, 0);
    for seed in 0..EQUALS {
        let found = comparison(seed, TURNS);
        let any =
            |is_wanted: fn(Verdict) -> bool| found.rows.iter().any(|row| is_wanted(row.verdict));
        wrong += u32::from(any(is_found));
        small += u32::from(any(|verdict| verdict == Verdict::BelowThreshold));
        silent += u32::from(any(is_no_answer));
        pairs += found.times().unwrap().pairs;
    }
    println!(
        "equals: {EQUALS} comparisons of two rows, {} pairs each; {wrong} found slower or faster, \
         {small} below the threshold, {silent} without an answer",
        pairs / EQUALS as usize
    );
    let (mut right, mut inside, mut no_answer, mut pairs) = (0, 0, 0, 0);
    for seed in 0..PLANTED {
        let found = comparison(1000 + seed, FIVE_PERCENT_MORE);
        let row = &found.rows[0];
        let ratio = row.times().unwrap().ratio.unwrap();
        right += u32::from(row.verdict == Verdict::Slower);
        inside += u32::from(ratio.low <= 1.05 && ratio.high.is_none_or(|high| high >= 1.05));
        no_answer += u32::from(is_no_answer(row.verdict));
        pairs += found.times().unwrap().pairs;
    }
    println!(
        "5 % planted: {PLANTED} comparisons, {} pairs each; {right} found slower, the interval \
         holds 5 % in {inside}, {no_answer} without an answer",
        pairs / PLANTED as usize
    );
    assert!(silent * 10 <= EQUALS, "this machine is too busy to say anything");
    assert!(no_answer * 10 <= PLANTED, "this machine is too busy to say anything");
    // Wrong verdicts among the answers. A significant change is wrong, however small.
    let answers = EQUALS - silent;
    assert!(wrong * 100 <= answers * 5, "{wrong} of {answers}");
    assert!((wrong + small) * 100 <= answers * 10, "{wrong} and {small} of {answers}");
    assert!(right * 100 >= PLANTED * 90, "{right} of {PLANTED}");
    assert!(inside * 100 >= PLANTED * 93, "{inside} of {PLANTED}");
}
