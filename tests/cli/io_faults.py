"""Fails each call of the system that the command makes on its files, one at a time, and tries what holds then.

    io_faults.py NEAP LIBRARY [--quick] [--case NAME] [--only "NUMBER HOW"]

LIBRARY is tests/fail_io.c, preloaded. A run without faults tells which calls there are. A command in which one fails either
succeeds, with exactly the files of that run, or ends with a documented status and a message that names the file and the problem.
It leaves no temporary file; what it was to write is as it was before, or whole. A run that failed or was killed goes on, from its
last checkpoint, to the bits of the run without faults; so it does where what was not synced is lost, too."""

import argparse, gzip, json, os, re, shutil, struct, subprocess, sys, tempfile, zlib
from collections import Counter
from pathlib import Path

# What may happen to a call of each kind. `power`: killed, and what was not synced is lost.
FAULTS = {
    "open": ("EMFILE", "EACCES", "ENOSPC", "EIO", "before"),
    "read": ("EIO", "EINTR", "short"),
    "write": ("EIO", "ENOSPC", "EINTR", "short", "before", "half"),
    "sync": ("EIO", "EINTR", "before", "power"),
    "cut": ("EIO", "ENOSPC", "EINTR", "before"),
    "reserve": ("ENOSPC", "EINTR", "before"),
    "close": ("EIO",),
    "map": ("ENOMEM",),
    "list": ("EIO",),
    "look": ("EACCES", "EIO"),
    "rename": ("EIO", "ENOSPC", "before", "after", "power"),
    "link": ("EIO", "EXDEV", "before", "after"),
    "remove": ("EIO", "before", "after", "power"),
    "make": ("ENOSPC", "before"),
}
KILLS = ("before", "after", "half", "power")
WORDS = {name: os.strerror(number) for number, name in __import__("errno").errorcode.items()}
DOCUMENTED = (1, 2, 3, 4, 5)
READING, MOST_READS = ("read", "look", "open", "close", "list"), 4
TRAINED = ("run",)  # folders of runs: compared by resuming


class Case:
    """A command, the commands that prepare its folder, what a run goes on with, and how often a quick pass tries it."""

    def __init__(self, name, command, before=(), resume=None, quick=12, make=None, printed=False, reader=False):
        self.name, self.command, self.before, self.resume, self.quick, self.make = name, command, before, resume, quick, make
        self.printed = printed  # standard output is one of the files
        self.reader = reader  # only calls on files that it reads fail


SMALL = "train --model mlp-8 --data synthetic:side=8,images=32 --image 3x8x8 --batch 8 --threads 1 --schedule constant --planner evict"
SAVED = "--checkpoint-every 2 --out run --keep-best --keep-checkpoints 1 --keep-epochs 1 --metrics m.jsonl --tensorboard tb --bits portable --digest-every 1"
TEXT = "--data text:book.txt,tokens=bytes --length 16 --batch 2 --threads 1 --planner evict --evaluate off"
GPT = f"train --model gpt-1x16x2 {TEXT}"
TUNE = f"finetune llama.gguf --lora 2 {TEXT.replace('text:', 'text:')} --optimizer adamw"


def sources(folder):
    """Writes files of each source of data."""
    subprocess.run([sys.executable, str(HERE / "stand_ins.py")], cwd=folder, check=True)
    for name in ("cats", "dogs", "horses"):
        for file in sorted((folder / "photos" / name).iterdir())[8:]:
            file.unlink()
    (folder / "ids.bin").write_bytes(bytes(i * 7 % 50 if i % 2 == 0 else 0 for i in range(800)))
    (folder / "cifar").mkdir()
    for name in ("data_batch_1.bin", "test_batch.bin"):
        (folder / "cifar" / name).write_bytes(b"".join(bytes([i]) + bytes(i * k % 251 for k in range(3072)) for i in range(10)))
    (folder / "mnist").mkdir()
    for part in ("train", "t10k"):
        images = struct.pack(">IIII", 0x803, 20, 8, 8) + bytes(i * 7 % 256 for i in range(20 * 64))
        (folder / "mnist" / f"{part}-images-idx3-ubyte").write_bytes(images)
        (folder / "mnist" / f"{part}-labels-idx1-ubyte").write_bytes(
            struct.pack(">II", 0x801, 20) + bytes(i % 10 for i in range(20))
        )

    def npy(shape, kind, data):
        head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
        head += " " * (-(len(head) + 11) % 64) + "\n"
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data

    import zipfile

    values = struct.pack("<240f", *(i % 11 / 7 for i in range(240)))
    (folder / "x.npy").write_bytes(npy((40, 6), "<f4", values))
    (folder / "y.npy").write_bytes(npy((40,), "|u1", bytes(i % 3 for i in range(40))))
    for method, name in ((zipfile.ZIP_STORED, "stored.npz"), (zipfile.ZIP_DEFLATED, "packed.npz")):
        with zipfile.ZipFile(folder / name, "w", method) as file:
            for part in ("train", "test"):
                file.writestr(f"x_{part}.npy", (folder / "x.npy").read_bytes())
                file.writestr(f"y_{part}.npy", (folder / "y.npy").read_bytes())
    (folder / "packed").mkdir()
    for file in (folder / "mnist").iterdir():
        (folder / "packed" / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes(), mtime=0))
    (folder / "requests.csv").write_text("tokens,requests\n" + "".join(f"{8 * i},{100 - i}\n" for i in range(1, 60)))
    (folder / "run.yaml").write_text(
        "".join(
            f"{name}: {value}\n"
            for name, value in (
                ("model", "mlp-8"),
                ("data", "synthetic:side=8,images=32"),
                ("image", "3x8x8"),
                ("batch", 8),
                ("threads", 1),
                ("planner", "evict"),
                ("steps", 1),
                ("out", "run"),
            )
        )
    )
    chosen = {"prompt": "Hi", "chosen": " Hello", "rejected": " No"}
    (folder / "prefer.jsonl").write_text((json.dumps(chosen) + "\n") * 40)


def llama(folder):
    sources(folder)
    subprocess.run(
        [sys.executable, str(HERE / "small_llama.py"), "llama.gguf"], cwd=folder, check=True, stdout=subprocess.DEVNULL
    )


PARALLEL = (
    "train --model dynamicconv-16 --data parallel:pairs:de-en,tokens=300 --batch 100 --threads 1 --planner evict --evaluate off"
    " --steps 1"
)
NPZ = "train --model mlp-8 --batch 8 --threads 1 --schedule constant --planner evict --steps 2 --evaluate on --out run"
CASES = [
    Case(
        "train",
        f"{SMALL} --steps 4 {SAVED} --save-plan plan.json",
        resume="train --resume run --steps 4 --metrics m.jsonl",
        quick=40,
    ),
    Case("force", f"{SMALL} --steps 4 {SAVED} --force", before=[f"{SMALL} --seed 9 --steps 2 {SAVED}"], quick=20),
    Case(
        "resume",
        "train --resume run --steps 4 --metrics m.jsonl --tensorboard tb",
        before=[f"{SMALL} --steps 2 {SAVED}"],
        resume="train --resume run --steps 4 --metrics m.jsonl",
        quick=24,
    ),
    Case("text", f"{GPT} --steps 2 --checkpoint-every 1 --out run", make=sources, resume="train --resume run --steps 2"),
    Case(
        "finetune",
        f"{TUNE} --base-on-disk always --disk . --disk-for states --steps 2 --checkpoint-every 1 --out run --planner evict",
        make=llama,
        resume="train --resume run --steps 2",
    ),
    Case("export-onnx", "export run -o net.onnx", before=[f"{SMALL} --steps 1 --out run"]),
    Case("export-folder", "export run --merge -o merged", make=llama, before=[f"{TUNE} --steps 1 --out run"]),
    Case("export-gguf", "export run --merge -o merged.gguf", make=llama, before=[f"{TUNE} --steps 1 --out run"]),
    Case("export-peft", "export run -o peft", make=llama, before=[f"{TUNE} --steps 1 --out run"]),
    Case("predict", "predict run -o out.csv", before=[f"{SMALL} --steps 1 --out run"]),
    Case("predict-npy", "predict run -o out.npy --train", before=[f"{SMALL} --steps 1 --out run"], quick=4),
    Case(
        "train-onnx",
        f"{SMALL.replace('mlp-8', 'net.onnx')} --steps 1 --out run",
        before=[f"{SMALL} --steps 1 --out first", "export first -o net.onnx"],
        quick=4,
        reader=True,
    ),
    Case(
        "translate", "translate run --input lines.de --output lines.en", before=[f"{PARALLEL} --out run"], make=sources, quick=4
    ),
    Case(
        "predict-replaced",
        "predict run -o out.jsonl",
        before=[f"{SMALL} --steps 1 --out run", "predict run -o out.jsonl --train"],
    ),
    Case("evaluate", "evaluate run --json", before=[f"{SMALL} --steps 1 --out run"], quick=4),
    Case("generate-gguf", "generate llama.gguf --prompt a --tokens 2 --temperature 0 --threads 1", make=llama, quick=4),
    Case(
        "generate-folder",
        "generate merged --prompt a --tokens 2 --temperature 0 --threads 1",
        make=llama,
        before=["export llama.gguf --merge -o merged"],
        quick=4,
    ),
    Case("init", f"{SMALL} --steps 1 --init first --out run", before=[f"{SMALL} --steps 1 --out first"], quick=4, reader=True),
    Case(
        "init-shards",
        f"{SMALL} --steps 1 --init w.index.json --out run",
        before=[f"{SMALL} --steps 1 --out first"],
        quick=4,
        reader=True,
        make=lambda folder: None,
    ),
    Case("plan", "plan --model mlp-8 --batch 8 -o plan.json --planner evict"),
    Case(
        "plan-graph",
        "plan g.json -o plan.json --budget min --planner evict",
        before=["graph --model mlp-8 --batch 8 -o g.json"],
        quick=4,
    ),
    Case(
        "check",
        "check g.json plan.json",
        before=["graph --model mlp-8 --batch 8 -o g.json", "plan g.json -o plan.json --planner evict"],
        quick=4,
    ),
    Case("show", "show --model mlp-8 --batch 8 -o step.svg", quick=4),
    Case("layout", "layout buffers.csv -o offsets.csv", make=sources, quick=4),
    Case("cache", "cache requests.csv --states 1", make=sources, quick=4),
    Case("config", "train --config run.yaml", make=sources, quick=4, reader=True),
    Case("printed", "completion bash", quick=8, printed=True),
    Case("printed-json", "evaluate run --json", before=[f"{SMALL} --steps 1 --out run"], quick=4, printed=True),
    Case("data-csv", "data csv:wines.csv,label=cultivar --json", make=sources, quick=4),
    Case("data-npz", "data npz:packed.npz --json", make=sources, quick=4),
    Case("data-images", "data images:photos,size=8 -o sheet.png", make=sources, quick=6),
    Case("data-text", "data text:book.txt,tokens=300 --json", make=sources, quick=4),
    Case("train-csv", f"{NPZ} --data csv:wines.csv,label=cultivar", make=sources, quick=4, reader=True),
    Case("train-stored", f"{NPZ} --data npz:stored.npz", make=sources, quick=4, reader=True),
    Case("train-packed", f"{NPZ} --data npz:packed.npz", make=sources, quick=4, reader=True),
    Case("train-npy", f"{NPZ} --data npy:x.npy,y.npy", make=sources, quick=4, reader=True),
    Case("train-images", f"{NPZ} --data images:photos,size=8", make=sources, quick=6, reader=True),
    Case("train-cifar", f"{NPZ} --data cifar10:cifar", make=sources, quick=4, reader=True),
    Case("train-mnist", f"{NPZ} --data mnist:mnist", make=sources, quick=4, reader=True),
    Case("train-mnist-gz", f"{NPZ} --data mnist:packed", make=sources, quick=4, reader=True),
    Case(
        "train-tokens",
        f"{GPT.replace('text:book.txt,tokens=bytes', 'tokens:ids.bin')} --classes 256 --steps 2 --out run",
        make=sources,
        quick=4,
        reader=True,
    ),
    Case(
        "train-chat",
        f"{GPT.replace('text:book.txt', 'chat:chat.jsonl').replace('--length 16', '--length 64')} --steps 2 --out run",
        make=sources,
        quick=4,
        reader=True,
    ),
    Case(
        "train-prefer",
        f"{GPT.replace('text:book.txt', 'preference:prefer.jsonl').replace('--length 16', '--length 64')} --steps 1 --out run",
        make=sources,
        quick=4,
        reader=True,
    ),
    Case("train-parallel", f"{PARALLEL} --out run", make=sources, quick=4, reader=True),
]


def environment(folder, **more):
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "passive",
        "XDG_CACHE_HOME": str(folder / "cache"),
        "TMPDIR": str(folder / "tmp"),
        **more,
    }


def run(command, folder, printed=False, **more):
    """Returns the status, the output and the messages; the output goes to a file if it is `printed`."""
    with open(folder / "printed", "wb") if printed else tempfile.TemporaryFile() as out:
        done = subprocess.run(
            [NEAP, *command.split()],
            cwd=folder,
            env=environment(folder, **more),
            stdout=out,
            stderr=subprocess.PIPE,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )
        out.seek(0)
        output = "" if printed else out.read().decode(errors="replace")
    return done.returncode, output, done.stderr.decode(errors="replace")


TIMES = re.compile(
    rb'"(?:[a-z_]*seconds[a-z_]*|tokens_per_second|process_peak_bytes|pid)": ?[-0-9.e+]+|"(?:state|command)_sha256": ?"[0-9a-f]*"'
)


def whole_events(data):
    """Returns the records of an event file, without times; None: it does not end behind one."""
    records = []
    while data:
        if len(data) < 12:
            return None
        length = struct.unpack("<Q", data[:8])[0]
        if len(data) < 16 + length:
            return None
        records.append(length)
        data = data[16 + length :]
    return repr(len(records)).encode()


def content(path):
    data = path.read_bytes()
    if "tfevents" in path.name:
        return whole_events(data)
    return TIMES.sub(b"", data) if path.suffix in (".json", ".jsonl") or path.name == "printed" else data


def tree(folder):
    """Returns what each file of a folder says, by a name without times and process ids."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = re.sub(r"tfevents\..*", "tfevents", str(path.relative_to(folder)))
        if path.is_file() and not name.startswith("cache/"):
            found[name] = content(path)
    return found


def is_whole(path):
    """Whether a file of a run that has its final name is whole by itself."""
    data = path.read_bytes()
    if path.suffix == ".safetensors":
        length = struct.unpack("<Q", data[:8])[0] if len(data) > 8 else -1
        try:
            header = json.loads(data[8 : 8 + length])
        except ValueError:
            return False
        return len(data) == 8 + length + max(v["data_offsets"][1] for k, v in header.items() if k != "__metadata__")
    if path.suffix == ".json":
        try:
            json.loads(data)
        except ValueError:
            return False
    return True


def calls_of(log, folder):
    """Returns (kind, failed, bytes, paths) of each call, by its paths within the folder."""
    rows = []
    for line in log.read_text(errors="replace").splitlines():
        kind, failed, result, size, *paths = line.split("\t")
        rows.append((kind, failed == "1", int(size), [os.path.relpath(p, folder) for p in paths], int(result)))
    return rows


def lose_power(calls, folder):
    """Cuts each file to what was synced of it."""
    synced, written = {}, {}
    for kind, _, size, paths, result in calls:
        if kind == "write":
            written[paths[0]] = True
        elif kind == "sync" and result == 0:
            synced[paths[0]], written[paths[0]] = size, False
        elif kind == "rename" and result == 0:
            for table in (synced, written):
                if paths[0] in table:
                    table[paths[1]] = table.pop(paths[0])
        elif kind == "link" and result == 0:
            for table in (synced, written):
                if paths[0] in table:
                    table[paths[1]] = table[paths[0]]
    for path, dirty in written.items():
        if dirty and (folder / path).is_file() and (folder / path).stat().st_size > synced.get(path, 0):
            os.truncate(folder / path, synced.get(path, 0))


class Bench:
    """A case's folders: `begin` has what is there before the command, `work` is where it runs."""

    def __init__(self, case, folder):
        self.case, self.begin, self.work, self.log = case, folder / "begin", folder / "work", folder / "log"
        (self.begin / "tmp").mkdir(parents=True)
        if case.make is not None:
            case.make(self.begin)
        for i, command in enumerate(case.before):
            status, _, error = run(command, self.begin)
            assert status == 0, f"{case.name}: {command}: {error}"
            if case.name == "init-shards" and i == 0:
                split_weights(self.begin)
        self.refresh()
        status, self.output, error = run(
            case.command, self.work, case.printed, LD_PRELOAD=LIBRARY, FAIL_IO_FILES=str(self.work), FAIL_IO_LOG=str(self.log)
        )
        if status == 77 and "fail_io" in error:
            print(error)
            sys.exit(77)
        assert status == 0, f"{case.name}: {case.command}: {status}: {error}"
        self.calls = calls_of(self.log, self.work)
        self.before, self.after = tree(self.begin), tree(self.work)
        self.weights = self.digest()

    def refresh(self):
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.begin, self.work)
        self.log.unlink(missing_ok=True)

    def digest(self):
        state = self.work / "run" / "state.json"
        return json.loads(state.read_text())["weights_sha256"] if state.is_file() else None

    def faults(self):
        """Returns the faults of each call; of many that change no file that has a name, those of some."""
        same = Counter((call[0], call[3][0]) for call in self.calls)
        seen, faults = Counter(), []
        for number, call in enumerate(self.calls):
            key = call[0], call[3][0]
            if self.case.reader and call[3][0].split("/")[0] in TRAINED:
                continue  # another case has these
            seen[key] += 1
            changes_nothing = call[0] in READING or " (deleted)" in call[3][0]
            if changes_nothing and (seen[key] - 1) % (1 + same[key] // MOST_READS) != 0:
                continue
            faults += [(number + 1, how) for how in FAULTS[call[0]]]
        return faults

    def wrong(self, number, how):
        """Tries one fault; returns what is wrong, or None, and how the command ended."""
        self.refresh()
        act = "before" if how == "power" else how
        try:
            status, output, error = run(
                self.case.command,
                self.work,
                self.case.printed,
                LD_PRELOAD=LIBRARY,
                FAIL_IO_FILES=str(self.work),
                FAIL_IO_LOG=str(self.log),
                FAIL_IO=f"any {number} {act}",
            )
        except subprocess.TimeoutExpired:
            return "it hangs", "hung"
        calls = calls_of(self.log, self.work)
        failed = [c for c in calls if c[1]]
        if not failed:
            return None, "not reached"
        if how in KILLS:
            if status != -9:
                return f"it ended with {status} instead of being killed", "ended"
            if how == "power":
                lose_power(calls, self.work)
            self.lost = False
            return self.of_end(calls, True), "killed"
        if status == 0:
            return self.of_success(output, failed[0]), "succeeded"
        if status not in DOCUMENTED:
            return f"status {status}: {error}", "ended"
        self.lost = failed[0][0] == "write" and failed[0][3][0].endswith(".jsonl")  # a line of it, and it was said
        unseen = failed[0][0] == "look" and status == 2  # it is as if nothing were there
        wrong = (None if unseen else self.of_message(error, failed[0], how)) or self.of_end(calls, False)
        return (f"{wrong}; it said: {error.strip()}" if wrong else None), "failed"

    def of_success(self, output, call):
        now = tree(self.work)
        if call[0] in ("remove", "list", "look", "open", "close"):  # what could not be removed may be left
            left = [n for n in now if n not in self.after]
            now = {n: c for n, c in now.items() if n in self.after or not is_waste(n)}
            if left and any(".part" in n for n in left):
                return f"it left {left}"
        if now != self.after:
            names = [n for n in {*now, *self.after} if now.get(n, 0) != self.after.get(n, 0)]
            return f"it succeeded with other files: {sorted(names)}"
        if TIMES.sub(b"", output.encode()) != TIMES.sub(b"", self.output.encode()) and "--json" in self.case.command:
            return f"it succeeded with another output: {output}"
        return None

    def of_message(self, error, call, how):
        names = {Path(re.sub(r"\.\d+\.part$", "", re.sub(r" \(deleted\)$", "", p))) for p in call[3]}
        names = {n.name for n in names} | {n.parent.name for n in names}
        if any(p.startswith("tmp") for p in call[3]):
            names |= {path.name for path in self.begin.iterdir()}  # it names the file whose content lies there
        if names == {"printed", ""}:
            return None if "standard output" in error else "the message does not name standard output"
        if "Traceback" in error or "neap: " not in error:
            return "no message"
        if names != {""} and not any(n and n in error for n in names):
            return f"the message does not name the file ({' '.join(sorted(names))})"
        if how in WORDS and call[0] != "look" and WORDS[how] not in error:  # what opens it may say why
            return f"the message does not say the problem ({WORDS[how]})"
        return None

    def of_end(self, calls, killed):
        now = tree(self.work)
        for name, said in now.items():
            if ".part" in name:
                if not killed:
                    return f"it left {name}"
            elif name.split("/")[0] in TRAINED:
                if not is_whole(self.work / name) and not name.endswith((".jsonl", ".next", "lock")):
                    return f"{name} is not whole"
            elif name.endswith(("m.jsonl", "tfevents")) or name == "printed":
                continue  # they grow: what a resumption makes of them is compared
            elif said not in (self.before.get(name, 0), self.after.get(name, 0)):
                return f"{name} is neither what it was nor what it should be"
        for name in self.before:
            if name not in now and name in self.after and name.split("/")[0] not in TRAINED:
                return f"{name} is lost"
        return self.of_resumption() if self.case.resume or self.weights else None

    def of_resumption(self):
        """Goes on from the last checkpoint, or begins again where no checkpoint exists."""
        there = (self.work / "run" / "state.json").is_file()
        command = self.case.resume if there else f"{self.case.command}{' --force' if '--force' not in self.case.command else ''}"
        if self.case.resume is None or not self.case.command.startswith(("train", "finetune")):
            if not self.case.command.startswith(("train", "finetune")):
                return None
            command = f"{self.case.command}{' --force' if '--force' not in self.case.command else ''}"
        if not there and self.case.command.startswith("train --resume"):
            return "the checkpoint is lost"
        status, _, error = run(command, self.work)
        if status != 0:
            return f"{command}: ended with {status}: {error.strip()}"
        if self.digest() != self.weights:
            return f"{command}: other weights"
        now = tree(self.work)
        names = [{n for n in files if n.startswith("run/")} for files in (now, self.after)]
        if names[0] != names[1]:
            return f"{command}: other files: {sorted(names[0] ^ names[1])}"
        said, wanted = ((files.get("m.jsonl") or b"").splitlines() for files in (now, self.after))
        if self.lost:
            wanted = [line for line in wanted if line in said]
        if said != wanted:
            return f"{command}: other metrics"
        return None


def is_waste(name):
    """Files of a run's folder that a later run removes."""
    return re.search(r"(^|/)(lock|command\.json\.next|(weights|best|epoch)-[^/]*\.safetensors|step-\d+/[^/]*)$", name) is not None


def split_weights(folder):
    """Makes of a run's weights two files and their index."""
    data = next((folder / "first").glob("weights-*")).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    names = sorted(n for n in header if n != "__metadata__")
    index = {}
    for part, chosen in enumerate((names[::2], names[1::2])):
        own, values = {}, b""
        for name in chosen:
            begin, end = header[name]["data_offsets"]
            own[name] = {**header[name], "data_offsets": [len(values), len(values) + end - begin]}
            values += data[8 + length + begin : 8 + length + end]
            index[name] = f"w-{part}.safetensors"
        text = json.dumps(own).encode()
        (folder / f"w-{part}.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + values)
    (folder / "w.index.json").write_text(json.dumps({"weight_map": index}))


def chosen(bench, quick):
    """Returns the faults that are tried: a quick pass takes some of each kind, spread over the run."""
    faults = bench.faults()
    if not quick:
        return faults
    step = max(1, len(faults) // bench.case.quick)
    return faults[zlib.crc32(bench.case.name.encode()) % step :: step]


def main():
    global NEAP, LIBRARY, HERE
    parser = argparse.ArgumentParser()
    parser.add_argument("neap"), parser.add_argument("library"), parser.add_argument("--quick", action="store_true")
    parser.add_argument("--case", default=""), parser.add_argument("--only", default="")
    given = parser.parse_args()
    NEAP, LIBRARY, HERE = given.neap, given.library, Path(__file__).resolve().parent
    total, bad = Counter(), 0
    for case in CASES:
        if given.case and not re.fullmatch(given.case, case.name):
            continue
        folder = Path.cwd() / case.name
        bench, count = Bench(case, folder), Counter()
        faults = chosen(bench, given.quick) if not given.only else [(int(given.only.split()[0]), given.only.split()[1])]
        for number, how in faults:
            wrong, end = bench.wrong(number, how)
            count[end] += 1
            total[bench.calls[number - 1][0] + " " + how] += 1
            if wrong:
                bad += 1
                kind, _, _, paths, _ = bench.calls[number - 1]
                print(
                    f"FAILED: {case.name}: neap {case.command}\n  call {number}, {kind} of {' '.join(paths)}, {how}: {wrong}",
                    flush=True,
                )
        ends = ", ".join(f"{n} {end}" for end, n in sorted(count.items()))
        print(f"{case.name}: {len(bench.calls)} calls, {len(faults)} faults of {len(bench.faults())}: {ends}", flush=True)
        shutil.rmtree(folder)
    print(f"{sum(total.values())} faults, {bad} of them with another end than they may have")
    if not given.quick:
        print("  " + ", ".join(f"{name} {count}" for name, count in sorted(total.items())))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
