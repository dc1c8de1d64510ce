//! The ELF file within an image that was compressed by LZ4, as Debian's are.

/// Where the boot protocol says what the image contains.
const SETUP_SECTORS: usize = 0x1f1;
const PAYLOAD: usize = 0x248;
const SECTOR: usize = 512;

const MAGIC: u32 = 0x184c_2102;

fn u32_at(data: &[u8], at: usize) -> usize {
    u32::from_le_bytes(data[at..at + 4].try_into().unwrap()) as usize
}

/// `None` of an image that was compressed in another way.
pub fn vmlinux(image: &[u8]) -> Option<Vec<u8>> {
    let start = (usize::from(image[SETUP_SECTORS]) + 1) * SECTOR + u32_at(image, PAYLOAD);
    let payload = &image[start..start + u32_at(image, PAYLOAD + 4)];
    if u32_at(payload, 0) != MAGIC as usize {
        return None;
    }
    let (mut at, mut out) = (4, Vec::new());
    while at + 4 <= payload.len() {
        let size = u32_at(payload, at);
        at += 4;
        // Behind the last block is the size of all.
        let Some(block) = payload.get(at..at + size) else { break };
        unpack(block, &mut out);
        at += size;
    }
    Some(out)
}

/// A length that goes on in more bytes if it is as large as four bits can be.
fn length(block: &[u8], at: &mut usize, bits: u8) -> usize {
    let mut length = usize::from(bits);
    let mut is_more = bits == 15;
    while is_more {
        length += usize::from(block[*at]);
        is_more = block[*at] == 255;
        *at += 1;
    }
    length
}

/// Blocks do not refer to others.
fn unpack(block: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while at < block.len() {
        let token = block[at];
        at += 1;
        let literals = length(block, &mut at, token >> 4);
        out.extend(&block[at..at + literals]);
        at += literals;
        if at == block.len() {
            return;
        }
        let back = usize::from(block[at]) | usize::from(block[at + 1]) << 8;
        at += 2;
        let copied = length(block, &mut at, token & 15) + 4;
        for from in out.len() - back..out.len() - back + copied {
            out.push(out[from]);
        }
    }
}
