//! The shape of a text: how many words it has, and how many of its lines begin as a step.
//!
//! White space is what Python's `str.isspace` says it is, which is the same in all versions.

use crate::sixteen::{Sixteen, SIXTEEN};
use crate::NotMine;

const AT_ONCE: usize = 4 * SIXTEEN; // bytes: a bit for each fills a number

/// Return the number of words, as `len(text.split())`.
pub fn count_words(text: &[u8]) -> Result<i64, NotMine> {
    let (mut words, mut before, mut has_wide) = (0, 1, false); // a word may start the text
    for_each_piece(text, |start, piece| {
        let space = mark(piece, find_spaces);
        words += i64::from((!space & (space << 1 | before)).count_ones());
        before = space >> (AT_ONCE - 1);
        let mut leads = mark(piece, |each| each.find(0xc2).or(each.find_within(0xe1, 0xe3)));
        while leads != 0 {
            has_wide |= space_at(text, start + leads.trailing_zeros() as usize) > 0;
            leads &= leads - 1;
        }
        Ok(())
    })?;
    Ok(if has_wide { count_wide(text) } else { words })
}

/// Call `look` with the start of each 64 bytes, and the bytes; blanks follow the last.
#[inline(always)]
fn for_each_piece(
    text: &[u8],
    mut look: impl FnMut(usize, &[u8]) -> Result<(), NotMine>,
) -> Result<(), NotMine> {
    let pieces = text.chunks_exact(AT_ONCE);
    let rest = pieces.remainder();
    for (number, piece) in pieces.enumerate() {
        look(number * AT_ONCE, piece)?;
    }
    let mut piece = [b' '; AT_ONCE];
    piece[..rest.len()].copy_from_slice(rest);
    look(text.len() - rest.len(), &piece)
}

/// Return a bit for each byte that `find` marks.
#[inline(always)]
fn mark(piece: &[u8], find: impl Fn(Sixteen) -> Sixteen) -> u64 {
    let mut bits = 0;
    for start in (0..AT_ONCE).step_by(SIXTEEN) {
        bits |= Sixteen::read(piece, start).map_or(0, |each| find(each).high_bits()) << start;
    }
    bits
}

/// Return the same of a text that has white space outside ASCII.
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
    for_each_piece(text, |start, piece| {
        let mut ends = mark(piece, |each| each.find(b'\n').or(each.find(b'\r')));
        while ends != 0 {
            steps += i64::from(is_step(text, start + ends.trailing_zeros() as usize + 1)?);
            ends &= ends - 1;
        }
        Ok(())
    })?;
    Ok(steps)
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

/// Mark the white space of ASCII.
#[inline(always)]
fn find_spaces(bytes: Sixteen) -> Sixteen {
    bytes.find(b' ').or(bytes.find_within(9, 13)).or(bytes.find_within(0x1c, 0x1f))
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
