//! Classes of characters, as Python's `str` and `re` see them.
//!
//! Unicode grows, and interpreters differ in its version: only characters that are the same in all
//! of them are known here. A line with any other is left to the reader in Python.

use crate::NotMine;

pub const WORD: u8 = 1; // \w
pub const LETTER: u8 = 2; // [^\W\d_]
pub const SPACE: u8 = 4; // \s
pub const DIGIT: u8 = 8; // 0 to 9
pub const LOWER: u8 = 16;
pub const UPPER: u8 = 32;
pub const IN_WORD: u8 = 64; // [\w'’.&-]
pub const ENDS_WORD: u8 = 128; // [^\W_] and ' and ’

const WORDLIKE: u8 = WORD | LETTER | IN_WORD | ENDS_WORD;

const fn class_of_ascii(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => WORDLIKE | LOWER,
        b'A'..=b'Z' => WORDLIKE | UPPER,
        b'0'..=b'9' => WORD | DIGIT | IN_WORD | ENDS_WORD,
        b'_' => WORD | IN_WORD,
        b'\'' => IN_WORD | ENDS_WORD,
        b'.' | b'&' | b'-' => IN_WORD,
        b' ' | 9..=13 | 0x1c..=0x1f => SPACE,
        _ => 0,
    }
}

const fn classes_of_ascii() -> [u8; 128] {
    let mut classes = [0; 128];
    let mut byte = 0;
    while byte < 128 {
        classes[byte] = class_of_ascii(byte as u8);
        byte += 1;
    }
    classes
}

static ASCII: [u8; 128] = classes_of_ascii();

/// Return the class of an ASCII byte, 0 for any other.
#[inline(always)]
pub fn ascii_class(byte: u8) -> u8 {
    if byte < 128 {
        ASCII[byte as usize]
    } else {
        0
    }
}

/// Return the class of a character; `NotMine` if it is not known here.
pub fn class_of(character: char) -> Result<u8, NotMine> {
    Ok(match character {
        '\0'..='\x7f' => ascii_class(character as u8),
        '×' | '÷' => 0,
        '\u{c0}'..='\u{17f}' | 'Α'..='Ρ' | 'Σ'..='Ω' | 'α'..='ω' | '\u{400}'..='\u{45f}' => {
            let lower = if character.is_lowercase() { LOWER } else { 0 };
            let upper = if character.is_uppercase() { UPPER } else { 0 };
            WORDLIKE | lower | upper
        }
        '\u{4e00}'..='\u{9fa5}' => WORDLIKE,
        // Letters to Python, as all that is numeric: `[^\W\d_]`.
        '²' | '³' | '½' | '¼' | '¾' | '⅓' | '⅔' | '⅕' => WORDLIKE,
        '’' => IN_WORD | ENDS_WORD,
        '\u{85}' | '\u{a0}' | '\u{2000}'..='\u{200a}' => SPACE,
        '\u{2028}' | '\u{2029}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => SPACE,
        '·' | '−' | '–' | '⋅' | '∗' | '⁄' => 0,
        '≈' | '≐' | '√' | '≤' | '≥' | '≠' => 0,
        '€' | '£' | '¥' | '₹' | '°' | '…' | '•' => 0,
        '‘' | '“' | '”' | '„' | '—' | '‑' | '→' | '⇒' | '∴' | '✓' | '✔' | '✅' => {
            0
        }
        '、' | '。' | '，' | '：' | '；' | '（' | '）' | '？' | '！' => 0,
        _ => return Err(NotMine),
    })
}

/// Return the character that begins at a byte, and how many bytes it has.
pub fn character_at(line: &[u8], at: usize) -> Result<(char, usize), NotMine> {
    let length = match line.get(at) {
        Some(0..=0x7f) => 1,
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => return Err(NotMine),
    };
    let bytes = line.get(at..at + length).ok_or(NotMine)?;
    let text = std::str::from_utf8(bytes).map_err(|_| NotMine)?;
    Ok((text.chars().next().ok_or(NotMine)?, length))
}

/// Return the class of the character at a byte; 0 behind the end.
#[inline]
pub fn class_at(line: &[u8], at: usize) -> Result<u8, NotMine> {
    match line.get(at) {
        None => Ok(0),
        Some(&byte) if byte < 128 => Ok(ascii_class(byte)),
        Some(_) => class_of(character_at(line, at)?.0),
    }
}

/// Return the class of the character that ends before a byte; 0 at the start.
#[inline]
pub fn class_before(line: &[u8], at: usize) -> Result<u8, NotMine> {
    if at == 0 {
        return Ok(0);
    }
    let last = line[at - 1];
    if last < 128 {
        return Ok(ascii_class(last));
    }
    let mut start = at - 1;
    while start > 0 && line[start] & 0xc0 == 0x80 {
        start -= 1;
    }
    class_of(character_at(line, start)?.0)
}

/// Return where the white space from a byte on ends.
pub fn skip_space(line: &[u8], mut at: usize) -> Result<usize, NotMine> {
    while class_at(line, at)? & SPACE != 0 {
        at += if line[at] < 128 { 1 } else { character_at(line, at)?.1 };
    }
    Ok(at)
}

/// Return where the digits from a byte on end.
#[inline]
pub fn skip_digits(line: &[u8], mut at: usize) -> usize {
    while at < line.len() && line[at].is_ascii_digit() {
        at += 1;
    }
    at
}

/// Return where the ASCII letters from a byte on end.
pub fn skip_letters(line: &[u8], mut at: usize) -> usize {
    while at < line.len() && line[at].is_ascii_alphabetic() {
        at += 1;
    }
    at
}

pub fn is_digit_at(line: &[u8], at: usize) -> bool {
    line.get(at).map_or(false, u8::is_ascii_digit)
}
