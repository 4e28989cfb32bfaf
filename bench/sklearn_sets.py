#!/usr/bin/env python3
"""Trains on scikit-learn's own sets of data, as CSV and as npz, beside its MLPClassifier and MLPRegressor.

    sklearn_sets.py [--neap build/neap] [--seeds N]        (needs scikit-learn)

Both have the same widths, standardised columns (by the training part), batches, Adam, rate and number of epochs; a seed sets the
split, the first weights and the order. A score is accuracy, or R squared. A line says the mean over the seeds and its standard
error; the last column whether Neap's mean is at least scikit-learn's less one standard error of the difference."""

import argparse
import json
import statistics
import subprocess
import tempfile
import warnings
from pathlib import Path

import numpy
from sklearn import datasets
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

WIDTHS, RATE, BATCH = (64, 64), 0.001, 32
SETS = {  # name -> (loader, epochs)
    "digits": (datasets.load_digits, 60), "iris": (datasets.load_iris, 200), "wine": (datasets.load_wine, 200),
    "breast cancer": (datasets.load_breast_cancer, 100), "diabetes": (datasets.load_diabetes, 100),
}  # fmt: skip


def theirs(regression, epochs, seed, x, y, x_test, y_test):
    kind = MLPRegressor if regression else MLPClassifier
    net = kind(hidden_layer_sizes=WIDTHS, batch_size=BATCH, learning_rate_init=RATE, max_iter=epochs, n_iter_no_change=epochs, tol=0, random_state=seed)
    target = StandardScaler().fit(y.reshape(-1, 1)) if regression else None
    scaled = (lambda v: target.transform(v.reshape(-1, 1)).ravel()) if regression else (lambda v: v)
    return make_pipeline(StandardScaler(), net).fit(x, scaled(y)).score(x_test, scaled(y_test))


def write_csv(path, x, y):
    rows = [",".join([f"x{i}" for i in range(x.shape[1])] + ["label"])]
    rows += [",".join([*(repr(float(v)) for v in row), repr(label.item())]) for row, label in zip(x, y, strict=True)]
    path.write_text("\n".join(rows) + "\n")


def ours(neap, folder, form, regression, epochs, seed, x, y, x_test, y_test):
    if form == "csv":
        write_csv(folder / "train.csv", x, y)
        write_csv(folder / "test.csv", x_test, y_test)
        data = f"csv:{folder}/train.csv,label=label,test={folder}/test.csv"
    else:
        arrays = {"x_train": x, "y_train": y, "x_test": x_test, "y_test": y_test}
        numpy.savez(folder / "all.npz", **{k: v.astype("f4" if k[0] == "x" or regression else "i8") for k, v in arrays.items()})
        data = f"npz:{folder}/all.npz"
    command = [neap, "train", "--model", "mlp-" + "x".join(map(str, WIDTHS)), "--data", data + (",task=regression" if regression else "")]
    command += ["--batch", BATCH, "--epochs", epochs, "--optimizer", "adam", "--lr", RATE, "--schedule", "constant", "--weight-decay", 0, "--drop-last", "off"]
    done = subprocess.run([*map(str, command), "--seed", str(seed), "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    result = json.loads(done.stdout)
    return result["test_r2" if regression else "test_accuracy"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--neap", default="build/neap")
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # its trainer ends where it is told to, and calls that not converged
    for name, (load, epochs) in SETS.items():
        x, y = load(return_X_y=True)
        regression = y.dtype.kind == "f"
        scores = {"sklearn": [], "csv": [], "npz": []}
        for seed in range(args.seeds):
            x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.25, random_state=seed)
            scores["sklearn"].append(theirs(regression, epochs, seed, x_train, y_train, x_test, y_test))
            for form in ("csv", "npz"):
                with tempfile.TemporaryDirectory() as folder:
                    parts = (x_train, y_train, x_test, y_test)
                    scores[form].append(ours(args.neap, Path(folder), form, regression, epochs, seed, *parts))
        means = {k: statistics.mean(v) for k, v in scores.items()}
        errors = {k: statistics.stdev(v) / len(v) ** 0.5 for k, v in scores.items()}
        line = "  ".join(f"{k} {means[k]:.4f} +- {errors[k]:.4f}" for k in scores)
        reached = all(means[k] >= means["sklearn"] - (errors[k] ** 2 + errors["sklearn"] ** 2) ** 0.5 for k in ("csv", "npz"))
        print(f"{name:14} {line}  {'reached' if reached else 'NOT reached'}", flush=True)


if __name__ == "__main__":
    main()
