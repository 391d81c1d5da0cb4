//! The signs that may join two sides: `=`, `==`, `≈`, `≐`, and LaTeX's names.

use crate::chars::skip_letters;

const CHUNK: usize = 16;

/// Return where the sign that stands here ends, and whether it means "about"; None without one.
#[inline]
pub fn match_join(line: &[u8], at: usize) -> Option<(usize, bool)> {
    match line[at] {
        b'=' => {
            let before = if at > 0 { line[at - 1] } else { 0 };
            if matches!(before, b'<' | b'>' | b'!' | b':' | b'=' | b'~') {
                return None;
            }
            let end = at + 1 + usize::from(line.get(at + 1) == Some(&b'='));
            let goes_on = matches!(line.get(end), Some(b'=' | b'>'));
            (!goes_on).then_some((end, false))
        }
        0xe2 => {
            let is_sign =
                line[at..].starts_with("≈".as_bytes()) || line[at..].starts_with("≐".as_bytes());
            is_sign.then(|| (at + 3, true))
        }
        b'\\' => {
            let end = skip_letters(line, at + 1);
            let is_sign = matches!(&line[at + 1..end], b"approx" | b"simeq" | b"doteq" | b"equiv");
            is_sign.then_some((end, true))
        }
        _ => None,
    }
}

/// Return how many such signs a line has.
pub fn count_joins(line: &[u8]) -> i64 {
    let (mut count, mut at) = (0, 0);
    while let Some(candidate) = find_candidate(line, at) {
        at = candidate + 1;
        if let Some((end, _)) = match_join(line, candidate) {
            count += 1;
            at = end;
        }
    }
    count
}

/// Return the first byte from `start` on that may begin a sign.
#[inline]
pub fn find_candidate(text: &[u8], start: usize) -> Option<usize> {
    find_byte(text, start, |byte| (byte == b'=') | (byte == b'\\') | (byte == 0xe2))
}

/// Return the first byte from `start` on that is one of those sought.
#[inline(always)]
pub fn find_byte(text: &[u8], start: usize, is_one: impl Fn(u8) -> bool) -> Option<usize> {
    let mut at = start;
    // Without a branch inside, so that the bytes of a chunk are compared at once.
    for chunk in text[start..].chunks_exact(CHUNK) {
        if chunk.iter().fold(false, |any, &byte| any | is_one(byte)) {
            break;
        }
        at += CHUNK;
    }
    text[at..].iter().position(|&byte| is_one(byte)).map(|length| at + length)
}
