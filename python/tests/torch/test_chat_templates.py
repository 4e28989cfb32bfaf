"""Chat templates: what the library renders against transformers' apply_chat_template, byte for byte, and where the loss is
against the generation marks of TRL's training templates."""

from __future__ import annotations

import datetime
import json
import random
import subprocess
from pathlib import Path

import native
import pytest
from jinja_programs import make_program
from quick import QUICK

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
trl = pytest.importorskip("trl")
utilities = pytest.importorskip("transformers.utils.chat_template_utils")

RENDER = native.LIBRARY.parent / "tests" / "render_chat"
if not RENDER.is_file():
    pytest.skip(f"{RENDER} is missing (make checks)", allow_module_level=True)

OURS = Path(__file__).parents[3] / "tests" / "template" / "templates"  # the kinds of public models, written anew
TRL = Path(trl.__file__).parent / "chat_templates"
PROGRAMS = sorted(OURS.glob("*.jinja")) + sorted(TRL.glob("*.jinja"))
# The row that renders the same.
NAMES = {
    OURS / "chatml.jinja": "chatml", TRL / "qwen2_5.jinja": "qwen2.5", TRL / "qwen2_5_training.jinja": "qwen2.5",
    TRL / "qwen3.jinja": "qwen3", TRL / "qwen3_instruct_2507.jinja": "qwen3-2507",
    TRL / "qwen3_instruct_2507_training.jinja": "qwen3-2507", OURS / "llama2.jinja": "llama2", TRL / "llama3.jinja": "llama3",
    TRL / "llama3_training.jinja": "llama3", TRL / "llama3_1.jinja": "llama3.1", TRL / "llama3_2.jinja": "llama3.1",
    TRL / "gemma.jinja": "gemma", TRL / "gemma_training.jinja": "gemma", TRL / "gemma3.jinja": "gemma3",
    TRL / "gemma3_training.jinja": "gemma3", TRL / "phi3.jinja": "phi3", TRL / "phi3_training.jinja": "phi3",
    TRL / "phi3_5.jinja": "phi3.5", TRL / "phi3_5_training.jinja": "phi3.5", OURS / "phi4.jinja": "phi4",
    OURS / "zephyr.jinja": "zephyr", OURS / "mistral-first.jinja": "mistral-first", OURS / "mistral-v1.jinja": "mistral-v1",
    OURS / "mistral-v3.jinja": "mistral-v3", OURS / "mistral-nemo.jinja": "mistral-nemo", OURS / "alpaca.jinja": "alpaca",
}  # fmt: skip
# Their contents are lists of texts and pictures.
OF_PARTS = {"idefics3", "idefics3_training", "llava_next", "llava_next_training", "smolvlm", "smolvlm_training"}
BOS, EOS = "<bos>", "</s>"
PIECES = [
    "", " ", "\n", "\n\n", "\t", "\u00a0", "\u3000", "\x1c", "Hi", "how are you?", "it's \"fine\"", "\\n", "{{ x }}", "é", "日本",
    "🙂", "<think>", "</think>", "<tool_response>", "</tool_response>", "<|im_end|>", "[INST]", "\x7f", "\u0085", "\u200b",
]  # fmt: skip
UNSUPPORTED = 8  # neap_status


class Day(datetime.datetime):
    """The day that the library tells every template."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Day:
        return cls(2024, 7, 26)


@pytest.fixture(autouse=True)
def fixed_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(utilities, "datetime", Day)


def conversations(seed: int, count: int) -> list[list[dict[str, str]]]:
    """Conversations of all shapes: with a system or not, in turns or not, with content that templates trim or look for."""
    draw = random.Random(seed)
    result = []
    for _ in range(count):
        messages = []
        if draw.random() < 0.4:
            messages.append("system")
        in_turns = draw.random() < 0.7
        for i in range(draw.randint(0 if messages else 1, 5)):
            messages.append(
                ("user", "assistant")[i % 2] if in_turns else draw.choice(["system", "user", "assistant", "tool"])
            )
        result.append(
            [{"role": role, "content": "".join(draw.choices(PIECES, k=draw.randint(0, 5)))} for role in messages]
        )
    return result


def jobs_of(count: int, **template: str) -> list[dict]:
    return [
        {**template, "messages": messages, "generate": generate, "bos": BOS, "eos": EOS}
        for messages in conversations(7, count) for generate in (False, True)
    ]  # fmt: skip


def render(jobs: list[dict]) -> list[dict]:
    text = "\n".join(json.dumps(job) for job in jobs)
    output = subprocess.run([RENDER], input=text, capture_output=True, text=True, check=True).stdout
    answers = [json.loads(line) for line in output.split("\n") if line]
    assert len(answers) == len(jobs)
    return answers


def make_tokenizer(jinja: str):
    words = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=words, bos_token=BOS, eos_token=EOS)
    fast.chat_template = jinja
    return fast


def expected(tokenizer, messages: list[dict[str, str]], generate: bool) -> str | None:
    """None where the template fails."""
    try:
        return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=generate)
    except Exception:
        return None


def check(jinja: str, jobs: list[dict], name: str | None) -> int:
    """How many texts are the same; all others are refused, and where transformers fails, all are."""
    tokenizer, same = make_tokenizer(jinja), 0
    for job, answer in zip(jobs, render(jobs), strict=True):
        text = expected(tokenizer, job["messages"], job["generate"])
        if "error" in answer:
            dropped = answer["status"] == UNSUPPORTED and "leaves out what" in answer["error"]
            dropped = (
                dropped or "choose a chat template" in answer["error"]
            )  # the usual conversations cannot be rendered
            assert text is None or dropped, answer
            continue
        assert answer["text"] == text
        assert answer["name"] == name
        check_spans(answer, job["messages"])
        same += 1
    return same


def check_spans(answer: dict, messages: list[dict[str, str]]) -> None:
    """Spans are in order; of a row, there is one for each answer, which lies in it."""
    text, spans, end = answer["text"].encode(), answer["spans"], 0
    for begin, after in spans:
        assert end <= begin <= after <= len(text)
        end = after
    if answer["name"] is None:
        return
    answers = [message["content"] for message in messages if message["role"] == "assistant"]
    assert len(spans) == len(answers)
    for (begin, after), content in zip(spans, answers, strict=False):
        assert content.split("</think>")[-1].strip().encode() in text[begin:after]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_rendering_is_that_of_transformers(path: Path) -> None:
    count = 400 if path in NAMES else 60
    same = check(path.read_text(), jobs_of(count, jinja=path.read_text()), NAMES.get(path))
    assert same == 0 if path.stem in OF_PARTS else same >= 0.75 * count, same


def test_forty_templates_are_written_anew() -> None:
    assert len(list(OURS.glob("*.jinja"))) >= 40


@pytest.mark.parametrize("path", NAMES, ids=lambda path: path.stem)
def test_rows_render_what_the_models_programs_do(path: Path) -> None:
    assert check(path.read_text(), jobs_of(100, name=NAMES[path]), NAMES[path]) > 80


CHATML = (OURS / "chatml.jinja").read_text()
TURN = "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
FOR, END, PROMPT = "{% for message in messages %}", "{% endfor %}", "{{ '<|im_start|>assistant\\n' }}"
CHANGES = {
    "a token behind each turn": (TURN, TURN + "{{ eos_token }}"),
    "a text behind each turn": (TURN, TURN + "--"),
    "a default system": (TURN, "{% if loop.first and message.role != 'system' %}{{ '<|im_start|>system\\nHi<|im_end|>\\n' }}"
                         "{% endif %}" + TURN),
    "a dead branch": (TURN, "{% if false %}{{ raise_exception('never') }}{% else %}" + TURN + "{% endif %}"),
    "a dead copy": (FOR, "{% if false %}" + FOR + TURN + END + PROMPT + "{% endif %}" + FOR),
    "a beginning": (FOR, "{{ bos_token }}" + FOR),
    "an end": (END, END + "{{ eos_token }}"),
    "upper case": ("message['content']", "message['content'] | upper"),
    "trimmed": ("message['content']", "message['content'] | trim"),
    "stripped on one side": ("message['content']", "message['content'].lstrip()"),
    "two line feeds": ("'\\n'}}", "'\\n\\n'}}"),
    "another end": ("<|im_end|>", "<|end|>"),
    "another prompt": (PROMPT, "{{ '<|im_start|>assistant\\n<think>\\n' }}"),
    "a prompt always": ("{% if add_generation_prompt %}", "{% if true %}"),
    "no prompt": ("{% if add_generation_prompt %}", "{% if false %}"),
    "the last turn is open": ("'<|im_end|>' + '\\n'", "('' if loop.last else '<|im_end|>\\n')"),
    "a role renamed": ("message['role']", "('human' if message['role'] == 'user' else message['role'])"),
    "a role left out": (TURN, "{% if message.role != 'tool' %}" + TURN + "{% endif %}"),
    "an empty content left out": (TURN, "{% if message.content %}" + TURN + "{% endif %}"),
    "systems first": (FOR, "{% for message in messages | sort(attribute='role', reverse=true) %}"),
    "the first message only": ("in messages", "in messages[:1]"),
    "backwards": ("in messages", "in messages[::-1]"),
    "a number": (TURN, "{{ loop.index }}" + TURN),
    "blanks": (TURN, " " + TURN + " "),
    "white space control": (FOR, "{%- for message in messages -%}\n  "),
    "another spelling": (TURN, "<|im_start|>{{ message.role ~ '\\n' }}{{ message.content }}<|im_end|>{{ '\\n' }}"),
}  # fmt: skip
STILL_CHATML = {"a dead branch", "a dead copy", "white space control", "another spelling"}


@pytest.mark.parametrize("change", CHANGES)
def test_an_altered_chatml_is_what_it_renders(change: str) -> None:
    jinja = CHATML.replace(*CHANGES[change])
    assert jinja != CHATML
    same = check(jinja, jobs_of(60, jinja=jinja), "chatml" if change in STILL_CHATML else None)
    assert same == 0 if change == "the first message only" else same > 60


def merged(spans: list[list[int]]) -> list[list[int]]:
    """The same characters in the fewest spans."""
    result: list[list[int]] = []
    for begin, end in spans:
        if result and result[-1][1] == begin:
            result[-1][1] = end
        elif begin < end:
            result.append([begin, end])
    return result


def marks_of(training: str, messages: list[dict[str, str]]) -> tuple[str, list[str]] | None:
    """The text of a training template, and what it marks of it; None where it fails."""
    try:
        text, marks = utilities.render_jinja_template(
            [messages], chat_template=training, return_assistant_tokens_mask=True, bos_token=BOS, eos_token=EOS
        )
    except Exception:
        return None
    return text[0], [text[0][begin:end] for begin, end in merged([list(mark) for mark in marks[0]])]


@pytest.mark.parametrize("path", sorted(TRL.glob("*_training.jinja")), ids=lambda path: path.stem)
def test_loss_is_where_generation_marks_are(path: Path) -> None:
    jinja, compared = path.read_text(), 0
    jobs = [{"jinja": jinja, "messages": messages, "bos": BOS, "eos": EOS} for messages in conversations(3, 80)]
    for job, answer in zip(jobs, render(jobs), strict=True):
        theirs = marks_of(jinja, job["messages"])
        if "error" in answer or theirs is None:
            continue
        text = answer["text"].encode()
        assert theirs == (answer["text"], [text[begin:end].decode() for begin, end in merged(answer["spans"])])
        compared += len(theirs[1])
    assert compared > 30 or path.stem in OF_PARTS


# Those whose marks begin behind the prompt for an answer, as ours.
TRAINING = ["cohere", "cohere2", "diffusion_gemma", "gemma", "gemma3", "lfm2", "lfm2_v2", "llama3", "phi3", "phi3_5", "qwen2_5",
            "qwen2_5_vl", "qwen3", "qwen3_instruct_2507", "qwen3_vl"]  # fmt: skip


@pytest.mark.parametrize("name", TRAINING)
def test_loss_is_where_training_templates_have_it(name: str) -> None:
    """TRL's marks also take in the line feed behind the token that ends a turn, and Phi's end of the text."""
    jinja, training = (TRL / f"{name}.jinja").read_text(), (TRL / f"{name}_training.jinja").read_text()
    compared = 0
    jobs = [{"jinja": jinja, "messages": messages, "bos": BOS, "eos": EOS} for messages in conversations(3, 300)]
    for job, answer in zip(jobs, render(jobs), strict=True):
        theirs = marks_of(training, job["messages"])
        if "error" in answer or theirs is None or theirs[0] != answer["text"]:
            continue
        text = answer["text"].encode()
        ours = [text[begin:end].decode() for begin, end in merged(answer["spans"])]
        prompt, end = ("\n" if name == "qwen2_5" else ""), (EOS if name.startswith("phi3") else "")
        assert [mark.removesuffix(end).rstrip("\n").removeprefix(prompt) for mark in theirs[1]] == ours
        compared += len(ours)
    assert compared > 30


def test_cases_of_the_unit_test_are_those_of_transformers() -> None:
    for case in json.loads((OURS.parent / "chat_cases.json").read_text()):
        (path,) = (path for path in PROGRAMS if path.name == case["template"])
        assert expected(make_tokenizer(path.read_text()), case["messages"], case["generate"]) == case["text"]


CONVERSATION = [
    {"role": "system", "content": " Be brief.\n"},
    {"role": "user", "content": 'How are "you"? é日本'},
    {"role": "assistant", "content": "Fine.\n\nThanks "},
]


def run_program(program: str) -> str | None:
    """What transformers makes of a program; None where it fails."""
    try:
        return utilities.render_jinja_template(
            [CONVERSATION], chat_template=program, bos_token="<s>", eos_token="</s>"
        )[0][0]
    except Exception:
        return None


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_random_programs_are_those_of_transformers() -> None:
    """The same text, or refused; what Jinja refuses is refused, and what is refused otherwise is said to be unsupported."""
    programs, same = [make_program(seed) for seed in range(500 if QUICK else 5000)], 0
    for program, answer in zip(
        programs, render([{"program": program, "messages": CONVERSATION} for program in programs]), strict=True
    ):
        text = run_program(program)
        assert answer.get("text") == text or answer.get("status") == UNSUPPORTED, (program, text, answer)
        same += text is not None and "text" in answer
    assert same > 0.3 * len(programs)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_programs_of_the_unit_test_are_those_of_transformers() -> None:
    cases = json.loads((OURS.parent / "jinja_cases.json").read_text())
    for case in cases:
        assert "unsupported" in case or run_program(case["program"]) == case.get("text"), case
    assert sum("text" in case for case in cases) > 140
