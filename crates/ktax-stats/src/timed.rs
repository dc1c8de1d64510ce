//! Timed pairs: what runs next, when to stop, and what to say.
//!
//! A pair is two fresh Boots, one of each Side, next to each other in time and in randomized order;
//! its value is `ln(change / base)`, each the median of the Boot's loops ([`log_ratio`]). Some
//! pairs are A/A pairs: the base on both sides. METHODOLOGY.md says how verdicts are reached and
//! how often they are wrong; each formula is in the module that computes it.
//!
//! A caller with several rows asks after each pair, and judges when told to stop:
//!
//! ```
//! use ktax_stats::timed::{Next, Order, Pairs, Rules, Trial, Detection, log_ratio};
//!
//! // Loop times of a Boot in ns, one list for each row; here `fork` costs 3 % more in the change.
//! let boot = |number: usize, is_change: bool| {
//!     let noise = 1.0 + 0.001 * (number * 7919 % 13) as f64;
//!     let cost = if is_change { 1.03 } else { 1.0 };
//!     [vec![200.0 * noise; 3], vec![50_000.0 * noise * cost; 3]]
//! };
//! let trial = Trial::new(Rules::default(), 2);
//! let (mut pairs, mut controls) = ([vec![], vec![]], [vec![], vec![]]);
//! for (number, slot) in Order::new(42).enumerate() {
//!     // A control runs the base in the change's place.
//!     let [mut first, mut second] = [false, !slot.is_control];
//!     if slot.change_first {
//!         (first, second) = (second, first);
//!     }
//!     let (mut base, mut change) = (boot(2 * number, first), boot(2 * number + 1, second));
//!     if slot.change_first {
//!         (base, change) = (change, base);
//!     }
//!     let kept = if slot.is_control { &mut controls } else { &mut pairs };
//!     for row in 0..2 {
//!         kept[row].extend(log_ratio(&base[row], &change[row]));
//!     }
//!     let rows = [0, 1].map(|row| Pairs { pairs: &pairs[row], controls: &controls[row] });
//!     if !matches!(trial.next(&rows), Next::GoOn { .. }) {
//!         let judged = trial.judge(&rows, &[]);
//!         let [getppid, fork] = &judged.headline[..] else { unreachable!() };
//!         assert_eq!(getppid.verdict, Detection::NotDetected); // `detectable` would have been
//!         assert_eq!(fork.verdict, Detection::Up);
//!         assert!(fork.ratio().low < 1.03 && 1.03 < fork.ratio().high);
//!         break;
//!     }
//! }
//! ```

mod looks;
mod order;
mod signed_rank;
mod spread;
mod trial;

pub use looks::Looks;
pub use order::{Order, Slot, drawn_for};
pub use signed_rank::{Interval, SignedRank};
pub use spread::{Split, log_ratio, shamos, split};
pub use trial::{
    Control, Detection, Judged, MIN_CONTROLS, MIN_PAIRS, Next, Pairs, Rules, Trial, TrialRow, Why,
    benjamini_hochberg, holm,
};

#[cfg(test)]
use super::random;

#[cfg(test)]
mod noise;
#[cfg(test)]
mod simulation;
