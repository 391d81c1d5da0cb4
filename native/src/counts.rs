//! Count the equations of a text: marks first, then the rest line by line.

use crate::joins::{count_joins, find_candidate};
use crate::lexer::Lexer;
use crate::lines::{
    find_mark, is_separated, remove_emphasis, scan_line, EQUALS, MARK, OTHER_SIGN, STAR,
};
use crate::regroup::{join_units, multiply_by_of};
use crate::sides::{find_left_side, find_right_side, is_doubtful, reach_right, read_otherwise};
use crate::tokens::{is_bare, Kind, Token};
use crate::units::{convert, has_mixed_units};
use crate::values::{Evaluator, Verdict};
use crate::words::means_about;
use crate::NotMine;

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    pub equations: i64,
    pub wrong: i64,
    pub rounded: i64,
    pub equals_signs: i64,
}

impl Counts {
    fn add(&mut self, verdict: Verdict) {
        self.equations += 1;
        self.wrong += i64::from(verdict == Verdict::Wrong);
        self.rounded += i64::from(verdict == Verdict::Rounded);
    }
}

/// Reads texts; keeps its buffers from one to the next.
#[derive(Default)]
pub struct Reader {
    tokens: Vec<Token>,
    evaluator: Evaluator,
    without_marks: Vec<u8>,
    without_emphasis: Vec<u8>,
}

impl Reader {
    /// Return the counts of a text; `NotMine` where the reader in Python is to be asked.
    pub fn count(&mut self, text: &[u8]) -> Result<Counts, NotMine> {
        let mut counts = Counts::default();
        let first = match find_candidate(text, 0) {
            Some(first) => first,
            None => return Ok(counts),
        };
        let line_end = text[..first].iter().rposition(|byte| matches!(byte, b'\n' | b'\r'));
        let mut start = line_end.map_or(0, |at| at + 1);
        while start < text.len() {
            let (end, seen) = scan_line(text, start);
            if seen & (EQUALS | OTHER_SIGN) != 0 {
                self.count_in_line(&text[start..end], seen, &mut counts)?;
            }
            start = end + 1;
        }
        Ok(counts)
    }

    fn count_in_line(&mut self, line: &[u8], seen: u8, counts: &mut Counts) -> Result<(), NotMine> {
        if seen & MARK == 0 {
            return self.judge_line(line, seen, counts);
        }
        let mut rest = std::mem::take(&mut self.without_marks);
        rest.clear();
        let mut at = 0;
        while let Some((start, end)) = find_mark(line, at) {
            self.judge_mark(&line[start + 2..end - 2], seen, counts)?;
            rest.extend_from_slice(&line[at..start]);
            at = end;
        }
        rest.extend_from_slice(&line[at..]);
        let judged = self.judge_line(&rest, seen, counts);
        self.without_marks = rest;
        judged
    }

    /// Count a mark's equations; it counts if each of its sides is wholly an expression.
    fn judge_mark(&mut self, mark: &[u8], seen: u8, counts: &mut Counts) -> Result<(), NotMine> {
        self.with_tokens(mark, seen, counts, |evaluator, tokens, line, counts| {
            let mut sides = tokens.split(|token| token.kind == Kind::Join);
            if sides.any(|side| reach_right(side, line) != Some(side.len())) {
                return Ok(());
            }
            for_each_join(tokens, |before, join, after, _| {
                counts.add(evaluator.judge_equation(before, after, join.inexact)?);
                Ok(())
            })
        })
    }

    /// Count the equations of a line without marks; tables, quotations and arrows are left alone.
    fn judge_line(&mut self, line: &[u8], seen: u8, counts: &mut Counts) -> Result<(), NotMine> {
        if is_separated(line) {
            return if count_joins(line) == 0 { Ok(()) } else { Err(NotMine) };
        }
        self.with_tokens(line, seen, counts, |evaluator, tokens, line, counts| {
            for_each_join(tokens, |before, join, after, ends_line| {
                let verdict = judge_pair(evaluator, before, join, after, ends_line, line)?;
                verdict.into_iter().for_each(|verdict| counts.add(verdict));
                Ok(())
            })
        })
    }

    /// Count the signs of a line, and call `judge` with its tokens and the line as it was cut.
    fn with_tokens(
        &mut self,
        line: &[u8],
        seen: u8,
        counts: &mut Counts,
        judge: impl FnOnce(&mut Evaluator, &[Token], &[u8], &mut Counts) -> Result<(), NotMine>,
    ) -> Result<(), NotMine> {
        // A line with `=` most often has a sign; else it may be a quotation mark's first byte.
        if seen & EQUALS == 0 && count_joins(line) == 0 {
            return Ok(());
        }
        if line.len() >= u32::MAX as usize / 2 {
            return Err(NotMine);
        }
        let plain = match seen & STAR != 0 && remove_emphasis(line, &mut self.without_emphasis)? {
            true => &self.without_emphasis[..],
            false => line,
        };
        let found = match Lexer::read(plain, &mut self.tokens) {
            Err(NotMine) if count_joins(line) == 0 => return Ok(()),
            read => read?,
        };
        counts.equals_signs += if found.hides_joins { count_joins(line) } else { found.joins };
        if found.joins == 0 {
            return Ok(());
        }
        if found.units {
            join_units(&mut self.tokens, plain);
        }
        if found.of {
            multiply_by_of(&mut self.tokens, plain);
        }
        judge(&mut self.evaluator, &self.tokens, plain, counts)
    }
}

/// Call `judge` with each join, what stands before and after it, and whether it is the last.
fn for_each_join(
    tokens: &[Token],
    mut judge: impl FnMut(&[Token], &Token, &[Token], bool) -> Result<(), NotMine>,
) -> Result<(), NotMine> {
    let is_join = |token: &Token| token.kind == Kind::Join;
    let (mut start, mut join) = match tokens.iter().position(is_join) {
        Some(join) => (0, join),
        None => return Ok(()),
    };
    loop {
        let next = tokens[join + 1..].iter().position(is_join);
        let end = next.map_or(tokens.len(), |length| join + 1 + length);
        judge(&tokens[start..join], &tokens[join], &tokens[join + 1..end], next.is_none())?;
        if next.is_none() {
            return Ok(());
        }
        start = join + 1;
        join = end;
    }
}

/// Return what is said of the equation that a join makes; None where it makes none.
fn judge_pair(
    evaluator: &mut Evaluator,
    before: &[Token],
    join: &Token,
    mut after: &[Token],
    ends_line: bool,
    line: &[u8],
) -> Result<Option<Verdict>, NotMine> {
    let mut inexact = join.inexact;
    while after.first().map_or(false, |token| means_about(token.written(line))) {
        after = &after[1..];
        inexact = true;
    }
    let (left, left_is_sure) = match find_left_side(before, line) {
        Some((start, sure)) => (&before[start..], sure),
        None => return Ok(None),
    };
    let right = match find_right_side(after, line) {
        Some(end) => &after[..end],
        None => return Ok(None),
    };
    if is_bare(left) && is_bare(right) {
        return Ok(None);
    }
    let verdict = evaluator.judge_equation(left, right, inexact)?;
    if verdict != Verdict::Wrong {
        return Ok(Some(verdict));
    }
    let other = read_otherwise(before, left, right, ends_line, line, |left, right| match evaluator
        .judge_equation(left, right, inexact)
    {
        Ok(Verdict::Wrong) => None,
        found => Some(found),
    });
    if let Some(found) = other {
        return found.map(Some);
    }
    let is_unit = after.get(right.len()).map_or(false, |token| token.kind == Kind::Word);
    let with_unit = &after[..right.len() + usize::from(is_unit)];
    if let Some((left, right)) = convert(left, with_unit, line)? {
        let verdict = evaluator.judge_equation(&left, &right, inexact)?;
        if verdict != Verdict::Wrong {
            return Ok(Some(verdict));
        }
    }
    let is_open = !left_is_sure
        || has_mixed_units(left, after, line)?
        || is_doubtful(before, left, after, right, line);
    Ok((!is_open).then_some(Verdict::Wrong))
}
