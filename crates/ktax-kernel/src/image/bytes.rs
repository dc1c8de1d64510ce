//! Reads bytes and numbers at offsets of a file that may be too short; writes bytes as digits.

/// `bytes` as lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `length` bytes from the offset `at`.
pub(super) fn bytes_at(data: &[u8], at: usize, length: usize) -> Option<&[u8]> {
    data.get(at..at.checked_add(length)?)
}

/// A little-endian number of 16 bits.
pub(super) fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes_at(data, at, 2)?.try_into().ok()?))
}

/// A little-endian number of 32 bits.
pub(super) fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes_at(data, at, 4)?.try_into().ok()?))
}
