//! Where things are on a program's stack, below its frame.

use crate::exits::live::words::thread;

pub const INDEX: i16 = -4;
pub const TID: i16 = -8;
pub const KEY: i16 = -24;
pub const CODE: i16 = -32;
pub const DETAIL: i16 = -40;
pub const NEW: i16 = DETAIL - thread::BYTES as i16;
