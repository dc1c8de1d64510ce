//! The guest programs run natively; the documents' examples; the parsers on noise.

mod broken;
mod computed;
mod example;
mod examples;
mod guest;
mod idle;
mod mutate;
mod native;
mod noise;
mod size;
mod starved;
mod together;
