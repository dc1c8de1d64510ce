//! The bytes of an object: JSON in gzip, and behind it a second, empty member of gzip that has the
//! SHA-256 of the first. Every tool that reads gzip reads it, and no byte can change unseen.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use serde::{Deserialize, Serialize};

use super::beside::{Beside, apart, beside};
use crate::rundir::profile::parse;
use ktax_host::disk::sha256;
use ktax_model::{Measurand, Measurement};

/// More bytes than the JSON of a measurement has, which has been a million at most.
pub const MEASUREMENT_MAX: u64 = 64 << 20;

/// More bytes than the JSON of a result has, which has been ten million at most.
pub const RESULT_MAX: u64 = 128 << 20;

/// More bytes than the profiles of all layouts of a measurement have.
pub const PROFILES_MAX: u64 = 256 << 20;

/// The name of a measurement: SHA-256 of what it is of.
pub fn name(of: &Measurand) -> String {
    sha256(json_of(of))
}

/// The JSON of what is kept.
pub fn json_of(of: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(of).expect("plain data serialises")
}

/// The bytes of an object that has this JSON.
pub fn encode(json: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to memory cannot fail.
    let bytes = gzip.write_all(json).and_then(|()| gzip.finish()).unwrap_or_default();
    let seal = seal(&bytes);
    [bytes, seal].concat()
}

/// The JSON in an object, at most `limit` bytes, if no byte of it has changed.
pub fn decode(bytes: &[u8], limit: u64) -> Result<Vec<u8>, String> {
    let length = bytes.len().checked_sub(seal(&[]).len()).ok_or("it is too short")?;
    let (content, found) = bytes.split_at(length);
    if seal(content) != found {
        return Err("its bytes are not those that were written".to_owned());
    }
    let mut json = Vec::new();
    let read = GzDecoder::new(content).take(limit + 1).read_to_end(&mut json);
    read.map_err(|error: io::Error| error.to_string())?;
    match json.len() as u64 > limit {
        true => Err(format!("unpacked it has more than {limit} bytes")),
        false => Ok(json),
    }
}

/// A measurement as it is in an object.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    /// Without profiles.
    measurement: Measurement,
    /// Those of all layouts.
    profiles: Beside,
}

/// The bytes of the object of a measurement, whether or not it is one that ktax makes.
pub fn encode_measurement(measurement: &Measurement) -> Vec<u8> {
    let mut measurement = measurement.clone();
    let texts: Vec<String> =
        measurement.layouts.iter_mut().map(|it| std::mem::take(&mut it.profile)).collect();
    let profiles = beside(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    encode(&json_of(&Object { measurement, profiles }))
}

/// The format of the measurement in this JSON, whatever else another version has there.
pub fn format(json: &[u8]) -> Result<u32, String> {
    #[derive(Deserialize)]
    struct Head {
        measurement: Format,
    }
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let head: Head = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    Ok(head.measurement.format)
}

/// The measurement in this JSON.
pub fn measurement(json: &[u8]) -> Result<Measurement, String> {
    let object: Object = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let Object { mut measurement, profiles } = object;
    // What is there once for all layouts becomes the text of each of them.
    if profiles.most_bytes(measurement.layouts.len()) > PROFILES_MAX {
        return Err(format!("its profiles have more than {PROFILES_MAX} bytes"));
    }
    let texts = apart(&profiles, measurement.layouts.len());
    for (layout, profile) in measurement.layouts.iter_mut().zip(texts) {
        layout.profile = profile;
    }
    Ok(measurement)
}

/// Refuses what no ktax writes, so that whoever reads a measurement can rely on it.
pub fn check(measurement: &Measurement) -> Result<(), String> {
    let Measurement { of, kernel, layouts, .. } = measurement;
    if layouts.is_empty() || layouts.len() != of.layouts.len() || of.workload.ops == 0 {
        return Err("it has not the layouts and operations that it says".to_owned());
    }
    if kernel.sha256 != of.kernel_sha256 {
        return Err("it names two kernels".to_owned());
    }
    for layout in layouts {
        let parsed = parse(&layout.profile).map_err(|error| error.to_string())?;
        let sample = &layout.sample;
        let is_same = parsed.total == sample.total && parsed.parallel == sample.parallel;
        if !is_same || parsed.counts() != sample.counts {
            return Err("its functions do not add up to its counts".to_owned());
        }
    }
    Ok(())
}

/// A member of gzip without content: its comment is the hash of these bytes.
fn seal(bytes: &[u8]) -> Vec<u8> {
    const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0x10, 0, 0, 0, 0, 0, 0xff];
    const EMPTY: [u8; 11] = [0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    [&HEAD[..], sha256(bytes).as_bytes(), &EMPTY].concat()
}
