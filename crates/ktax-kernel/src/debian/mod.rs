//! Downloads packages of the distribution: kernels, their modules, and kernel source.

mod apt;
mod archive;
mod command;
mod control;
mod deb;
mod foreign;
mod index;
mod modules;
mod needed;
mod obtain;
mod version;

pub(super) use apt::Apt;
#[cfg(test)]
pub(super) use archive::{Archive, Contents, Listed};
pub use modules::modules;
pub use needed::{OF_CPU, needed_modules};
pub(super) use obtain::{obtain, source_version};
