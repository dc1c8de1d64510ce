use crate::model::{RowPaths, Side};

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
    /// Of one Side, or of both; a picture is always of both.
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
}

/// The Sides that were asked for.
pub(super) fn sides(side: Option<Side>) -> Vec<Side> {
    side.map_or(Side::BOTH.to_vec(), |side| vec![side])
}
