//! The guest programs run natively; the documents' examples; the parsers on noise.

mod broken;
mod examples;
mod native;
