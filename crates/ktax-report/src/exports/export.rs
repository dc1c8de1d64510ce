use crate::verdict::REP;
use ktax_model::{RowPaths, Side};

/// A form in which call paths are written.
#[derive(Clone, Copy)]
pub struct Export {
    /// What `--paths` calls it.
    pub name: &'static str,
    /// Who reads it, for the help.
    pub about: &'static str,
    /// Whether what an inlined function calls is below its caller, to be compared with the other
    /// Side; else it is as it was called.
    pub is_compared: bool,
    /// Whether it is of instructions alone, also where REP iterations decide the row.
    pub(super) is_of_instructions: bool,
    /// Whether it can be of one Side alone; a picture cannot.
    pub has_sides: bool,
    /// Of one Side, or of both.
    pub(super) write: fn(&RowPaths, Option<Side>) -> Vec<u8>,
}

impl std::fmt::Debug for Export {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Export {
    /// All paths of a row, of one Side or of both.
    pub fn of(self, paths: &RowPaths, side: Option<Side>) -> Vec<u8> {
        (self.write)(paths, side)
    }

    /// What decides the row and is not in it.
    pub fn remark(self, paths: &RowPaths) -> Option<&'static str> {
        (self.is_of_instructions && paths.metric == REP).then_some(
            "REP iterations decide this row, and these are instructions; --paths pprof has both",
        )
    }
}

/// The Sides that were asked for.
pub(super) fn sides(side: Option<Side>) -> Vec<Side> {
    side.map_or(Side::BOTH.to_vec(), |side| vec![side])
}
