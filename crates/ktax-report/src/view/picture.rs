//! Pictures as plain data: what is drawn, and how large, but not how it looks. Each number of a
//! picture also stands as text, in the picture's own lines or in a table of the page.

use crate::view::Cell;
use ktax_model::{PairRatio, Ratio, Sides, Verdict};

/// Picture that a page can draw.
#[derive(Debug, Clone, PartialEq)]
pub enum Picture {
    /// All rows: delta, range and MDE.
    Forest(Forest),
    /// From base to change, function by function.
    Bridge(Bridge),
    /// Functions below their callers.
    Flame(Flame),
    /// The values of each layout.
    Dots(Dots),
    /// Cost over a parameter.
    Curves(Curves),
    /// The ratios of timed pairs, in order of time.
    Trail(Trail),
    /// Parts of a whole.
    Bars(Vec<Bar>),
    /// Cost along a chain of elements.
    Steps(Steps),
    /// Cost over kernels.
    Levels(Levels),
}

/// Every row of a comparison on one axis, in percent of the base.
#[derive(Debug, Clone, PartialEq)]
pub struct Forest {
    /// The axis is linear up to this, and logarithmic beyond.
    pub threshold_percent: f64,
    /// In the order of the table.
    pub lines: Vec<ForestLine>,
}

/// One row of a [`Forest`].
#[derive(Debug, Clone, PartialEq)]
pub struct ForestLine {
    /// The row.
    pub row: String,
    /// Delta, percent; absent where there is none.
    pub percent: Option<f64>,
    /// Range of the delta, percent.
    pub range: Option<(f64, f64)>,
    /// The MDE, percent.
    pub detectable: Option<f64>,
    /// Delta, range and MDE as people read them.
    pub shown: [String; 3],
    /// `security_task_alloc 35 %`: the function that carries most, and its share; empty where none
    /// is known.
    pub carried: String,
    /// Verdict.
    pub verdict: Cell,
}

/// A waterfall whose bars add up.
#[derive(Debug, Clone, PartialEq)]
pub struct Bridge {
    /// Unit of the counts: `instructions`.
    pub unit: &'static str,
    /// Unit of [`BridgeBar::other`].
    pub other: &'static str,
    /// The base first, the change last.
    pub bars: Vec<BridgeBar>,
}

/// Kind of a bar of a [`Bridge`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarKind {
    /// The base or the change: a value.
    Side,
    /// A function that both Sides execute: a difference.
    Both,
    /// A function that only the change executes.
    New,
    /// A function that only the base executes.
    Gone,
}

/// A bar of a [`Bridge`].
#[derive(Debug, Clone, PartialEq)]
pub struct BridgeBar {
    /// Name of the function or the side.
    pub name: String,
    /// Kind of the bar.
    pub kind: BarKind,
    /// Begin and end, as differences from the base.
    pub span: (f64, f64),
    /// Value as people read it: those of the functions are the change's less the base's, to the
    /// last digit.
    pub shown: String,
    /// `25.00 → 168.00`; empty where it is no function's.
    pub from_to: String,
    /// Change of the other count; empty where there is none.
    pub other: String,
}

/// Functions below their callers, of both sides: code of one side alone has room, too.
#[derive(Debug, Clone, PartialEq)]
pub struct Flame {
    /// Unit of the counts: `instructions`.
    pub unit: &'static str,
    /// A caller before all that it calls; the first is above all.
    pub bars: Vec<FlameBar>,
}

/// A function of a [`Flame`], where one place calls it.
#[derive(Debug, Clone, PartialEq)]
pub struct FlameBar {
    /// Symbol of the function.
    pub name: String,
    /// Number of functions above it.
    pub depth: usize,
    /// Begin of its place, in percent of the picture.
    pub from: f64,
    /// Width of its place, in percent of the picture.
    pub width: f64,
    /// Count of each side with all that it calls, in percent of its place.
    pub sides: Sides<f64>,
    /// Delta as a share of the largest, from -1 to 1; 0 within the spread of the layouts.
    pub moved: f64,
    /// Numbers as people read them.
    pub numbers: String,
    /// Numbers of its own code, without all that it calls; `None` if it did not move.
    pub own: Option<String>,
}

/// Values of each Layout, per operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Dots {
    /// Base and change of each Layout.
    pub layouts: Vec<(f64, f64)>,
    /// The Layout whose delta is the median.
    pub median: usize,
}

/// Costs over a parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Curves {
    /// The parameter.
    pub parameter: String,
    /// Name and unit of the cost.
    pub cost: String,
    /// One for each Side.
    pub curves: Vec<SideCurve>,
    /// Parameters at which two curves cross.
    pub crossings: Vec<f64>,
}

/// The cost of one Side.
#[derive(Debug, Clone, PartialEq)]
pub struct SideCurve {
    /// `base` or `change`.
    pub name: &'static str,
    /// The parameter and the cost.
    pub points: Vec<(f64, f64)>,
}

/// Timed pairs in the order in which they were measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Trail {
    /// Pairs in that order.
    pub pairs: Vec<PairRatio>,
    /// Numbers of pairs of the change after which the data were looked at.
    pub looks: Vec<usize>,
    /// Ratio over all pairs.
    pub ratio: Option<Ratio>,
}

/// A whole and its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bar {
    /// Name of the whole.
    pub name: String,
    /// Names and sizes, in the order in which they are drawn.
    pub parts: Vec<(String, u64)>,
}

/// Costs along a chain of elements.
#[derive(Debug, Clone, PartialEq)]
pub struct Steps {
    /// Unit of the costs.
    pub unit: &'static str,
    /// Noun for the elements: `commits`.
    pub elements: &'static str,
    /// Number of elements.
    pub last: usize,
    /// Number of elements, and the cost after them.
    pub points: Vec<(usize, f64)>,
    /// The elements after which they could not be measured.
    pub skipped: Vec<usize>,
    /// Number of elements after which the cost steps, and the name of what carries it.
    pub carriers: Vec<(usize, String)>,
}

/// Costs of a row over kernels.
#[derive(Debug, Clone, PartialEq)]
pub struct Levels {
    /// Unit of the costs.
    pub unit: &'static str,
    /// The kernels' names, in their order.
    pub kernels: Vec<String>,
    /// Measurements; those of one level compare with each other, and with no others.
    pub levels: Vec<KernelLevel>,
}

/// Measurements that compare with each other.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelLevel {
    /// In the order of the kernels.
    pub points: Vec<KernelPoint>,
}

/// A measurement of a [`KernelLevel`].
#[derive(Debug, Clone, PartialEq)]
pub struct KernelPoint {
    /// Index of the kernel.
    pub place: usize,
    /// Cost.
    pub cost: f64,
    /// The verdict, where the cost steps.
    pub step: Option<Verdict>,
    /// Kernel and size of the step: `6.1.0-50 +1.22 %`; empty where the cost does not step.
    pub label: String,
    /// The kernel and its numbers, shown where a pointer rests on the point.
    pub hover: String,
}

impl Picture {
    /// Tells whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        match self {
            Picture::Forest(forest) => forest.lines.is_empty(),
            Picture::Bridge(bridge) => bridge.bars.is_empty(),
            Picture::Flame(flame) => flame.bars.is_empty(),
            Picture::Dots(dots) => dots.layouts.is_empty(),
            Picture::Curves(curves) => curves.curves.iter().all(|curve| curve.points.len() < 2),
            Picture::Trail(trail) => trail.pairs.is_empty(),
            Picture::Bars(bars) => bars.iter().all(|bar| bar.parts.is_empty()),
            Picture::Steps(steps) => steps.points.len() < 2,
            Picture::Levels(levels) => levels.kernels.len() < 2,
        }
    }
}
