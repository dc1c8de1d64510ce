//! What the build put into ktax, and its place on disk for QEMU to read.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::initramfs;
use crate::disk::{sha256_of_parts, write_atomically};

/// The guest's programs.
pub const GUEST: &[u8] = include_bytes!(env!("KTAX_GUEST"));
pub const HELLO: &[u8] = include_bytes!(env!("KTAX_HELLO"));
const PLUGIN: &[u8] = include_bytes!(env!("KTAX_PLUGIN"));

/// The files that QEMU needs, in the cache.
#[derive(Debug, Clone)]
pub struct Payload {
    /// The guest's userspace.
    pub initrd: PathBuf,
    /// The counter.
    pub plugin: PathBuf,
}

/// SHA-256 over the guest programs and the plugin: part of the Key.
pub fn guest_sha256() -> String {
    sha256_of_parts(&[GUEST, HELLO, PLUGIN])
}

/// Puts the files where QEMU can read them, unless they are there already.
pub fn install(cache: &Path) -> io::Result<Payload> {
    let dir = cache.join("payload").join(guest_sha256());
    fs::create_dir_all(&dir)?;
    let payload =
        Payload { initrd: dir.join("initramfs.cpio"), plugin: dir.join("ktax-plugin.so") };
    put(&payload.initrd, &initramfs::build(GUEST, HELLO)?)?;
    put(&payload.plugin, PLUGIN)?;
    Ok(payload)
}

/// Puts the guest's programs, `ktax-guest` and `ktax-hello`, where this machine can execute them.
pub fn install_programs(cache: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let dir = cache.join("payload").join(guest_sha256());
    fs::create_dir_all(&dir)?;
    let (guest, hello) = (dir.join("ktax-guest"), dir.join("ktax-hello"));
    for (path, content) in [(&guest, GUEST), (&hello, HELLO)] {
        put(path, content)?;
        fs::set_permissions(path, Permissions::from_mode(0o755))?;
    }
    Ok((guest, hello))
}

/// The content is compared, not the name trusted: a damaged file is replaced.
fn put(path: &Path, content: &[u8]) -> io::Result<()> {
    match fs::read(path) {
        Ok(found) if found == content => Ok(()),
        _ => write_atomically(path, content),
    }
}
