"""Chat templates: what the library renders against transformers' apply_chat_template, byte for byte, and where the loss is
against the generation marks of TRL's training templates."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import native
import pytest

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
trl = pytest.importorskip("trl")

RENDER = native.LIBRARY.parent / "tests" / "render_chat"
if not RENDER.is_file():
    pytest.skip(f"{RENDER} is missing (make)", allow_module_level=True)

OURS = Path(__file__).parents[3] / "tests" / "text" / "templates"
TRL = Path(trl.__file__).parent / "chat_templates"
# The program, and the row that renders it.
PROGRAMS = {
    OURS / "chatml.jinja": "chatml", OURS / "smollm2.jinja": "chatml", OURS / "qwen2.jinja": "chatml",
    TRL / "qwen2_5.jinja": "qwen2.5", TRL / "qwen3.jinja": "qwen3", TRL / "qwen3_instruct_2507.jinja": "qwen3-2507",
    OURS / "llama2.jinja": "llama2", TRL / "llama3.jinja": "llama3", TRL / "llama3_1.jinja": "llama3.1",
    TRL / "llama3_2.jinja": "llama3.1", TRL / "gemma.jinja": "gemma", TRL / "gemma3.jinja": "gemma3",
    TRL / "phi3.jinja": "phi3", TRL / "phi3_5.jinja": "phi3.5", OURS / "phi4.jinja": "phi4",
    OURS / "zephyr.jinja": "zephyr", OURS / "mistral-first.jinja": "mistral-first", OURS / "mistral-v1.jinja": "mistral-v1",
    OURS / "mistral-v3.jinja": "mistral-v3", OURS / "mistral-nemo.jinja": "mistral-nemo", OURS / "alpaca.jinja": "alpaca",
}  # fmt: skip
OTHERS = sorted(path for path in TRL.glob("*.jinja") if path not in PROGRAMS and "_training" not in path.stem)
BOS, EOS, DATE = "<bos>", "</s>", "26 Jul 2024"
PIECES = [
    "", " ", "\n", "\n\n", "\t", "\u00a0", "\u3000", "\x1c", "Hi", "how are you?", "it's \"fine\"", "\\n", "{{ x }}", "é", "日本",
    "🙂", "<think>", "</think>", "<tool_response>", "</tool_response>", "<|im_end|>", "[INST]", "\x7f", "\u0085", "\u200b",
]  # fmt: skip


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


def expected(tokenizer, messages: list[dict[str, str]], generate: bool, **more) -> str | None:
    """None where the template refuses."""
    try:
        return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=generate, **more)
    except Exception as error:
        assert "alternate" in str(error) or "roles are supported" in str(error) or "not supported" in str(error), error
        return None


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_rendering_is_that_of_transformers(path: Path):
    jinja, tokenizer = path.read_text(), make_tokenizer(path.read_text())
    jobs = [
        {"jinja": jinja, "messages": messages, "generate": generate, "bos": BOS, "eos": EOS, "date": date}
        for messages in conversations(7, 400) for generate in (False, True) for date in (DATE, "1 Jan 2030")
    ]  # fmt: skip
    same = 0
    for job, answer in zip(jobs, render(jobs), strict=True):
        text = expected(tokenizer, job["messages"], job["generate"], date_string=job["date"])
        if text is None:
            assert "error" in answer, job["messages"]
        elif "error" in answer:  # a role that the template drops, or lets pass where others must take turns
            assert "has no turn for" in answer["error"] or "take turns" in answer["error"], answer
            roles = [message["role"] for message in job["messages"]]
            assert "tool" in roles or "system" in roles[1:] or roles[-1] in ("system", "tool") or in_turns_fails(roles)
        else:
            assert answer["name"] == PROGRAMS[path]
            assert answer["text"] == text
            check_spans(answer, job["messages"])
            same += 1
    assert same > 400


def in_turns_fails(roles: list[str]) -> bool:
    turns = roles[1:] if roles[0] == "system" else roles
    return any(role != ("user", "assistant")[i % 2] for i, role in enumerate(turns))


def check_spans(answer: dict, messages: list[dict[str, str]]) -> None:
    text, spans = answer["text"].encode(), answer["spans"]
    answers = [message["content"] for message in messages if message["role"] == "assistant"]
    assert len(spans) == len(answers)
    end = 0
    for (begin, after), content in zip(spans, answers, strict=True):
        assert end <= begin <= after <= len(text)
        end = after
        assert content.split("</think>")[-1].strip().encode() in text[begin:after]


TRAINING = ["qwen2_5", "qwen3", "qwen3_instruct_2507", "llama3", "gemma", "gemma3", "phi3", "phi3_5"]


@pytest.mark.parametrize("name", TRAINING)
def test_loss_is_where_training_templates_have_it(name: str):
    """TRL's marks also take in the line feed behind the token that ends a turn, and Phi's end of the text."""
    jinja, training = (TRL / f"{name}.jinja").read_text(), (TRL / f"{name}_training.jinja").read_text()
    tokenizer, compared = make_tokenizer(training), 0
    jobs = [{"jinja": jinja, "messages": messages, "bos": BOS, "eos": EOS} for messages in conversations(3, 300)]
    for job, answer in zip(jobs, render(jobs), strict=True):
        if "error" in answer or expected(tokenizer, job["messages"], False) != answer["text"]:
            continue
        _, marks = transformers.utils.chat_template_utils.render_jinja_template(
            [job["messages"]], chat_template=training, return_assistant_tokens_mask=True, bos_token=BOS, eos_token=EOS
        )
        text = answer["text"]
        theirs = [text[begin:end] for begin, end in marks[0] if text[begin:end] != EOS]
        ours = [text.encode()[begin:end].decode() for begin, end in answer["spans"]]
        assert [mark.rstrip("\n").removeprefix("\n" if name == "qwen2_5" else "") for mark in theirs] == ours
        compared += len(ours)
    assert compared > 30


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.stem)
def test_other_templates_are_refused(path: Path):
    messages = [{"role": "user", "content": "Hi"}]
    (answer,) = render([{"jinja": path.read_text(), "messages": messages}])
    assert "--template NAME" in answer["error"]


@pytest.mark.parametrize("change", [("message['content']", "message['content'] | upper"), ("'\\n'", "'\\n\\n'"),
                                    ("<|im_end|>", "<|end|>")])  # fmt: skip
def test_changed_templates_are_refused(change: tuple[str, str]):
    jinja = (OURS / "chatml.jinja").read_text()
    (answer,) = render([{"jinja": jinja.replace(*change), "messages": [{"role": "user", "content": "Hi"}]}])
    assert "--template NAME" in answer["error"]


def test_cases_of_the_unit_test_are_those_of_transformers():
    for case in json.loads((OURS.parent / "chat_cases.json").read_text()):
        (path,) = (path for path in PROGRAMS if path.name == case["template"])
        assert (
            expected(make_tokenizer(path.read_text()), case["messages"], case["generate"], date_string=DATE)
            == case["text"]
        )
