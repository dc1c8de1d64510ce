/// A file that commands find at `/files/NAME`.
#[derive(Debug, Clone)]
pub struct Given {
    pub name: String,
    pub content: Vec<u8>,
}

/// What all given files may have together, in bytes: while the host unpacks them, its memory has
/// them twice, and no more than half of the rest may be files.
pub const GIVEN_MAX: u64 = 256 << 20;
