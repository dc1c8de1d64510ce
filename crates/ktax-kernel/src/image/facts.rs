//! The facts of an image.

use ktax_model::ImageFormat;

/// What an image says about itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub format: ImageFormat,
    /// As `uname -r` prints it.
    pub release: Option<String>,
    /// The day of its package, `2026-01-31`.
    pub package_date: Option<String>,
    /// Hexadecimal digits.
    pub build_id: Option<String>,
}

const BANNER: &[u8] = b"Linux version ";

/// A banner is no longer than this.
const BANNER_MAX: usize = 1024;

/// What stands in the banner behind `Linux version `, from the release on. Skips format strings
/// that begin the same way.
pub(super) fn banner_in(mut data: &[u8]) -> Option<&[u8]> {
    loop {
        let start = data.windows(BANNER.len()).position(|window| window == BANNER)?;
        data = data.get(start + BANNER.len()..)?;
        if release_word(data).is_some() {
            return Some(data);
        }
    }
}

/// The day at the end of a banner, where Debian's kernels have that of their package: `#1 SMP
/// PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-16)`. Other kernels have the time of their build,
/// which is another in each build, or always the same.
pub(super) fn package_date(banner: &[u8]) -> Option<String> {
    let banner = &banner[..banner.len().min(BANNER_MAX)];
    let end = banner.iter().position(|byte| matches!(byte, b'\0' | b'\n'))?;
    let day = banner[..end].strip_suffix(b")")?;
    let day = day.get(day.iter().rposition(|byte| *byte == b'(')? + 1..)?;
    let is_day = day.len() == 10
        && day.iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    is_day.then(|| String::from_utf8_lossy(day).into_owned())
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
