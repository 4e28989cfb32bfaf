"""Writes prompts that share beginnings, a line each, for `neap generate --prompts`.

    shared_prompts.py TEXT -o LINES

Ten pieces of 400 characters of the text, each at the beginning of eight prompts, which have 100, 200 or all 400 of them and 20
characters of their own.
"""

import argparse
import random


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("text")
    p.add_argument("-o", dest="out", required=True)
    a = p.parse_args()
    with open(a.text) as f:
        text = " ".join(f.read().split())
    draw = random.Random(1)
    lines = []
    for _ in range(10):
        at = draw.randrange(len(text) - 400)
        for _ in range(8):
            shared, own = draw.choice([400, 400, 400, 200, 100]), draw.randrange(len(text) - 20)
            lines.append(text[at : at + shared] + " " + text[own : own + 20])
    draw.shuffle(lines)
    with open(a.out, "w") as f:
        f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
