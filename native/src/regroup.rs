//! Tokens that mean something else beside others: the slash of `km/h`, `of` after a fraction.

use crate::tokens::{Kind, Text, Token};
use crate::words::is_determiner;

/// Read the slash of `km/h` and `$5/hour`, and a word in parentheses, as parts of a unit.
pub fn join_units(tokens: &mut [Token], line: &[u8]) {
    for at in 1..tokens.len().saturating_sub(1) {
        let is_slash = tokens[at].text == Text::Slash;
        let is_open = tokens[at].kind == Kind::Open && tokens[at].text == Text::OpenParen;
        if !is_slash && !is_open {
            continue;
        }
        if !matches!(tokens[at - 1].kind, Kind::Number | Kind::Word | Kind::Close) {
            continue;
        }
        let following = tokens[at + 1];
        if is_slash && (following.kind == Kind::Word || is_unit(&following, line)) {
            tokens[at].kind = Kind::Word;
            tokens[at + 1].kind = Kind::Word;
        } else if is_open {
            join_words_in_parentheses(tokens, at);
        }
    }
}

/// Say whether what looks like a variable is a letter of a unit, or several of them.
fn is_unit(token: &Token, line: &[u8]) -> bool {
    let text = token.written(line);
    let letters = b"aAhmgsLl";
    token.kind == Kind::Foreign && letters.windows(text.len().max(1)).any(|part| part == text)
}

fn join_words_in_parentheses(tokens: &mut [Token], start: usize) {
    let words = tokens[start + 1..].iter().take_while(|token| token.kind == Kind::Word).count();
    let end = start + 1 + words;
    if words > 0 && end < tokens.len() && tokens[end].kind == Kind::Close {
        for token in &mut tokens[start..=end] {
            token.kind = Kind::Word;
        }
    }
}

/// Read `of` between a percentage or a fraction and a number as a product.
pub fn multiply_by_of(tokens: &mut Vec<Token>, line: &[u8]) {
    let (mut kept, mut at) = (0, 0);
    while at < tokens.len() {
        let mut token = tokens[at];
        at += 1;
        if is_of(&token, line) && is_fraction(&tokens[..kept]) {
            let rest = &tokens[at..];
            let skipped = rest.iter().take_while(|t| is_determiner(t.written(line))).count();
            match rest.get(skipped).map(|following| following.kind) {
                Some(Kind::Number | Kind::Open) => {
                    token.kind = Kind::Operator;
                    token.text = Text::Times;
                    at += skipped;
                }
                _ => token.text = Text::PartOf,
            }
        }
        tokens[kept] = token;
        kept += 1;
    }
    tokens.truncate(kept);
}

fn is_of(token: &Token, line: &[u8]) -> bool {
    token.kind == Kind::Word && token.written(line) == b"of"
}

fn is_fraction(tokens: &[Token]) -> bool {
    let last = match tokens.last() {
        Some(last) => last,
        None => return false,
    };
    match last.kind {
        Kind::Close => last.text == Text::Frac,
        Kind::Number => {
            let divides = match tokens {
                [.., first, over, _] => {
                    first.kind == Kind::Number
                        && over.kind == Kind::Operator
                        && matches!(over.text, Text::Slash | Text::FractionSlash)
                }
                _ => false,
            };
            last.percent || divides || last.denominator > last.numerator || last.spaced
        }
        _ => false,
    }
}
