//! Gets a [`Kernel`]: an image with an [`Identity`](ktax_model::Identity), from a file, from a
//! package of the distribution, or built from source. A [`KernelSpec`] says which. The cache keeps
//! each image under its SHA-256, so that a file that is replaced during a run cannot mix two
//! kernels. [`mod@patch`] reads patches as they come in mails, before anything is fetched.
//!
//! ```
//! use ktax_kernel::KernelSpec;
//!
//! let spec: KernelSpec = "debian-src:6.12".parse().expect("a source package of that version");
//! assert!(spec.is_source());
//! ```
//!
//! ```text
//! KernelSpec ─► file ──────────────────────┐
//!            ├► debian: apt, package ──────┼─► image: format, release ─► cache ─► Kernel
//!            └► source: git, Kconfig, make ┘
//! ```
//!
//! No file imports one that imports it: `obtain` uses `source`, `source` uses `debian`, `debian`
//! uses `cache`, `cache` uses `image`, and all of them use the leaves (`error`, `spec`, `target`,
//! `talk`).
//!
//! A kernel without a release and without a build-id is refused: nobody could say later what was
//! measured.

mod cache;
mod debian;
mod error;
mod image;
mod obtain;
pub mod patch;
mod source;
mod spec;
mod talk;
mod target;

pub use cache::{Kernel, at_hand, cached, place};
pub use debian::{CPU_MODULES, modules, needed_modules};
pub use error::why_unbuilt;
pub use obtain::{check, check_names, obtain, obtain_for};
pub use source::{commits, is_built_in, options_between, patch, that_touch, with_options};
pub use spec::{KernelSpec, Package};
pub use talk::{KernelTask, Talk, TaskKind};
pub use target::Target;
