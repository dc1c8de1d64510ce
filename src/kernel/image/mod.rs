//! What the bytes of an image say: format, release and build-id, or which other file it is.

mod bytes;
mod bzimage;
mod facts;
mod inspect;
mod other;
mod vmlinux;

#[cfg(test)]
pub(super) use facts::Facts;
pub(super) use inspect::inspect;
