//! Numbers as they are written: 12, 1,000.50, .5, 1 1/2, 2½.

use crate::chars::{
    character_at, class_at, class_before, is_digit_at, skip_digits, DIGIT, SPACE, WORD,
};
use crate::tokens::{Kind, Text, Token};
use crate::NotMine;

const MOST_DIGITS: usize = 18; // more do not fit 64 bits

/// Return where the number ends that the digits here, or the point before them, begin.
pub fn match_number(line: &[u8], at: usize) -> Result<Option<usize>, NotMine> {
    if !may_start_number(line, at)? {
        return Ok(None);
    }
    let digits = skip_digits(line, at);
    let length = digits - at;
    let mut end = None;
    if (1..=3).contains(&length) {
        if at > 0 && line[at - 1] == b'$' {
            end = match_groups(line, digits, match_spaced_group);
        }
        end = end.or_else(|| match_groups(line, digits, match_group));
    }
    if end.is_none() && (length > 0 || is_digit_at(line, at + 1)) {
        end = finish_number(line, digits);
    }
    Ok(end)
}

fn may_start_number(line: &[u8], at: usize) -> Result<bool, NotMine> {
    if at == 0 {
        return Ok(true);
    }
    match line[at - 1] {
        b' ' => return Ok(true),
        b'.' | b',' => return Ok(false),
        b':' => return Ok(at < 2 || !line[at - 2].is_ascii_digit()),
        b'x' | b'X' => {
            let class = class_before(line, at - 1)?;
            let closes = at > 1 && matches!(line[at - 2], b')' | b']');
            return Ok(closes || class & (DIGIT | SPACE) != 0);
        }
        _ => {}
    }
    Ok(class_before(line, at)? & WORD == 0)
}

/// Return the end of the number with most groups of three digits that is one.
fn match_groups(
    line: &[u8],
    start: usize,
    match_one: fn(&[u8], usize) -> Option<usize>,
) -> Option<usize> {
    let mut found = None;
    let mut at = start;
    // The last that fits is the longest.
    while let Some(end) = match_one(line, at) {
        found = finish_number(line, end).or(found);
        at = end;
    }
    found
}

fn match_group(line: &[u8], at: usize) -> Option<usize> {
    let digits = match &line[at..] {
        [b',', b'\\', b'!', ..] | [b'{', b',', b'}', ..] => at + 3,
        [b',', ..] => at + 1,
        _ => return None,
    };
    match_three_digits(line, digits)
}

fn match_spaced_group(line: &[u8], at: usize) -> Option<usize> {
    (line.get(at) == Some(&b' ')).then(|| match_three_digits(line, at + 1)).flatten()
}

fn match_three_digits(line: &[u8], at: usize) -> Option<usize> {
    (at..at + 3).all(|each| is_digit_at(line, each)).then(|| at + 3)
}

/// Return where a number ends whose integer part ends here; None if it is part of something else.
fn finish_number(line: &[u8], at: usize) -> Option<usize> {
    let mut end = at;
    if line.get(at) == Some(&b'.') && is_digit_at(line, at + 1) {
        end = skip_digits(line, at + 1);
    }
    let goes_on = match line.get(end) {
        Some(b'.' | b',' | b':') => is_digit_at(line, end + 1),
        Some(byte) => byte.is_ascii_digit(),
        None => false,
    };
    (!goes_on).then_some(end)
}

/// Read the digits of a number into its token.
pub fn read_number(line: &[u8], token: &mut Token) -> Result<(), NotMine> {
    let (mut value, mut digits, mut significant, mut decimals) = (0_i64, 0, 0, 0);
    let mut denominator = 1_i64;
    let mut in_fraction = false;
    for &byte in &line[token.start as usize..token.end as usize] {
        match byte {
            b'0'..=b'9' => {
                digits += 1;
                if digits > MOST_DIGITS {
                    return Err(NotMine);
                }
                value = value * 10 + i64::from(byte - b'0');
                significant += u8::from(value > 0);
                if in_fraction {
                    decimals += 1;
                    denominator *= 10;
                }
            }
            b'.' => in_fraction = true,
            b' ' => token.spaced = true,
            _ => {}
        }
    }
    token.numerator = value;
    token.denominator = denominator;
    token.digits = significant;
    token.decimals = decimals;
    Ok(())
}

fn read_digits(digits: &[u8]) -> Result<i64, NotMine> {
    if digits.len() > MOST_DIGITS {
        return Err(NotMine);
    }
    Ok(digits.iter().fold(0, |value, byte| value * 10 + i64::from(byte - b'0')))
}

/// Return the token of `whole + over / under`.
fn make_mixed(start: usize, end: usize, parts: [i64; 3]) -> Result<Token, NotMine> {
    let [whole, over, under] = parts;
    let mut token = Token::new(Kind::Number, Text::InLine, start, end);
    let numerator = whole.checked_mul(under).and_then(|value| value.checked_add(over));
    token.numerator = numerator.ok_or(NotMine)?;
    token.denominator = under;
    Ok(token)
}

/// Return a mixed number such as `1 1/2`, if it stands here.
pub fn match_mixed(line: &[u8], at: usize) -> Result<Option<Token>, NotMine> {
    let space = skip_digits(line, at);
    if space == at || line.get(space) != Some(&b' ') {
        return Ok(None);
    }
    let slash = skip_digits(line, space + 1);
    if slash == space + 1 {
        return Ok(None);
    }
    let under = match &line[slash..] {
        [b'/', ..] => slash + 1,
        rest if rest.starts_with("⁄".as_bytes()) => slash + 3,
        _ => return Ok(None),
    };
    let end = skip_digits(line, under);
    let is_inside = at > 0 && matches!(line[at - 1], b'.' | b',' | b'/');
    if end == under || is_inside || class_before(line, at)? & WORD != 0 || goes_on(line, end)? {
        return Ok(None);
    }
    let parts = [&line[at..space], &line[space + 1..slash], &line[under..end]];
    let [whole, over, below] = parts;
    let values = [read_digits(whole)?, read_digits(over)?, read_digits(below)?];
    let mut token = make_mixed(at, end, values)?;
    token.spaced = true;
    Ok(Some(token))
}

/// Say whether what follows a fraction makes it part of something else: a digit, or a slash.
fn goes_on(line: &[u8], end: usize) -> Result<bool, NotMine> {
    if line.get(end) == Some(&b'/') || line[end..].starts_with("⁄".as_bytes()) {
        return Ok(true);
    }
    let mut at = end;
    loop {
        let class = class_at(line, at)?;
        let touches = class & WORD != 0 || matches!(line.get(at), Some(b'.' | b','));
        if !touches || class & DIGIT != 0 {
            return Ok(class & DIGIT != 0);
        }
        at += if line[at] < 128 { 1 } else { character_at(line, at)?.1 };
    }
}

/// Return a number with a fraction of one character, `½` or `2½`, if it stands here.
pub fn match_vulgar(line: &[u8], at: usize) -> Result<Option<Token>, NotMine> {
    let sign = skip_digits(line, at);
    if line.get(sign).map_or(true, |&byte| byte < 128) {
        return Ok(None);
    }
    let (character, length) = character_at(line, sign)?;
    let (over, under) = match character {
        '½' => (1, 2),
        '⅓' => (1, 3),
        '⅔' => (2, 3),
        '¼' => (1, 4),
        '¾' => (3, 4),
        '⅕' => (1, 5),
        _ => return Ok(None),
    };
    let is_inside = at > 0 && matches!(line[at - 1], b'.' | b',');
    if is_inside || class_before(line, at)? & WORD != 0 {
        return Ok(None);
    }
    let whole = read_digits(&line[at..sign])?;
    make_mixed(at, sign + length, [whole, over, under]).map(Some)
}
