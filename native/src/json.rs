//! The pieces of a JSON text: strings, numbers and values that no one wants, checked on the way.
//!
//! What is accepted here is JSON to Python's `json.loads` too; what is not may still be.

use crate::sixteen::{Sixteen, SIXTEEN};
use crate::NotMine;
use std::str::from_utf8;

const DEEPEST: u32 = 64; // lists and objects within one another
const EXACT_DIGITS: u32 = 15; // so many, and a power of ten up to 22, are exact in doubles
const FIGURE_DIGITS: u32 = 19; // so many fit 64 bits
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// Return where white space within a line ends.
#[inline(always)]
pub fn skip_blanks(data: &[u8], mut at: usize) -> usize {
    while matches!(data.get(at), Some(b' ' | b'\t' | b'\r')) {
        at += 1;
    }
    at
}

/// Return where what stands between two values ends, if it is this byte.
#[inline(always)]
pub fn expect(data: &[u8], at: usize, byte: u8) -> Result<usize, NotMine> {
    let at = skip_blanks(data, at);
    if data.get(at) == Some(&byte) {
        Ok(skip_blanks(data, at + 1))
    } else {
        Err(NotMine)
    }
}

/// Return where plain characters of a string end, and whether all of them are ASCII.
#[inline(never)] // with all registers for its own: a tenth of all time
pub fn skip_plain(data: &[u8], start: usize) -> (usize, bool) {
    let (mut at, mut high) = (start, 0);
    while let Some(bytes) = Sixteen::read(data, at) {
        let ends = bytes.find(b'"').or(bytes.find(b'\\')).or(bytes.find_within(0, 31)).high_bits();
        if ends != 0 {
            let length = ends.trailing_zeros();
            high |= bytes.high_bits() & ((1 << length) - 1);
            return (at + length as usize, high == 0);
        }
        high |= bytes.high_bits();
        at += SIXTEEN;
    }
    let rest = &data[at.min(data.len())..];
    let length = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=31));
    let length = length.unwrap_or(rest.len());
    (at + length, high == 0 && rest[..length].is_ascii())
}

/// Add what an escape stands for to the text; return where it ends.
#[inline(always)]
pub fn read_escape(data: &[u8], start: usize, text: &mut Vec<u8>) -> Result<usize, NotMine> {
    let byte = match data.get(start + 1) {
        Some(b'n') => b'\n',
        Some(b't') => b'\t',
        Some(b'r') => b'\r',
        Some(b'b') => 8,
        Some(b'f') => 12,
        Some(&byte @ (b'"' | b'\\' | b'/')) => byte,
        Some(b'u') => return read_unit(data, start, text),
        _ => return Err(NotMine),
    };
    text.push(byte);
    Ok(start + 2)
}

/// Add the character of one escape, or of a pair of them; half a pair is no character.
fn read_unit(data: &[u8], start: usize, text: &mut Vec<u8>) -> Result<usize, NotMine> {
    let mut end = start + 6;
    let mut code = read_hex(data, start + 2)?;
    if (0xd800..0xdc00).contains(&code) && data.get(end..end + 2) == Some(b"\\u") {
        let low = read_hex(data, end + 2)?;
        if !(0xdc00..0xe000).contains(&low) {
            return Err(NotMine);
        }
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        end += 6;
    }
    let character = char::from_u32(code).ok_or(NotMine)?;
    text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Ok(end)
}

fn read_hex(data: &[u8], at: usize) -> Result<u32, NotMine> {
    let digits = data.get(at..at + 4).ok_or(NotMine)?;
    digits
        .iter()
        .try_fold(0, |code, &byte| Ok(code << 4 | char::from(byte).to_digit(16).ok_or(NotMine)?))
}

/// Return where the string ends whose first character is here.
pub fn skip_string(data: &[u8], start: usize) -> Result<usize, NotMine> {
    let (mut at, mut all_ascii) = (start, true);
    loop {
        let (end, is_ascii) = skip_plain(data, at);
        all_ascii &= is_ascii;
        at = match (data.get(end), data.get(end + 1)) {
            (Some(b'"'), _) => {
                check_text(&data[start..end], all_ascii)?;
                return Ok(end + 1);
            }
            (Some(b'\\'), Some(b'u')) => read_hex(data, end + 2).map(|_| end + 6)?,
            (Some(b'\\'), Some(b'n' | b't' | b'r' | b'b' | b'f' | b'"' | b'\\' | b'/')) => end + 2,
            _ => return Err(NotMine),
        };
    }
}

/// Refuse bytes that are not UTF-8.
#[inline(always)]
pub fn check_text(bytes: &[u8], is_ascii: bool) -> Result<(), NotMine> {
    if is_ascii || from_utf8(bytes).is_ok() {
        Ok(())
    } else {
        Err(NotMine)
    }
}

/// Return where a word such as `null` ends.
#[inline(always)]
pub fn skip_word(data: &[u8], at: usize, word: &[u8]) -> Result<usize, NotMine> {
    let end = at + word.len();
    if data.get(at..end) == Some(word) {
        Ok(end)
    } else {
        Err(NotMine)
    }
}

/// Return where any value ends.
pub fn skip_value(data: &[u8], start: usize) -> Result<usize, NotMine> {
    let (mut at, mut depth, mut objects) = (start, 0, 0_u64); // a bit of `objects` for each depth
    loop {
        let opened = match data.get(at) {
            Some(b'{') => 1,
            Some(b'[') => 0,
            _ => {
                at = skip_scalar(data, at)?;
                2
            }
        };
        if opened < 2 {
            if depth == DEEPEST {
                return Err(NotMine);
            }
            (depth, objects) = (depth + 1, objects << 1 | opened);
            at = skip_blanks(data, at + 1);
            if data.get(at) != Some(if opened == 1 { &b'}' } else { &b']' }) {
                at = if opened == 1 { skip_key(data, at)? } else { at };
                continue;
            }
            (depth, objects) = (depth - 1, objects >> 1);
            at += 1;
        }
        // Behind a value: another one follows, or what holds it ends.
        loop {
            if depth == 0 {
                return Ok(at);
            }
            at = skip_blanks(data, at);
            match data.get(at) {
                Some(b',') => {
                    at = skip_blanks(data, at + 1);
                    at = if objects & 1 == 1 { skip_key(data, at)? } else { at };
                    break;
                }
                Some(b'}') if objects & 1 == 1 => {}
                Some(b']') if objects & 1 == 0 => {}
                _ => return Err(NotMine),
            }
            (depth, objects) = (depth - 1, objects >> 1);
            at += 1;
        }
    }
}

fn skip_key(data: &[u8], at: usize) -> Result<usize, NotMine> {
    match data.get(at) {
        Some(b'"') => expect(data, skip_string(data, at + 1)?, b':'),
        _ => Err(NotMine),
    }
}

fn skip_scalar(data: &[u8], at: usize) -> Result<usize, NotMine> {
    match data.get(at) {
        Some(b'"') => skip_string(data, at + 1),
        Some(b'n') => skip_word(data, at, b"null"),
        Some(b't') => skip_word(data, at, b"true"),
        Some(b'f') => skip_word(data, at, b"false"),
        _ => Ok(Number::scan(data, at)?.end),
    }
}

/// A number as it is written, from where it starts to its `end`.
pub struct Number<'a> {
    pub end: usize,
    written: &'a [u8],
    digits: u32,
    figure: u64, // all digits but those of the exponent, if they are few
    decimals: u32,
    has_exponent: bool,
}

impl<'a> Number<'a> {
    #[inline(always)]
    pub fn scan(data: &'a [u8], start: usize) -> Result<Self, NotMine> {
        let (mut digits, mut figure, mut decimals) = (0, 0_u64, 0);
        let mut at = start + usize::from(data.get(start) == Some(&b'-'));
        let first = at;
        let mut read_digits = |at: &mut usize| {
            let start = *at;
            while let Some(byte @ b'0'..=b'9') = data.get(*at) {
                figure = figure.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
                *at += 1;
            }
            digits += (*at - start).min(1 << 20) as u32;
            *at - start
        };
        if read_digits(&mut at) == 0 || (data[first] == b'0' && at > first + 1) {
            return Err(NotMine);
        }
        if data.get(at) == Some(&b'.') {
            at += 1;
            decimals = read_digits(&mut at).min(1 << 20) as u32;
            if decimals == 0 {
                return Err(NotMine);
            }
        }
        let has_exponent = matches!(data.get(at), Some(b'e' | b'E'));
        if has_exponent {
            at += 1 + usize::from(matches!(data.get(at + 1), Some(b'+' | b'-')));
            let start = at;
            while matches!(data.get(at), Some(b'0'..=b'9')) {
                at += 1;
            }
            if at == start {
                return Err(NotMine);
            }
        }
        Ok(Number { end: at, written: &data[start..at], digits, figure, decimals, has_exponent })
    }

    /// Return true for a whole number of this size or more.
    #[inline(always)]
    pub fn is_wide(&self, least: u64) -> bool {
        let is_whole = self.decimals == 0 && !self.has_exponent;
        is_whole && (self.digits > FIGURE_DIGITS || self.figure >= least)
    }

    /// Return the nearest double; infinity and a zero with a sign are left alone.
    #[inline(always)]
    pub fn value(&self) -> Result<f64, NotMine> {
        let is_negative = self.written[0] == b'-';
        let value = if self.digits <= EXACT_DIGITS && !self.has_exponent {
            let size = self.figure as f64 / POWERS[self.decimals as usize];
            if is_negative {
                -size
            } else {
                size
            }
        } else {
            let text = from_utf8(self.written).map_err(|_| NotMine)?;
            text.parse().map_err(|_| NotMine)?
        };
        if value.is_finite() && !(is_negative && value == 0.0) {
            Ok(value)
        } else {
            Err(NotMine)
        }
    }
}
