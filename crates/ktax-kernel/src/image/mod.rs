//! Reads the format, the release and the build-id out of the bytes of an image.

mod bytes;
mod bzimage;
mod facts;
mod inspect;
mod other;
mod raw;
mod vmlinux;

#[cfg(test)]
pub(super) use facts::Facts;
pub(super) use inspect::inspect;
