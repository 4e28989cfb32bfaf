#!/usr/bin/env python3
"""Writes bleu_cases.h: translations, references, and what sacreBLEU says of them.

The numbers are sacreBLEU's own (https://github.com/mjpost/sacrebleu), never ours:

    pip install sacrebleu==2.6.0
    python3 tests/bleu_cases.py >tests/bleu_cases.h
    clang-format -i tests/bleu_cases.h
"""

import sacrebleu
from sacrebleu.metrics import BLEU

ENGLISH = [
    "Two young, white males are outside near many bushes.",
    "Several men in hard hats are operating a giant pulley system.",
    "A little girl is climbing into a wooden playhouse.",
    "The price rose by 1,234.5 dollars (about 12%) in 2012-13, didn't it?",
]
GERMAN = [
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
    "„Wirklich?“ fragte sie – und lächelte ...",
    "Das kostet 1.234,50 € bzw. 3-4 Prozent.",
]
TOKENIZED = [
    "two young , white males are outside near many bushes .",
    "he said : &quot; i &apos;m here , &quot; and left &amp; smiled .",
]

CASES = {
    "the same": (ENGLISH, ENGLISH),
    "words changed": (
        [
            "Two young, white men are outside near some bushes.",
            "Several men with hard hats operate a giant pulley system.",
            "A small girl climbing into a playhouse of wood.",
            "The price rose by 1,234.6 dollars (about 12 %) in 2012-14, did it not?",
        ],
        ENGLISH,
    ),
    "shortened": ([line[: len(line) * 2 // 3] for line in ENGLISH], ENGLISH),
    "longer": ([line + " " + line for line in ENGLISH], ENGLISH),
    "in another order": (ENGLISH[1:] + ENGLISH[:1], ENGLISH),
    "upper case": ([line.upper() for line in ENGLISH], ENGLISH),
    "lower case": ([line.lower() for line in GERMAN], GERMAN),
    "some empty": ([ENGLISH[0], "", ENGLISH[2], ""], ENGLISH),
    "empty reference": (ENGLISH, [ENGLISH[0], "", ENGLISH[2], ENGLISH[3]]),
    "nothing at all": (["", ""], ["", ""]),
    "nothing in common": (["a b c d e"], ["v w x y z"]),
    "no four words in common": (["a b c x d e f"], ["a b c d e f g"]),
    "single words in common": (["the cat the dog the", "x y"], ["on the roof a cat", "y x"]),
    "fewer than four words": (["a b c", "yes"], ["a b c", "yes"]),
    "a word too often": (["the the the the the the the"], ["the cat is on the mat"]),
    "German": (
        [
            "Zwei junge weiße Männer sind draußen in der Nähe vieler Büsche.",
            "„Wirklich?“, fragte sie und lächelte...",
            "Es kostet 1.234,50 € bzw. 3 - 4 Prozent.",
        ],
        GERMAN,
    ),
    "tokenized": (["two young , white men are near many bushes .", TOKENIZED[1]], TOKENIZED),
    "entities": (["a &lt;b&gt; &amp;lt; c &quot;d&quot;"], ['a <b> &lt; c "d"']),
    "points and dashes": (
        ["..1,.2 .5 3. 4-5 -6 7 - a-b x.y.z,, 8.9.10 -", "don't {a}[b] ~c_d^e\x7f|f\\g @h #i"],
        ["..1,.2 .5 3 . 4 -5 -6 7 - a-b x.y . z,, 8.9.10 -", "don't { a } [b] ~c_d^e\x7f|f\\ g @h # i"],
    ),
    "white space": (
        ["\ta\u00a0b\u2003c\u3000d  e\x1cf\u200bg\u2028h\r\n", "a<skipped>b c-\nd\ne \x85"],
        ["a b c d e f\u200bg h", "ab cd e"],
    ),
}


def literal(text: str) -> str:
    plain = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    parts = []
    for byte in text.encode():
        char = chr(byte)
        parts.append(plain.get(char, char) if char in plain or 32 <= byte < 127 else f"\\{byte:03o}")
    return '"' + "".join(parts).replace("??", '?" "?') + '"'


def lines(texts: list[str]) -> str:
    return "{" + ", ".join(literal(text) for text in texts) + "}"


def main() -> None:
    print(f"/* Written by bleu_cases.py: what sacreBLEU {sacrebleu.__version__} says. */")
    print("#ifndef NEAP_TESTS_BLEU_CASES_H\n#define NEAP_TESTS_BLEU_CASES_H\n")
    print('#include "text/bleu.h"\n')
    print("static const struct bleu_case {")
    print("  const char *name;\n  const char *hypotheses[4], *references[4];\n  size_t count;")
    print("  struct bleu wanted[2]; /* by tokenization */\n} bleu_cases[] = {")
    for name, (hypotheses, references) in CASES.items():
        print(f"{{{literal(name)}, {lines(hypotheses)}, {lines(references)}, {len(hypotheses)}, {{")
        for tokenization in ("13a", "none"):
            score = BLEU(tokenize=tokenization).corpus_score(hypotheses, [references])
            print(f"[BLEU_{tokenization.upper()}] = {{.score = {score.score!r}, .brevity = {score.bp!r},")
            for field, values in (
                ("precisions", score.precisions),
                ("matches", score.counts),
                ("totals", score.totals),
            ):
                print(f".{field} = {{{', '.join(repr(value) for value in values)}}},")
            print(f".hypothesis_length = {score.sys_len}, .reference_length = {score.ref_len}}},")
        print("}},")
    print("};\n\n#endif")


if __name__ == "__main__":
    main()
