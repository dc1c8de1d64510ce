//! The facts of an image.

use crate::model::ImageFormat;

/// What an image says about itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub format: ImageFormat,
    /// As `uname -r` prints it.
    pub release: Option<String>,
    /// Hexadecimal digits.
    pub build_id: Option<String>,
}

const BANNER: &[u8] = b"Linux version ";

/// The release in the banner `Linux version …`. Skips format strings that begin the same way.
pub(super) fn release_in(mut data: &[u8]) -> Option<String> {
    loop {
        let start = data.windows(BANNER.len()).position(|window| window == BANNER)?;
        data = data.get(start + BANNER.len()..)?;
        if let Some(release) = release_word(data) {
            return Some(release);
        }
    }
}

/// The first word of `text` if it can be a kernel release: a digit first, printable, and at most 64
/// bytes long (`__NEW_UTS_LEN`).
pub(super) fn release_word(text: &[u8]) -> Option<String> {
    let end = text.iter().take(65).position(|&byte| byte == b' ' || byte == b'\0')?;
    let word = &text[..end];
    let plausible = word.first()?.is_ascii_digit() && word.iter().all(u8::is_ascii_graphic);
    if !plausible {
        return None;
    }
    String::from_utf8(word.to_vec()).ok()
}
