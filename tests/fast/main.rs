//! Tests that boot nothing: readers, reports, the driver against a fake engine, programs on this
//! machine.

mod answers;
mod bisect;
mod browser;
mod cache;
mod campaign;
#[path = "../common/mod.rs"]
mod common;
mod costly;
mod docs;
mod estimates;
mod exit_status;
mod exits;
mod experiments;
mod fake;
mod golden;
mod host_settings;
mod keys;
mod mistyped;
mod native;
mod next_steps;
mod noise;
mod older;
mod ordinary_user;
mod pages;
mod programs;
mod publication;
mod published;
mod rundirs;
mod stat;
mod store;
mod stored;
mod tampered;
mod timed;
mod wire;
mod words;
