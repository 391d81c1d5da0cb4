//! Sixteen bytes of a text, compared at once.

pub const SIXTEEN: usize = 16;

pub use compare::Sixteen;

impl Sixteen {
    /// Return the bytes that start here, if there are so many.
    #[inline(always)]
    pub fn read(text: &[u8], start: usize) -> Option<Self> {
        let mut bytes = [0; SIXTEEN];
        bytes.copy_from_slice(text.get(start..start + SIXTEEN)?);
        Some(Self::new(bytes))
    }
}

/// With SSE2, which every processor of this kind has.
#[cfg(target_arch = "x86_64")]
mod compare {
    use super::SIXTEEN;
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128,
        _mm_set1_epi8, _mm_sub_epi8,
    };

    #[derive(Clone, Copy)]
    pub struct Sixteen(__m128i);

    // Safety: the instructions are always there, and 16 bytes are read from an array of 16.
    impl Sixteen {
        #[inline(always)]
        pub fn new(bytes: [u8; SIXTEEN]) -> Self {
            Sixteen(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
        }

        /// Set all bits of the bytes that are this one, none of the others.
        #[inline(always)]
        pub fn find(self, byte: u8) -> Self {
            Sixteen(unsafe { _mm_cmpeq_epi8(self.0, _mm_set1_epi8(byte as i8)) })
        }

        /// Set all bits of the bytes from `low` to `high`.
        #[inline(always)]
        pub fn find_within(self, low: u8, high: u8) -> Self {
            Sixteen(unsafe {
                let above = _mm_sub_epi8(self.0, _mm_set1_epi8(low as i8));
                _mm_cmpeq_epi8(_mm_min_epu8(above, _mm_set1_epi8((high - low) as i8)), above)
            })
        }

        #[inline(always)]
        pub fn or(self, other: Self) -> Self {
            Sixteen(unsafe { _mm_or_si128(self.0, other.0) })
        }

        /// Return the highest bit of each byte, the first byte's lowest.
        #[inline(always)]
        pub fn high_bits(self) -> u64 {
            u64::from(unsafe { _mm_movemask_epi8(self.0) } as u16)
        }
    }
}

/// With what the compiler makes of it.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[cfg_attr(target_arch = "x86_64", allow(dead_code))]
mod plainly {
    use super::SIXTEEN;

    const GATHER: u64 = 0x0102_0408_1020_4080; // moves the lowest bit of each byte into the last byte
    const ONES: u64 = u64::MAX / 255;

    #[derive(Clone, Copy)]
    pub struct Sixteen([u8; SIXTEEN]);

    impl Sixteen {
        #[inline(always)]
        pub fn new(bytes: [u8; SIXTEEN]) -> Self {
            Sixteen(bytes)
        }

        #[inline(always)]
        pub fn find(self, byte: u8) -> Self {
            Sixteen(self.0.map(|each| if each == byte { 255 } else { 0 }))
        }

        #[inline(always)]
        pub fn find_within(self, low: u8, high: u8) -> Self {
            let is_within = |each: u8| each.wrapping_sub(low) <= high - low;
            Sixteen(self.0.map(|each| if is_within(each) { 255 } else { 0 }))
        }

        #[inline(always)]
        pub fn or(mut self, other: Self) -> Self {
            self.0.iter_mut().zip(other.0).for_each(|(each, more)| *each |= more);
            self
        }

        #[inline(always)]
        pub fn high_bits(self) -> u64 {
            let [low, high] = [0, 8].map(|start| {
                let mut half = [0; 8];
                half.copy_from_slice(&self.0[start..start + 8]);
                ((u64::from_le_bytes(half) >> 7) & ONES).wrapping_mul(GATHER) >> 56
            });
            low | high << 8
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
use plainly as compare;

#[cfg(test)]
mod tests {
    use super::*;

    /// Return the bits of the bytes for which something holds.
    fn mark(bytes: [u8; SIXTEEN], is_one: impl Fn(u8) -> bool) -> u64 {
        bytes.iter().enumerate().fold(0, |bits, (at, &byte)| bits | u64::from(is_one(byte)) << at)
    }

    #[test]
    fn every_byte_is_found_at_every_place() {
        for byte in 0..=255_u8 {
            for place in 0..SIXTEEN {
                let mut bytes = [b'a'; SIXTEEN];
                bytes[place] = byte;
                bytes[SIXTEEN - 1 - place] ^= 0x80;
                let found = Sixteen::new(bytes);
                let plainly = plainly::Sixteen::new(bytes);
                let high = mark(bytes, |each| each > 127);
                assert_eq!([found.high_bits(), plainly.high_bits()], [high; 2]);
                let same = mark(bytes, |each| each == byte);
                let masks = [found.find(byte).high_bits(), plainly.find(byte).high_bits()];
                assert_eq!(masks, [same; 2]);
                for (low, end) in [(0, 31), (9, 13), (0xe1, 0xe3), (byte, 255)] {
                    let within = mark(bytes, |each| (low..=end).contains(&each));
                    let masks = [
                        found.find_within(low, end).or(found.find(byte)).high_bits(),
                        plainly.find_within(low, end).or(plainly.find(byte)).high_bits(),
                    ];
                    assert_eq!(masks, [within | same; 2]);
                }
            }
        }
    }
}
