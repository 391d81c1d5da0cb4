//! Units of measure that convert into one another: feet and inches, hours and minutes.

use crate::sides::without_words;
use crate::tokens::{Kind, Text, Token};
use crate::NotMine;

/// A unit of a dimension, and how many of the smallest one it is; 0: that varies.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Measure {
    dimension: u8,
    size: i64,
    name: u8, // of a unit whose size varies
}

const LONGEST: usize = 10;

fn measure_of(unit: &[u8]) -> Option<Measure> {
    let mut lower = [0; LONGEST];
    if unit.len() > LONGEST {
        return None;
    }
    for (to, from) in lower.iter_mut().zip(unit) {
        *to = from.to_ascii_lowercase();
    }
    let (dimension, size, name) = match &lower[..unit.len()] {
        b"second" | b"sec" => (0, 1, 0),
        b"minute" | b"min" => (0, 60, 0),
        b"hour" | b"hr" => (0, 3600, 0),
        b"day" => (0, 86_400, 0),
        b"week" => (0, 604_800, 0),
        b"month" => (0, 0, 1),
        b"year" => (0, 0, 2),
        b"decade" => (0, 0, 3),
        b"inch" | b"inche" => (1, 1, 0),
        b"foot" | b"feet" | b"ft" => (1, 12, 0),
        b"yard" => (1, 36, 0),
        b"mile" => (1, 63_360, 0),
        b"mm" | b"millimeter" => (2, 1, 0),
        b"cm" | b"centimeter" => (2, 10, 0),
        b"m" | b"meter" | b"metre" => (2, 1000, 0),
        b"km" | b"kilometer" => (2, 1_000_000, 0),
        b"ounce" | b"oz" => (3, 1, 0),
        b"pound" | b"lb" => (3, 16, 0),
        b"ton" => (3, 32_000, 0),
        b"mg" | b"milligram" => (4, 1, 0),
        b"g" | b"gram" => (4, 1000, 0),
        b"kg" | b"kilogram" => (4, 1_000_000, 0),
        b"cent" | b"penny" | b"pennie" => (5, 1, 0),
        b"nickel" => (5, 5, 0),
        b"dime" => (5, 10, 0),
        b"quarter" => (5, 25, 0),
        b"dollar" | b"buck" => (5, 100, 0),
        b"teaspoon" => (6, 1, 0),
        b"tablespoon" => (6, 3, 0),
        b"cup" => (6, 48, 0),
        b"pint" => (6, 96, 0),
        b"quart" => (6, 192, 0),
        b"gallon" => (6, 768, 0),
        b"ml" | b"milliliter" => (7, 1, 0),
        b"liter" | b"litre" | b"l" => (7, 1000, 0),
        b"dozen" => (8, 12, 0),
        _ => return None,
    };
    Some(Measure { dimension, size, name })
}

/// A number that has a unit: where it starts, and its unit in the singular.
struct Unit<'a> {
    start: u32,
    name: &'a [u8],
}

impl<'a> Unit<'a> {
    fn is(&self, name: &[u8]) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// Return the numbers that have a unit.
fn find_units<'a>(tokens: &[Token], line: &'a [u8]) -> Result<Vec<Unit<'a>>, NotMine> {
    let mut found = Vec::new();
    for (at, number) in tokens.iter().enumerate() {
        if !number.ends_operand() {
            continue;
        }
        let following = tokens.get(at + 1).filter(|token| token.kind == Kind::Word);
        if number.money {
            found.push(Unit { start: number.start, name: b"dollar" });
        } else if let Some(word) = following {
            let name = to_singular(word.written(line))?;
            found.push(Unit { start: number.start, name });
        }
    }
    Ok(found)
}

fn to_singular(word: &[u8]) -> Result<&[u8], NotMine> {
    if !word.is_ascii() {
        return Err(NotMine); // its lower case is Python's
    }
    let points = word.iter().rev().take_while(|&&byte| byte == b'.').count();
    let word = &word[..word.len() - points];
    if measure_of(word).is_some() {
        return Ok(word);
    }
    Ok(match word {
        [rest @ .., b's' | b'S'] => rest,
        _ => word,
    })
}

type Sides = (Vec<Token>, Vec<Token>);

/// Return both sides in the smallest unit, where they mix units of one dimension.
pub fn convert(left: &[Token], right: &[Token], line: &[u8]) -> Result<Option<Sides>, NotMine> {
    if !has_mixed_units(left, right, line)? {
        return Ok(None);
    }
    let (here, there) = (find_units(left, line)?, find_units(right, line)?);
    let mut known = here.iter().chain(&there).filter_map(|unit| measure_of(unit.name));
    if known.any(|measure| measure.size == 0) {
        return Ok(None);
    }
    Ok(Some((scale(left, &here)?, scale(right, &there)?)))
}

/// Return the side in the smallest unit; the unit after a fraction is that of the fraction.
fn scale(tokens: &[Token], units: &[Unit]) -> Result<Vec<Token>, NotMine> {
    let size_of = |start: u32| units.iter().rev().find(|unit| unit.start == start);
    let mut scaled: Vec<Token> = Vec::with_capacity(tokens.len());
    for token in tokens {
        let unit = if token.kind == Kind::Number { size_of(token.start) } else { None };
        let size = unit.and_then(|unit| measure_of(unit.name)).map_or(1, |known| known.size);
        let size = size.max(1);
        let divides = match scaled[..] {
            [.., over, slash] => {
                over.kind == Kind::Number
                    && slash.kind == Kind::Operator
                    && slash.text == Text::Slash
                    && size_of(over.start).is_none()
            }
            _ => false,
        };
        let mut token = *token;
        if divides {
            token.denominator = token.denominator.checked_mul(size).ok_or(NotMine)?;
        } else {
            token.numerator = token.numerator.checked_mul(size).ok_or(NotMine)?;
        }
        scaled.push(token);
    }
    scaled.truncate(without_words(&scaled).len());
    Ok(scaled)
}

/// Say whether two sides may be of one quantity in different units.
pub fn has_mixed_units(left: &[Token], after: &[Token], line: &[u8]) -> Result<bool, NotMine> {
    let (here, there) = (find_units(left, line)?, find_units(after, line)?);
    let mut measures: Vec<Measure> = Vec::new();
    for unit in here.iter().chain(&there) {
        if let Some(measure) = measure_of(unit.name) {
            let differs =
                |known: &Measure| known.dimension == measure.dimension && *known != measure;
            if unit.is(b"dozen") || measures.iter().any(differs) {
                return Ok(true);
            }
            if !measures.contains(&measure) {
                measures.push(measure);
            }
        }
    }
    let numbers = left.iter().filter(|token| token.kind == Kind::Number).count();
    let operators = || left.iter().filter(|token| token.kind == Kind::Operator);
    let is_sum = operators().all(|token| token.text == Text::Plus);
    let counts_match = here.len() == numbers && numbers > 1;
    if !is_sum || !counts_match || there.is_empty() {
        return Ok(false);
    }
    let thing = here[0].name;
    let one_thing = here.iter().all(|unit| unit.is(thing));
    Ok(one_thing && !there[0].is(thing) && !here[0].is(b"dollar"))
}
