"""What random programs of Python's objects are made of (fuzz_objects.py). One row is one way to hold something that a step reads, with the
changes that people make to it between steps.

Words with a dollar are chosen when a row is:

$n   the part's own number, so that names are not taken twice
$f   a number of NUMBERS; a change chooses anew
$i   a small index
$v   in a use: how the number is read

A forward line makes `h` of [rows, W] from `h`; a loss line changes `loss`, and may read `model`, `x`, `y`, `out`."""

from __future__ import annotations

import dataclasses

NUMBERS = [0.25, 0.5, 0.75, 1.5]


@dataclasses.dataclass(frozen=True)
class Row:
    """top: lines of the file. body: of the class Net. init, forward: of its methods. made: lines below the model. loss: of the loss
    function. after: what is done after each step. changes: what may be done between two steps, one of them at a time."""

    name: str
    weight: float = 1
    top: str = ""
    body: str = ""
    init: str = ""
    forward: str = ""
    made: str = ""
    loss: str = ""
    after: str = ""
    changes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Place:
    """A way to hold a number. read: how it is read; `self` is the model."""

    name: str
    read: str
    changes: tuple[str, ...]
    top: str = ""
    body: str = ""
    init: str = ""
    weight: float = 1


PLACES = [
    Place("global", "G$n", ('globals()["G$n"] = $f',), "G$n = $f"),
    Place("entry of a global dictionary", 'G$n["a"]', ('G$n["a"] = $f', 'globals()["G$n"] = {"a": $f}', 'G$n["b"] = $f'), 'G$n = {"a": $f}'),
    Place("nested containers", 'G$n["a"][0]["b"]', ('G$n["a"][0]["b"] = $f', 'G$n["a"].insert(0, {"b": $f})', 'G$n["a"].append({"b": $f})'), 'G$n = {"a": [{"b": $f}]}'),
    Place("deep containers", 'G$n[0][0][0][0][0][0]["a"]', ('G$n[0][0][0][0][0][0]["a"] = $f',), 'G$n = [[[[[[{"a": $f}]]]]]]'),
    Place("item of a global list", "G$n[-1]", ("G$n[-1] = $f", "G$n.append($f)", "G$n.reverse()"), "G$n = [$f, $f]"),
    Place("length of a list", "(len(G$n) * 0.25)", ("G$n.append(0)", "len(G$n) > 1 and G$n.pop()"), "G$n = [0]"),
    Place("sum of a tuple", "sum(G$n)", ('globals()["G$n"] = ($f, 0.25)',), "G$n = ($f, 0.5)"),
    Place("member of a set", "(0.5 if 'a' in G$n else 1.5)", ('G$n.discard("a")', 'G$n.add("a")', 'G$n.add("b")'), 'G$n = {"a"}'),
    Place("deque", "max(G$n)", ("G$n.append($f)", "G$n.rotate()", "G$n.append($f), G$n.popleft()"), "G$n = collections.deque([$f, $f], maxlen=3)"),
    Place("ordered dictionary", "next(iter(G$n.values()))", ("G$n.move_to_end(next(iter(G$n)))", 'G$n.update(a=$f)'), "G$n = collections.OrderedDict(a=$f, b=$f)"),
    Place("default dictionary", 'G$n["a"] + 0.25', ('G$n["a"] = $f',), "G$n = collections.defaultdict(float)"),
    Place("chained maps", 'G$n["a"]', ('G$n["a"] = $f', 'G$n.maps[-1]["a"] = $f'), 'G$n = collections.ChainMap({}, {"a": $f})'),
    Place("namespace", "G$n.a", ("G$n.a = $f", "globals()['G$n'] = types.SimpleNamespace(a=$f)"), "G$n = types.SimpleNamespace(a=$f)"),
    Place("namespace in a namespace", "G$n.a.b", ("G$n.a.b = $f", "G$n.a = types.SimpleNamespace(b=$f)"), "G$n = types.SimpleNamespace(a=types.SimpleNamespace(b=$f))"),
    Place("object", "G$n.a", ("G$n.a = $f", "globals()['G$n'] = Holder$n()"), "class Holder$n:\n    def __init__(self):\n        self.a = $f\nG$n = Holder$n()"),
    Place("object with slots", "G$n.a", ("G$n.a = $f",), "class Slots$n:\n    __slots__ = ('a',)\nG$n = Slots$n()\nG$n.a = $f"),
    Place("class attribute", "Holder$n.a", ("Holder$n.a = $f",), "class Holder$n:\n    a = $f"),
    Place("inherited class attribute", "G$n.a", ("Base$n.a = $f", "Derived$n.a = $f", "G$n.a = $f"), "class Base$n:\n    a = $f\nclass Derived$n(Base$n):\n    pass\nG$n = Derived$n()"),
    Place("metaclass's property", "Holder$n.a", ("Meta$n.kept = $f",), "class Meta$n(type):\n    kept = $f\n    @property\n    def a(cls):\n        return cls.kept\nclass Holder$n(metaclass=Meta$n):\n    pass"),
    Place("property", "G$n.a", ("G$n.kept = $f",), "class Holder$n:\n    def __init__(self):\n        self.kept = $f\n    @property\n    def a(self):\n        return self.kept * 0.5\nG$n = Holder$n()"),
    Place("attribute by __getattr__", "G$n.a", ("G$n.kept['a'] = $f",), "class Holder$n:\n    def __init__(self):\n        self.kept = {'a': $f}\n    def __getattr__(self, name):\n        return self.__dict__['kept'][name]\nG$n = Holder$n()"),
    Place("class attribute of the model", "self.a$n", ("Net.a$n = $f", "model.a$n = $f"), body="a$n = $f"),
    Place("attribute of the model", "self.a$n", ("model.a$n = $f",), init="self.a$n = $f"),
    Place("dictionary of the model", 'self.a$n["a"]', ('model.a$n["a"] = $f', 'model.a$n = {"a": $f}'), init='self.a$n = {"a": $f}'),
    Place("configuration of the model", "self.config$n.a", ("model.config$n.a = $f", "model.config$n = dataclasses.replace(model.config$n, a=$f)", "model.config$n.b.append(1)"),
          "@dataclasses.dataclass\nclass Config$n:\n    a: float = $f\n    b: list = dataclasses.field(default_factory=list)", init="self.config$n = Config$n()"),
    Place("frozen configuration", "G$n.a", ('globals()["G$n"] = dataclasses.replace(G$n, a=$f)',), "@dataclasses.dataclass(frozen=True)\nclass Config$n:\n    a: float = $f\nG$n = Config$n()"),
    Place("class attribute of a configuration", "G$n.a", ("Config$n.a = $f",), "class Config$n:\n    a = $f\nG$n = Config$n()"),
    Place("named tuple", "G$n.a", ('globals()["G$n"] = G$n._replace(a=$f)',), "G$n = collections.namedtuple('Named$n', 'a b')($f, 1)"),
    Place("closure", "read$n()", ("write$n($f)",), "def make$n():\n    a = $f\n    def read():\n        return a\n    def write(value):\n        nonlocal a\n        a = value\n    return read, write\nread$n, write$n = make$n()"),
    Place("dictionary in a closure", "read$n()", ('read$n.a["a"] = $f',), 'def make$n():\n    a = {"a": $f}\n    def read():\n        return a["a"]\n    read.a = a\n    return read\nread$n = make$n()'),
    Place("default of a function", "read$n()", ("read$n.__defaults__ = ($f,)",), "def read$n(a=$f):\n    return a"),
    Place("keyword default", "read$n()", ('read$n.__kwdefaults__["a"] = $f',), "def read$n(*, a=$f):\n    return a"),
    Place("mutable default", "read$n()", ("read$n.__defaults__[0][0] = $f",), "def read$n(a=[$f]):\n    return a[0]"),
    Place("attribute of a function", "read$n.a", ("read$n.a = $f",), "def read$n():\n    return 0\nread$n.a = $f"),
    Place("partial", "read$n()", ('read$n.keywords["a"] = $f', 'globals()["read$n"] = functools.partial(give$n, a=$f)'), "def give$n(a):\n    return a\nread$n = functools.partial(give$n, a=$f)"),
    Place("global behind two functions", "read$n()", ('globals()["G$n"] = $f',), "G$n = $f\ndef inner$n():\n    return G$n\ndef read$n():\n    return inner$n()"),
    Place("method", "G$n.read()", ("G$n.a = $f", "Holder$n.read = lambda self: $f", "G$n.read = lambda: $f"), "class Holder$n:\n    a = $f\n    def read(self):\n        return self.a\nG$n = Holder$n()"),
    Place("class method", "Holder$n.read()", ("Holder$n.a = $f",), "class Holder$n:\n    a = $f\n    @classmethod\n    def read(cls):\n        return cls.a"),
    Place("array", "float(G$n[0])", ("G$n[0] = $f", 'globals()["G$n"] = numpy.array([$f])'), "G$n = numpy.array([$f])"),
    Place("array as a tensor", "torch.from_numpy(G$n)[0]", ("G$n[0] = $f",), "G$n = numpy.array([$f], dtype=numpy.float32)"),
    Place("tensor of a list", "torch.tensor(G$n)[0]", ("G$n[0] = $f",), "G$n = [$f]"),
    Place("tensor", "T$n", ("T$n.fill_($f)", 'globals()["T$n"] = torch.tensor($f)', "T$n.data = torch.tensor($f)"), "T$n = torch.tensor($f)"),
    Place("tensor in a dictionary", 'T$n["a"]', ('T$n["a"].fill_($f)', 'T$n["a"] = torch.tensor($f)'), 'T$n = {"a": torch.tensor($f)}'),
    Place("tensor as an attribute", "self.t$n", ("model.t$n.fill_($f)", "model.t$n = torch.tensor($f)"), init="self.t$n = torch.tensor($f)"),
    Place("buffer", "self.b$n", ("model.b$n.fill_($f)", "model.b$n = torch.tensor($f)", 'model.register_buffer("b$n", torch.tensor($f))'), init='self.register_buffer("b$n", torch.tensor($f))'),
    Place("imported module", "M$n.a", ("M$n.a = $f",), "M$n = types.ModuleType('m$n')\nM$n.a = $f"),
    Place("environment", 'float(os.environ["NEAP_FUZZ_$n"])', ('os.environ["NEAP_FUZZ_$n"] = "$f"',), 'os.environ["NEAP_FUZZ_$n"] = "$f"'),
    Place("context variable", "V$n.get()", ("V$n.set($f)",), 'V$n = contextvars.ContextVar("v$n", default=$f)'),
    Place("text", '{"a": 0.5, "b": 1.5}[G$n]', ('globals()["G$n"] = "b"', 'globals()["G$n"] = "a"'), 'G$n = "a"'),
    Place("enumeration", "G$n.value", ('globals()["G$n"] = Kind$n.B', 'globals()["G$n"] = Kind$n.A'), "class Kind$n(enum.Enum):\n    A = 0.5\n    B = 1.5\nG$n = Kind$n.A"),
    Place("whether it is None", "(0.5 if G$n is None else 1.5)", ('globals()["G$n"] = object()', 'globals()["G$n"] = None'), "G$n = None"),
    Place("whether an attribute is there", '(0.5 if hasattr(G$n, "a") else 1.5)', ("G$n.a = 1", 'G$n.__dict__.pop("a", None)'), "G$n = types.SimpleNamespace()"),
    Place("class of an object", "(0.5 if isinstance(G$n, A$n) else 1.5)", ("G$n.__class__ = B$n", "G$n.__class__ = A$n"), "class A$n:\n    pass\nclass B$n:\n    pass\nG$n = A$n()"),
    Place("number that changes type", "G$n", ('globals()["G$n"] = 1', 'globals()["G$n"] = 1.0', 'globals()["G$n"] = True', 'globals()["G$n"] = numpy.float32(0.5)'), "G$n = 1.0"),
    Place("cached function", "read$n(0)", ('globals()["G$n"] = $f', 'globals()["G$n"] = $f\nread$n.cache_clear()'), "G$n = $f\n@functools.lru_cache\ndef read$n(i):\n    return G$n"),
    Place("generator of a comprehension", "sum(a for a in G$n if a < 2)", ("G$n.append($f)", "G$n[0] = $f"), "G$n = [$f]"),
    Place("number of parameters", "(0.5 if sum(p.requires_grad for p in model.parameters()) % 2 else 1.5)", ("parameter($i).requires_grad_(False)", "parameter($i).requires_grad_(True)")),
]  # fmt: skip

# Uses of a number: in a forward pass; in a loss.
USES = [
    "h = h * $v", "h = h + $v", "if $v > 0.6:\n    h = torch.relu(h)", "h = F.dropout(h, min(float($v), 1) * 0.4)", "h = F.leaky_relu(h, float($v))",
    "for _ in range(int($v * 4)):\n    h = torch.tanh(h)", "h = torch.where(h > $v, h, h * 0.5)", "h = (h, torch.tanh(h))[int($v > 0.6)]", "h = h + torch.full_like(h, float($v))",
    "h = torch.roll(h, int($v * 4), 1)", "h = h.clamp(max=float($v) + 0.5)",
]  # fmt: skip
LOSS_USES = [
    "loss = loss * $v", "loss = loss + $v * out.square().mean()", "if $v > 0.6:\n    loss = loss + out.abs().mean()", "loss = loss + F.cross_entropy(out, y, label_smoothing=min(float($v), 1) * 0.3)",
    "loss = loss + F.dropout(out, min(float($v), 1) * 0.3).mean()", "loss = loss + (out - $v).square().mean()",
]  # fmt: skip

# Places at which a number is read; $use is a use, indented as it needs. `self` of the model is read in its forward only.
WHERES = [
    (4, Row("forward", forward="$use")),
    (1, Row("function", top="def helper$n(h):\n    $use\n    return h", forward="h = helper$n(h)")),
    (1, Row("function behind a dictionary", top="def helper$n(h):\n    $use\n    return h\nHELPERS$n = {'a': helper$n}", forward="h = HELPERS$n['a'](h)")),
    (2, Row("module", top="class Block$n(nn.Module):\n    def forward(self, h):\n        $use\n        return h", init="self.block$n = Block$n()", forward="h = self.block$n(h)")),
    (1, Row("forward hook", top="def hook$n(module, args, h):\n    $use\n    return h", init="self.hooked$n = nn.Linear(W, W)\nself.hooked$n.register_forward_hook(hook$n)", forward="h = self.hooked$n(h)")),
    (1, Row("gradient of a tensor", top="def back$n(h):\n    $use\n    return h", forward="if h.requires_grad:\n    h = h * 1\n    h.register_hook(back$n)")),
    (1, Row("backward of a function", top="class Function$n(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, h):\n        return h.clone()\n    @staticmethod\n    def backward(ctx, h):\n        $use\n        return h", forward="h = Function$n.apply(h)")),
    (1, Row("backward hook", top="def back$n(module, into, out):\n    h = into[0]\n    if h is None:\n        return None\n    $use\n    return (h,)", init="self.hooked$n = nn.Linear(W, W)\nself.hooked$n.register_full_backward_hook(back$n)", forward="h = self.hooked$n(h)")),
    (1, Row("checkpoint", top="def part$n(h):\n    $use\n    return h", forward="h = checkpoint(part$n, h, use_reentrant=False)")),
    (3, Row("loss", loss="$use")),
    (1, Row("function of the loss", top="def helper$n(loss, out, y):\n    $use\n    return loss", loss="loss = helper$n(loss, out, y)")),
    (1, Row("object of the loss", top="class Term$n:\n    def __call__(self, loss, out, y):\n        $use\n        return loss\nterm$n = Term$n()", loss="loss = term$n(loss, out, y)")),
]  # fmt: skip

_HOOK = "scale$n = lambda module, args, out: out * $f"

PARTS = [
    # ---- Modules ----
    Row("linear", 3, init="self.l$n = nn.Linear(W, W)", forward="h = self.l$n(h)", changes=(
        "model.l$n.requires_grad_(False)", "model.l$n.requires_grad_(True)", "model.l$n.bias.requires_grad_(False)", "model.l$n = nn.Linear(W, W)", "model.l$n = nn.Linear(W, W)\nnew_optimizer()", "model.l$n = nn.Tanh()",
        "model.l$n = nn.Linear(W, W)\noptimizer.add_param_group({'params': list(model.l$n.parameters())})", "model.l$n = nn.Sequential(model.l$n, nn.Tanh())", "model.l$n = nn.Identity()", "model.l$n.bias = None",
        "adapt('l$n')", "adapt('l$n')\nnew_optimizer()", "parametrize.register_parametrization(model.l$n, 'weight', Half())", "parametrizations.weight_norm(model.l$n)\nnew_optimizer()", "prune.l1_unstructured(model.l$n, 'weight', 0.3)",
        "model.l$n.forward = lambda h: torch.tanh(h)", "model.l$n.double().float()", "model.l$n.weight = nn.Parameter(model.l$n.weight.detach() * 0.5)", "model.l$n.weight.data = model.l$n.weight.data * 0.5", "model.l$n.weight.data = model.l$n.weight.data.t().contiguous().t()",
        "with torch.no_grad():\n    model.l$n.weight.mul_(0.5)", "nn.init.ones_(model.l$n.bias)", "del model.l$n.bias\nmodel.l$n.register_buffer('bias', torch.zeros(W))", "model.l$n.weight.grad = torch.ones_like(model.l$n.weight)",
    )),
    Row("shared in a sequence", init="self.l$n = nn.Linear(W, W)\nself.s$n = nn.Sequential(self.l$n, nn.Tanh(), self.l$n)", forward="h = self.s$n(h)", changes=(
        "model.s$n[2] = copy.deepcopy(model.l$n)\nnew_optimizer()", "model.s$n[1] = nn.ReLU()", "model.s$n.append(model.l$n)", "del model.s$n[1]", "model.l$n.requires_grad_(False)", "adapt('l$n')\nnew_optimizer()",
        "model.l$n.weight = nn.Parameter(torch.ones(W, W))\nnew_optimizer()",
    )),
    Row("list of one layer", init="layer = nn.Linear(W, W)\nself.s$n = nn.ModuleList([layer] * 3)", forward="for layer in self.s$n:\n    h = torch.tanh(layer(h))", changes=(
        "model.s$n.append(model.s$n[0])", "del model.s$n[1]", "model.s$n[1] = nn.Linear(W, W)\nnew_optimizer()", "model.s$n[1].requires_grad_(False)",
    )),
    Row("nested modules", init="self.s$n = nn.ModuleDict({'a': nn.ModuleList([nn.Sequential(nn.Linear(W, W), nn.Tanh()) for _ in range(2)])})", forward="for layer in self.s$n['a']:\n    h = h + layer(h)", changes=(
        "model.s$n['a'].append(nn.Linear(W, W))", "model.s$n['a'].append(nn.Sequential(nn.Linear(W, W)))\nnew_optimizer()", "model.s$n['a'][0], model.s$n['a'][1] = model.s$n['a'][1], model.s$n['a'][0]", "model.s$n['a'][0][1] = nn.GELU()", "model.s$n['a'] = model.s$n['a'][:1]",
    )),
    Row("siamese", init="self.l$n = nn.Linear(W, W)\nself.both$n = nn.ModuleList([self.l$n])", forward="h = self.l$n(h) * self.both$n[0](h.flip(0))", changes=("model.l$n = nn.Linear(W, W)\nnew_optimizer()", "model.l$n.eval()")),
    Row("tied weights", init="self.a$n, self.b$n = nn.Linear(W, W), nn.Linear(W, W)\nself.b$n.weight = self.a$n.weight", forward="h = self.b$n(torch.tanh(self.a$n(h)))", changes=(
        "model.b$n.weight = nn.Parameter(model.a$n.weight.detach().clone())\nnew_optimizer()", "model.b$n.weight.requires_grad_(False)", "model.a$n, model.b$n = model.b$n, model.a$n", "model.b$n.bias = model.a$n.bias",
    )),
    Row("tied by transposing", init="self.l$n = nn.Linear(W, W)", forward="h = F.linear(self.l$n(h), self.l$n.weight.t())"),
    Row("two that change places", init="self.a$n, self.b$n = nn.Linear(W, W), nn.Linear(W, W)", forward="h = self.b$n(torch.tanh(self.a$n(h)))", changes=("model.a$n, model.b$n = model.b$n, model.a$n", "model.b$n.weight = model.a$n.weight", "model.a$n.weight, model.b$n.weight = model.b$n.weight, model.a$n.weight")),
    Row("batch norm", 2, init="self.n$n = nn.BatchNorm1d(W)", forward="h = self.n$n(h)", changes=(
        "model.n$n.eval()", "model.n$n.train()", "model.n$n.momentum = $f * 0.5", "model.n$n.eps = 0.1", "model.n$n.reset_running_stats()", "model.n$n.track_running_stats = False", "model.n$n.running_mean = torch.ones(W)",
        "model.n$n.running_var.fill_(2)", "model.n$n.weight.requires_grad_(False)",
    )),
    Row("dropout", 2, init="self.d$n = nn.Dropout(0.3)", forward="h = self.d$n(h)", changes=("model.d$n.p = $f * 0.5", "model.d$n.p = 0.0", "model.d$n.eval()", "model.d$n.train()", "model.d$n = nn.Identity()")),
    Row("other norms", init="self.n$n = nn.Sequential(nn.LayerNorm(W), nn.GroupNorm(2, W), nn.BatchNorm1d(W, affine=False, track_running_stats=False))", forward="h = self.n$n(h)", changes=("model.n$n[0].eps = 0.1", "model.n$n[1].num_groups = 3", "model.n$n[2].training = False")),
    Row("recurrent", init="self.g$n = nn.GRU(W, W, batch_first=True)", forward="h = self.g$n(h.unsqueeze(1))[0].squeeze(1)", changes=("model.g$n.requires_grad_(False)", "model.g$n.flatten_parameters()", "model.g$n.weight_ih_l0.requires_grad_(False)")),
    Row("cell", init="self.g$n = nn.LSTMCell(W, W)", forward="c = (h, h)\nfor _ in range(2):\n    c = self.g$n(h, c)\nh = c[0]"),
    Row("attention", init="self.a$n = nn.MultiheadAttention(W, 2, dropout=0.1, batch_first=True)", forward="h = self.a$n(h[None], h[None], h[None], need_weights=False)[0][0]", changes=("model.a$n.dropout = 0.0", "model.a$n.eval()", "model.a$n.num_heads, model.a$n.head_dim = 3, 2")),
    Row("convolution", init="self.c$n = nn.Conv1d(1, 1, 3, padding=1)", forward="h = self.c$n(h[:, None])[:, 0]", changes=("model.c$n.padding_mode, model.c$n.dilation = 'zeros', (1,)", "model.c$n.dilation, model.c$n.padding = (2,), (2,)")),
    Row("embedding", init="self.e$n = nn.Embedding(8, W)", forward="h = h + self.e$n(torch.arange(h.shape[0]) % 8)", changes=("model.e$n.padding_idx = 1", "model.e$n.scale_grad_by_freq = True", "model.e$n.requires_grad_(False)")),
    Row("parameters in containers", init="self.p$n = nn.ParameterList([nn.Parameter(torch.randn(W)) for _ in range(2)])\nself.q$n = nn.ParameterDict({'a': nn.Parameter(torch.randn(W))})", forward="h = h * self.p$n[0] + self.p$n[1] * self.q$n['a']", changes=(
        "model.q$n['a'] = model.p$n[0]", "model.p$n[0] = nn.Parameter(torch.ones(W))\nnew_optimizer()", "model.p$n[1].requires_grad_(False)",
    )),
    Row("complex parameter", init="self.z$n = nn.Parameter(torch.randn(W, dtype=torch.complex64))", forward="h = (h * self.z$n).real", weight=0.5),
    Row("scalar parameter and one that nothing reads", init="self.s$n = nn.Parameter(torch.tensor(0.5))\nself.u$n = nn.Linear(2, 2)", forward="h = h * self.s$n", changes=("model.u$n = nn.Linear(3, 3)", "del model.u$n", "model.s$n.data.fill_(0.25)")),
    Row("spectral norm", init="self.l$n = parametrizations.spectral_norm(nn.Linear(W, W))", forward="h = self.l$n(h)", changes=("model.l$n.eval()", "parametrize.remove_parametrizations(model.l$n, 'weight')\nnew_optimizer()")),
    Row("weight norm", init="self.l$n = parametrizations.weight_norm(nn.Linear(W, W))", forward="h = self.l$n(h)", changes=("parametrize.remove_parametrizations(model.l$n, 'weight')\nnew_optimizer()", "model.l$n.parametrizations.weight.original0.requires_grad_(False)")),
    Row("old weight norm", init="self.l$n = nn.utils.weight_norm(nn.Linear(W, W))", forward="h = self.l$n(h)", changes=("nn.utils.remove_weight_norm(model.l$n)\nnew_optimizer()",), weight=0.5),
    Row("parametrization", init="self.l$n = nn.Linear(W, W)\nparametrize.register_parametrization(self.l$n, 'weight', Half())", forward="h = self.l$n(h)", changes=("model.l$n.parametrizations.weight[0].factor = $f", "Half.shift = $f", "parametrize.register_parametrization(model.l$n, 'bias', Half())", "parametrize.remove_parametrizations(model.l$n, 'weight')\nnew_optimizer()")),
    Row("pruned", init="self.l$n = nn.Linear(W, W)\nprune.l1_unstructured(self.l$n, 'weight', 0.3)", forward="h = self.l$n(h)", changes=("prune.remove(model.l$n, 'weight')", "model.l$n.weight_mask.fill_(1)", "prune.random_unstructured(model.l$n, 'weight', 0.2)"), weight=0.7),
    Row("adapter", init="self.l$n = LoRA(nn.Linear(W, W))", forward="h = self.l$n(h)", changes=("model.l$n.scale = $f", "model.l$n.on = False", "model.l$n.on = True", "model.l$n = model.l$n.merged()", "model.l$n.base.requires_grad_(True)", "model.l$n = LoRA(model.l$n)\nnew_optimizer()")),
    Row("part that is checkpointed", init="self.l$n = nn.Sequential(nn.Linear(W, W), nn.Dropout(0.2))\nself.recompute$n = True", forward="h = checkpoint(self.l$n, h, use_reentrant=False) if self.recompute$n else self.l$n(h)", changes=("model.recompute$n = False", "model.l$n[1].p = 0.5")),
    Row("functional call", init="self.l$n = nn.Linear(W, W)", forward="h = torch.func.functional_call(self.l$n, {'weight': self.l$n.weight * 0.5}, (h,))", changes=("model.l$n.requires_grad_(False)",)),
    Row("vmap", init="self.l$n = nn.Linear(W, W)", forward="h = torch.vmap(self.l$n)(h)", changes=("model.l$n.weight.requires_grad_(False)",), weight=0.5),
    Row("autocast", top="AUTO$n = {'on': True}", init="self.l$n = nn.Linear(W, W)", forward="with torch.autocast('cpu', torch.bfloat16, enabled=AUTO$n['on']):\n    h = self.l$n(h)\nh = h.to(x.dtype)", changes=("AUTO$n['on'] = False", "AUTO$n['on'] = True")),
    Row("no gradients inside", init="self.l$n = nn.Linear(W, W)\nself.frozen$n = True", forward="with torch.set_grad_enabled(not self.frozen$n):\n    g = self.l$n(h)\nh = h + g", changes=("model.frozen$n = False", "model.frozen$n = True")),
    # ---- Modules outside the model's own list ----
    Row("global module", top="M$n = nn.Sequential(nn.Linear(W, W), nn.Dropout(0.2))", forward="h = M$n(h)", changes=(
        "M$n.eval()", "M$n[1].p = 0.5", "globals()['M$n'] = nn.Linear(W, W)", "M$n.requires_grad_(False)", "M$n[0].weight.data.mul_(0.5)", "M$n[0].register_forward_hook(lambda m, a, o: o * $f)", "optimizer.add_param_group({'params': list(M$n.parameters())})",
    )),
    Row("module in a closure", top="def make$n():\n    layer = nn.Sequential(nn.Linear(W, W), nn.BatchNorm1d(W), nn.Dropout(0.3))\n    def run(h):\n        return layer(h)\n    run.layer = layer\n    return run\nR$n = make$n()", forward="h = R$n(h)", changes=("R$n.layer.eval()", "R$n.layer[2].p = 0.1", "R$n.layer[1].momentum = 0.5", "R$n.layer.register_forward_pre_hook(lambda m, a: (a[0] * $f,))", "R$n.layer[2] = nn.Tanh()")),
    Row("module in a Python list", init="self.us$n = [nn.Linear(W, W), nn.Dropout(0.2)]", forward="for layer in self.us$n:\n    h = layer(h)", changes=("model.us$n.append(nn.Tanh())", "model.us$n[1].eval()", "model.us$n[0] = nn.Linear(W, W)", "model.us$n.reverse()")),
    Row("trained module outside the model", top="M$n = nn.Linear(W, W)\nEXTRA.extend(M$n.parameters())", forward="h = M$n(h)", changes=("M$n.requires_grad_(False)", "M$n.register_forward_hook(lambda m, a, o: o * $f)", "M$n.bias.data.fill_(1)")),
    # ---- Code that can be changed ----
    Row("functions in a dictionary", top="OPS$n = {'act': torch.tanh, 'double': lambda h: h * 2, 'order': ['act', 'double']}", forward="for name in OPS$n['order']:\n    h = OPS$n[name](h)", changes=("OPS$n['order'].reverse()", "OPS$n['order'].append('act')", "OPS$n['act'] = torch.sigmoid", "OPS$n['double'] = lambda h: h * $f", "OPS$n['order'] = []")),
    Row("order of layers", init="self.a$n, self.b$n = nn.Linear(W, W), nn.Tanh()\nself.order$n = ['a$n', 'b$n']", forward="for name in self.order$n:\n    h = getattr(self, name)(h)", changes=("model.order$n.reverse()", "model.order$n.append('a$n')", "model.order$n.remove('b$n') if 'b$n' in model.order$n else None")),
    Row("method of the class", body="def act$n(self, h):\n    return torch.tanh(h)", forward="h = self.act$n(h)", changes=("Net.act$n = lambda self, h: torch.sigmoid(h)", "model.act$n = torch.relu", "Net.act$n = lambda self, h: h * $f")),
    Row("global function", top="def act$n(h):\n    return torch.tanh(h)", forward="h = act$n(h)", changes=("globals()['act$n'] = torch.relu", "globals()['act$n'] = lambda h: h * $f", "act$n.__code__ = (lambda h: torch.sigmoid(h)).__code__")),
    Row("name of a function", init="self.act$n = 'tanh'", forward="h = getattr(torch, self.act$n)(h)", changes=("model.act$n = 'sigmoid'", "model.act$n = 'relu'")),
    Row("module's forward on its class", top="class Act$n(nn.Module):\n    def forward(self, h):\n        return torch.tanh(h)", init="self.act$n = Act$n()", forward="h = self.act$n(h)", changes=("Act$n.forward = lambda self, h: h * $f", "model.act$n.__class__ = nn.ReLU\nmodel.act$n.inplace = False", "model.act$n.forward = torch.sigmoid")),
    Row("other class of the model", top="class Alternative$n:\n    factor = 1.0", init="self.kind$n = Alternative$n()", forward="h = h * self.kind$n.factor", changes=("model.__class__ = type('Net2', (Net,), {'forward': lambda self, x: Net.forward(self, x) * $f})", "Alternative$n.factor = $f")),
    # ---- Hooks ----
    Row("forward hook", top="H$n = []", init="self.l$n = nn.Linear(W, W)", made="H$n.append(model.l$n.register_forward_hook(lambda m, a, o: o * $f))", forward="h = self.l$n(h)", changes=("H$n and H$n.pop().remove()", "H$n.append(model.l$n.register_forward_hook(lambda m, a, o: o + $f))", "H$n.append(model.l$n.register_forward_hook(lambda m, a, o: o + $f, prepend=True))")),
    Row("forward pre-hook", top="H$n = []", init="self.l$n = nn.Linear(W, W)", made="H$n.append(model.l$n.register_forward_pre_hook(lambda m, a: (a[0] * $f,)))", forward="h = self.l$n(h)", changes=("H$n and H$n.pop().remove()", "H$n.append(model.l$n.register_forward_pre_hook(lambda m, a: (a[0] + $f,)))")),
    Row("backward hook", top="H$n = []", init="self.l$n = nn.Linear(W, W)", made="H$n.append(model.l$n.register_full_backward_hook(lambda m, into, out: tuple(g if g is None else g * $f for g in into)))", forward="h = self.l$n(h)", changes=("H$n and H$n.pop().remove()", "H$n.append(model.l$n.register_full_backward_pre_hook(lambda m, out: tuple(g * $f for g in out)))")),
    Row("hook that comes", init="self.l$n = nn.Linear(W, W)", forward="h = torch.tanh(self.l$n(h))", changes=(
        "model.l$n.register_forward_hook(lambda m, a, o: o * $f)", "model.l$n.register_forward_pre_hook(lambda m, a: (a[0] * $f,))", "model.l$n.register_full_backward_hook(lambda m, into, out: tuple(g if g is None else g * $f for g in into))",
        "model.l$n.register_full_backward_pre_hook(lambda m, out: tuple(g * $f for g in out))", "model.l$n.register_forward_hook(lambda m, a, k, o: o * $f, with_kwargs=True)", "model.register_forward_hook(lambda m, a, o: o * $f)",
        "model.register_forward_pre_hook(lambda m, a: (a[0] * $f,))", "CLOSE.append(torch.nn.modules.module.register_module_forward_hook(lambda m, a, o: o * $f if m is model.l$n else None).remove)",
        "model.l$n.weight.register_hook(lambda g: g * $f)", "model.l$n.weight.register_post_accumulate_grad_hook(lambda p: SEEN.append(1))", "model.l$n.register_forward_hook(lambda m, a, o: SEEN.append(len(a)))",
    ), top="SEEN = []"),
    Row("features by a hook", top="FEATURES$n = {}", init="self.l$n = nn.Linear(W, W)", forward="h = torch.tanh(self.l$n(h))", made="model.l$n.register_forward_hook(lambda m, a, o: FEATURES$n.update(f=o))", loss="loss = loss + FEATURES$n['f'].square().mean()", changes=("FEATURES$n.clear()", "FEATURES$n['other'] = 1")),
    # ---- What a step leaves behind ----
    Row("list of losses", top="LOG$n = []", loss="LOG$n.append(loss.detach())", changes=("LOG$n.clear()", "LOG$n.append(0)")),
    Row("list of losses with graphs", top="LOG$n = []", loss="LOG$n.append(loss)", after="LOG$n[:] = [t.detach() for t in LOG$n]"),
    Row("list of numbers", top="LOG$n = []", loss="LOG$n.append(len(y))"),
    Row("counter of the model", init="self.calls$n = 0", forward="self.calls$n += 1", weight=0.5),
    Row("counter in a dictionary", top="COUNTS$n = {'calls': 0}", forward="COUNTS$n['calls'] += 1", weight=0.5),
    Row("counter that is read", top="COUNTS$n = {'calls': 0}", forward="COUNTS$n['calls'] += 1\nh = h * (0.5 if COUNTS$n['calls'] % 2 else 1.5)", weight=0.5),
    Row("global counter", top="CALLS$n = 0\ndef count$n():\n    global CALLS$n\n    CALLS$n += 1", forward="count$n()", weight=0.5),
    Row("iterator", top="IDS$n = itertools.count()", forward="h = h * (0.5 if next(IDS$n) % 2 else 1.5)", weight=0.4),
    Row("last output as an attribute", forward="self.last$n = h.detach()", init="self.last$n = None", changes=("model.last$n = None",)),
    Row("output of the last step is read", init="self.last$n = torch.zeros(4, W)", forward="last, self.last$n = self.last$n, h.detach()\nh = h + last[:1]", weight=0.4),
    Row("statistics in a buffer", init="self.register_buffer('mean$n', torch.zeros(W))\nself.register_buffer('seen$n', torch.tensor(0))", forward="if self.training:\n    with torch.no_grad():\n        self.mean$n.lerp_(h.mean(0), 0.1)\n        self.seen$n += 1\nh = h - self.mean$n", changes=("model.eval()", "model.mean$n.zero_()", "model.mean$n = torch.ones(W)", "model.seen$n.fill_(7)")),
    Row("buffer that is not saved", init="self.register_buffer('b$n', torch.ones(W), persistent=False)", forward="h = h * self.b$n", changes=("model.b$n.mul_($f)", "model.b$n = model.b$n * $f", "model.b$n.data = torch.ones(W) * $f")),
    Row("cache in a dictionary", top="CACHE$n = {}", forward="if h.shape[0] not in CACHE$n:\n    CACHE$n[h.shape[0]] = torch.arange(h.shape[0])[:, None] * 0.1\nh = h + CACHE$n[h.shape[0]]", changes=("CACHE$n.clear()",), weight=0.7),
    Row("cache as an attribute", init="self.cache$n = None", forward="if self.cache$n is None or self.cache$n.shape[0] != h.shape[0]:\n    self.cache$n = torch.ones(h.shape[0], 1) * 0.5\nh = h * self.cache$n", changes=("model.cache$n = None", "model.cache$n = torch.ones(4, 1)"), weight=0.7),
    # ---- Random numbers ----
    Row("noise", init="self.noise$n = 0.1", forward="h = h + torch.randn_like(h) * self.noise$n", changes=("torch.manual_seed($i)", "model.noise$n = $f", "torch.randn(3)")),
    Row("noise of a generator", top="GEN$n = torch.Generator().manual_seed(3)", forward="h = h + torch.rand(h.shape, generator=GEN$n) * 0.1", changes=("GEN$n.manual_seed($i)", "torch.rand(2, generator=GEN$n)", "globals()['GEN$n'] = torch.Generator().manual_seed(4)")),
    Row("Python's random numbers", forward="h = h * random.random()", weight=0.2),
    Row("layer that is skipped at random", init="self.l$n = nn.Linear(W, W)", forward="keep = (torch.rand(()) < 0.7).to(h.dtype)\nh = h + keep * self.l$n(h)"),
    # ---- Losses ----
    Row("teacher", 2, made="teacher$n = copy.deepcopy(model).$mode()", loss="with torch.no_grad():\n    goal = teacher$n(x)\nloss = loss + F.mse_loss(out, goal)", after="with torch.no_grad():\n    for a, b in zip(teacher$n.parameters(), model.parameters()):\n        a.lerp_(b, 0.1) if a.shape == b.shape and a.dtype == b.dtype else None", changes=(
        "teacher$n.train()", "teacher$n.eval()", "globals()['teacher$n'] = copy.deepcopy(model)", "teacher$n.load_state_dict(model.state_dict())", "teacher$n.load_state_dict(copy.deepcopy(teacher$n.state_dict()), assign=True)", "teacher$n.requires_grad_(False)",
    )),
    Row("averaged model", made="ema$n = torch.optim.swa_utils.AveragedModel(model)", after="ema$n.update_parameters(model)", changes=("ema$n.eval()", "model.load_state_dict(ema$n.module.state_dict())")),
    Row("center in place", top="CENTER$n = torch.zeros(W)", loss="with torch.no_grad():\n    CENTER$n.lerp_(out.mean(0), 0.1)\nloss = loss + F.mse_loss(out, CENTER$n.expand_as(out))", changes=("CENTER$n.zero_()", "globals()['CENTER$n'] = torch.ones(W)")),
    Row("queue", top="QUEUE$n = {'keys': torch.randn(8, W), 'at': 0}", loss="loss = loss + (out @ QUEUE$n['keys'].t()).logsumexp(1).mean()", after="QUEUE$n['keys'][QUEUE$n['at']] = 0.5\nQUEUE$n['at'] = (QUEUE$n['at'] + 1) % 8"),
    Row("loss with parameters", top="LOSS$n = nn.Linear(W, 1)\nEXTRA.extend(LOSS$n.parameters())", loss="loss = loss + LOSS$n(out).square().mean()", changes=("LOSS$n.requires_grad_(False)", "LOSS$n.bias.data.fill_(1)")),
    Row("module of the loss", top="CRITERION$n = nn.CrossEntropyLoss(label_smoothing=0.1)", loss="loss = loss + CRITERION$n(out, y)", changes=("CRITERION$n.label_smoothing = $f * 0.3", "CRITERION$n.reduction = 'sum'", "CRITERION$n.weight = torch.ones(W) * $f", "CRITERION$n.ignore_index = 1", "globals()['CRITERION$n'] = nn.CrossEntropyLoss()")),
    Row("weights in a list", top="WEIGHTS$n = [0.5] * W", loss="loss = loss + F.cross_entropy(out, y, weight=torch.tensor(WEIGHTS$n, dtype=out.dtype))", changes=("WEIGHTS$n[1] = $f", "WEIGHTS$n.reverse()")),
    Row("penalty of parameters", loss="loss = loss + 0.01 * sum(p.square().sum() for p in model.parameters() if p.requires_grad and not p.is_complex())"),
    Row("penalty of gradients", loss="seen = x.detach().requires_grad_()\n(slope,) = torch.autograd.grad(model(seen).sum(), seen, create_graph=True)\nloss = loss + (slope.square().sum(1) - 1).square().mean()", weight=0.5),
    Row("warm-up by a number", top="STEP$n = {'n': 0}", loss="loss = loss * min(1.0, (STEP$n['n'] + 1) / 3)", after="STEP$n['n'] += 1", changes=("STEP$n['n'] = 0",)),
    Row("two passes", loss="loss = loss + F.mse_loss(model(x * 0.5), out.detach())"),
    Row("loss by the mode", loss="loss = loss * (2 if model.training else 1)", changes=("model.eval()", "model.train()")),
    Row("critic that is trained in turn", made="critic$n = nn.Sequential(nn.Linear(W, W), nn.BatchNorm1d(W), nn.Linear(W, 1))\ncritic_optimizer$n = torch.optim.Adam(critic$n.parameters(), lr=0.01)\ndef critic_loss$n(critic, *batch, weight=1, **named):\n    x, y = unpack(*batch, **named)\n    return F.softplus(critic(model(x).detach())).mean() + F.softplus(-critic(x)).mean()\nTRAINERS.append(lambda: (critic$n, critic_loss$n, critic_optimizer$n))", loss="loss = loss + F.softplus(-critic$n(out)).mean()", changes=(
        "critic$n.eval()", "critic$n.train()", "critic$n[0].requires_grad_(False)", "critic$n[0].requires_grad_(True)", "critic_optimizer$n.param_groups[0]['lr'] = $f * 0.1", "critic$n[1].momentum = 0.5", "critic$n[1] = nn.Identity()",
    )),
    Row("second optimizer", made="head$n = nn.Linear(W, W)\nhead_optimizer$n = torch.optim.SGD(head$n.parameters(), lr=0.1)\ndef head_loss$n(head, *batch, weight=1, **named):\n    x, y = unpack(*batch, **named)\n    return F.cross_entropy(head(model(x)), y)\nTRAINERS.append(lambda: (head$n, head_loss$n, head_optimizer$n))", changes=("head$n.bias.requires_grad_(False)", "head_optimizer$n.param_groups[0]['lr'] = $f")),
    # ---- Schedules ----
    Row("schedule", made="schedule$n = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)", after="schedule$n.step()", changes=("schedule$n.step()", "schedule$n.gamma = $f")),
    Row("cosine schedule", made="schedule$n = torch.optim.lr_scheduler.SequentialLR(optimizer, [torch.optim.lr_scheduler.LinearLR(optimizer, 0.5, total_iters=2), torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)], [2])", after="schedule$n.step()"),
    Row("one-cycle schedule", made="schedule$n = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=40)", after="schedule$n.step()", weight=0.6),
]  # fmt: skip

# Changes of any model between two steps.
CHANGES = [
    "pass", "model.eval()", "model.train()", "parameter($i).requires_grad_(False)", "for p in model.parameters():\n    p.requires_grad_(True)", "optimizer.param_groups[0]['lr'] = $f * 0.1", "optimizer.param_groups[0]['weight_decay'] = $f * 0.1",
    "optimizer.param_groups[0]['lr'] = torch.tensor($f * 0.1)", "model.load_state_dict({k: v * 0.5 if v.is_floating_point() else v for k, v in model.state_dict().items()})", "model.load_state_dict(copy.deepcopy(model.state_dict()), assign=True)",
    "model.load_state_dict(copy.deepcopy(model.state_dict()), assign=True)\nnew_optimizer()", "optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))", "new_optimizer()", "optimizer.state.clear()", "with torch.no_grad():\n    parameter($i).mul_($f)",
    "parameter($i).data = parameter($i).data * $f", "parameter($i).grad = torch.ones_like(parameter($i))", "torch.manual_seed($i)", "globals()['model'] = copy.deepcopy(model)\nnew_optimizer()", "model.double()\nBATCH['dtype'] = torch.float64\nnew_optimizer()",
    "model.double()\nBATCH['dtype'] = torch.float64", "model.bfloat16()\nBATCH['dtype'] = torch.bfloat16\nnew_optimizer()", "BATCH['rows'] = 5", "BATCH['rows'] = 3", "BATCH['rows'] = 4", "BATCH['form'] = 'dictionary'", "BATCH['form'] = 'nested'", "BATCH['form'] = 'object'", "BATCH['form'] = 'plain'",
    "BATCH['layout'] = 'transposed'", "BATCH['layout'] = 'strided'", "BATCH['layout'] = 'plain'", "BATCH['grad'] = True", "BATCH['named'] = True", "BATCH['weight'] = $f", "BATCH['weight'] = 2", "AROUND['autocast'] = True", "AROUND['autocast'] = False",
    "optimizer.register_step_pre_hook(lambda o, a, k: [p.grad.mul_($f) for g in o.param_groups for p in g['params'] if p.grad is not None] and None)", "optimizer.register_step_post_hook(lambda o, a, k: STEPPED.append(1))", "optimizer.param_groups[0]['params'].pop()",
    "model.extra = nn.Parameter(torch.zeros(W))\noptimizer.add_param_group({'params': [model.extra], 'lr': 0.1})", "model.extra = nn.Linear(W, W)", "model.name = 'a name'", "with torch.no_grad():\n    model(batch(7)[0][0] if BATCH['form'] == 'plain' else torch.zeros(4, W, dtype=BATCH['dtype']))",
    "leaf($i).register_forward_hook(lambda m, a, o: o * $f if torch.is_tensor(o) else None)", "leaf($i).register_forward_pre_hook(lambda m, a: (a[0] * $f, *a[1:]))", "leaf($i).register_full_backward_hook(lambda m, into, out: tuple(g if g is None else g * $f for g in into))",
    "leaf($i).eval()", "Net.forward = (lambda inner: lambda self, x: inner(self, x) * $f)(Net.forward)", "model.to(torch.float32)", "F_was = model.training\nmodel.eval()\nwith torch.no_grad():\n    model(torch.zeros(4, W, dtype=BATCH['dtype']))\nmodel.train(F_was)",
    "model.share_memory()", "torch.use_deterministic_algorithms(True)\nCLOSE.append(lambda: torch.use_deterministic_algorithms(False))", "pickle.loads(pickle.dumps(model.state_dict()))", "optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=False)",
]  # fmt: skip

OPTIMIZERS = [
    (4, "torch.optim.SGD(parameters, lr=0.05)"), (3, "torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-3)"), (4, "torch.optim.AdamW(parameters, lr=1e-2)"), (1, "torch.optim.Adam(parameters, lr=1e-2, foreach=True, amsgrad=True)"),
    (1, "torch.optim.RMSprop(parameters, lr=1e-2, momentum=0.5)"), (1, "torch.optim.Adagrad(parameters, lr=0.05)"), (1, "torch.optim.SGD([{'params': parameters[:1], 'lr': 0.1}, {'params': parameters[1:]}], lr=0.05, momentum=0.9)"),
    (1, "torch.optim.AdamW([{'params': [p], 'lr': 1e-2 / (i + 1)} for i, p in enumerate(parameters)], weight_decay=0.1)"), (1, "torch.optim.SGD([p for p in parameters if p.requires_grad], lr=0.05)"), (1, "Clipping(parameters, lr=0.05, momentum=0.9)"), (1, "EveryOther(parameters, lr=0.05)"), (1, "Lookahead(torch.optim.SGD(parameters, lr=0.05))"),
]  # fmt: skip

# How the loss function is held; `compute_loss` is a function.
LOSSES = [
    Row("function", 4, made="loss_fn = compute_loss"),
    Row("closure", made="def make_loss(inner, factor):\n    def run(model, *batch, **named):\n        return inner(model, *batch, **named) * factor['a']\n    run.factor = factor\n    return run\nloss_fn = make_loss(compute_loss, {'a': 1.0})", changes=("loss_fn.factor['a'] = $f", "globals()['loss_fn'] = make_loss(compute_loss, {'a': $f})")),
    Row("partial", made="def partly(model, *batch, factor, **named):\n    return compute_loss(model, *batch, **named) * factor\nloss_fn = functools.partial(partly, factor=1.0)", changes=("loss_fn.keywords['factor'] = $f",)),
    Row("object", made="class Loss:\n    factor = 1.0\n    def __call__(self, model, *batch, **named):\n        return compute_loss(model, *batch, **named) * self.factor\nloss_fn = Loss()", changes=("loss_fn.factor = $f", "Loss.factor = $f", "Loss.__call__ = lambda self, model, *batch, **named: compute_loss(model, *batch, **named) * $f")),
    Row("method", made="class Loss:\n    def __init__(self):\n        self.factor = 1.0\n    def run(self, model, *batch, **named):\n        return compute_loss(model, *batch, **named) * self.factor\nloss_object = Loss()\nloss_fn = loss_object.run", changes=("loss_object.factor = $f", "Loss.run = lambda self, model, *batch, **named: compute_loss(model, *batch, **named) * $f")),
    Row("module", made="class Loss(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.factor = 1.0\n        self.drop = nn.Dropout(0.2)\n    def forward(self, model, *batch, **named):\n        return compute_loss(model, *batch, **named) * self.drop(torch.ones(2)).sum() * self.factor\nloss_fn = Loss()", changes=("loss_fn.factor = $f", "loss_fn.drop.p = 0.5", "loss_fn.eval()", "loss_fn.register_forward_hook(lambda m, a, o: o * $f)")),
    Row("lambda", made="loss_fn = lambda model, *batch, **named: compute_loss(model, *batch, **named)"),
]  # fmt: skip
