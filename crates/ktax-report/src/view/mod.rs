//! What a page shows, whatever its format: plain data that says what each part is.
//!
//! Text is as it came. Each format escapes it in its own way.

mod functions;
mod page;
mod picture;
mod records;
mod report;
mod section;
mod table;

pub use functions::{FunctionLine, Functions, PathLine, telling};
pub use page::{Legend, SideLine, View};
pub use picture::{
    Bar, BarKind, Bridge, BridgeBar, Curves, Dots, Flame, FlameBar, Forest, ForestLine,
    KernelLevel, KernelPoint, Levels, Picture, SideCurve, Steps, Trail,
};
pub use records::{Records, Value};
pub use report::Report;
pub use section::{FailureReason, MetricChange, Note, RowDetail, Section};
pub use table::{Cell, Column, Kind, Line, Table};
