//! Guests: each Step boots a KVM host, each Run is a guest in a host of its own.

mod boots;
