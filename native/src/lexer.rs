//! Cut a line into the tokens of arithmetic: `_Lexer` of `equation_tokens.py`, in its order of rules.

use crate::chars::{
    ascii_class, character_at, class_at, class_before, class_of, is_digit_at, skip_digits,
    skip_space, DIGIT, ENDS_WORD, IN_WORD, LETTER, LOWER, SPACE, UPPER, WORD,
};
use crate::joins::match_join;
use crate::numbers::{match_mixed, match_number, match_vulgar, read_number};
use crate::tokens::{Kind, Text, Token};
use crate::words::{is_unit_letter, NOT_UNITS};
use crate::NotMine;

const UNIT_WORDS: usize = 8; // the most words of a unit

#[derive(Clone, Copy, PartialEq)]
pub enum Brace {
    Plain,
    Numerator,
    Between,
    Denominator,
}

pub struct Lexer<'a> {
    pub line: &'a [u8],
    pub tokens: &'a mut Vec<Token>,
    pub braces: Vec<Brace>,
    pub money: bool, // whether a currency sign stands before what is read next
    pub found: Found,
}

/// What a line has that is not looked for again in lines without it.
#[derive(Clone, Copy, Default)]
pub struct Found {
    pub joins: i64,
    pub hides_joins: bool, // a token that may hold a sign which joins nothing
    pub units: bool,       // a slash or a parenthesis, which may be part of a unit
    pub of: bool,
}

impl<'a> Lexer<'a> {
    /// Read the tokens of a line; `NotMine` if it has a character that is not known here.
    pub fn read(line: &'a [u8], tokens: &'a mut Vec<Token>) -> Result<Found, NotMine> {
        tokens.clear();
        let found = Found::default();
        let mut lexer = Lexer { line, tokens, braces: Vec::new(), money: false, found };
        let mut at = skip_list_mark(line)?;
        while at < line.len() {
            let byte = line[at];
            let class = ascii_class(byte);
            if class & SPACE != 0 {
                at += 1;
            } else if class & LETTER != 0 {
                at = lexer.read_letter(at)?;
                lexer.money = false;
            } else {
                let money = lexer.money;
                lexer.money = false;
                at = lexer.read_other(at, byte, class, money)?;
            }
        }
        Ok(lexer.found)
    }

    #[inline]
    pub fn add(&mut self, kind: Kind, text: Text, start: usize, end: usize) -> usize {
        self.tokens.push(Token::new(kind, text, start, end));
        end
    }

    pub fn add_break(&mut self, start: usize, end: usize) -> Result<usize, NotMine> {
        Ok(self.add(Kind::Break, Text::InLine, start, end))
    }

    pub fn add_foreign(&mut self, start: usize, end: usize) -> Result<usize, NotMine> {
        Ok(self.add(Kind::Foreign, Text::InLine, start, end))
    }

    pub fn skip(&mut self, end: usize, money: bool) -> Result<usize, NotMine> {
        self.money = money;
        Ok(end)
    }

    fn byte(&self, at: usize) -> u8 {
        self.line.get(at).copied().unwrap_or(0)
    }

    fn last_operand(&self) -> Option<&Token> {
        self.tokens.last().filter(|token| token.ends_operand())
    }

    fn read_other(
        &mut self,
        at: usize,
        byte: u8,
        class: u8,
        money: bool,
    ) -> Result<usize, NotMine> {
        if class & DIGIT != 0 {
            return self.read_number(at, money);
        }
        match byte {
            b'.' => self.read_point(at, money),
            b'=' => match match_join(self.line, at) {
                Some((end, _)) => self.add_join(at, end, false),
                None if self.byte(at + 1) == b'>' => self.add_foreign(at, at + 2),
                None => self.add_break(at, at + 1),
            },
            b'\\' => self.read_command(at),
            b'_' => self.read_underscore(at),
            b'^' | b'!' | b'|' => self.add_foreign(at, at + 1),
            b'<' | b'>' | b'~' => {
                self.add_foreign(at, at + 1 + usize::from(self.byte(at + 1) == b'='))
            }
            b':' if self.byte(at + 1) == b'=' => self.add_foreign(at, at + 2),
            b'$' => self.skip(at + 1, true),
            b'&' => self.skip(at + 1, false),
            b'%' => self.add_percent(at, at + 1),
            b'*' if self.byte(at + 1) == b'*' => self.add_stars(at),
            b'*' => self.add_operator(at, at + 1, Text::Times),
            b'+' => self.add_operator(at, at + 1, Text::Plus),
            b'-' => self.add_operator(at, at + 1, Text::Dash),
            b'/' => {
                self.found.units = true;
                self.add_operator(at, at + 1, Text::Slash)
            }
            b'(' | b'[' => self.open(at, byte),
            b')' | b']' => Ok(self.add(Kind::Close, Text::InLine, at, at + 1)),
            b'{' => self.open_brace(at),
            b'}' => self.close_brace(at),
            0..=127 => self.add_break(at, at + 1),
            _ => self.read_other_alphabet(at, money),
        }
    }

    fn read_other_alphabet(&mut self, at: usize, money: bool) -> Result<usize, NotMine> {
        let (character, length) = character_at(self.line, at)?;
        let class = class_of(character)?;
        let end = at + length;
        match character {
            '≈' | '≐' => self.add_join(at, end, true),
            '√' | '²' | '³' => self.add_foreign(at, end),
            '≤' | '≥' | '≠' => {
                let with_equals = self.byte(end) == b'=';
                self.found.hides_joins |= with_equals;
                self.add_foreign(at, end + usize::from(with_equals))
            }
            '…' => self.add_ellipsis(at, end),
            '€' | '£' | '¥' | '₹' => self.skip(end, true),
            '°' => self.skip(end, false),
            '−' | '–' => self.add_operator(at, end, Text::Dash),
            '×' | '·' | '⋅' | '∗' => self.add_operator(at, end, Text::Times),
            '÷' => self.add_operator(at, end, Text::Divide),
            '⁄' => self.add_operator(at, end, Text::FractionSlash),
            '½' | '¼' | '¾' | '⅓' | '⅔' | '⅕' => match match_vulgar(self.line, at)? {
                Some(token) => self.add_mixed(token),
                None => self.read_word(at, end),
            },
            _ if class & SPACE != 0 => self.skip(end, money),
            _ if class & LETTER != 0 => self.read_word(at, end),
            _ => self.add_break(at, end),
        }
    }

    fn read_number(&mut self, at: usize, money: bool) -> Result<usize, NotMine> {
        if let Some(token) = match_mixed(self.line, at)? {
            return self.add_mixed(token);
        }
        if let Some(end) = match_number(self.line, at)? {
            return self.add_number(at, end, money);
        }
        match match_vulgar(self.line, at)? {
            Some(token) => self.add_mixed(token),
            None => self.add_break(at, at + 1),
        }
    }

    fn add_number(&mut self, at: usize, end: usize, money: bool) -> Result<usize, NotMine> {
        self.add(Kind::Number, Text::InLine, at, end);
        if let Some(token) = self.tokens.last_mut() {
            token.money = money;
            read_number(self.line, token)?;
        }
        Ok(end)
    }

    fn add_mixed(&mut self, token: Token) -> Result<usize, NotMine> {
        self.tokens.push(token);
        Ok(token.end as usize)
    }

    fn read_point(&mut self, at: usize, money: bool) -> Result<usize, NotMine> {
        if let Some(end) = self.match_overline(at + 1) {
            return self.add_ellipsis(at, end);
        }
        if self.byte(at + 1) == b'.' && self.byte(at + 2) == b'.' {
            let mut end = at + 3;
            while self.byte(end) == b'.' {
                end += 1;
            }
            return self.add_ellipsis(at, end);
        }
        match match_number(self.line, at)? {
            Some(end) => self.add_number(at, end, money),
            None => self.add_break(at, at + 1),
        }
    }

    /// Return where `\overline{3}` ends, if it stands here.
    pub fn match_overline(&self, at: usize) -> Option<usize> {
        let digits = at + b"\\overline{".len();
        let end = skip_digits(self.line, digits);
        let is_one = self.line.get(at..digits) == Some(b"\\overline{");
        (is_one && end > digits && self.byte(end) == b'}').then(|| end + 1)
    }

    fn read_underscore(&mut self, at: usize) -> Result<usize, NotMine> {
        let mut end = at + 1;
        if self.byte(end) == b'{' {
            let inside = self.line[end + 1..].iter().position(|each| matches!(each, b'{' | b'}'));
            if let Some(length) = inside {
                if self.line[end + 1 + length] == b'}' {
                    self.found.hides_joins = true;
                    return self.add_foreign(at, end + 2 + length);
                }
            }
        }
        while self.byte(end).is_ascii_alphanumeric() {
            end += 1;
        }
        if end > at + 1 {
            self.add_foreign(at, end)
        } else if self.byte(end) == b'_' {
            self.skip(end + 1, false)
        } else {
            self.add_break(at, at + 1)
        }
    }

    pub fn add_join(&mut self, at: usize, end: usize, inexact: bool) -> Result<usize, NotMine> {
        let mut token = Token::new(Kind::Join, Text::InLine, at, end);
        token.inexact = inexact;
        self.tokens.push(token);
        self.found.joins += 1;
        Ok(end)
    }

    pub fn add_percent(&mut self, at: usize, end: usize) -> Result<usize, NotMine> {
        match self.tokens.last_mut() {
            Some(last) if last.kind == Kind::Number => {
                last.percent = true;
                last.end = end as u32;
                Ok(end)
            }
            _ => self.add_break(at, end),
        }
    }

    pub fn add_ellipsis(&mut self, at: usize, end: usize) -> Result<usize, NotMine> {
        if let Some(last) = self.tokens.last_mut() {
            let is_number = last.kind == Kind::Number;
            if is_number && skip_space(self.line, last.end as usize)? >= at {
                last.inexact = true;
                last.end = end as u32;
                return Ok(end);
            }
        }
        self.add_break(at, end)
    }

    /// Keep `**` between two operands, a power; elsewhere it is Markdown's emphasis.
    fn add_stars(&mut self, at: usize) -> Result<usize, NotMine> {
        let mut end = at + 2;
        while self.byte(end) == b'*' {
            end += 1;
        }
        if self.last_operand().is_some() && self.touches_operand(end)? {
            self.add_foreign(at, end)
        } else {
            Ok(end)
        }
    }

    /// Add an operator; a sign where no operand stands before it and one touches it.
    pub fn add_operator(&mut self, at: usize, end: usize, text: Text) -> Result<usize, NotMine> {
        let may_be_sign = matches!(text, Text::Plus | Text::Dash);
        let is_sign = may_be_sign
            && !self.follows_operand()
            && !self.follows_alphanumeric(at)?
            && self.touches_operand(end)?;
        Ok(self.add(if is_sign { Kind::Sign } else { Kind::Operator }, text, at, end))
    }

    fn follows_alphanumeric(&self, at: usize) -> Result<bool, NotMine> {
        let is_underscore = at > 0 && self.line[at - 1] == b'_';
        Ok(class_before(self.line, at)? & WORD != 0 && !is_underscore)
    }

    /// Say whether an operand stands before, or the words of its unit.
    fn follows_operand(&self) -> bool {
        let behind = self.tokens.iter().rev().take(UNIT_WORDS);
        let mut others = behind.filter(|t| t.kind != Kind::Word && t.text != Text::Slash);
        self.last_operand().is_some() || others.next().map_or(false, Token::ends_operand)
    }

    fn touches_operand(&self, at: usize) -> Result<bool, NotMine> {
        Ok(at < self.line.len()
            && class_at(self.line, at)? & SPACE == 0
            && self.starts_operand(at)?)
    }

    fn starts_operand(&self, mut at: usize) -> Result<bool, NotMine> {
        loop {
            let sign = at + usize::from(self.byte(at) == b'\\');
            if self.byte(sign) != b'$' {
                break;
            }
            at = skip_space(self.line, sign + 1)?;
        }
        let rest = &self.line[at.min(self.line.len())..];
        Ok(match rest.first() {
            Some(b'0'..=b'9' | b'.' | b'(' | b'[') => true,
            Some(b'\\') => {
                let name = &rest[1..];
                let plain = name.strip_prefix(&b"d"[..]).or_else(|| name.strip_prefix(&b"t"[..]));
                let plain = plain.or_else(|| name.strip_prefix(&b"c"[..])).unwrap_or(name);
                plain.starts_with(b"frac") || name.starts_with(b"frac") || name.starts_with(b"left")
            }
            Some(128..) => {
                let (character, _) = character_at(self.line, at)?;
                class_of(character)?;
                matches!(character, '½' | '⅓' | '⅔' | '¼' | '¾' | '⅕')
            }
            _ => false,
        })
    }

    /// Add a parenthesis; one that touches an operand multiplies it.
    fn open(&mut self, at: usize, byte: u8) -> Result<usize, NotMine> {
        if self.last_operand().map_or(false, |last| last.end as usize == at) {
            self.add(Kind::Operator, Text::Touch, at, at);
        }
        self.found.units = true;
        let text = if byte == b'(' { Text::OpenParen } else { Text::InLine };
        Ok(self.add(Kind::Open, text, at, at + 1))
    }

    /// Open `((`; a number that touches it makes it a mixed number, a parenthesis a product.
    pub fn open_fraction(&mut self, at: usize, end: usize) -> Result<usize, NotMine> {
        if let Some(last) = self.last_operand() {
            if last.end as usize == at {
                let is_mixed = last.kind == Kind::Number && last.denominator == 1;
                let text = if is_mixed { Text::Mixed } else { Text::Touch };
                self.add(Kind::Operator, text, at, at);
            }
        }
        self.add(Kind::Open, Text::Frac, at, end);
        self.add(Kind::Open, Text::OpenParen, end, end);
        self.braces.push(Brace::Numerator);
        self.found.units = true;
        Ok(end)
    }

    fn open_brace(&mut self, at: usize) -> Result<usize, NotMine> {
        match self.braces.last_mut() {
            Some(brace) if *brace == Brace::Between => {
                *brace = Brace::Denominator;
                self.found.units = true;
                self.add(Kind::Operator, Text::Slash, at, at);
                self.add(Kind::Open, Text::OpenParen, at, at + 1);
            }
            _ => self.braces.push(Brace::Plain),
        }
        Ok(at + 1)
    }

    fn close_brace(&mut self, at: usize) -> Result<usize, NotMine> {
        match self.braces.pop() {
            Some(Brace::Numerator) => {
                self.add(Kind::Close, Text::CloseParen, at, at + 1);
                if self.byte(skip_space(self.line, at + 1)?) == b'{' {
                    self.braces.push(Brace::Between);
                } else {
                    self.add(Kind::Foreign, Text::InLine, at, at + 1);
                }
            }
            Some(Brace::Denominator) => {
                self.add(Kind::Close, Text::CloseParen, at, at);
                self.add(Kind::Close, Text::Frac, at, at + 1);
            }
            _ => {}
        }
        Ok(at + 1)
    }

    fn read_letter(&mut self, at: usize) -> Result<usize, NotMine> {
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

    fn follows_ascii_letter(&self, at: usize) -> bool {
        at > 0 && self.line[at - 1].is_ascii_alphabetic()
    }

    /// Say whether the `x` here stands before an operand.
    fn is_times(&self, at: usize) -> Result<bool, NotMine> {
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
    fn match_squared(&self, at: usize) -> Result<Option<usize>, NotMine> {
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
    fn read_word(&mut self, at: usize, first_end: usize) -> Result<usize, NotMine> {
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

    fn match_word(&self, mut at: usize) -> Result<usize, NotMine> {
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

    fn has_space(&self, mut at: usize, end: usize) -> Result<bool, NotMine> {
        while at < end {
            if class_at(self.line, at)? & SPACE != 0 {
                return Ok(true);
            }
            at += if self.line[at] < 128 { 1 } else { character_at(self.line, at)?.1 };
        }
        Ok(false)
    }

    fn is_lower(&self, mut at: usize, end: usize) -> Result<bool, NotMine> {
        let mut seen = 0;
        while at < end {
            seen |= class_at(self.line, at)?;
            at += if self.line[at] < 128 { 1 } else { character_at(self.line, at)?.1 };
        }
        Ok(seen & LOWER != 0 && seen & UPPER == 0)
    }
}

/// Return where the list mark at the start of a line ends: `1. `, `2) `, `- `, `* `, `• `.
fn skip_list_mark(line: &[u8]) -> Result<usize, NotMine> {
    let start = skip_space(line, 0)?;
    let digits = skip_digits(line, start);
    let mark = if digits > start {
        match line.get(digits) {
            Some(b'.' | b')') => digits + 1,
            _ => return Ok(0),
        }
    } else {
        match line.get(start) {
            Some(b'-' | b'*') => start + 1,
            Some(0xe2) if line[start..].starts_with("•".as_bytes()) => start + 3,
            _ => return Ok(0),
        }
    };
    let end = skip_space(line, mark)?;
    Ok(if end > mark { end } else { 0 })
}
