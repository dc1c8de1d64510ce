//! The results within a page: what it shows can be read back from it.

// The messages say what the fields are.
#![allow(missing_docs)]

use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use thiserror::Error;

use crate::error::ReportError;
use crate::view::Report;
use ktax_model::Saved;

/// What stands before and behind the data of a page.
const START: &str = "<script type=\"application/gzip\" id=\"data\">";
const END: &str = "</script>";

/// Why a page cannot be read.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PageError {
    #[error("it is a page of ktax without its data, which stands at its end")]
    NoData,
    #[error("the data at its end is damaged")]
    Damaged,
    #[error("the data at its end has more than {0} bytes")]
    TooLarge(u64),
}

/// The results as `--json` prints them, without its line feeds: compressed, in letters and digits.
pub fn embedded(reports: &[&dyn Report]) -> Result<String, ReportError> {
    let all: Vec<Saved> = reports.iter().map(|report| report.saved()).collect();
    let json = match all.as_slice() {
        [one] => serde_json::to_string(one)?,
        several => serde_json::to_string(several)?,
    };
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to memory cannot fail.
    let bytes = gzip.write_all(json.as_bytes()).and_then(|()| gzip.finish()).unwrap_or_default();
    Ok(STANDARD.encode(bytes))
}

/// The JSON within a page; `None` if the text is none of ktax's pages. No more than so many bytes
/// are unpacked.
///
/// # Errors
/// It is such a page, and its data is missing, damaged or too large.
pub fn results_of_page(text: &str, most: u64) -> Result<Option<String>, PageError> {
    if !text.starts_with("<!DOCTYPE html>") || !text.contains("content=\"ktax ") {
        return Ok(None);
    }
    let start = text.rfind(START).ok_or(PageError::NoData)? + START.len();
    let length = text[start..].find(END).ok_or(PageError::NoData)?;
    let bytes = STANDARD.decode(&text[start..start + length]).map_err(|_| PageError::Damaged)?;
    let mut json = String::new();
    let mut limited = GzDecoder::new(bytes.as_slice()).take(most + 1);
    limited.read_to_string(&mut json).map_err(|_| PageError::Damaged)?;
    match json.len() as u64 > most {
        true => Err(PageError::TooLarge(most)),
        false => Ok(Some(json)),
    }
}
