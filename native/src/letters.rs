//! Words, the units among them, and the letter that multiplies.

use crate::chars::{
    ascii_class, character_at, class_at, class_of, is_digit_at, skip_space, ENDS_WORD, IN_WORD,
    LOWER, SPACE, UPPER, WORD,
};
use crate::lexer::Lexer;
use crate::tokens::{Kind, Text};
use crate::words::{is_unit_letter, NOT_UNITS};
use crate::NotMine;

impl<'a> Lexer<'a> {
    pub fn read_letter(&mut self, at: usize) -> Result<usize, NotMine> {
        match self.line[at] {
            b'x' | b'X' if self.is_times(at)? => {
                if self.follows_operand() {
                    Ok(self.add(Kind::Operator, Text::Times, at, at + 1))
                } else {
                    self.add_foreign(at, at + 1)
                }
            }
            b'c' | b'k' | b'm' | b'f' | b'i' | b'y' => match self.match_squared(at)? {
                Some(end) => Ok(self.add(Kind::Word, Text::InLine, at, end)),
                None => self.read_word(at, at + 1),
            },
            _ => self.read_word(at, at + 1),
        }
    }

    pub fn follows_ascii_letter(&self, at: usize) -> bool {
        at > 0 && self.line[at - 1].is_ascii_alphabetic()
    }

    /// Say whether the `x` here stands before an operand.
    pub fn is_times(&self, at: usize) -> Result<bool, NotMine> {
        if self.follows_ascii_letter(at) {
            return Ok(false);
        }
        let rest = &self.line[skip_space(self.line, at + 1)?..];
        Ok(match rest.first() {
            Some(b'0'..=b'9' | b'(' | b'[' | b'.' | b'$') => true,
            Some(b'\\') => {
                let name = &rest[1..];
                let is_fraction = [&b"frac"[..], b"dfrac", b"tfrac"];
                matches!(name.first(), Some(b'$' | b'('))
                    || is_fraction.iter().any(|each| name.starts_with(each))
            }
            Some(b'*') => rest.get(1) == Some(&b'*') && is_digit_at(rest, 2),
            _ => false,
        })
    }

    /// Return where a unit such as `m^2` or `ft3` ends, if it stands here.
    pub fn match_squared(&self, at: usize) -> Result<Option<usize>, NotMine> {
        let rest = &self.line[at..];
        let letters = match rest {
            [b'c' | b'k' | b'm', b'm', ..] => 2,
            [b'm', ..] => 1,
            [b'f', b't', ..] | [b'i', b'n', ..] | [b'y', b'd', ..] => 2,
            _ => return Ok(None),
        };
        if self.follows_ascii_letter(at) {
            return Ok(None);
        }
        let power = at + letters;
        let ends: [usize; 2] = match self.byte(power) {
            b'^' => {
                let figure = power + 1 + usize::from(self.byte(power + 1) == b'{');
                if !matches!(self.byte(figure), b'2' | b'3') {
                    return Ok(None);
                }
                let closed = figure + 1 + usize::from(self.byte(figure + 1) == b'}');
                [closed, figure + 1]
            }
            b'2' | b'3' => [power + 1; 2],
            0xc2 if matches!(self.byte(power + 1), 0xb2 | 0xb3) => [power + 2; 2],
            _ => return Ok(None),
        };
        for end in ends {
            if class_at(self.line, end)? & WORD == 0 {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// Add a word; what touches a number is a variable (3x, 5m, 2Ann) unless a unit (5km).
    pub fn read_word(&mut self, at: usize, first_end: usize) -> Result<usize, NotMine> {
        let end = self.match_word(first_end)?;
        let touches = match self.last_operand() {
            Some(last) => !self.has_space(last.end as usize, at)?,
            None => false,
        };
        let text = &self.line[at..end];
        self.found.of |= text == b"of";
        let is_letter = end == first_end;
        let is_variable = is_letter && (touches || !is_unit_letter(text));
        let is_name = touches && (NOT_UNITS.contains(&text) || !self.is_lower(at, end)?);
        let ends_in_digit = text[text.len() - 1].is_ascii_digit()
            || text.ends_with("²".as_bytes())
            || text.ends_with("³".as_bytes());
        let is_foreign = is_variable || is_name || ends_in_digit || text.contains(&b'_');
        let kind = if is_foreign { Kind::Foreign } else { Kind::Word };
        Ok(self.add(kind, Text::InLine, at, end))
    }

    pub fn match_word(&self, mut at: usize) -> Result<usize, NotMine> {
        let mut end = at;
        while at < self.line.len() {
            let byte = self.line[at];
            let (class, length) = if byte < 128 {
                (ascii_class(byte), 1)
            } else {
                let (character, length) = character_at(self.line, at)?;
                (class_of(character)?, length)
            };
            if class & IN_WORD == 0 {
                break;
            }
            at += length;
            if class & ENDS_WORD != 0 {
                end = at;
            }
        }
        Ok(end)
    }

    pub fn has_space(&self, mut at: usize, end: usize) -> Result<bool, NotMine> {
        while at < end {
            if class_at(self.line, at)? & SPACE != 0 {
                return Ok(true);
            }
            at += if self.line[at] < 128 { 1 } else { character_at(self.line, at)?.1 };
        }
        Ok(false)
    }

    pub fn is_lower(&self, mut at: usize, end: usize) -> Result<bool, NotMine> {
        let mut seen = 0;
        while at < end {
            seen |= class_at(self.line, at)?;
            at += if self.line[at] < 128 { 1 } else { character_at(self.line, at)?.1 };
        }
        Ok(seen & LOWER != 0 && seen & UPPER == 0)
    }
}
