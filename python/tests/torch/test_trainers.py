"""Ways into people's trainers: transformers, TRL, Lightning, accelerate, a plain engine. The oracle is the same trainer without Neap."""

from __future__ import annotations

import collections

import pytest
import torch
from torch.nn import functional as F

import neap
import neap.torch


@pytest.fixture
def transformers():
    pytest.importorskip("accelerate")
    return pytest.importorskip("transformers")


def rows(least, most, n=40):
    """Records of token numbers of some lengths."""
    g = torch.Generator().manual_seed(0)
    lengths = torch.randint(least, most + 1, (n,), generator=g).tolist()
    return [{"input_ids": torch.randint(3, 32, (k,), generator=g).tolist()} for k in lengths]


def collate(some):
    longest = max(len(r["input_ids"]) for r in some)
    padded = lambda r, x: r["input_ids"] + [x] * (longest - len(r["input_ids"]))  # noqa: E731
    ids = torch.tensor([padded(r, 0) for r in some])
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "labels": torch.tensor([padded(r, -100) for r in some]),
    }


def gpt(t):
    """Has dropout."""
    return t.GPT2LMHeadModel(
        t.GPT2Config(vocab_size=32, n_embd=16, n_layer=1, n_head=2, n_positions=32, bos_token_id=1, eos_token_id=1)
    )


def trainer_of(t, folder, model=None, data=None, kind=None, **changed):
    t.set_seed(1)
    chosen = dict(
        max_steps=3, per_device_train_batch_size=4, logging_steps=1, save_strategy="no", learning_rate=1e-2, seed=3
    )
    args = t.TrainingArguments(
        output_dir=str(folder), report_to=[], use_cpu=True, disable_tqdm=True, **{**chosen, **changed}
    )
    made = (kind or t.Trainer)(
        model=model or gpt(t),
        args=args,
        train_dataset=data or rows(9, 10),
        eval_dataset=rows(8, 8, 8),
        data_collator=collate,
    )
    made.remove_callback(t.PrinterCallback)
    return made


SAME = ("loss", "grad_norm", "learning_rate", "eval_loss", "step", "epoch")


def history(trainer, names=SAME):
    return [{k: v for k, v in row.items() if k in names} for row in trainer.state.log_history]


def equal(a, b):
    return [k for k, v in a.items() if not torch.equal(v, b[k])] == []


def both(t, folder, budget="max", **options):
    """The same trainer without and with Neap: histories and weights have to be the same."""
    plain = trainer_of(t, folder, **options)
    plain.train()
    ours = trainer_of(t, folder, **options)
    attached = neap.torch.attach(ours, budget)
    ours.train()
    assert history(ours) == history(plain)
    assert equal(ours.model.state_dict(), plain.model.state_dict())
    return attached


def test_trainer_with_evaluation_and_figures(transformers, tmp_path):
    attached = both(transformers, tmp_path, budget="90%", eval_strategy="steps", eval_steps=1)
    row = next(r for r in attached.trainer.state.log_history if "loss" in r)
    memory = attached.memory
    assert row["neap_planned_peak_bytes"] == memory.planned_peak_bytes <= memory.budget_bytes
    assert 0 < row["neap_measured_peak_bytes"] <= row["neap_planned_peak_bytes"] and row["neap_overhead"] >= 0


def test_trainer_accumulates(transformers, tmp_path):
    # Ten batches of an epoch, in steps of four, four and two; each batch has its own length.
    data = rows(9, 10)
    both(
        transformers,
        tmp_path,
        data=data,
        gradient_accumulation_steps=4,
        max_steps=-1,
        num_train_epochs=1,
        max_grad_norm=0.1,
    )


def test_trainer_of_a_loss_that_is_not_summed(transformers, tmp_path):
    def own(trainer):
        trainer.loss_is_scaled_for_ga = False
        return trainer

    class Mean(transformers.Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            labels = inputs.pop("labels")
            logits = model(**inputs).logits
            return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())

    results = []
    for budget in (None, "max"):
        trainer = own(
            trainer_of(transformers, tmp_path, kind=Mean, data=rows(8, 8), gradient_accumulation_steps=2, max_steps=2)
        )
        if budget is not None:
            neap.torch.attach(trainer, budget)
        trainer.train()
        results.append((history(trainer), trainer.model.state_dict()))
    assert results[0][0] == results[1][0] and equal(results[0][1], results[1][1])


def test_trainer_resumes(transformers, tmp_path):
    plain = trainer_of(transformers, tmp_path / "plain", max_steps=4)
    plain.train()
    first = trainer_of(transformers, tmp_path / "neap", max_steps=4, save_strategy="steps", save_steps=2)
    neap.torch.attach(first, "max")
    first.train()
    second = trainer_of(transformers, tmp_path / "neap", max_steps=4)
    neap.torch.attach(second, "max")
    second.train(resume_from_checkpoint=str(tmp_path / "neap" / "checkpoint-2"))
    assert equal(first.model.state_dict(), plain.model.state_dict())
    assert equal(second.model.state_dict(), plain.model.state_dict())
    assert [r["loss"] for r in history(second) if "loss" in r] == [r["loss"] for r in history(plain) if "loss" in r]


def test_trainer_pads_to_many_lengths(transformers, tmp_path):
    attached = both(transformers, tmp_path, data=rows(5, 28, 16), per_device_train_batch_size=2, max_steps=8)
    ran = {place.shapes[0] for _, place in attached.step.bound}
    assert len(ran) > 4


FACTOR = 1.0


def test_what_compute_loss_reads_may_change(transformers, tmp_path):
    """Attributes of the trainer, globals of its code, and a callback's hook."""

    class Scaled(transformers.Trainer):
        table = {"class": 1.0}  # noqa: RUF012

        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            loss = super().compute_loss(model, inputs, False, num_items_in_batch)
            return loss * FACTOR * self.own["a"] * self.table["class"]

    class Changing(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, model=None, **_):
            global FACTOR
            FACTOR = 1.0 if state.global_step < 2 else 2.0
            trainer.own["a"] = 0.5 if state.global_step > 3 else 1.0
            Scaled.table["class"] = 3.0 if state.global_step == 5 else 1.0
            if state.global_step == 6:
                model.transformer.h[0].register_forward_hook(lambda m, args, output: output)
                model.lm_head.register_forward_hook(lambda m, args, output: output * 0.5)

    results = []
    for budget in (None, "max"):
        globals()["FACTOR"], Scaled.table["class"] = 1.0, 1.0
        trainer = trainer_of(transformers, tmp_path, kind=Scaled, data=rows(8, 8), max_steps=8)
        trainer.own = {"a": 1.0}
        trainer.add_callback(Changing())
        if budget is not None:
            neap.torch.attach(trainer, budget)
        trainer.train()
        results.append((history(trainer), trainer.model.state_dict()))
    assert results[0][0] == results[1][0]
    assert equal(results[0][1], results[1][1])


def test_detach(transformers, tmp_path):
    plain = trainer_of(transformers, tmp_path, max_steps=1)
    plain.train()
    ours = trainer_of(transformers, tmp_path, max_steps=1)
    attached = neap.torch.attach(ours, "max")
    attached.detach()
    ours.train()
    assert attached.step is None and equal(ours.model.state_dict(), plain.model.state_dict())


def test_what_a_trainer_cannot_have_is_refused_by_name(transformers, tmp_path):
    class Steps(transformers.Trainer):
        def training_step(self, *args, **kwargs):
            return super().training_step(*args, **kwargs)

    for changed, message in (({"fp16": True}, "GradScaler"), ({"torch_compile": True}, "torch_compile")):
        trainer = trainer_of(transformers, tmp_path)
        for name, value in changed.items():
            setattr(trainer.args, name, value)
        with pytest.raises(TypeError, match=message):
            neap.torch.attach(trainer, "1GiB")
    with pytest.raises(TypeError, match=r"Steps\.training_step is overridden"):
        neap.torch.attach(trainer_of(transformers, tmp_path, kind=Steps), "1GiB")
    trainer = trainer_of(transformers, tmp_path)
    with pytest.raises(ValueError, match="gradient_accumulation_steps"):
        neap.torch.attach(trainer, "1GiB", micro_batches=2)
    with pytest.raises(TypeError, match="no option bugdet"):
        neap.torch.attach(trainer, bugdet="1GiB")
    for name in ("is_deepspeed_enabled", "is_fsdp_enabled"):
        refused = trainer_of(transformers, tmp_path)
        setattr(refused, name, True)
        with pytest.raises(TypeError, match=r"DeepSpeed|FSDP"):
            neap.torch.attach(refused, "1GiB")


def test_losses_that_cannot_be_captured_change_nothing(transformers, tmp_path):
    class Reads(transformers.Trainer):
        def compute_loss(self, model, inputs, *args, **kwargs):
            loss = super().compute_loss(model, inputs, *args, **kwargs)
            loss = loss * float(loss)
            return loss

    class Anneals(transformers.Trainer):
        def compute_loss(self, model, inputs, *args, **kwargs):
            return super().compute_loss(model, inputs, *args, **kwargs) * (1 + self.state.global_step)

    for kind, message in ((Reads, "asks for the value of a tensor"), (Anneals, "trainer.state.global_step")):
        trainer = trainer_of(transformers, tmp_path, kind=kind)
        before = {k: v.clone() for k, v in trainer.model.state_dict().items()}
        neap.torch.attach(trainer, "max")
        with pytest.raises(neap.torch.CannotTrace, match=message):
            trainer.train()
        assert equal(before, trainer.model.state_dict())
    trainer = trainer_of(transformers, tmp_path)
    neap.torch.attach(trainer, 1000)
    with pytest.raises(neap.OverBudget) as error:
        trainer.train()
    assert error.value.smallest > 1000


def test_what_compute_loss_changes_in_a_trainer_is_done_once_by_each_step(transformers, tmp_path):
    """Lists, counters and records of numbers, before and after the loss is known; and a branch by such a number."""

    class Keeps(transformers.Trainer):
        reads = ()

        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            outputs = model(**inputs)
            self.calls += 1
            norm = outputs.logits.detach().norm()
            self.kept.append(norm)
            if "before" in self.reads:
                self.records["norm"].append(norm.item() / 2 - 1)
            loss = outputs.loss
            if "branch" in self.reads:
                number = loss.item()
                loss = loss * 2 if number > 3.4 else loss
            if "after" in self.reads:
                self.records["loss"].append(loss.item())
            return loss

    for reads in ((), ("before",), ("after",), ("branch",), ("before", "branch", "after")):
        found = []
        for budget in (None, "max"):
            trainer = trainer_of(transformers, tmp_path, kind=Keeps)
            trainer.reads, trainer.calls, trainer.kept, trainer.records = reads, 0, [], collections.defaultdict(list)
            if budget is not None:
                neap.torch.attach(trainer, budget)
            trainer.train()
            found.append((trainer.calls, list(map(float, trainer.kept)), dict(trainer.records)))
            found[-1] += (trainer.model.state_dict(),)
        assert found[0][:3] == found[1][:3] and found[0][0] == 3, reads
        assert equal(found[0][3], found[1][3]), reads


def test_metrics_behind_the_loss_are_of_each_step(transformers, tmp_path):
    class Counts(transformers.Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            outputs = model(**inputs)
            loss = outputs.loss
            labels = inputs["labels"]
            hits = outputs.logits[:, :-1].argmax(-1)[labels[:, 1:] >= 0]  # its size depends on data
            self.seen = [*getattr(self, "seen", []), (round(loss.item(), 6), int(hits.sum()))]
            return loss

    found = []
    for budget in (None, "max"):
        trainer = trainer_of(transformers, tmp_path, kind=Counts)
        if budget is not None:
            neap.torch.attach(trainer, budget)
        trainer.train()
        found.append(trainer.seen)
    assert found[0] == found[1] and len(found[0]) == 3


# ---- TRL ----


def tokenizer(t):
    tokenizers = pytest.importorskip("tokenizers")
    words = {"<pad>": 0, "<eos>": 1, "<unk>": 2, **{f"w{i}": i + 3 for i in range(29)}}
    own = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    own.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return t.PreTrainedTokenizerFast(tokenizer_object=own, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def words(n, count):
    g = torch.Generator().manual_seed(n)
    return " ".join(f"w{i}" for i in torch.randint(29, (count,), generator=g).tolist())


def llama(t):
    t.set_seed(1)
    sizes = dict(
        hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1
    )
    return t.LlamaForCausalLM(t.LlamaConfig(vocab_size=32, max_position_embeddings=64, **sizes))


@pytest.mark.parametrize("how", ["padding", "packing", "dpo"])
def test_trl(transformers, tmp_path, how):
    trl, datasets = pytest.importorskip("trl"), pytest.importorskip("datasets")
    found = []
    for budget in (None, "max"):
        common = dict(
            output_dir=str(tmp_path), max_steps=2, per_device_train_batch_size=2, logging_steps=1, report_to=[], save_strategy="no",
            use_cpu=True, bf16=False, disable_tqdm=True, max_length=16,
        )  # fmt: skip
        if how == "dpo":
            data = [
                {"prompt": words(i, 4) + " ", "chosen": words(i + 50, 5), "rejected": words(i + 99, 5)}
                for i in range(8)
            ]
            trainer = trl.DPOTrainer(
                model=llama(transformers), ref_model=llama(transformers), args=trl.DPOConfig(**common, learning_rate=1e-2),
                train_dataset=datasets.Dataset.from_list(data), processing_class=tokenizer(transformers),
            )  # fmt: skip
        else:
            data = [{"text": words(i, 5 + i % 3)} for i in range(24)]
            trainer = trl.SFTTrainer(
                model=llama(transformers), args=trl.SFTConfig(**common, packing=how == "packing"),
                train_dataset=datasets.Dataset.from_list(data), processing_class=tokenizer(transformers),
            )  # fmt: skip
        if budget is not None:
            neap.torch.attach(trainer, budget)
        trainer.train()
        logs = [
            {k: v for k, v in r.items() if not k.startswith("neap")} for r in trainer.state.log_history if "loss" in r
        ]
        found.append((logs, trainer.model.state_dict()))
    assert found[0][0] == found[1][0] and len(found[0][0]) == 2 and "mean_token_accuracy" in found[0][0][0]
    assert equal(found[0][1], found[1][1])


@pytest.mark.parametrize(("kind", "batches"), [("GRPO", 2), ("RLOO", 1)])
def test_trainers_that_generate(transformers, tmp_path, kind, batches):
    """Trainers whose training_step does some work around the usual one; their completions are drawn between steps."""
    trl, datasets = pytest.importorskip("trl"), pytest.importorskip("datasets")
    found = []
    for budget in (None, "max"):
        arguments = getattr(trl, f"{kind}Config")(
            output_dir=str(tmp_path), max_steps=3, per_device_train_batch_size=2, gradient_accumulation_steps=batches, logging_steps=1,
            report_to=[], save_strategy="no", use_cpu=True, bf16=False, disable_tqdm=True, learning_rate=1e-2, num_generations=2,
            max_completion_length=5, beta=0.0,
        )  # fmt: skip
        trainer = getattr(trl, f"{kind}Trainer")(
            model=llama(transformers), args=arguments, processing_class=tokenizer(transformers),
            reward_funcs=lambda completions, **_: [float(len(set(c.split()))) for c in completions],
            train_dataset=datasets.Dataset.from_list([{"prompt": words(i, 4)} for i in range(16)]),
        )  # fmt: skip
        own = type(trainer)
        attached = neap.torch.attach(trainer, budget) if budget is not None else None
        trainer.train()
        logs = [
            {k: v for k, v in r.items() if not k.startswith(("neap", "step_time", "profiling"))}
            for r in trainer.state.log_history
            if "loss" in r
        ]
        found.append((logs, trainer.model.state_dict()))
        if attached is not None:
            assert attached.memory.planned_peak_bytes > 0
            attached.detach()
        assert type(trainer) is own
    assert found[0][0] == found[1][0] and len(found[0][0]) == 3
    assert equal(found[0][1], found[1][1])


# ---- Lightning ----


def lightning_fit(pl, budget, manual=False, **options):
    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.net = torch.nn.Sequential(
                torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(16, 3)
            )
            self.automatic_optimization = not manual

        def training_step(self, batch, batch_idx):
            x, y = batch
            loss = F.cross_entropy(self.net(x), y)
            self.log("train", loss, on_step=True, on_epoch=True)
            if manual:
                optimizer = self.optimizers()
                optimizer.zero_grad()
                self.manual_backward(loss)
                self.clip_gradients(optimizer, 0.1, "norm")
                optimizer.step()
                self.lr_schedulers().step()
            return loss

        def validation_step(self, batch, batch_idx):
            self.log("validated", F.cross_entropy(self.net(batch[0]), batch[1]))

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
            return [optimizer], [{"scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 2), "interval": "step"}]

    g = torch.Generator().manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(22, 8, generator=g), torch.randint(3, (22,), generator=g))
    loader = torch.utils.data.DataLoader(data, 4)
    module = Module()
    torch.manual_seed(1)
    trainer = pl.Trainer(
        max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        callbacks=[] if budget is None else [neap.torch.LightningBudget(budget)], **options,
    )  # fmt: skip
    trainer.fit(module, loader, loader)
    return module, trainer


@pytest.fixture
def pl():
    try:
        import lightning.pytorch as found
    except ImportError:
        found = pytest.importorskip("pytorch_lightning")
    return found


@pytest.mark.parametrize(
    ("steps", "options"),
    [
        (12, {"gradient_clip_val": 0.1}),
        (4, {"accumulate_grad_batches": 4, "gradient_clip_val": 0.05, "gradient_clip_algorithm": "value"}),
        (12, {"manual": True}),
    ],
)
def test_lightning(pl, steps, options):
    plain, expected = lightning_fit(pl, None, **options)
    ours, trainer = lightning_fit(pl, "max", **options)
    assert trainer.global_step == expected.global_step == steps
    assert equal(ours.state_dict(), plain.state_dict())
    assert {k: float(v) for k, v in trainer.callback_metrics.items()} == {
        k: float(v) for k, v in expected.callback_metrics.items()
    }
    memory = trainer.callbacks[0].memory
    assert 0 < memory.measured_peak_bytes <= memory.planned_peak_bytes


def test_lightning_refuses_by_name_and_finds_the_largest_batch(pl):
    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Linear(8, 3)

        def training_step(self, batch, batch_idx):
            return F.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    class Backward(Module):
        def on_after_backward(self):
            pass

    class Index(Module):
        def training_step(self, batch, batch_idx):
            return super().training_step(batch, batch_idx) * (batch_idx % 2)

    class Two(Module):
        def configure_optimizers(self):
            return [torch.optim.SGD(self.parameters(), lr=0.1) for _ in range(2)]

        def training_step(self, batch, batch_idx):
            pass

        automatic_optimization = False

    batch = (torch.randn(4, 8), torch.randint(3, (4,)))
    quiet = dict(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    for kind, message in ((Backward, "on_after_backward"), (Index, "reads batch_idx"), (Two, "2 optimizers")):
        trainer = pl.Trainer(max_steps=1, callbacks=[neap.torch.LightningBudget("max")], **quiet)
        with pytest.raises((TypeError, neap.torch.CannotTrace), match=message):
            trainer.fit(kind(), torch.utils.data.DataLoader([(x, y) for x, y in zip(*batch, strict=True)], 2))
    module = Module()
    step = lambda m, b: m.training_step(b, 0)  # noqa: E731
    expected = neap.torch.plan(module, step, (batch,), optimizer=module.configure_optimizers()).largest_batch("4MiB")
    assert neap.torch.LightningBudget("4MiB").largest_batch(module, batch) == expected > 4


# ---- accelerate, and plain loops ----


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = torch.nn.Linear(8, 16), torch.nn.Linear(16, 3)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


def batches(n=4):
    g = torch.Generator().manual_seed(0)
    return [(torch.randn(4, 8, generator=g), torch.randint(3, (4,), generator=g)) for _ in range(n)]


def loss_of(model, x, y):
    return F.cross_entropy(model(x), y)


def test_accelerate():
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    found = []
    for budget in (None, "max"):
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
        step = neap.torch.compile_step(model, loss_of, optimizer, budget=budget) if budget else None
        for x, y in batches():
            if step is not None:
                step(x, y)
            else:
                accelerator.backward(loss_of(model, x, y))
                optimizer.step()
                optimizer.zero_grad()
            scheduler.step()
        found.append((model.state_dict(), optimizer.param_groups[0]["lr"]))
    assert equal(found[0][0], found[1][0]) and found[0][1] == found[1][1]


def test_budget_of_the_environment(monkeypatch):
    accelerate = pytest.importorskip("accelerate")
    torch._dynamo.reset()
    monkeypatch.setenv("NEAP_BUDGET", "3MiB")
    accelerator = accelerate.Accelerator(cpu=True)
    model = torch.compile(Net(), backend="neap", dynamic=False)
    model, _ = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    accelerator.backward(loss_of(model, *batches()[0]))
    assert [m.budget_bytes for m in neap.torch.last_plans()] == [3 << 20]
    monkeypatch.setenv("NEAP_BUDGET", "lots")
    torch._dynamo.reset()
    with pytest.raises(Exception, match="lots"):
        torch.compile(Net(), backend="neap", dynamic=False)(batches()[0][0])


class Engine:
    """As ignite's: calls a function for each batch, and handlers after it."""

    def __init__(self, process):
        self.process, self.handlers, self.iteration, self.output = process, [], 0, None

    def run(self, data, epochs):
        for _ in range(epochs):
            for batch in data:
                self.iteration += 1
                self.output = self.process(self, batch)
                for handler in self.handlers:
                    handler(self)


def test_plain_engine():
    found = []
    for budget in (None, "max"):
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def eager(engine, batch, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = loss_of(model, *batch)
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = neap.torch.compile_step(model, loss_of, optimizer, budget=budget) if budget else None
        engine = Engine(eager if step is None else lambda _, batch, step=step: step(*batch))
        losses = []
        engine.handlers.append(lambda e, losses=losses: losses.append(float(e.output)))
        engine.run(batches(), 2)
        found.append((losses, model.state_dict()))
    assert found[0][0] == found[1][0] and len(found[0][0]) == 8
    assert equal(found[0][1], found[1][1])
