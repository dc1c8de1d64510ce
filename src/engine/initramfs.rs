use std::io;

use cpio::newc::{Builder, trailer};

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CONSOLE: u32 = 0o020_600;

/// The whole userspace of a guest, as an uncompressed cpio archive: the same bytes for the same
/// programs.
pub fn build(init: &[u8], hello: &[u8]) -> io::Result<Vec<u8>> {
    let mut archive = Vec::with_capacity(init.len() + hello.len() + 4096);
    for name in ["dev", "proc", "sys", "tmp", "bin"] {
        append(&mut archive, name, DIRECTORY, &[])?;
    }
    // The kernel opens it for init before init can make it.
    let console = Builder::new("dev/console").mode(CONSOLE).nlink(1).rdev_major(5).rdev_minor(1);
    console.write(&mut archive, 0).finish()?;
    append(&mut archive, "init", PROGRAM, init)?;
    append(&mut archive, "bin/hello", PROGRAM, hello)?;
    trailer(&mut archive)?;
    Ok(archive)
}

fn append(archive: &mut Vec<u8>, name: &str, mode: u32, content: &[u8]) -> io::Result<()> {
    let size = u32::try_from(content.len()).map_err(io::Error::other)?;
    let mut writer = Builder::new(name).mode(mode).nlink(1).mtime(0).write(archive, size);
    io::Write::write_all(&mut writer, content)?;
    writer.finish().map(drop)
}
