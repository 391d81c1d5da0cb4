//! The shape of a text: how many words it has, and how many of its lines begin as a step.
//!
//! White space is what Python's `str.isspace` says it is, which is the same in all versions.

use crate::NotMine;

const AT_ONCE: usize = 64; // bytes, which compilers look at several at a time
const WORD_BYTES: usize = 8;
const ONES: u64 = u64::MAX / 255;
const LOW_BITS: u64 = ONES * 127;

/// Return the number of words, as `len(text.split())`.
pub fn count_words(text: &[u8]) -> i64 {
    let (mut words, mut last, mut may_be_wide) = (0, 1, 0);
    let mut pieces = text.chunks_exact(AT_ONCE);
    for piece in &mut pieces {
        let mut space = [0; AT_ONCE];
        for (flag, &byte) in space.iter_mut().zip(piece) {
            *flag = u8::from(is_space(byte));
            may_be_wide |= u8::from(may_lead_space(byte));
        }
        let behind = space.iter().zip(&space[1..]);
        let starts = behind.fold(0, |sum: u8, (&before, &here)| sum + (before & !here));
        words += i64::from(starts) + i64::from(last & !space[0]);
        last = space[AT_ONCE - 1];
    }
    for &byte in pieces.remainder() {
        let space = u8::from(is_space(byte));
        may_be_wide |= u8::from(may_lead_space(byte));
        words += i64::from(last & !space);
        last = space;
    }
    if may_be_wide == 0 {
        words
    } else {
        count_wide(text)
    }
}

/// Return the same of a text that may have white space outside ASCII.
fn count_wide(text: &[u8]) -> i64 {
    let (mut at, mut words, mut in_word) = (0, 0, false);
    while at < text.len() {
        let space = space_at(text, at);
        if space == 0 && !in_word {
            words += 1;
        }
        in_word = space == 0;
        at += space.max(1); // within a word byte by byte: none but the first leads white space
    }
    words
}

/// Return the number of lines that begin with a step's mark: `1.`, `-` or `*`, and white space.
pub fn count_steps(text: &[u8]) -> Result<i64, NotMine> {
    let mut steps = i64::from(is_step(text, 0)?);
    let mut words = text.chunks_exact(WORD_BYTES);
    let mut start = 0;
    for bytes in &mut words {
        let mut word = [0; WORD_BYTES];
        word.copy_from_slice(bytes);
        let word = u64::from_le_bytes(word);
        let mut ends = mark_byte(word, b'\n') | mark_byte(word, b'\r');
        while ends != 0 {
            steps += i64::from(is_step(text, start + ends.trailing_zeros() as usize / 8 + 1)?);
            ends &= ends - 1;
        }
        start += WORD_BYTES;
    }
    for at in start..text.len() {
        if matches!(text[at], b'\n' | b'\r') {
            steps += i64::from(is_step(text, at + 1)?);
        }
    }
    Ok(steps)
}

/// Return a bit for each byte of a word that is this one.
fn mark_byte(word: u64, byte: u8) -> u64 {
    let other = word ^ (ONES * u64::from(byte));
    !(((other & LOW_BITS) + LOW_BITS) | other | LOW_BITS)
}

#[inline(always)]
fn is_step(text: &[u8], start: usize) -> Result<bool, NotMine> {
    let mut at = start;
    while let space @ 1.. = inline_space_at(text, at) {
        at += space;
    }
    match text.get(at) {
        Some(b'-' | b'*') => Ok(inline_space_at(text, at + 1) > 0),
        Some(byte) if byte.is_ascii_digit() => {
            while text.get(at).map_or(false, u8::is_ascii_digit) {
                at += 1;
            }
            refuse_digit(text, at)?;
            Ok(text.get(at) == Some(&b'.') && inline_space_at(text, at + 1) > 0)
        }
        _ => refuse_digit(text, at).map(|()| false),
    }
}

/// Leave a text to Python in which a digit may stand that is not of ASCII.
#[inline(always)]
fn refuse_digit(text: &[u8], at: usize) -> Result<(), NotMine> {
    if text.get(at).map_or(true, u8::is_ascii) {
        Ok(())
    } else {
        refuse_wide_digit(text, at)
    }
}

fn refuse_wide_digit(text: &[u8], at: usize) -> Result<(), NotMine> {
    let character = crate::chars::character_at(text, at)?.0;
    let is_known = matches!(
        character,
        '\u{2000}'..='\u{2bff}' | '\u{3001}'..='\u{303f}' | '\u{1f300}'..='\u{1faff}'
    );
    if is_known || (character.is_alphabetic() && !character.is_numeric()) {
        Ok(())
    } else {
        Err(NotMine)
    }
}

#[inline(always)]
fn is_space(byte: u8) -> bool {
    (byte == b' ') | (byte.wrapping_sub(9) < 5) | (byte.wrapping_sub(0x1c) < 4)
}

#[inline(always)]
fn may_lead_space(byte: u8) -> bool {
    (byte == 0xc2) | (byte.wrapping_sub(0xe1) < 3)
}

/// Return how many bytes the white space at a byte has; 0 if there is none.
fn space_at(text: &[u8], at: usize) -> usize {
    match &text[at.min(text.len())..] {
        [byte, ..] if is_space(*byte) => 1,
        [0xc2, 0x85 | 0xa0, ..] => 2,
        [0xe1, 0x9a, 0x80, ..] => 3,
        [0xe2, 0x80, 0x80..=0x8a | 0xa8 | 0xa9 | 0xaf, ..] => 3,
        [0xe2, 0x81, 0x9f, ..] | [0xe3, 0x80, 0x80, ..] => 3,
        _ => 0,
    }
}

#[inline(always)]
fn inline_space_at(text: &[u8], at: usize) -> usize {
    match text.get(at) {
        Some(b' ') => 1,
        Some(b'\n' | b'\r') | None => 0,
        Some(&byte) if byte.is_ascii() => usize::from(is_space(byte)),
        _ => space_at(text, at),
    }
}
