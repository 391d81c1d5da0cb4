//! Words with a meaning for equations, as `sides.py` and `tokens.py` list them.

/// What touches a number and is no unit of it.
pub static NOT_UNITS: [&[u8]; 8] = [b"st", b"nd", b"rd", b"th", b"rds", b"ths", b"am", b"pm"];

const LONGEST: usize = 13;

/// Call `find` with a word in lower case; false for one that is longer than all words here.
fn is_in(word: &[u8], find: fn(&[u8]) -> bool) -> bool {
    let mut lower = [0; LONGEST];
    if word.len() > LONGEST {
        return false;
    }
    for (to, from) in lower.iter_mut().zip(word) {
        *to = from.to_ascii_lowercase();
    }
    find(&lower[..word.len()])
}

/// Say whether a letter is a unit after a number and a space; elsewhere it is a variable.
pub fn is_unit_letter(word: &[u8]) -> bool {
    matches!(word, b"a" | b"A" | b"h" | b"m" | b"g" | b"s" | b"L" | b"l")
}

/// Say whether a word ends a clause: what stands before is not the unit of what follows.
pub fn ends_clause(word: &[u8]) -> bool {
    is_in(word, |word| {
        matches!(
            word,
            b"so"
                | b"then"
                | b"and"
                | b"or"
                | b"is"
                | b"are"
                | b"was"
                | b"were"
                | b"be"
                | b"which"
                | b"that"
                | b"this"
                | b"has"
                | b"have"
                | b"had"
                | b"thus"
                | b"therefore"
                | b"hence"
                | b"but"
                | b"because"
                | b"since"
                | b"if"
                | b"when"
                | b"we"
                | b"he"
                | b"she"
                | b"they"
                | b"it"
                | b"you"
                | b"i"
                | b"gives"
                | b"get"
                | b"gets"
                | b"makes"
                | b"make"
                | b"means"
                | b"equals"
                | b"as"
                | b"than"
                | b"number"
        )
    })
}

/// Say whether a number after the word is an amount, not the name of a thing.
pub fn leads_to_amount(word: &[u8]) -> bool {
    is_in(word, |word| {
        matches!(
            word,
            b"so"
                | b"then"
                | b"and"
                | b"or"
                | b"is"
                | b"are"
                | b"was"
                | b"were"
                | b"be"
                | b"thus"
                | b"therefore"
                | b"hence"
                | b"but"
                | b"because"
                | b"since"
                | b"have"
                | b"has"
                | b"had"
                | b"get"
                | b"gets"
                | b"gives"
                | b"makes"
                | b"means"
                | b"that"
                | b"which"
                | b"to"
                | b"left"
                | b"remaining"
                | b"only"
        )
    })
}

/// Say whether a word stands for an operator.
pub fn spells_operator(word: &[u8]) -> bool {
    is_in(word, |word| {
        matches!(
            word,
            b"for"
                | b"times"
                | b"by"
                | b"in"
                | b"of"
                | b"over"
                | b"per"
                | b"every"
                | b"plus"
                | b"minus"
                | b"divided"
                | b"multiplied"
                | b"with"
        )
    })
}

pub fn is_for_or_of(word: &[u8]) -> bool {
    is_in(word, |word| matches!(word, b"for" | b"of"))
}

pub fn means_about(word: &[u8]) -> bool {
    is_in(word, |word| {
        matches!(word, b"about" | b"approximately" | b"roughly" | b"around" | b"nearly" | b"almost")
    })
}

pub fn is_determiner(word: &[u8]) -> bool {
    matches!(
        word,
        b"the" | b"his" | b"her" | b"their" | b"its" | b"all" | b"those" | b"these" | b"that"
    )
}
