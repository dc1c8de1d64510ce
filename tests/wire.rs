//! The guest programs run natively; the documents' examples; the parsers on noise.

#[path = "wire/broken.rs"]
mod broken;
mod common;
#[path = "wire/example.rs"]
mod example;
#[path = "wire/examples.rs"]
mod examples;
#[path = "wire/guest.rs"]
mod guest;
#[path = "wire/mutate.rs"]
mod mutate;
#[path = "wire/native.rs"]
mod native;
#[path = "wire/noise.rs"]
mod noise;
#[path = "wire/size.rs"]
mod size;
#[path = "wire/starved.rs"]
mod starved;
