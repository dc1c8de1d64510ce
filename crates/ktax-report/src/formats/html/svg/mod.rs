//! Pictures in SVG. Lengths across are in percent of the width, so that a picture fits a phone, a
//! screen and a sheet of paper without being scaled; heights are in pixels.

mod axis;
mod bars;
mod bridge;
mod curves;
mod dots;
mod flame;
mod forest;
mod levels;
mod mark;
mod plot;
mod steps;
mod trail;

pub use bars::bars;
pub use bridge::bridge;
pub use curves::curves;
pub use dots::dots;
pub use flame::{flame, height as flame_height};
pub use forest::forest;
pub use levels::levels;
pub use mark::marks;
pub use steps::steps;
pub use trail::trail;
