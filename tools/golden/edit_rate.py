"""Writes translation edit rates of made-up corpora, by sacreBLEU.

    python tools/golden/edit_rate.py testdata/golden/edit-rate/sacrebleu.json

Each corpus is a list of pairs, reference and text, with its score in this order and with both sides
exchanged. Shuffled words, few different words, moved phrases, texts of hundreds of words, and sides of
very different length try the search for shifts and its bounds. Needs sacrebleu.
"""

import json
import pathlib
import random
import sys

import sacrebleu

WRITTEN = [
    [["The cat sat on the mat.", "the CAT is  on the mat."], ["It costs 1,250.50 dollars", "dollars 1,250.50 it costs"]],
    [["a b c d e f g h", "e f g h a b c d"], ["", "x y"]],
    [["", ""]],
    [["", "only a text"]],
    [["Groß ÄRGER İstanbul ΟΔΟΣ", "gross ärger i̇stanbul οδος"], ["one\u2003two\x1cthree\u200bfour", "one two three\u200bfour"]],
]


def numbered(rng, count, least, most):
    return [f"w{rng.randrange(count)}" for _ in range(rng.randint(least, most))]


def shuffled(rng):
    words = [f"w{i}" for i in range(rng.randint(2, 14))]
    return words, rng.sample(words, len(words))


def few(rng):
    return numbered(rng, 3, 0, 25), numbered(rng, 3, 0, 25)


def moved(rng):
    words = numbered(rng, 30, 5, 60)
    text = list(words)
    for _ in range(rng.randint(1, 4)):
        start, length = rng.randrange(len(text)), rng.randint(1, 12)
        phrase = text[start:start + length]
        del text[start:start + length]
        place = rng.randint(0, len(text))
        text[place:place] = phrase
    for _ in range(rng.randint(0, 4)):
        text[rng.randrange(len(text))] = "other"
    return words, text


def long(rng):
    return numbered(rng, 20, 100, 220), numbered(rng, 20, 100, 220)


def unequal(rng):
    return numbered(rng, 9, 150, 300), numbered(rng, 9, 0, 3)


def main():
    rng = random.Random(5)
    corpora = list(WRITTEN)
    for make, count in ((shuffled, 8), (few, 8), (moved, 10), (long, 2), (unequal, 4)):
        for _ in range(count):
            corpora.append([[" ".join(side) for side in make(rng)] for _ in range(rng.randint(1, 2))])
    scored = []
    for corpus in corpora:
        one, other = ([pair[side] for pair in corpus] for side in (0, 1))
        scores = [sacrebleu.corpus_ter(other, [one]).score, sacrebleu.corpus_ter(one, [other]).score]
        scored.append({"pairs": corpus, "scores": scores})
    out = pathlib.Path(sys.argv[1])
    out.parent.mkdir(parents=True, exist_ok=True)
    made_by = f"sacrebleu {sacrebleu.__version__}, tools/golden/edit_rate.py"
    out.write_text(json.dumps({"made_by": made_by, "corpora": scored}, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
