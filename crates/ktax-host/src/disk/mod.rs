//! Files: written and removed so that a crash leaves none half, locked, read up to a limit and by
//! all CPUs, hashed.

mod atomic;
mod hash;
mod lock;
mod parts;
mod read;
mod remove;

pub use atomic::{
    check_writable, is_unfinished, remove_unfinished, write_atomically, write_new_atomically,
    write_once, write_read_only,
};
pub use hash::{
    is_sha256, sha256, sha256_base64, sha256_of_file, sha256_of_parts, sha256_of_sparse_file,
};
pub use lock::Lock;
pub use parts::in_parts;
pub use read::{
    is_not_regular, lock_file, read_limited, read_own, read_own_text, read_text, read_up_to,
};
pub use remove::{is_abandoned, is_set_aside, move_to_free, set_aside};
