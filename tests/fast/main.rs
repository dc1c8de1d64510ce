//! Tests that boot nothing: readers, reports, the driver against a fake engine, programs on this
//! machine.

mod answers;
mod bisect;
mod browser;
mod cache;
#[path = "../common/mod.rs"]
mod common;
mod docs;
mod exit_status;
mod exits;
mod experiments;
mod fake;
mod golden;
mod host_settings;
mod keys;
mod linked;
mod mistyped;
mod native;
mod next_steps;
mod noise;
mod ordinary_user;
mod pages;
mod programs;
mod programs_refused;
mod publication;
mod published;
mod require;
mod rundirs;
mod same_base;
mod stat;
mod store;
mod stored;
mod tampered;
mod timed;
mod wire;
mod words;
