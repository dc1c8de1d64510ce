/// A system call that a traced program made, or its reading of the time-stamp counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracedCall {
    /// Which of the program's threads and processes, in the order in which they began.
    pub task: u16,
    /// The number of the system call; [`TracedCall::RDTSC`] for the time-stamp counter.
    pub number: u16,
    /// A hash of what the call gave: what it returned, and the data that it wrote.
    pub given: u32,
}

impl TracedCall {
    /// The number that stands for the time-stamp counter.
    pub const RDTSC: u16 = 511;

    /// The most calls that are traced; a program ends after them.
    pub const MOST: usize = 1 << 15;
}
