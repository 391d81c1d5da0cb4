//! The two sides of a sign: the longest expressions that touch it, and how sure that reading is.

use crate::tokens::{is_bare, Kind, Text, Token};
use crate::words::{ends_clause, is_for_or_of, is_unit_letter, leads_to_amount, spells_operator};

const LONGEST: usize = 400; // tokens of a side; a longer one is no equation a person wrote
const UNIT_WORDS: usize = 8; // the most words of a unit
const SPELLED_WORDS: usize = 3; // so many words after another number: "8 packs of 5 bags * 4"

/// Return where the longest expression that ends at the join starts, and whether that is sure.
pub fn find_left_side(tokens: &[Token], line: &[u8]) -> Option<(usize, bool)> {
    let start = reach_left(tokens, line)?;
    let side = &tokens[start..];
    let bare = is_bare(side);
    let sure = !(bare && side[side.len() - 1].kind == Kind::Word);
    if start == 0 {
        return Some((start, sure));
    }
    let last = &tokens[start - 1];
    let touches = last.end == side[0].start;
    match last.kind {
        Kind::Operator => {
            let is_dash = last.is_dash()
                && start > 1
                && matches!(tokens[start - 2].kind, Kind::Word | Kind::Break);
            (is_dash && !bare).then_some((start, false))
        }
        Kind::Foreign => (last.written(line) == b"!").then_some((start, sure)),
        Kind::Word | Kind::Number | Kind::Close if touches => None,
        Kind::Word if bare => leads_to_amount(last.written(line)).then_some((start, sure)),
        kind => Some((start, sure && kind != Kind::Number)),
    }
}

/// Return where the longest expression after the join ends; None if it is the head of a larger one.
pub fn find_right_side(tokens: &[Token], line: &[u8]) -> Option<usize> {
    let end = reach_right(tokens, line)?;
    if let Some(following) = tokens.get(end) {
        let touches = following.start == tokens[end - 1].end;
        let goes_on = match following.kind {
            Kind::Operator => {
                let ends_sentence = following.is_dash() || following.text == Text::Slash;
                let behind = tokens.get(end + 1).map(|token| token.kind);
                !ends_sentence || matches!(behind, Some(Kind::Foreign | Kind::Open))
            }
            Kind::Foreign => {
                let text = following.written(line);
                text != b"!" && !is_unit_letter(text)
            }
            Kind::Number | Kind::Open => touches,
            _ => false,
        };
        if goes_on {
            return None;
        }
    }
    Some(end)
}

/// Return where the longest expression from the first token on ends, or None.
pub fn reach_right(tokens: &[Token], line: &[u8]) -> Option<usize> {
    let (mut reached, mut depth, mut wants_operand, mut words) = (None, 0, true, 0);
    for (at, token) in tokens.iter().take(LONGEST).enumerate() {
        match (wants_operand, token.kind) {
            (true, Kind::Number) => {
                wants_operand = false;
                words = 0;
            }
            (true, Kind::Open) => depth += 1,
            (true, Kind::Sign) => {}
            (false, Kind::Operator) => wants_operand = true,
            (false, Kind::Close) if depth > 0 => depth -= 1,
            (false, Kind::Word) if may_be_unit(token, words, line) => {
                words += 1;
                continue;
            }
            _ => break,
        }
        if depth == 0 && !wants_operand {
            reached = Some(at + 1);
        }
    }
    reached
}

/// Return where the longest expression up to the last token begins, or None.
fn reach_left(tokens: &[Token], line: &[u8]) -> Option<usize> {
    let (mut reached, mut depth, mut wants_operand, mut words) = (None, 0, true, 0);
    for (at, token) in tokens.iter().enumerate().rev().take(LONGEST) {
        match (wants_operand, token.kind) {
            (true, Kind::Number) => {
                wants_operand = false;
                words = 0;
            }
            (true, Kind::Close) => depth += 1,
            (true, Kind::Word) if may_be_unit(token, words, line) => {
                words += 1;
                continue;
            }
            (false, Kind::Operator) => wants_operand = true,
            (false, Kind::Open) if depth > 0 => depth -= 1,
            (false, Kind::Sign) => {}
            _ => break,
        }
        if depth == 0 && !wants_operand {
            reached = Some(at);
        }
    }
    reached
}

fn may_be_unit(token: &Token, words: usize, line: &[u8]) -> bool {
    words < UNIT_WORDS && !ends_clause(token.written(line))
}

/// Call `judge` with shorter readings, where a dash may be punctuation, until it returns something.
pub fn read_otherwise<T>(
    before: &[Token],
    left: &[Token],
    right: &[Token],
    ends_line: bool,
    line: &[u8],
    mut judge: impl FnMut(&[Token], &[Token]) -> Option<T>,
) -> Option<T> {
    let ahead = &before[..before.len() - left.len()];
    let after_word = ahead.last().map_or(false, |token| token.kind == Kind::Word);
    let has_dash = left.len() > 1 && left[1].kind == Kind::Operator && left[1].is_dash();
    if after_word && has_dash && !is_bare(&left[2..]) {
        if let Some(found) = judge(&left[2..], right) {
            return Some(found);
        }
    }
    if !ends_line || is_bare(left) {
        return None;
    }
    for (at, token) in right.iter().enumerate().skip(1) {
        let spaced = token.start > right[at - 1].end;
        if token.kind == Kind::Operator && spaced && token.is_dash() {
            let shorter = without_words(&right[..at]);
            if reach_right(shorter, line) == Some(shorter.len()) {
                if let Some(found) = judge(left, shorter) {
                    return Some(found);
                }
            }
        }
    }
    None
}

/// Return the tokens without the words at their end.
pub fn without_words(tokens: &[Token]) -> &[Token] {
    let words = tokens.iter().rev().take_while(|token| token.kind == Kind::Word).count();
    &tokens[..tokens.len() - words]
}

/// Say whether a letter may be a variable, a part is of an unknown whole, or words multiply.
pub fn is_doubtful(
    before: &[Token],
    left: &[Token],
    after: &[Token],
    right: &[Token],
    line: &[u8],
) -> bool {
    let is_letter = |token: &Token| {
        matches!(token.written(line), b"h" | b"m" | b"g" | b"s" | b"L" | b"l")
            || token.text == Text::PartOf
    };
    if left.iter().any(|token| token.kind == Kind::Word && is_letter(token)) {
        return true;
    }
    if let Some(following) = after.get(right.len()) {
        let text = following.written(line);
        if b"hmgsLl".windows(text.len().max(1)).any(|part| part == text) {
            return true;
        }
    }
    let is_slash = |token: &Token| token.text == Text::Slash;
    if left.windows(3).skip(1).any(|three| is_slash(&three[0]) && is_slash(&three[2])) {
        return true; // 7.5/1/2: by a half, or by one and then by two
    }
    if left.windows(3).any(|three| is_rate(&three[0], &three[1], &three[2])) {
        return true; // 2 pages/15 minutes * 3: by fifteen, or by nothing
    }
    follows_words(&before[..before.len() - left.len()], left, line)
}

fn is_rate(unit: &Token, slash: &Token, number: &Token) -> bool {
    unit.kind == Kind::Word
        && slash.text == Text::Slash
        && number.kind == Kind::Number
        && unit.end == slash.start
        && slash.end == number.start
}

/// Say whether the words ahead of the left side make it a name, or stand for an operator.
fn follows_words(ahead: &[Token], left: &[Token], line: &[u8]) -> bool {
    let words = ahead
        .iter()
        .rev()
        .take(SPELLED_WORDS + 1)
        .take_while(|token| token.kind == Kind::Word)
        .count();
    let first = match ahead.last() {
        Some(token) if words > 0 => token.written(line),
        _ => return false,
    };
    if left[left.len() - 1].kind == Kind::Word && is_for_or_of(first) {
        return true; // "cost for 2 x 4 x 10 boards =": what is left of the sign is a name
    }
    let follows_number = ahead.len() > words && ahead[ahead.len() - words - 1].kind == Kind::Number;
    follows_number && words <= SPELLED_WORDS && spells_operator(first)
}
