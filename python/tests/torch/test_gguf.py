"""GGUF as PyPI's gguf writes and reads it: numbers of every type, written tensors and pairs, to the bit. NEAP_TEST_GGUF names
a real file to try too."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

gguf = pytest.importorskip("gguf")
from gguf import GGMLQuantizationType as Type  # noqa: E402
from gguf import quants  # noqa: E402

BUILD = Path(os.environ.get("NEAP_LIBRARY", Path(__file__).parents[3] / "build" / "libneap.so")).parent
COPY = BUILD / "tests" / "copy_gguf"
if not COPY.exists():
    pytest.skip(f"{BUILD} has no copy_gguf (make checks)", allow_module_level=True)

BLOCKS = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"]
WRITTEN = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]


def copy(source: Path, numbers: Path, *others: str | Path) -> np.ndarray:
    subprocess.run([COPY, source, numbers, *others], check=True)
    return np.fromfile(numbers, np.float32)


def check_numbers(source: Path, numbers: Path) -> None:
    got, at = copy(source, numbers), 0
    for tensor in gguf.GGUFReader(source).tensors:
        if tensor.tensor_type.name not in BLOCKS + WRITTEN:
            continue
        with np.errstate(all="ignore"):
            wanted = quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(-1)
        np.testing.assert_array_equal(got[at : at + wanted.size], wanted, tensor.name)
        at += wanted.size
    assert at == got.size


def make(path: Path) -> None:
    random = np.random.default_rng(3)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(30)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_uint64("big", 2**64 - 1)
    writer.add_int8("small", -5)
    writer.add_float64("real", 0.1)
    writer.add_bool("truth", True)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["<s>", "", "the", "Ġa"])
    writer.add_token_scores([0.5, -1.0, 2.0, 1e30])
    writer.add_token_types([1, 3, 1, -1])
    writer.add_tensor("f32", random.standard_normal((3, 5, 256)).astype(np.float32))
    writer.add_tensor("f16", random.standard_normal((2, 64)).astype(np.float16))
    for name in BLOCKS:
        length, size = gguf.GGML_QUANT_SIZES[Type[name]]
        blocks = random.integers(0, 256, (6, 512 // length * size), dtype=np.uint8)
        writer.add_tensor(f"{name}.weight", blocks, raw_dtype=Type[name])
    writer.add_tensor("others", random.integers(0, 256, (2, 84), dtype=np.uint8), raw_dtype=Type.Q2_K)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    made = tmp_path_factory.mktemp("gguf") / "made.gguf"
    make(made)
    return [made, *map(Path, filter(None, [os.environ.get("NEAP_TEST_GGUF")]))]


def test_numbers(sources: list[Path], tmp_path: Path) -> None:
    for source in sources:
        check_numbers(source, tmp_path / "numbers")


@pytest.mark.parametrize("name", WRITTEN)
def test_written(sources: list[Path], tmp_path: Path, name: str) -> None:
    """Of finite numbers, which a first copy has."""
    for i, source in enumerate(sources):
        plain = tmp_path / f"{i}-plain.gguf"
        if i == 0:
            writer = gguf.GGUFWriter(plain, "llama")
            writer.add_tensor("w", (np.random.default_rng(4).standard_normal((7, 96))).astype(np.float32))
            writer.add_tensor("odd", np.arange(33, dtype=np.float32).reshape(3, 11))
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()
            source = plain
        written = tmp_path / f"{i}-{name}.gguf"
        copy(source, tmp_path / "numbers", written, name)
        was, copied = gguf.GGUFReader(source), gguf.GGUFReader(written)
        assert [t.name for t in was.tensors] == [t.name for t in copied.tensors]
        for a, b in zip(was.tensors, copied.tensors, strict=True):
            assert a.shape.tolist() == b.shape.tolist()
            fits = len(a.shape) > 1 and a.shape[0] % gguf.GGML_QUANT_SIZES[Type[name]][0] == 0
            kind = Type[name] if fits else Type.F32
            assert b.tensor_type == kind, a.name
            wanted = quants.quantize(quants.dequantize(a.data, a.tensor_type).astype(np.float32), kind)
            np.testing.assert_array_equal(wanted.view(np.uint8).reshape(-1), b.data.view(np.uint8).reshape(-1), a.name)


def test_pairs(sources: list[Path], tmp_path: Path) -> None:
    """Known tensors and all pairs are copied; numbers of F16 hold what is not finite."""
    for source in sources:
        written = tmp_path / "copy.gguf"
        copy(source, tmp_path / "numbers", written, "F32")
        was, copied = gguf.GGUFReader(source), gguf.GGUFReader(written)
        names = [key for key in was.fields if not key.startswith("GGUF.")]
        assert names == [key for key in copied.fields if not key.startswith("GGUF.")]
        for key in names:
            assert was.fields[key].types == copied.fields[key].types, key
            assert was.fields[key].contents() == copied.fields[key].contents(), key
        with np.errstate(all="ignore"):
            check_numbers(written, tmp_path / "again")


def test_damaged(sources: list[Path], tmp_path: Path) -> None:
    """A file that was cut short is refused by name, wherever it ends."""
    whole = sources[0].read_bytes()
    cut = tmp_path / "cut.gguf"
    for size in [*range(0, 600, 7), len(whole) - 1000]:
        cut.write_bytes(whole[:size])
        ran = subprocess.run([COPY, cut, tmp_path / "numbers"], capture_output=True, text=True)
        assert ran.returncode == 1 and str(cut) in ran.stderr, (size, ran.stderr)
