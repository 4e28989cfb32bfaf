"""Tokenizers of others against PyPI's tokenizers: ids, places and decoded texts of random Unicode, by build/tests/tokenize.
NEAP_TOKENIZER_TEXTS says how many texts each tokenizer gets, NEAP_TOKENIZER_SEEDS how many tokenizers of random components
there are, and NEAP_TOKENIZER_FILES names more tokenizer.json files."""

from __future__ import annotations

import base64
import copy
import json
import os
import random
import struct
import subprocess
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tokenizers")
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

ROOT = Path(__file__).resolve().parents[3]
TOKENIZE = Path(os.environ.get("NEAP_LIBRARY", ROOT / "build" / "libneap.so")).parent / "tests" / "tokenize"
TEXTS = int(os.environ.get("NEAP_TOKENIZER_TEXTS", "200"))
SEEDS = int(os.environ.get("NEAP_TOKENIZER_SEEDS", "40"))
FILES = [path for path in os.environ.get("NEAP_TOKENIZER_FILES", "").split(":") if path]
REFUSED = 3
if not TOKENIZE.is_file():
    pytest.skip(f"{TOKENIZE} was not built (make checks)", allow_module_level=True)

# Characters that every Unicode of the two sides has. Debian 12's PCRE2 has Unicode 14.
_KNOWN = unicodedata if unicodedata.unidata_version == "14.0.0" else unicodedata.ucd_3_2_0
CHARACTERS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and _KNOWN.category(chr(c)) != "Cn"]
LOW = [c for c in CHARACTERS if c < "\u3000"]
MARKS = [c for c in CHARACTERS if unicodedata.category(c)[0] == "M"]
WORDS = (  # noqa: SIM905
    "the The quick brown fox isn't we'll IT'S 12345 3.14 don't \u00bfQu\u00e9? na\u00efve re\u0301sume\u0301 \u5317\u4eac \u6771\u4eac "
    "\u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440 \u0928\u092e\u0938\u094d\u0924\u0947 \u2603\ufe0f "
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \ud55c\uad6d\uc5b4 \u1112\u1161\u11ab \uff8a\uff9f stra\u00dfe \u0130stanbul \u017ft "
    "[CLS] [SEP] [MASK] <s> </s> <unk> <|end|> new york York <0x0A> _a_ a-b hello, world! () {} ; -- x=1 ## ##a \u2581 \u2581the"
).split(" ")
SPACES = [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", "", "\u00a0", "\u3000", "\u180e", "\u200b", "\u0085"]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + REST
QWEN2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + REST
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
GPT4O = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEFAULT = [
    r"[\p{P}\$\+<=>\^~\|]+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
    r"\p{N}+",
    "[0-9][0-9][0-9]",
]
DEEPSEEK = (
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*"
    "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
)
MARK = "\u2581"


def random_text(draw: random.Random) -> str:
    kind = draw.randrange(6)
    count = draw.randrange(14)
    if kind == 0:
        return "".join(draw.choices(CHARACTERS, k=count))
    if kind == 1:
        return "".join(draw.choices(LOW, k=count))
    if kind == 2:
        return "".join(draw.choice(LOW) + "".join(draw.choices(MARKS, k=draw.randrange(4))) for _ in range(count))
    if kind == 3:
        return "".join(chr(draw.randrange(32, 127)) if draw.random() < 0.8 else draw.choice(SPACES) for _ in range(30))
    return "".join(draw.choice(WORDS) + draw.choice(SPACES) for _ in range(count))


# ---- Tokenizers ----


@cache
def corpus() -> list[str]:
    draw = random.Random(7)
    lines = (ROOT / "docs" / "command.md").read_text().splitlines() + (
        ROOT / "CONTRIBUTING.md"
    ).read_text().splitlines()
    return lines + [" ".join(draw.choices(WORDS, k=12)) for _ in range(400)]


@cache
def byte_level() -> tuple[dict[str, int], list[tuple[str, str]]]:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(
        corpus(),
        trainers.BpeTrainer(vocab_size=1200, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False),
    )
    return lists(tokenizer)


@cache
def characters() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Of characters, with a mark for a space, behind <unk>, <s>, </s> and the 256 bytes."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer.train_from_iterator(
        corpus(), trainers.BpeTrainer(vocab_size=1400, special_tokens=special, limit_alphabet=150, show_progress=False)
    )
    return lists(tokenizer)


@cache
def words(lower: bool) -> dict[str, int]:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(
        corpus(),
        trainers.WordPieceTrainer(vocab_size=900, special_tokens=special, limit_alphabet=150, show_progress=False),
    )
    return json.loads(tokenizer.to_str())["model"]["vocab"]


@cache
def scored() -> list[tuple[str, float]]:
    """Pieces of Unigram behind <unk>, <s>, </s> and the 256 bytes."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer.train_from_iterator(
        corpus(),
        trainers.UnigramTrainer(vocab_size=1500, special_tokens=special, unk_token="<unk>", show_progress=False),
    )
    return [(piece, score) for piece, score in json.loads(tokenizer.to_str())["model"]["vocab"]]


def character_map(replaced: dict[str, str]) -> str:
    """As SentencePiece stores it: a trie in a double array (Darts-clone's units), and the texts of its leaves."""
    texts, places = b"", {}
    for text in sorted({*replaced.values()}):
        places[text] = len(texts)
        texts += text.encode() + b"\0"
    trie: dict[Any, Any] = {}
    for key, text in replaced.items():
        node = trie
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[None] = places[text]
    units, taken, free = {0: 0}, {0}, 1
    todo = [(0, trie)]
    while todo:
        at, node = todo.pop()
        cells = [byte or 0 for byte in node]
        offset = free
        while any((at ^ offset ^ cell) in taken for cell in cells) or offset & 0xFF == 0:
            offset += 1
        units[at] |= offset << 10 | (None in node) << 8
        for byte, child in node.items():
            to = at ^ offset ^ (byte or 0)
            taken.add(to)
            units[to] = 1 << 31 | child if byte is None else byte
            if byte is not None:
                todo.append((to, child))
        while free in taken:
            free += 1
    size = (max(units) | 0xFF) + 1
    blob = b"".join(struct.pack("<I", units.get(i, 0)) for i in range(size))
    return base64.b64encode(struct.pack("<I", len(blob)) + blob + texts).decode()


@cache
def compatible() -> str:
    """What NFKC changes among these, some of several code points, and spaces of other kinds."""
    replaced = {c: unicodedata.normalize("NFKC", c) for c in LOW if unicodedata.normalize("NFKC", c) != c}
    replaced |= {c + mark: unicodedata.normalize("NFC", c + mark) for c in "aeiounAEO" for mark in "\u0301\u0308\u0323"}
    replaced |= {"\u00a0": " ", "\u3000": " ", "\t": " ", "\n": " ", "\u200b": "", "\u0e33": "\u0e4d\u0e32", "\r": ""}
    return character_map(replaced)


def of_pieces(
    steps: tuple[Any, ...] = (), scheme: str = "always", cut: bool = True, split: bool = True, **options: Any
) -> Tokenizer:
    """As `transformers` makes it of a SentencePiece model."""
    pieces = scored()
    tokenizer = Tokenizer(models.Unigram(pieces, 0, options.get("byte_fallback", False)))
    spaces = (normalizers.Replace(Regex(r"\A +| +\z"), ""), normalizers.Replace(Regex(" {2,}"), " ")) if cut else ()
    made = [*steps, *spaces]
    tokenizer.normalizer = normalizers.Sequence(made)
    tokenizer.pre_tokenizer = Metaspace(prepend_scheme=scheme, split=split)
    back = decoders.Metaspace(prepend_scheme=scheme)
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), back]) if options else decoders.Sequence([back])
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in ("<unk>", "<s>", "</s>")])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return tokenizer


def precompiled() -> Any:
    return normalizers.Precompiled(base64.b64decode(compatible()))


def lists(tokenizer: Tokenizer) -> tuple[dict[str, int], list[tuple[str, str]]]:
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def of_bytes(pre_tokenizer: Any, normalizer: Any = None, bos: bool = False, **options: Any) -> Tokenizer:
    vocabulary, merges = byte_level()
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, **options))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizer, decoders.ByteLevel()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in ("<|end|>", "<s>")])
    if bos:
        begin = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])
        tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), begin])
    return tokenizer


def split(*patterns: str) -> Any:
    cuts = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    return pre_tokenizers.Sequence([*cuts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def of_characters(normalizer: Any, pre_tokenizer: Any, strip: bool = True, **options: Any) -> Tokenizer:
    vocabulary, merges = characters()
    options = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True} | options
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, **options))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    steps = [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(steps + ([decoders.Strip(" ", 1, 0)] if strip else []))
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in ("<unk>", "<s>", "</s>")])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def of_words(lower: bool, roberta: bool = False, **options: Any) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(vocab=words(lower), unk_token="[UNK]", **options))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    kind = processors.RobertaProcessing if roberta else processors.BertProcessing
    tokenizer.post_processor = kind(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def sentence_piece(prefix: bool = True) -> Any:
    replace = normalizers.Replace(" ", MARK)
    return normalizers.Sequence([normalizers.Prepend(MARK), replace]) if prefix else replace


ByteLevel, Metaspace = pre_tokenizers.ByteLevel, pre_tokenizers.Metaspace
DIGITS = pre_tokenizers.Digits(individual_digits=True)
PIPELINES = {
    "gpt2": lambda: of_bytes(ByteLevel(add_prefix_space=False)),
    "gpt2-prefix": lambda: of_bytes(ByteLevel(add_prefix_space=True)),
    "llama3": lambda: of_bytes(split(LLAMA3), bos=True, ignore_merges=True),
    "qwen2": lambda: of_bytes(split(QWEN2), normalizers.NFC()),
    "smollm": lambda: of_bytes(pre_tokenizers.Sequence([DIGITS, ByteLevel(add_prefix_space=False)])),
    "gpt4o": lambda: of_bytes(split(GPT4O)),
    "default": lambda: of_bytes(split(*DEFAULT)),
    "deepseek": lambda: of_bytes(split(r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", DEEPSEEK)),
    "llama2": lambda: of_characters(sentence_piece(), None),
    "llama2-metaspace": lambda: of_characters(None, Metaspace(prepend_scheme="first", split=False)),
    "mistral-metaspace": lambda: of_characters(None, Metaspace(prepend_scheme="always")),
    "gemma": lambda: of_characters(sentence_piece(False), pre_tokenizers.Split(" ", "merged_with_previous"), strip=False),
    "bert-uncased": lambda: of_words(True),
    "bert-cased": lambda: of_words(False, max_input_chars_per_word=12),
    "t5": lambda: of_pieces((precompiled(),)),
    "xlm-roberta": lambda: of_pieces((precompiled(),), cut=False, scheme="first"),
    "albert": lambda: of_pieces((normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), precompiled())),
    "unigram-bytes": lambda: of_pieces(byte_fallback=True),
    "unigram-whole": lambda: of_pieces((normalizers.Nmt(),), cut=False, scheme="never", split=False, byte_fallback=True),
    "roberta-of-words": lambda: of_words(True, roberta=True),
}  # fmt: skip


# ---- Random components ----


def random_normalizer(draw: random.Random) -> Any:
    flag = lambda: draw.random() < 0.5  # noqa: E731
    return draw.choice([
        lambda: normalizers.NFC(), lambda: normalizers.NFD(), lambda: normalizers.NFKC(), lambda: normalizers.NFKD(),
        lambda: normalizers.Lowercase(), lambda: normalizers.StripAccents(), lambda: normalizers.Prepend(MARK),
        lambda: normalizers.Replace(draw.choice([" ", "a", "  ", "''"]), draw.choice([MARK, "", "xyz"])),
        lambda: normalizers.Replace(Regex(draw.choice([r"\s+", r"[a-c]|\d", r"\b", r"\w*", "^.", r"(?m)x.*"])), "-"),
        lambda: normalizers.Nmt(), lambda: precompiled(),
        lambda: normalizers.Strip(left=flag(), right=flag()), lambda: normalizers.ByteLevel(),
        lambda: normalizers.BertNormalizer(
            clean_text=flag(), handle_chinese_chars=draw.random() < 0.3, strip_accents=draw.choice([None, True, False]), lowercase=flag()),
    ])()  # fmt: skip


def random_pre_tokenizer(draw: random.Random) -> Any:
    flag = lambda: draw.random() < 0.5  # noqa: E731
    behaviour = draw.choice(["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"])
    pattern = draw.choice([
        " ", "a", MARK, Regex(r"\s+"), Regex(r"\w+"), Regex(r"\W"), Regex(r"\p{Han}+"), Regex(r"[\p{L}\s]*"), Regex(r"\d{1,2}"),
        Regex(r"(?=[A-Z])"), Regex(GPT2), Regex(r"[^\s\w]+|\h"), Regex(r"\u0041|\x{42}"), Regex(r"[[:punct:]]"), Regex("$"),
    ])  # fmt: skip
    return draw.choice([
        lambda: pre_tokenizers.Whitespace(), lambda: pre_tokenizers.WhitespaceSplit(), lambda: pre_tokenizers.BertPreTokenizer(),
        lambda: pre_tokenizers.Punctuation(behaviour), lambda: pre_tokenizers.Digits(individual_digits=flag()),
        lambda: pre_tokenizers.CharDelimiterSplit(draw.choice("a -")),
        lambda: Metaspace(prepend_scheme=draw.choice(["always", "first", "never"]), split=flag()),
        lambda: ByteLevel(add_prefix_space=flag(), use_regex=flag()),
        lambda: pre_tokenizers.Split(pattern, behaviour, invert=flag()),
    ])()  # fmt: skip


def random_decoder(draw: random.Random) -> Any:
    return draw.choice([
        lambda: decoders.WordPiece(prefix="##", cleanup=draw.random() < 0.5), lambda: decoders.BPEDecoder("</w>"),
        lambda: decoders.Metaspace(prepend_scheme=draw.choice(["always", "first", "never"])), lambda: decoders.ByteFallback(),
        lambda: decoders.Fuse(), lambda: decoders.Strip(draw.choice(" a"), draw.randrange(3), draw.randrange(2)),
        lambda: decoders.Replace(MARK, " "), lambda: decoders.Replace(Regex("[a-e]+"), "E"),
    ])()  # fmt: skip


def random_model(draw: random.Random) -> Any:
    kind = draw.randrange(6)
    flags = {name: draw.random() < 0.5 for name in ("fuse_unk", "byte_fallback", "ignore_merges")}
    if kind == 0:
        return models.WordPiece(
            vocab=words(draw.random() < 0.5), unk_token="[UNK]", max_input_chars_per_word=draw.choice([3, 100])
        )
    if kind == 1:
        vocabulary, merges = byte_level()
        return models.BPE(vocab=vocabulary, merges=merges, **flags)
    if kind == 5:
        pieces = [pair for pair in scored() if not pair[0].startswith("<0x") or draw.random() < 0.9]
        return models.Unigram(pieces, 0, flags["byte_fallback"])
    vocabulary, merges = characters()
    if kind == 2:  # with few bytes
        vocabulary = {
            piece: id for piece, id in vocabulary.items() if not piece.startswith("<0x") or draw.random() < 0.8
        }
    if kind == 3:  # of pieces that say where in a word they stand
        vocabulary = copy.copy(vocabulary)
        for piece in list(vocabulary):
            vocabulary.setdefault("##" + piece, len(vocabulary) + 2000)
            vocabulary.setdefault(piece + "</w>", len(vocabulary) + 2000)
        merges = [("t", "##h"), ("th", "##e"), ("##o", "##n"), ("##h", "##e"), ("t", "##he"), ("##e", "##r")]
        merges = [(a, b) for a, b in merges if {a, b, a + b[2:]} <= vocabulary.keys()]
        return models.BPE(
            vocab=vocabulary,
            merges=merges,
            unk_token="<unk>",
            continuing_subword_prefix="##",
            end_of_word_suffix="</w>",
            **flags,
        )
    return models.BPE(vocab=vocabulary, merges=merges, unk_token=draw.choice([None, "<unk>"]), **flags)


def random_tokenizer(seed: int) -> Tokenizer:
    draw = random.Random(seed)
    tokenizer = Tokenizer(random_model(draw))
    if draw.random() < 0.7:
        tokenizer.normalizer = normalizers.Sequence([random_normalizer(draw) for _ in range(draw.randrange(1, 4))])
    if draw.random() < 0.8:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [random_pre_tokenizer(draw) for _ in range(draw.randrange(1, 4))]
        )
    state = tokenizer.to_str()
    if '"first"' in state and any(word in state for word in ('"handle_chinese_chars":true', "NFD", "NFKD", "StripAcc")):
        # There the oracle takes for the beginning what follows a space that the normalizer put in, or the first part of a
        # character that it took apart.
        tokenizer.normalizer = normalizers.NFC()
    if draw.random() < 0.8:
        tokenizer.decoder = decoders.Sequence([random_decoder(draw) for _ in range(draw.randrange(1, 4))])
    names = draw.sample(
        ["<s>", "[MASK]", "the", "The", "new york", "a", "''", "12", "\u5317", "<|end|>", "r\u00e9", "  "], 5
    )
    for name in names:
        flags = {flag: draw.random() < 0.4 for flag in ("single_word", "lstrip", "rstrip", "normalized", "special")}
        flags["special"] &= not flags["normalized"]  # the oracle decodes them as what the normalizer made of them
        try:
            tokenizer.add_tokens([AddedToken(name, **flags)])
        except BaseException as failure:
            assert "Panic" in type(failure).__name__, (
                name
            )  # of the oracle, where its normalizer leaves nothing of a token
            return random_tokenizer(seed + 1000)
    return tokenizer


# ---- Comparing ----


def run(arguments: list[str], texts: list[str]) -> tuple[dict[str, int], list[dict[str, Any]]]:
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    done = subprocess.run([str(TOKENIZE), *arguments], input=lines.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    answers = [json.loads(line) for line in done.stdout.decode().rstrip("\n").split("\n")]
    assert len(answers) == len(texts) + 1
    return answers[0], answers[1:]


def check(tokenizer: Tokenizer, arguments: list[str], seed: int = 0, count: int = TEXTS) -> None:
    draw = random.Random(seed)
    texts = ["", " ", "a", *(random_text(draw) for _ in range(count))]
    for text, answer in zip(texts, run(arguments, texts)[1], strict=True):
        try:
            plain, whole = tokenizer.encode(text, add_special_tokens=False), tokenizer.encode(text)
        except BaseException as failure:
            assert "Panic" in type(failure).__name__, text  # of the oracle, which has no answer then
            continue
        assert answer["ids"] == plain.ids, text
        assert answer["whole"] == whole.ids, text
        ends = answer["ends"]
        assert ends == sorted(ends) and (not ends or ends[-1] <= len(text.encode())), text
        try:
            decoded = tokenizer.decode(whole.ids)
        except BaseException as failure:
            assert "Panic" in type(failure).__name__, text
            continue
        assert answer["text"].encode("latin-1").decode("utf-8", "replace") == decoded, text


@pytest.mark.parametrize("name", PIPELINES)
def test_known_pipelines(name: str, tmp_path: Path) -> None:
    tokenizer = PIPELINES[name]()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    check(tokenizer, [str(tmp_path)], seed=sum(map(ord, name)))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_pipelines(seed: int, tmp_path: Path) -> None:
    tokenizer = random_tokenizer(seed)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    check(tokenizer, [str(tmp_path)], seed)


@pytest.mark.parametrize("path", FILES)
def test_files(path: str) -> None:
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    check(tokenizer, [path])


@pytest.mark.parametrize("name", ["bert-uncased", "bert-cased", "llama2", "mistral-metaspace"])
def test_places_are_those_of_offsets(name: str, tmp_path: Path) -> None:
    tokenizer = PIPELINES[name]()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    draw = random.Random(3)
    # Marks that are stripped belong to a token here, and a space that was put in to none; the oracle differs.
    plain = [word for word in [*WORDS, "Caf\u00e9", "\u00dcber"] if not any(c in MARKS for c in word)]
    whole = [word for word in plain if word not in ("<unk>", "<s>", "</s>") and word[0] != MARK]
    texts = [" ".join(draw.choices(whole, k=8)) for _ in range(TEXTS)]
    for text, answer in zip(texts, run([str(tmp_path)], texts)[1], strict=True):
        offsets = tokenizer.encode(text, add_special_tokens=False).offsets
        if "<0x" not in " ".join(tokenizer.encode(text, add_special_tokens=False).tokens):
            assert answer["ends"] == [len(text[:end].encode()) for _, end in offsets], text


def test_places_of_bytes_spell_the_text(tmp_path: Path) -> None:
    PIPELINES["llama3"]().save(str(tmp_path / "tokenizer.json"))
    letters = {letter: byte for byte, letter in zip_alphabet()}
    pieces = {id: bytes(letters[c] for c in piece) for piece, id in byte_level()[0].items()}
    draw = random.Random(4)
    texts = [random_text(draw).replace("<", "") for _ in range(TEXTS)]
    for text, answer in zip(texts, run([str(tmp_path)], texts)[1], strict=True):
        parts = [text.encode()[a:b] for a, b in zip([0, *answer["ends"]], answer["ends"], strict=False)]
        assert parts == [pieces[id] for id in answer["ids"]], text


def zip_alphabet() -> list[tuple[int, str]]:
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return [(byte, chr(byte)) for byte in plain] + [(byte, chr(256 + i)) for i, byte in enumerate(others)]


# ---- Vocabularies of GGUF files ----


def write(tmp_path: Path, **fields: Any) -> list[str]:
    path = tmp_path / "vocabulary.json"
    path.write_text(json.dumps(fields))
    return ["--vocabulary", str(path)]


@pytest.mark.parametrize("pre, name", [("gpt-2", "gpt2"), ("llama-bpe", "llama3"), ("qwen2", "qwen2"), ("smollm", "smollm"),
                                       ("gpt-4o", "gpt4o"), ("default", "default"), (None, "default")])  # fmt: skip
def test_vocabulary_of_bytes(pre: str | None, name: str, tmp_path: Path) -> None:
    tokenizer = PIPELINES[name]()
    vocabulary, merges = byte_level()
    tokens = [*sorted(vocabulary, key=vocabulary.__getitem__), "<|end|>", "<s>"]
    types = [1] * len(vocabulary) + [3, 3]
    fields = {"model": "gpt2", "pre": pre, "tokens": tokens, "types": types, "merges": [" ".join(m) for m in merges]}
    arguments = write(tmp_path, **fields, bos=tokens.index("<s>"), eos=tokens.index("<|end|>"))
    check(tokenizer, arguments)
    first = run(arguments, [])[0]
    assert first == {"size": len(tokens), "bos": tokens.index("<s>"), "eos": tokens.index("<|end|>")}


@pytest.mark.parametrize("prefix", [True, False])
def test_vocabulary_of_scores(prefix: bool, tmp_path: Path) -> None:
    base = pytest.importorskip("transformers.tokenization_utils_base")
    if not hasattr(base, "generate_merges"):
        pytest.skip("these transformers make merges elsewhere")
    vocabulary, _ = characters()
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    draw = random.Random(5)
    scores = [0.0 if i < 259 else -float(i if draw.random() < 0.8 else i // 50) for i in range(len(tokens))]
    merges = base.generate_merges(vocabulary, dict(zip(tokens, scores, strict=True)))
    tokenizer = of_characters(sentence_piece(prefix), None, strip=prefix)
    tokenizer.model = models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    types = [2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259)
    fields = {"model": "llama", "tokens": tokens, "types": types, "scores": scores, "bos": 1, "eos": 2, "unknown": 0}
    check(tokenizer, write(tmp_path, **fields, add_space_prefix=int(prefix)))


@pytest.mark.parametrize(("prefix", "cut", "mapped"), [(True, True, True), (False, False, True), (True, True, False)])
def test_vocabulary_of_unigram(prefix: bool, cut: bool, mapped: bool, tmp_path: Path) -> None:
    pieces = scored()
    steps = (precompiled(),) if mapped else ()
    tokenizer = of_pieces(steps, "always" if prefix else "never", cut, byte_fallback=True)
    tokens = [piece for piece, _ in pieces]
    types = [2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259)
    narrow = [struct.unpack("f", struct.pack("f", score))[0] for _, score in pieces]
    tokenizer.model = models.Unigram(list(zip(tokens, narrow, strict=True)), 0, True)
    fields = {
        "model": "t5",
        "tokens": [*tokens, "[PAD1]"],
        "types": [*types, 5],
        "scores": [*narrow, 0.0],
        "unknown": 0,
    }
    fields |= {"bos": 1, "eos": 2, "add_space_prefix": int(prefix), "remove_spaces": int(cut)}
    if mapped:
        fields["map"] = list(base64.b64decode(compatible()))
    check(tokenizer, write(tmp_path, **fields))


@pytest.mark.parametrize(("change", "named"), [
    ({"model": {"type": "Unigram", "vocab": [["a", 0.0], ["a", 0.0]]}}, "twice"),
    ({"model": {"type": "Unigram", "unk_id": 1, "vocab": [["a", 0.0]]}}, "unk_id"),
    ({"model": {"type": "Unigram", "vocab": [["a"]]}}, "vocab[0]"),
    ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": ""}}, "precompiled_charsmap"),
    ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "!!!!"}}, "precompiled_charsmap"),
    ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(b"\xff\xff\0\0abcd").decode()}},
     "precompiled_charsmap"),
])  # fmt: skip
def test_unigram_that_is_damaged(change: dict[str, Any], named: str, tmp_path: Path) -> None:
    state = json.loads(of_pieces().to_str()) | change
    (tmp_path / "tokenizer.json").write_text(json.dumps(state))
    done = subprocess.run([str(TOKENIZE), str(tmp_path)], input=b"", capture_output=True)
    assert done.returncode == REFUSED and named in done.stderr.decode(), done.stderr


@pytest.mark.parametrize("lower", [True, False])
def test_vocabulary_of_words(lower: bool, tmp_path: Path) -> None:
    vocabulary = words(lower)
    tokens = [
        piece if i < 5 else piece[2:] if piece.startswith("##") else MARK + piece
        for i, piece in enumerate(sorted(vocabulary, key=vocabulary.__getitem__))
    ]
    fields = {
        "model": "bert",
        "tokens": tokens,
        "types": [3] * 5 + [1] * (len(tokens) - 5),
        "bos": 2,
        "eos": 3,
        "unknown": 1,
    }
    check(of_words(lower), write(tmp_path, **fields))


# ---- Folders ----


def test_folder_of_lists(tmp_path: Path) -> None:
    vocabulary, merges = byte_level()
    vocabulary = {**vocabulary, "<s>": len(vocabulary), "<|end|>": len(vocabulary) + 1}
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    config = {
        "tokenizer_class": "GPT2Tokenizer",
        "add_bos_token": True,
        "bos_token": "<s>",
        "eos_token": {"content": "<|end|>"},
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = of_bytes(ByteLevel(add_prefix_space=False), bos=True)
    # There they have been given the next ids, in another order.
    state = json.loads(tokenizer.to_str())
    state["model"]["vocab"] = vocabulary
    for token in state["added_tokens"]:
        token["id"] = vocabulary[token["content"]]
    state["post_processor"]["processors"][1]["special_tokens"]["<s>"]["ids"] = [vocabulary["<s>"]]
    check(Tokenizer.from_str(json.dumps(state)), [str(tmp_path)])
    first = run([str(tmp_path)], [])[0]
    assert (first["bos"], first["eos"]) == (vocabulary["<s>"], vocabulary["<|end|>"])


@pytest.mark.parametrize("change, named", [
    ({"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}, "WordLevel"),
    ({"pre_tokenizer": {"type": "UnicodeScripts"}}, "UnicodeScripts"),
    ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "[a&&[b]]"}, "behavior": "Isolated", "invert": False}}, "&&"),
    ({"decoder": {"type": "CTC"}}, "CTC"),
])  # fmt: skip
def test_refusals_name_the_component(change: dict[str, Any], named: str, tmp_path: Path) -> None:
    state = json.loads(PIPELINES["gpt2"]().to_str()) | change
    (tmp_path / "tokenizer.json").write_text(json.dumps(state))
    done = subprocess.run([str(TOKENIZE), str(tmp_path)], input=b"", capture_output=True)
    assert done.returncode == REFUSED and named in done.stderr.decode(), done.stderr
