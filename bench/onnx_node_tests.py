#!/usr/bin/env python3
"""Runs ONNX's node tests as files and prints what becomes of them by family of operators, as a table in Markdown.

    onnx_node_tests.py FOLDER [--build build] [--list]      (needs onnx and numpy)

FOLDER has TEST/model.onnx and TEST/test_data_set_0/*.pb, as /usr/share/libonnx-testdata/data/node of Debian's
libonnx-testdata. A test is passed, refused by name (exit status 3 and a message that names the file), wrong, or not run: its
values are no arrays of numbers, or were drawn at random. The second table counts the reasons. --list prints a line a test. The exit status is 1 where one
is wrong."""

import argparse
import collections
import re
import sys
import tempfile
from pathlib import Path

import numpy
import onnx

sys.path.insert(0, str(Path(__file__).parent.parent / "python/tests/torch"))
import onnx_nodes

FAMILIES = {  # name -> operators; those of no family are under "others"
    "arithmetic": "Abs Add BitShift Ceil CumSum Div Erf Exp Floor Log Max Mean Min Mod Mul Neg Pow Reciprocal Round Sign Sqrt Sub Sum",
    "trigonometry": "Acos Acosh Asin Asinh Atan Atanh Cos Cosh Sin Sinh Tan",
    "activations": "Celu Clip Elu HardSigmoid HardSwish Hardmax LeakyRelu LogSoftmax PRelu Relu Selu Shrink Sigmoid Softmax Softplus Softsign Tanh ThresholdedRelu",
    "comparison, logic": "And Equal Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Not Or Where Xor",
    "convolution, matrix products": "Conv ConvTranspose Einsum Gemm MatMul Det",
    "pooling": "AveragePool GlobalAveragePool GlobalMaxPool MaxPool MaxUnpool",
    "norms, dropout": "BatchNormalization Dropout InstanceNormalization LRN LayerNormalization MeanVarianceNormalization",
    "reductions": "ArgMax ArgMin ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare",
    "shape, layout": "Cast CastLike Concat DepthToSpace Expand Flatten Identity Pad Reshape Shape Size Slice SpaceToDepth Split Squeeze Tile Transpose Trilu Unsqueeze",
    "constants, random numbers": "Bernoulli BlackmanWindow Constant ConstantOfShape EyeLike HammingWindow HannWindow MelWeightMatrix Range",
    "indices": "Compress Gather GatherElements GatherND NonMaxSuppression NonZero OneHot ReverseSequence Scatter ScatterElements ScatterND TopK Unique",
    "resizing, sampling": "GridSample Resize RoiAlign Upsample",
    "losses, optimizers": "Adagrad Adam Momentum NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
    "recurrent": "GRU LSTM RNN",
    "integers, quantised": "ConvInteger DequantizeLinear DynamicQuantizeLinear MatMulInteger QLinearConv QLinearMatMul QuantizeLinear",
    "sequences, control, signals, words": "DFT If Loop OptionalGetElement OptionalHasElement STFT Scan SequenceInsert SequenceMap StringNormalizer TfIdfVectorizer",
}  # fmt: skip
COLUMNS = ("passed", "refused", "wrong", "not run")


def value(path: Path) -> object:
    """An array, or what else lies in the file: None."""
    tensor = onnx.TensorProto()
    try:
        tensor.ParseFromString(path.read_bytes())
        return onnx.numpy_helper.to_array(tensor)
    except Exception:  # a sequence, an optional
        return None


def operator(folder: Path, models: dict[str, onnx.ModelProto]) -> str:
    """The operator that the test is of; of a function's expansion: the one that is expanded."""
    nodes = models[re.sub(r"_expanded.*", "", folder.name)].graph.node
    return next((node.op_type for node in nodes if node.op_type != "Constant"), "Constant")


def reason(why: str) -> str:
    """A message without the names and numbers in it."""
    why = re.sub(r"^.*?m\.onnx: (node '.*?' \(.*?\): )?", "", why)
    return re.sub(r" \(got.*?\)|; .*", "", re.sub(r"'[^']*'|-?[0-9]+", "#", why)).strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    family = {name: key for key, names in FAMILIES.items() for name in names.split()}
    counts = collections.defaultdict(collections.Counter)
    names, reasons = collections.defaultdict(lambda: collections.defaultdict(set)), collections.Counter()
    models = {path.parent.name: onnx.load(path) for path in sorted(args.folder.glob("*/model.onnx"))}
    with tempfile.TemporaryDirectory() as scratch:
        for name, model in models.items():
            folder = args.folder / name / "test_data_set_0"
            feeds = [value(folder / f"input_{i}.pb") for i in range(len(list(folder.glob("input_*.pb"))))]
            wanted = [value(folder / f"output_{i}.pb") for i in range(len(list(folder.glob("output_*.pb"))))]
            what, why = onnx_nodes.outcome(args.build / "tests/run_onnx", model, feeds, wanted, Path(scratch) / "case")
            if what == onnx_nodes.OTHER_KIND:
                why = "words" if any(isinstance(x, numpy.ndarray) for x in feeds + wanted) else "sequences, optional values"
            elif what == onnx_nodes.RANDOM:
                why = "numbers that NumPy's generator drew"
            what = what if what in COLUMNS else "not run"
            op = operator(args.folder / name, models)
            counts[family.get(op, "others")][what] += 1
            names[family.get(op, "others")][op].add(what)
            reasons[what, reason(why)] += 1
            if args.list:
                print(f"{name}: {what}{': ' + why.strip() if why else ''}", flush=True)
    print(f"| family | {' | '.join(COLUMNS)} | operators of which some pass | the others |\n|---|{'---|' * (len(COLUMNS) + 2)}")
    for key, row in counts.items():
        some = sorted(op for op, whats in names[key].items() if "passed" in whats)
        rest = sorted(op for op, whats in names[key].items() if "passed" not in whats)
        print(f"| {key} | {' | '.join(str(row[c]) for c in COLUMNS)} | {', '.join(some)} | {', '.join(rest)} |")
    total = sum(counts.values(), collections.Counter())
    print(f"| all {total.total()} | {' | '.join(str(total[c]) for c in COLUMNS)} | | |\n\n| | why | tests |\n|---|---|---|")
    for (what, why), count in reasons.most_common():
        if what != "passed":
            print(f"| {what} | {why} | {count} |")
    return total["wrong"] > 0


if __name__ == "__main__":
    sys.exit(main())
