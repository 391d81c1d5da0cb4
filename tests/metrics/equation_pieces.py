"""Pieces of which texts are put together that test every rule of equations, and its edges."""

from __future__ import annotations

_JOINS = "= = = == === => ==> <= >= != := ~= ≈ ≐ \\approx \\approxx \\equiv".split()
_OPERATORS = [
    *"+ - − – * ** *** × x X · ⋅ ∗ / ÷ ⁄ ( ) [ ]".split(),
    *("\\times", "\\cdot ", "\\div", " x ", " + ", " - ", " -", " * ", " / "),
]
_LATEX = [
    *("{", "}", "}{", "\\frac{", "\\dfrac {", "\\frac{1}{2}", "\\tfrac", "\\boxed{", "\\text{"),
    *("\\text{ apples}", "\\text{ft.}", "\\text{(a) b}", "\\text{about }", "\\mathrm{cm}"),
    *("\\left(", "\\right)", "\\,", "\\;", "\\!", "{,}", ",\\!", "\\$", "\\%", "\\ ", "\\\\"),
    *("\\quad", "\\sqrt", "\\pm", "\\overline{3}", ".\\overline{36}", "\\ldots", "\\dots", "\\big"),
]
_SIGNS = [
    *"$ € £ ¥ ₹ ° & _ __ _{a} _2 ^ ^2 ^{2} ² ³ √ ! | ~ % … ... .. . , : ; ? — • →".split(),
    *(" %", '"', "“", "”", "’", "'"),
]
_SPACES = [" ", " ", "  ", "\t", "\r", "\n", "\r\n", "\u00a0", "\u2028", "\u202f", "\x00", "\x1c", "\x85"]  # fmt: skip
_NUMBERS = [
    *"0 1 2 3 4 6 10 12 100 00012 007 .5 0.5 3.14 0.333 0.4167 3.33 33.3% 50% 1.2.3 4:30".split(),
    *"1,000 12,345,678 1,23 2.3333333333333335 999999999999 123456789012345678".split(),
    *("1234567890123456789", "$1 234", "$1 234 567.50", "1 000", "$5", "$2.50", "-5", "(-5"),
    *("½", "⅓", "¾", "2½", "1 1/2", "1 1⁄2", "1 1/0", "3 1/2.5", "7.5/1/2"),
]
_WORDS = [
    *(" of ", " of the ", "of", "half of ", " for ", " per ", " times ", " so ", " and ", " is "),
    *(" that ", "about ", "approximately ", "Roughly ", "Day ", "Step 2 - ", "a total of "),
    *(
        "a",
        " a ",
        "A",
        "i",
        "x2",
        "sL",
        "st",
        "nd",
        "th",
        "pm",
        "2x",
        "Ann",
        "don't",
        "e.g.",
        "A&B",
    ),
]
_UNITS = [
    *(
        "/hour",
        "/ hour",
        " km/h",
        "km",
        "cm2",
        "m^2",
        "ft^{2}",
        "mm³",
        " m",
        " h",
        "mg",
        " mg",
        "5L",
    ),
    *(" L", " dozen", " cents", " dollars", " hours", " Hours", " minutes", " feet", " inches"),
    *(" boxes", " bars", " apples", " (apples)", " (Pam)", " months", " years"),
]
_MARKS = [
    *"<< >> <<1+1=2>> <<3*4=13>> <<7/2=3>> <<a=b>> <<5=5>> <<1/3=.33=0.3>>".split(),
    *("*12*", "*$5.00*", "*5%*", "**7**", "- ", "* ", "1. ", "2) ", "• "),
]
OF_OTHER_ALPHABETS = "éŁëßİıſªµΣβя中：٣ａ５K²¹½⅞①Ⅷ़\U0001f600\U0001d7d8\ufeff\u200b\u0301"

GRAMMAR = [
    *(*_JOINS, *_OPERATORS, *_OPERATORS, *_LATEX, *_SIGNS, *_SPACES, *_NUMBERS, *_NUMBERS),
    *(*_WORDS, *_UNITS, *_MARKS, "é", "Łuk", "Zoë", "中", "：", "٣", "K", "İ", "я"),
]
