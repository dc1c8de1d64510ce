//! Where things are on a program's stack, below its frame.

pub const INDEX: i16 = -4;
pub const TID: i16 = -8;
pub const CODE: i16 = -16;
pub const DETAIL: i16 = -24;
/// Of the row that is looked for, beside TID.
pub const KEY_CODE: i16 = -32;
pub const KEY_DETAIL: i16 = -40;
/// Where a row is looked for first.
pub const HASH: i16 = -48;
pub const CLAIM: i16 = -56;
