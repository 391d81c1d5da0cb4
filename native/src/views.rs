//! Arrow's string views: 16 bytes a text, which hold a short one, or say where a long one is.

use std::slice;

const INLINE: usize = 12; // bytes

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct View {
    length: u32,
    inline: [u8; INLINE], // or a prefix, which buffer, and where in it: four bytes each
}

impl View {
    /// Return the view of a text, which is in the first buffer from a byte on unless it is short.
    #[inline(always)]
    pub fn new(text: &[u8], start: usize) -> Self {
        let mut inline = [0; INLINE];
        if Self::is_short(text.len()) {
            inline[..text.len()].copy_from_slice(text);
        } else {
            inline[..4].copy_from_slice(&text[..4]);
            inline[8..].copy_from_slice(&(start as u32).to_le_bytes());
        }
        View { length: text.len() as u32, inline }
    }

    /// Say whether a text of so many bytes is held by its view.
    #[inline(always)]
    pub fn is_short(length: usize) -> bool {
        length <= INLINE
    }
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
