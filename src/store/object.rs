//! The bytes of an object: JSON in gzip, and behind it a second, empty member of gzip that has the
//! SHA-256 of the first. Every tool that reads gzip reads it, and no byte can change unseen.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::disk::sha256;
use crate::model::{FORMAT, Measurand, Measurement};

/// No object has had a thousandth of this.
const MOST: u64 = 1 << 30;

/// The name of a measurement: SHA-256 of what it is of.
pub fn name(of: &Measurand) -> String {
    sha256(serde_json::to_vec(of).expect("plain data serialises"))
}

/// The bytes of an object.
pub fn encode(measurement: &Measurement) -> Vec<u8> {
    let json = serde_json::to_vec(measurement).expect("plain data serialises");
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory cannot fail.
    let bytes = gzip.write_all(&json).and_then(|()| gzip.finish()).unwrap_or_default();
    let seal = seal(&bytes);
    [bytes, seal].concat()
}

/// The measurement in an object, if no byte of it has changed.
pub fn decode(bytes: &[u8]) -> Result<Measurement, String> {
    let length = bytes.len().checked_sub(seal(&[]).len()).ok_or("it is too short")?;
    let (content, found) = bytes.split_at(length);
    if seal(content) != found {
        return Err("its bytes are not those that were written".to_owned());
    }
    let mut json = Vec::new();
    let read = GzDecoder::new(content).take(MOST + 1).read_to_end(&mut json);
    read.map_err(|error: io::Error| error.to_string())?;
    if json.len() as u64 > MOST {
        return Err(format!("it has more than {MOST} bytes"));
    }
    let measurement: Measurement =
        serde_json::from_slice(&json).map_err(|error| error.to_string())?;
    match measurement.format {
        FORMAT => Ok(measurement),
        format => Err(format!("it has format {format}, and this ktax reads format {FORMAT}")),
    }
}

/// A member of gzip without content: its comment is the hash of these bytes.
fn seal(bytes: &[u8]) -> Vec<u8> {
    const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0x10, 0, 0, 0, 0, 0, 0xff];
    const EMPTY: [u8; 11] = [0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    [&HEAD[..], sha256(bytes).as_bytes(), &EMPTY].concat()
}
