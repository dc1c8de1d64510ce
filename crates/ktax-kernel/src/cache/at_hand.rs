//! Finds a kernel that is in the cache already.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::files::is_whole;
use super::kernel::Kernel;
use ktax_host::disk::read_own;
use ktax_model::{Arch, Identity, ImageFormat};

/// The longest `origin.json`, in bytes.
const ORIGIN_MAX: u64 = 64 << 10;

/// The path that the image with this SHA-256 has, if it is in the cache.
pub fn place(sha256: &str, cache: &Path) -> PathBuf {
    cache.join("kernels").join(sha256).join("image")
}

/// The path of the image with this SHA-256, if the cache has it whole.
pub fn cached(sha256: &str, cache: &Path) -> Option<PathBuf> {
    let image = place(sha256, cache);
    is_whole(&image, sha256).then_some(image)
}

/// The x86_64 bzImage that came into the cache last, among those that are whole. Downloads nothing.
pub fn at_hand(cache: &Path) -> Option<Kernel> {
    let entries = fs::read_dir(cache.join("kernels")).ok()?.flatten();
    let mut found: Vec<(SystemTime, Identity)> = entries
        .filter_map(|entry| {
            let origin = entry.path().join("origin.json");
            let made = fs::metadata(entry.path().join("image")).ok()?.modified().ok()?;
            let identity: Identity =
                serde_json::from_slice(&read_own(&origin, ORIGIN_MAX).ok()?).ok()?;
            let boots = identity.arch == Arch::X86_64 && identity.format == ImageFormat::BzImage;
            let is_its = entry.file_name() == identity.sha256.as_str();
            (boots && is_its).then_some((made, identity))
        })
        .collect();
    found.sort_by_key(|(made, _)| std::cmp::Reverse(*made));
    found.into_iter().find_map(|(_, identity)| {
        let image = cached(&identity.sha256, cache)?;
        Some(Kernel { identity, image, config: None })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_host::disk::sha256;

    fn put(cache: &Path, content: &[u8], arch: &str, age_s: u64) -> String {
        let sha256 = sha256(content);
        let dir = cache.join("kernels").join(&sha256);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("image"), content).unwrap();
        let image = fs::File::options().append(true).open(dir.join("image")).unwrap();
        image.set_modified(SystemTime::now() - std::time::Duration::from_secs(age_s)).unwrap();
        let origin = format!(
            r#"{{"source":"s","sha256":"{sha256}","release":"6.1","build_id":null,
            "config_sha256":null,"arch":"{arch}","format":"bzimage"}}"#
        );
        fs::write(dir.join("origin.json"), origin).unwrap();
        sha256
    }

    #[test]
    fn the_newest_whole_x86_image_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path();
        assert_eq!(at_hand(cache), None);
        let oldest = put(cache, b"a", "x86_64", 300);
        let newer = put(cache, b"b", "x86_64", 200);
        put(cache, b"c", "powerpc", 100);
        assert_eq!(at_hand(cache).unwrap().identity.sha256, newer);
        fs::write(cache.join("kernels").join(&newer).join("image"), b"damaged").unwrap();
        let found = at_hand(cache).unwrap();
        assert_eq!((found.identity.sha256.as_str(), found.config), (oldest.as_str(), None));
        assert_eq!(fs::read(found.image).unwrap(), b"a");
    }
}
