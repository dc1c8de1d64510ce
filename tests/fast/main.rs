//! Tests that boot nothing: readers, reports, the driver against a fake engine, programs on this
//! machine.

#[path = "../common/mod.rs"]
mod common;
mod exits;
mod experiments;
mod fake;
mod golden;
mod host_settings;
mod native;
mod noise;
mod published;
mod stat;
mod timed;
mod wire;
