//! Lines, GSM8K's marks and Markdown's emphasis: what is seen before a line is cut into tokens.

use crate::chars::{class_at, class_before, WORD};
use crate::joins::find_byte;
use crate::NotMine;

const LINE_END: u8 = 1;
pub const EQUALS: u8 = 2;
pub const OTHER_SIGN: u8 = 16; // a byte that may begin one
pub const MARK: u8 = 4; // <
pub const STAR: u8 = 8;

const fn meanings() -> [u8; 256] {
    let mut meanings = [0; 256];
    meanings[b'\n' as usize] = LINE_END;
    meanings[b'\r' as usize] = LINE_END;
    meanings[b'=' as usize] = EQUALS;
    meanings[b'\\' as usize] = OTHER_SIGN;
    meanings[0xe2] = OTHER_SIGN;
    meanings[b'<' as usize] = MARK;
    meanings[b'*' as usize] = STAR;
    meanings
}

static MEANINGS: [u8; 256] = meanings();

/// Return where the line that starts here ends, and what is in it.
#[inline]
pub fn scan_line(text: &[u8], start: usize) -> (usize, u8) {
    let mut seen = 0;
    for (length, &byte) in text[start..].iter().enumerate() {
        seen |= MEANINGS[byte as usize];
        if seen & LINE_END != 0 {
            return (start + length, seen);
        }
    }
    (text.len(), seen)
}

/// Return where the next of GSM8K's marks `<<a=b>>` stands.
pub fn find_mark(line: &[u8], from: usize) -> Option<(usize, usize)> {
    let mut at = from;
    loop {
        at = find_byte(line, at, |byte| byte == b'<')?;
        if line.get(at + 1) != Some(&b'<') {
            at += 1;
            continue;
        }
        let end = find_byte(line, at + 2, |byte| (byte == b'<') | (byte == b'>'))?;
        if line[end..].starts_with(b">>") {
            return Some((at, end + 2));
        }
        at += 1;
    }
}

/// Write the line to `plain` with spaces for the stars of `*12*`; return whether there are any.
pub fn remove_emphasis(line: &[u8], plain: &mut Vec<u8>) -> Result<bool, NotMine> {
    let (mut kept, mut at) = (0, 0);
    plain.clear();
    while let Some(start) = find_byte(line, at, |byte| byte == b'*') {
        match match_emphasis(line, start)? {
            Some(end) => {
                plain.extend_from_slice(&line[kept..start]);
                plain.push(b' ');
                plain.extend_from_slice(&line[start + 1..end - 1]);
                plain.push(b' ');
                kept = end;
                at = end;
            }
            None => at = start + 1,
        }
    }
    if kept > 0 {
        plain.extend_from_slice(&line[kept..]);
    }
    Ok(kept > 0)
}

/// Return where `*12*` ends, if it stands here.
fn match_emphasis(line: &[u8], start: usize) -> Result<Option<usize>, NotMine> {
    let mut at = start + 1;
    at += usize::from(line.get(at) == Some(&b'$'));
    if !line.get(at).map_or(false, u8::is_ascii_digit) {
        return Ok(None);
    }
    while matches!(line.get(at), Some(b'0'..=b'9' | b',' | b'.')) {
        at += 1;
    }
    at += usize::from(line.get(at) == Some(&b'%'));
    if line.get(at) != Some(&b'*') {
        return Ok(None);
    }
    let before = if start > 0 { line[start - 1] } else { 0 };
    let is_inside = matches!(before, b'*' | b')' | b']')
        || class_before(line, start)? & WORD != 0
        || line.get(at + 1) == Some(&b'*')
        || class_at(line, at + 1)? & WORD != 0;
    Ok((!is_inside).then(|| at + 1))
}

/// Return whether Markdown, an arrow or an environment of LaTeX may put breaks into a line.
pub fn is_separated(line: &[u8]) -> bool {
    let is_seen = |&byte: &u8| byte > b' ' && byte < 0x80;
    let first = line.iter().find(|byte| is_seen(byte));
    let last = line.iter().rfind(|byte| is_seen(byte));
    if first == Some(&b'>') || (first == Some(&b'|') && last == Some(&b'|')) {
        return true;
    }
    let mut at = 0;
    while let Some(found) = find_byte(line, at, |byte| (byte == b'>') | (byte == b'\\')) {
        let rest = &line[found..];
        let is_arrow = found > 0 && rest[0] == b'>' && matches!(line[found - 1], b'-' | b'=');
        if is_arrow || rest.starts_with(b"\\begin{") || rest.starts_with(b"\\end{") {
            return true;
        }
        at = found + 1;
    }
    false
}
