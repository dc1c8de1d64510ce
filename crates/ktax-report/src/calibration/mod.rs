//! What a machine takes, and how well it is predicted.

mod records;
mod report;
mod view;
