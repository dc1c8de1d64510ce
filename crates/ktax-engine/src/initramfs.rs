use std::io;

use cpio::newc::{Builder, trailer};

/// The file modes in an archive.
pub const DIRECTORY: u32 = 0o040_755;
pub const PROGRAM: u32 = 0o100_755;
const CONSOLE: u32 = 0o020_600;

/// The whole user space of a guest, as an uncompressed cpio archive. The same programs give the
/// same bytes.
pub fn build(init: &[u8], hello: &[u8]) -> io::Result<Vec<u8>> {
    let mut archive = Vec::with_capacity(init.len() + hello.len() + 4096);
    for name in ["dev", "proc", "sys", "tmp", "bin"] {
        append(&mut archive, name, DIRECTORY, &[])?;
    }
    append_console(&mut archive)?;
    append(&mut archive, "init", PROGRAM, init)?;
    append(&mut archive, "bin/hello", PROGRAM, hello)?;
    end(archive)
}

/// Ends an archive.
pub fn end(mut archive: Vec<u8>) -> io::Result<Vec<u8>> {
    trailer(&mut archive)?;
    Ok(archive)
}

/// Adds /dev/console, which the kernel opens before init can make it.
pub fn append_console(archive: &mut Vec<u8>) -> io::Result<()> {
    let console = Builder::new("dev/console").mode(CONSOLE).nlink(1).rdev_major(5).rdev_minor(1);
    console.write(archive, 0).finish().map(drop)
}

/// Adds a directory or a program, the same bytes every time.
pub fn append(archive: &mut Vec<u8>, name: &str, mode: u32, content: &[u8]) -> io::Result<()> {
    let size = u32::try_from(content.len()).map_err(io::Error::other)?;
    let mut writer = Builder::new(name).mode(mode).nlink(1).mtime(0).write(archive, size);
    io::Write::write_all(&mut writer, content)?;
    writer.finish().map(drop)
}
