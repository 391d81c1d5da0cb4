//! Arrow's string views: 16 bytes a text, which hold a short one, or say where a long one is.

use std::slice;

const INLINE: usize = 12; // bytes

#[repr(C)]
#[derive(Clone, Copy)]
pub struct View {
    length: u32,
    inline: [u8; INLINE], // or a prefix, which buffer, and where in it: four bytes each
}

#[repr(C)]
pub struct Buffer {
    address: *const u8,
    size: usize,
}

pub struct Views<'a> {
    pub views: &'a [View],
    pub buffers: &'a [Buffer],
}

impl<'a> Views<'a> {
    /// Return a text's bytes; None where its view points out of its buffer.
    pub fn get(&self, row: usize) -> Option<&'a [u8]> {
        let view = self.views.get(row)?;
        let length = view.length as usize;
        if length <= INLINE {
            return Some(&view.inline[..length]);
        }
        let buffer = self.buffers.get(read_u32(&view.inline, 4)? as usize)?;
        let start = read_u32(&view.inline, 8)? as usize;
        if buffer.address.is_null() || buffer.size > isize::MAX as usize {
            return None;
        }
        // Safety: the caller of the library promises so many bytes at this address.
        let bytes: &'a [u8] = unsafe { slice::from_raw_parts(buffer.address, buffer.size) };
        bytes.get(start..start.checked_add(length)?)
    }
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
}
