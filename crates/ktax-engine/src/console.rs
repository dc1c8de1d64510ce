use std::fs;
use std::path::Path;

/// The last 64 KiB of a console, which are enough for a panic with its trace. Empty if the file
/// cannot be read.
pub fn read_tail(path: &Path) -> Vec<u8> {
    const TAIL_BYTES: usize = 64 << 10;
    let bytes = fs::read(path).unwrap_or_default();
    bytes[bytes.len().saturating_sub(TAIL_BYTES)..].to_vec()
}
