//! A token of a line: what it is, how it is written, and where it stands.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Number,
    Operator,
    Sign,
    Open,
    Close,
    Join,
    Word,
    Foreign,
    Break,
}

/// How a token is written, where that matters or is not what stands in the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Text {
    InLine,
    Plus,
    Dash,  // - − –
    Slash, // /
    FractionSlash,
    Divide,     // ÷ and \div
    Times,      // all other operators
    Touch,      // an operand that touches a parenthesis
    Mixed,      // joins the two parts of a mixed number
    PartOf,     // `1/4 of a spoon`
    Frac,       // a fraction's own parentheses
    OpenParen,  // (
    CloseParen, // ) that LaTeX writes }
}

#[derive(Clone, Copy, Debug)]
pub struct Token {
    pub kind: Kind,
    pub text: Text,
    pub decimals: u8,
    pub digits: u8, // significant ones
    pub percent: bool,
    pub inexact: bool, // written with an ellipsis; of a join: ≈
    pub money: bool,
    pub spaced: bool, // a number with a space inside
    pub start: u32,
    pub end: u32,
    pub text_start: u32, // of a label, the words inside
    pub text_end: u32,
    pub numerator: i64,
    pub denominator: i64,
}

impl Token {
    #[inline]
    pub fn new(kind: Kind, text: Text, start: usize, end: usize) -> Token {
        let (start, end) = (start as u32, end as u32);
        Token {
            kind,
            text,
            decimals: 0,
            digits: 0,
            percent: false,
            inexact: false,
            money: false,
            spaced: false,
            start,
            end,
            text_start: start,
            text_end: end,
            numerator: 0,
            denominator: 1,
        }
    }

    /// Return how the token is written.
    pub fn written<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        match self.text {
            Text::Touch | Text::OpenParen => b"(",
            Text::CloseParen => b")",
            Text::Frac => b"frac",
            Text::Mixed => b"&",
            Text::PartOf => b"of ~", // any text that no word has
            Text::Slash => b"/",
            _ => &line[self.text_start as usize..self.text_end as usize],
        }
    }

    pub fn is_dash(&self) -> bool {
        self.text == Text::Dash
    }

    /// Say whether the token is an operator, other than that inside a mixed number.
    #[inline]
    pub fn is_operation(&self) -> bool {
        self.kind == Kind::Operator && self.text != Text::Mixed
    }

    /// Say whether the token ends an operand.
    #[inline]
    pub fn ends_operand(&self) -> bool {
        self.kind == Kind::Number || self.kind == Kind::Close
    }
}

/// Say whether a side is one number, without an operator.
pub fn is_bare(tokens: &[Token]) -> bool {
    !tokens.iter().any(Token::is_operation)
}
