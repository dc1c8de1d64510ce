//! A workload on the running kernel.

mod records;
mod report;
mod view;
