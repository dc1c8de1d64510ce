use super::maps::Maps;
use crate::exits::live::asm::Assembler;

/// A program that is being written. Each file here adds some of its steps.
pub(super) struct Writer {
    pub asm: Assembler,
    pub maps: Maps,
}
