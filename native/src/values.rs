//! Work out an arithmetic expression exactly, and say whether an equation holds.

use crate::tokens::{is_bare, Kind, Text, Token};
use crate::NotMine;

const PRINTED_DIGITS: u8 = 10; // from here on a number with decimals is a printed float
const FLOAT_ERROR: i128 = 1_000_000_000;
const ROUNDED_DIGITS: u8 = 3; // a factor with as many, and decimals, may be rounded

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    Right,
    Rounded,
    Wrong,
}

/// A numerator and a denominator, not reduced: faster, and as exact. What overflows is not mine.
type Ratio = (i128, i128);

enum Failure {
    NotMine,
    DividesByZero,
}

#[derive(Clone, Copy, PartialEq)]
enum Pending {
    Open,
    Add,
    Subtract,
    Multiply,
    Divide,
    Negate,
    Mixed,
}

impl Pending {
    fn precedence(self) -> u8 {
        match self {
            Pending::Open => 0,
            Pending::Add | Pending::Subtract => 1,
            Pending::Multiply | Pending::Divide => 2,
            Pending::Negate => 3,
            Pending::Mixed => 4,
        }
    }
}

fn operation_of(text: Text) -> Pending {
    match text {
        Text::Plus => Pending::Add,
        Text::Dash => Pending::Subtract,
        Text::Slash | Text::FractionSlash | Text::Divide => Pending::Divide,
        Text::Mixed => Pending::Mixed,
        _ => Pending::Multiply,
    }
}

trait Times: Sized {
    fn times(self, other: Self) -> Option<Self>;
}

impl Times for i128 {
    /// Return the product; None where it does not fit.
    #[inline]
    fn times(self, other: i128) -> Option<i128> {
        match (i64::try_from(self), i64::try_from(other)) {
            (Ok(a), Ok(b)) => Some(i128::from(a) * i128::from(b)), // one instruction, and always fits
            _ => self.checked_mul(other),
        }
    }
}

/// Evaluates expressions; keeps its stacks from one to the next.
#[derive(Default)]
pub struct Evaluator {
    values: Vec<Ratio>,
    pending: Vec<Pending>,
}

impl Evaluator {
    /// Say whether `left = right` holds; percentages count under either reading.
    pub fn judge_equation(
        &mut self,
        left: &[Token],
        right: &[Token],
        inexact: bool,
    ) -> Result<Verdict, NotMine> {
        let verdict = self.judge(left, right, inexact, false)?;
        let has_percent = || left.iter().chain(right).any(|token| token.percent);
        if verdict == Verdict::Right || !has_percent() {
            return Ok(verdict);
        }
        let mut best = verdict.min(self.judge(left, right, inexact, true)?);
        if let Some(expanded) = expand_percent(left) {
            best = best.min(self.judge(&expanded, right, inexact, true)?);
        }
        Ok(best)
    }

    fn judge(
        &mut self,
        left: &[Token],
        right: &[Token],
        inexact: bool,
        hundredths: bool,
    ) -> Result<Verdict, NotMine> {
        let ((a, b), (c, d)) = match self.evaluate_both(left, right, hundredths) {
            Ok(values) => values,
            Err(Failure::DividesByZero) => return Ok(Verdict::Wrong),
            Err(Failure::NotMine) => return Err(NotMine),
        };
        let ad = a.times(d).ok_or(NotMine)?;
        let cb = c.times(b).ok_or(NotMine)?;
        let distance = size(ad.checked_sub(cb).ok_or(NotMine)?)?;
        if distance == 0 || is_printed_float(left, right, distance, size(ad)?.max(size(cb)?))? {
            return Ok(Verdict::Right);
        }
        let scale = size(b.times(d).ok_or(NotMine)?)?;
        let right_is_bare = is_bare(right);
        let written_left = !right_is_bare && is_bare(left);
        let (decimals, is_percent) = read_precision(if written_left { left } else { right })?;
        if inexact || decimals > 0 || right.iter().any(|token| token.inexact) {
            let places = u32::from(decimals) + if hundredths && is_percent { 2 } else { 0 };
            let unit = 10_i128.checked_pow(places).ok_or(NotMine)?;
            if distance.times(unit).ok_or(NotMine)? <= scale {
                return Ok(Verdict::Right);
            }
        }
        if !written_left && !right_is_bare && is_rounded_factor(right, distance, size(cb)?)? {
            return Ok(Verdict::Right);
        }
        let is_rounded =
            right_is_bare && decimals == 0 && distance.times(2).ok_or(NotMine)? <= scale;
        Ok(if is_rounded { Verdict::Rounded } else { Verdict::Wrong })
    }

    fn evaluate_both(
        &mut self,
        left: &[Token],
        right: &[Token],
        hundredths: bool,
    ) -> Result<(Ratio, Ratio), Failure> {
        Ok((self.evaluate(left, hundredths)?, self.evaluate(right, hundredths)?))
    }

    /// Return the value of an expression; words are skipped.
    fn evaluate(&mut self, tokens: &[Token], hundredths: bool) -> Result<Ratio, Failure> {
        if let [number] = tokens {
            if !hundredths {
                return Ok((number.numerator.into(), number.denominator.into()));
            }
        }
        self.values.clear();
        self.pending.clear();
        for token in tokens {
            match token.kind {
                Kind::Number => {
                    let per_cent = if hundredths && token.percent { 100 } else { 1 };
                    let denominator = i128::from(token.denominator) * per_cent;
                    self.values.push((token.numerator.into(), denominator));
                }
                Kind::Open => self.pending.push(Pending::Open),
                Kind::Close => self.close()?,
                Kind::Sign if token.is_dash() => self.pending.push(Pending::Negate),
                Kind::Operator => self.add_operation(operation_of(token.text))?,
                _ => {}
            }
        }
        while let Some(operation) = self.pending.pop() {
            self.apply(operation)?;
        }
        self.values.first().copied().ok_or(Failure::NotMine)
    }

    fn close(&mut self) -> Result<(), Failure> {
        loop {
            match self.pending.pop().ok_or(Failure::NotMine)? {
                Pending::Open => return Ok(()),
                operation => self.apply(operation)?,
            }
        }
    }

    fn add_operation(&mut self, operation: Pending) -> Result<(), Failure> {
        while let Some(&last) = self.pending.last() {
            if last.precedence() < operation.precedence() {
                break;
            }
            self.pending.pop();
            self.apply(last)?;
        }
        self.pending.push(operation);
        Ok(())
    }

    fn apply(&mut self, operation: Pending) -> Result<(), Failure> {
        let (c, d) = self.values.pop().ok_or(Failure::NotMine)?;
        if operation == Pending::Negate {
            self.values.push((-c, d));
            return Ok(());
        }
        let (a, b) = self.values.pop().ok_or(Failure::NotMine)?;
        if operation == Pending::Divide && c == 0 {
            return Err(Failure::DividesByZero);
        }
        self.values.push(combine(operation, (a, b), (c, d)).ok_or(Failure::NotMine)?);
        Ok(())
    }
}

/// Return the value of an operation; None where it does not fit 128 bits.
fn combine(operation: Pending, (a, b): Ratio, (c, d): Ratio) -> Option<Ratio> {
    Some(match operation {
        Pending::Add | Pending::Mixed => (a.times(d)?.checked_add(c.times(b)?)?, b.times(d)?),
        Pending::Subtract => (a.times(d)?.checked_sub(c.times(b)?)?, b.times(d)?),
        Pending::Multiply => (a.times(c)?, b.times(d)?),
        Pending::Divide => (a.times(d)?, b.times(c)?),
        Pending::Open | Pending::Negate => return None,
    })
}

fn size(value: i128) -> Result<i128, NotMine> {
    value.checked_abs().ok_or(NotMine)
}

/// Return `75 - 20% * 75` for `75 - 20%`, an amount less, or more, a part of itself.
fn expand_percent(tokens: &[Token]) -> Option<Vec<Token>> {
    let parts: Vec<&Token> = tokens.iter().filter(|token| token.kind != Kind::Word).collect();
    let (amount, part) = match parts[..] {
        [amount, operator, part]
            if amount.kind == Kind::Number
                && operator.kind == Kind::Operator
                && part.kind == Kind::Number
                && matches!(operator.text, Text::Plus | Text::Dash) =>
        {
            (*amount, part)
        }
        _ => return None,
    };
    if amount.percent || !part.percent {
        return None;
    }
    let mut expanded = tokens.to_vec();
    expanded.push(Token { kind: Kind::Operator, text: Text::Times, ..amount });
    expanded.push(amount);
    Some(expanded)
}

fn is_printed_float(
    left: &[Token],
    right: &[Token],
    distance: i128,
    largest: i128,
) -> Result<bool, NotMine> {
    let is_printed = |token: &Token| token.digits >= PRINTED_DIGITS && token.decimals > 0;
    if !left.iter().chain(right).any(is_printed) {
        return Ok(false);
    }
    Ok(distance.times(FLOAT_ERROR).ok_or(NotMine)? <= largest)
}

/// Say whether a rounded number in the expression explains the distance: `5/12 = 0.4167 * 1`.
fn is_rounded_factor(right: &[Token], distance: i128, size: i128) -> Result<bool, NotMine> {
    for token in right {
        let may_be_rounded = token.decimals > 0 && token.digits >= ROUNDED_DIGITS;
        if token.kind == Kind::Number && may_be_rounded {
            let error = distance.times(token.numerator.into()).ok_or(NotMine)?;
            if error <= size {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Return how many decimals are written, and whether the last number is a percentage.
fn read_precision(tokens: &[Token]) -> Result<(u8, bool), NotMine> {
    let numbers = || tokens.iter().filter(|token| token.kind == Kind::Number);
    let decimals = numbers().map(|token| token.decimals).max().ok_or(NotMine)?;
    Ok((decimals, numbers().next_back().map_or(false, |token| token.percent)))
}
