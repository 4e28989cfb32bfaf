"""Random programs in Jinja, of the parts that chat templates are made of."""

from __future__ import annotations

import random

STRINGS = [
    "'a'", "'Ab c'", "''", r"' x\n'", '"it\'s"', "'é日'", "'a,b,,c'", "'<b>'", "'12'", "' 7 '", "'3.5'", "m.content", "m.role",
    "m['content']", "x", "messages[1].content",
]  # fmt: skip
NUMBERS = ["0", "1", "2", "-1", "3", "10", "1.5", "2.0", "-0.5", "loop.index", "n", "messages | length", "7", "100"]
LISTS = [
    "messages", "[1, 2, 3]", "['b', 'a', 'C']", "[]", "range(3)", "'a b c'.split()", "[[1, 2], [3]]", "(1, 2)", "messages[1:]",
    "[none, true, 0, '']", "{'k': 1, 'j': 2}.items()", "[1.5, 2, '2']",
]  # fmt: skip
DICTS = ["{'k': 1, 'j': 'x'}", "m", "messages[0]", "{}", "{'a': [1, {'b': none}]}", "dict(a=1)"]
OTHERS = ["true", "false", "none", "missing", "q"]
SLICES = [
    "[0]",
    "[-1]",
    "[1:]",
    "[:-1]",
    "[::-1]",
    "[1:3]",
    "[::2]",
    "[-2:]",
    "[5]",
    "[3:0:-1]",
    "[9:]",
    "[-9:2]",
    "[2:-9:-1]",
]
METHODS = [
    "strip()", "lstrip()", "rstrip()", "upper()", "lower()", "split()", "split(',')", "split(' ', 1)", "rsplit(' ', 1)",
    "replace('a', 'bb')", "startswith('a')", "endswith('c')", "title()", "capitalize()", "find('c')", "count('a')", "strip('a b')",
    "splitlines()", "isdigit()", "join(['x', 'y'])", "removeprefix('A')", r"rstrip('\n')", "lstrip('HB ')", "rfind('a')",
    "replace('', '-')", "isalpha()", "isspace()", "split(none, 1)", "endswith(('c', ' '))",
]  # fmt: skip
STRING_FILTERS = [
    "trim", "upper", "lower", "length", "title", "capitalize", "replace('a', 'b')", "first", "last", "list", "string", "int",
    "float", "tojson", "indent", "reverse", "default('d')", "default('d', true)", "trim('a')", "join('-')", "unique | list", "sort",
    "replace('b', '', 1)", "indent(2, true)", "int(5)", "count", "e", "safe",
]  # fmt: skip
LIST_FILTERS = [
    "length", "first", "last", "list", "join(', ')", "reverse | list", "sort", "unique | list", "map('string') | list",
    "select | list", "tojson", "map(attribute='role') | list", "selectattr('role', 'equalto', 'user') | list | length",
    "rejectattr('role', 'in', ['user']) | list | length", "string", "map('upper') | join", "sort(reverse=true)",
    "map('length') | list", "reject('string') | list", "join('/', attribute='role')", "select('number') | list",
    "tojson(indent=1)", "map('first') | list", "map('tojson') | join(';')", "sort(attribute='role') | length",
]  # fmt: skip
NUMBER_FILTERS = ["abs", "int", "float", "round", "string", "tojson", "round(1)", "default(3)", "length"]
FIELDS = [
    ".k", "['j']", ".nothing", ".role", ".items() | list", ".keys() | list", ".get('k')", ".get('z', 5)", ".values() | list",
    " | length", " | tojson", " | dictsort", " | items | list", ".content", " | list", " | tojson(sort_keys=true)",
]  # fmt: skip
TESTS = [
    "defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "boolean", "true", "false",
    "float", "callable",
]  # fmt: skip
COMPARISONS = ["==", "!=", "<", ">", "<=", ">=", "in", "not in"]
LOOP = ["index", "first", "last", "length", "revindex", "index0", "previtem", "nextitem"]
GAPS = ["", "", "\n", "  ", "\n  ", " a ", "\n\n", "\t"]
HEAD = (
    "{% macro f(a, b='B') %}<{{ a }}|{{ b }}>{% endmacro %}{% set ns = namespace(v=0) %}{% set n = 2 %}{% set x = 'X' %}"
    "{% set m = messages[2] %}"
)


class Writer:
    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def pick(self, words: list[str]) -> str:
        return self.draw.choice(words)

    def value(self, depth: int) -> str:
        return (
            self.expression(depth)
            if depth > 0
            else self.pick(self.draw.choice([STRINGS, NUMBERS, LISTS, DICTS, OTHERS]))
        )

    def mostly(self, words: list[str], depth: int) -> str:
        return self.pick(words) if self.draw.random() < 0.7 else self.value(depth)

    def expression(self, depth: int) -> str:
        below = depth - 1 - self.draw.randint(0, 1)
        value = self.value(below)
        string, number, items = (self.mostly(words, below) for words in (STRINGS, NUMBERS, LISTS))
        forms = [
            lambda: f"({value} {self.pick(['+', '-', '*', '/', '//', '%', '~'])} {self.value(below)})",
            lambda: f"({number} {self.pick(['+', '-', '*', '/', '//', '%'])} {self.mostly(NUMBERS, below)})",
            lambda: f"({string} {self.pick(['+', '~'])} {self.mostly(STRINGS, below)})",
            lambda: f"({value} {self.pick(COMPARISONS)} {self.value(below)})",
            lambda: f"({value} {self.pick(['and', 'or'])} {self.value(below)})",
            lambda: f"({value} < {self.value(below)} <= {self.value(below)})",
            lambda: f"(not {value})",
            lambda: f"({value} if {self.value(below)} else {self.value(below)})",
            lambda: f"({value} if {self.value(below)})",
            lambda: f"({string}){self.pick(SLICES)}",
            lambda: f"({items}){self.pick(SLICES)}",
            lambda: f"({string}).{self.pick(METHODS)}",
            lambda: f"({string}) | {self.pick(STRING_FILTERS)}",
            lambda: f"({items}) | {self.pick(LIST_FILTERS)}",
            lambda: f"({number}) | {self.pick(NUMBER_FILTERS)}",
            lambda: f"({self.pick(DICTS)}){self.pick(FIELDS)}",
            lambda: f"({value} is {self.pick(['', 'not '])}{self.pick(TESTS)})",
            lambda: f"({value} is {self.pick(['eq', 'ne', 'equalto', 'lt', 'gt', 'in', 'ge'])}({self.value(below)}))",
            lambda: f"[{value}, {self.value(below)}]",
            lambda: f"({value}, {self.value(below)})",
            lambda: f"{{'a': {value}, {self.pick(['1', 'none'])}: {self.value(below)}}}",
            lambda: f"-{number}",
            lambda: f"f({value}{self.pick(['', f', b={self.value(below)}'])})",
            lambda: f"loop.{self.pick(LOOP)}",
            lambda: f"{value} ~ {self.value(below)} | {self.pick(STRING_FILTERS)}",
        ]
        return self.draw.choice(forms)()

    def tag(self, text: str) -> str:
        return f"{self.pick(GAPS)}{{%{self.pick(['', '', '-', '+'])} {text} {self.pick(['', '', '-', '+'])}%}}"

    def block(self, depth: int) -> str:
        return "".join(self.statement(depth) for _ in range(self.draw.randint(1, 3)))

    def statement(self, depth: int) -> str:
        value = self.expression(self.draw.randint(0, 3))
        output = f"{self.pick(GAPS)}{{{{{self.pick(['', '', '-'])} {value} {self.pick(['', '', '-'])}}}}}"
        kind = self.draw.randint(0, 10) if depth > 0 else 0
        if kind < 4:
            return output
        inside = self.block(depth - 1)
        if kind == 4:
            return self.tag(f"if {value}") + inside + self.tag("else") + output + self.tag("endif")
        if kind == 5:
            condition = self.pick(["", "", f" if {self.value(1)}"])
            leave = self.pick(["", "", "{% break %}", "{% if loop.first %}{% continue %}{% endif %}"])
            loop = self.tag(f"for m in {self.pick(LISTS)}{condition}") + inside + leave + output
            return loop + self.pick(["", self.tag("else") + "none"]) + self.tag("endfor")
        if kind == 6:
            return self.tag(f"set {self.pick(['x', 'q', 'n'])} = {value}")
        if kind == 7:
            return self.tag(f"set ns.v = {value}") + "{{ ns.v }}"
        if kind == 8:
            return self.tag(f"set x{self.pick(['', ' | trim', ' | upper'])}") + inside + self.tag("endset") + "{{ x }}"
        if kind == 9:
            return self.tag("generation") + inside + self.tag("endgeneration")
        return f"{self.pick(GAPS)}{{#{self.pick(['', '-'])} {{{{ c }}}} {self.pick(['', '-'])}#}}{self.pick(GAPS)}"


def make_program(seed: int) -> str:
    return HEAD + Writer(seed).block(2)
