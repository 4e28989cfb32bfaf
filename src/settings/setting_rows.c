/* The table of settings. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "grad/optimizer.h"
#include "settings/settings.h"

#define FIELD(kind, field) NEAP_SETTING_##kind, offsetof(neap_train_options, field)

enum {
  TRAIN = NEAP_VERB_TRAIN,
  EVALUATE = NEAP_VERB_EVALUATE,
  PREDICT = NEAP_VERB_PREDICT,
  GENERATE = NEAP_VERB_GENERATE,
  TRANSLATE = NEAP_VERB_TRANSLATE,
  PLAN = NEAP_VERB_PLAN,
  CURVE = NEAP_VERB_CURVE,
  SHOW = NEAP_VERB_SHOW,
  STEPS = PLAN | CURVE | SHOW | NEAP_VERB_GRAPH, /* those that plan a model's training step */
  BENCH = NEAP_VERB_BENCH,
  REPLAY = NEAP_VERB_REPLAY,
  LEARN = TRAIN | NEAP_VERB_LR
};

enum {
  KEPT = NEAP_SETTING_BITS | NEAP_SETTING_ALWAYS,
  BITS = NEAP_SETTING_BITS,
  STEP = NEAP_SETTING_STEP,
  PATH = NEAP_SETTING_PATH,
  ONE_RUN = NEAP_SETTING_ONE_RUN,
  WRITES = NEAP_SETTING_WRITES,
  LIST = NEAP_SETTING_LIST,
  OF_OPTIMIZER = NEAP_SETTING_ZERO | NEAP_SETTING_OPTIMIZER
};

enum { IMAGES = NEAP_OF_IMAGES, SEQUENCES = NEAP_OF_TOKENS | NEAP_OF_VECTORS | NEAP_OF_PAIRS };

#define SIZE_LIMIT  2147483648.0
#define COUNT_LIMIT 9007199254740992.0

/* "|sgd|adamw|..." */
#define UPDATE(NAME, id, word, ...)       "|" word
#define MATRIX_UPDATE                     UPDATE
#define NAMED_UPDATE(NAME, OF, word, ...) "|" word
static const char optimizer_words[] =
#include "op/update_list.h"
    ;

/* clang-format off */
const neap_setting setting_rows[] = {
    {"model", "NAME", NULL, "one of `neap models`, an ONNX file (FILE.onnx, onnx:FILE), or a language model (FILE.gguf, DIR)", FIELD(TEXT, model),
     .flags = KEPT | STEP | NEAP_SETTING_SOURCE_PATH, .verbs = LEARN | STEPS | BENCH | PREDICT, .key = "model"},
    {"data", "SET", NULL, "data to train on or to run on, from one of the sources of `neap data`", FIELD(TEXT, data),
     .flags = KEPT | NEAP_SETTING_SOURCE_PATH, .verbs = LEARN | PLAN | PREDICT | EVALUATE | TRANSLATE | REPLAY, .key = "data"},
    {"budget", "B", "max", "bytes: 96MiB, 0.5GB, 100663296, 80%, min, max or available", FIELD(BUDGET, session.budget),
     .verbs = LEARN | PLAN | SHOW | PREDICT | EVALUATE | GENERATE | TRANSLATE | REPLAY, .instead_of = "process-budget|total-budget"},
    {"process-budget", "B", NULL, "bytes that the whole process may take, code and data too", FIELD(BYTES, session.process_budget),
     .verbs = TRAIN, .instead_of = "budget|total-budget"},
    {"total-budget", "B", NULL, "bytes of all processes together; each gets an equal part as its budget", FIELD(BYTES, total_budget),
     .flags = ONE_RUN, .verbs = TRAIN | PLAN, .instead_of = "budget|process-budget"},
    {"batch", "N", "the model's usual", "images or sequences a step; of pairs of sequences, tokens of the target", FIELD(INTEGER, shape.batch), 1, SIZE_LIMIT,
     .flags = KEPT | STEP, .verbs = LEARN | STEPS | BENCH | PREDICT | EVALUATE, .key = "batch"},
    {"micro-batch", "N|auto", "the batch", "images of a micro-batch, several of which make a step; auto: the most that fit", FIELD(INTEGER, micro_batch), 1, SIZE_LIMIT,
     .flags = STEP, .verbs = LEARN | STEPS, .unless = "allow"},
    {"image", "CxHxW", "the model's usual", "channels, height and width of an image; they must be those of the data", FIELD(IMAGE, shape.image), 1, SIZE_LIMIT,
     .flags = STEP, .verbs = LEARN | STEPS | BENCH | PREDICT, .models = IMAGES | NEAP_OF_VECTORS},
    {"classes", "N", "the model's usual", "labels, of pixels with the background, or tokens; at least those of the data", FIELD(INTEGER, shape.classes), 1, SIZE_LIMIT,
     .flags = STEP, .verbs = LEARN | STEPS | BENCH | PREDICT},
    {"length", "N", "the model's usual", "tokens or vectors of a sequence; of pairs the most: longer ones are left out", FIELD(INTEGER, shape.length), 1, SIZE_LIMIT,
     .flags = BITS | STEP, .verbs = LEARN | STEPS | BENCH | PREDICT, .models = SEQUENCES, .key = "length"},
    {"window", "N", "0: all", "number of tokens that a token of a transformer attends to, itself included", FIELD(INTEGER, shape.window), 0, SIZE_LIMIT,
     .flags = BITS | STEP, .verbs = LEARN | STEPS | BENCH | PREDICT, .models = NEAP_OF_TOKENS, .instead_of = "attention", .key = "window"},
    {"attention", "PATTERN[;PATTERN...]", "dense", "tokens that a token of a transformer attends to, by layer in turn: dense, window:W, strided:L, fixed:L,C or dilated:W,G, each with ,global=N or ,global=first, or [P;P] for the heads", FIELD(TEXT, shape.attention),
     .flags = BITS | STEP, .verbs = LEARN | STEPS | BENCH | PREDICT, .models = NEAP_OF_TOKENS | IMAGES, .instead_of = "window", .key = "attention"},
    {"dropout", "X", "0", "share of the values that dropout sets to 0 in networks of sequences", FIELD(FLOAT, shape.dropout), 0, 1,
     .flags = BITS | STEP, .verbs = LEARN | STEPS | BENCH, .models = SEQUENCES, .key = "dropout"},
    {"steps", "N", NULL, "number of steps to train", FIELD(INTEGER, steps), 1, COUNT_LIMIT,
     .verbs = LEARN, .instead_of = "epochs"},
    {"epochs", "N", "1", "number of passes over the data to train", FIELD(INTEGER, epochs), 1, SIZE_LIMIT,
     .verbs = TRAIN, .instead_of = "steps"},
    {"lr", "X", "SGD 0.1; LOMO, Adafactor, APOLLO, GaLore and Fira 0.01; Lion 0.0001; others 0.001; MeZO 0.000001, of adapters 0.00005", "learning rate", FIELD(NUMBER, learning_rate),
     .flags = KEPT | OF_OPTIMIZER, .verbs = TRAIN, .key = "learning_rate"},
    {"schedule", "constant|step|cosine|inverse-sqrt|exponential", "cosine", "how the learning rate changes", FIELD(WORD, schedule),
     .flags = KEPT, .verbs = TRAIN, .key = "schedule"},
    {"warmup", "EPOCHS", "0", "epochs during which the learning rate rises at first", FIELD(NUMBER, warmup_epochs),
     .verbs = TRAIN, .instead_of = "warmup-steps"},
    {"warmup-steps", "N", "0", "steps during which the learning rate rises at first", FIELD(INTEGER, warmup_steps), 0, COUNT_LIMIT,
     .verbs = TRAIN, .instead_of = "warmup"},
    {"step-epochs", "EPOCHS", "a third of the run", "epochs between drops of the learning rate", FIELD(NUMBER, step_epochs), 1e-6,
     .flags = NEAP_SETTING_ZERO, .verbs = TRAIN, .with = "schedule=step"},
    {"step-factor", "X", "0.1", "factor by which a drop multiplies the learning rate", FIELD(NUMBER, step_factor),
     .flags = KEPT | NEAP_SETTING_ZERO, .verbs = TRAIN, .with = "schedule=step", .key = "drop_factor"},
    {"final-lr", "X", NULL, "learning rate of the last step; each step multiplies the rate by one factor to reach it", FIELD(NUMBER, final_learning_rate), 1e-30,
     .flags = BITS, .verbs = TRAIN, .with = "schedule=exponential", .key = "final_learning_rate"},
    {"optimizer", optimizer_words + 1, "sgd", "update rule; its states take memory", FIELD(WORD, session.optimizer),
     .flags = KEPT | STEP, .verbs = LEARN | STEPS | BENCH, .key = "optimizer"},
    {"momentum", "X", "SGD 0.9, Muon 0.95, RMSprop 0", "momentum of SGD, Muon and RMSprop; 0: no state, but for Muon", FIELD(FLOAT, session.momentum), 0, 1,
     .flags = KEPT | STEP | NEAP_SETTING_OPTIMIZER, .verbs = LEARN | STEPS | BENCH, .with = "optimizer=*", .key = "momentum"},
    {"nesterov", NULL, NULL, "Nesterov's momentum", FIELD(SWITCH, session.nesterov),
     .flags = KEPT, .verbs = LEARN, .with = "optimizer=*", .key = "nesterov"},
    {"weight-decay", "X", "SGD 0.0005; AdamW, Adam-mini, Muon and Lion 0.01; others 0", "decay of the parameters", FIELD(FLOAT, session.weight_decay),
     .flags = KEPT | NEAP_SETTING_OPTIMIZER, .verbs = LEARN, .key = "weight_decay"},
    {"beta1", "X", "0.9", "decay of the mean of gradients in Adam, its kin and Lion", FIELD(FLOAT, session.beta1), 0, 1,
     .flags = KEPT | OF_OPTIMIZER, .verbs = LEARN, .with = "optimizer=*", .key = "beta1"},
    {"beta2", "X", "RMSprop and Lion 0.99, others 0.999", "decay of the mean of squared gradients in Adam, its kin and RMSprop; of the momentum in Lion", FIELD(FLOAT, session.beta2), 0, 1,
     .flags = KEPT | OF_OPTIMIZER, .verbs = LEARN, .with = "optimizer=*", .key = "beta2"},
    {"epsilon", "X", "1e-8; APOLLO, GaLore and Fira 1e-6; Adafactor 2^-23; AdaLomo 1e-30", "added to the root of mean squared gradients; in Adafactor and AdaLomo the least of it", FIELD(FLOAT, session.epsilon),
     .flags = KEPT | OF_OPTIMIZER, .verbs = LEARN, .with = "optimizer=*", .key = "epsilon"},
    {"mezo", NULL, NULL, "train by two forward passes a step with perturbed weights, without gradients: the memory of a prediction (MeZO)", FIELD(SWITCH, session.mezo),
     .flags = BITS | STEP, .verbs = LEARN | STEPS, .unless = "allow", .key = "mezo"},
    {"mezo-eps", "X", "0.001", "size of the perturbation of weights", FIELD(FLOAT, session.mezo_epsilon), 0, 1,
     .flags = BITS, .verbs = LEARN, .with = "mezo", .key = "mezo_epsilon"},
    {"states", "f32|8bit", "f32", "8bit: states of SGD, Adam, AdamW, RMSprop and Lion in blocks of 8 bits, but for those of embeddings and small parameters", FIELD(CHOICE, session.states_8bit),
     .flags = BITS | STEP, .verbs = LEARN | STEPS | BENCH, .key = "states"},
    {"states-f32", "PATTERN", NULL, "parameters whose states stay in f32 nevertheless, with * and ?; several; !PATTERN: except those", FIELD(TEXT, session.states_f32),
     .flags = BITS | STEP | LIST, .verbs = LEARN | STEPS | BENCH, .with = "states|optimizer=adamw8,lion8", .key = "states_f32"},
    {"projection-rank", "N", "128, APOLLO-Mini 1", "numbers that the shorter side of a gradient is projected to", FIELD(INT, session.projection_rank), 1, SIZE_LIMIT,
     .flags = BITS | STEP, .verbs = LEARN | STEPS | BENCH, .with = "optimizer=*", .key = "projection_rank"},
    {"projection-every", "N", "200", "updates until gradients have a new projection", FIELD(INT, session.projection_every), 1, SIZE_LIMIT,
     .flags = BITS, .verbs = LEARN, .with = "optimizer=*", .key = "projection_every"},
    {"projection-scale", "X", "APOLLO and Fira 1, APOLLO-Mini 128, GaLore 0.25", "factor of steps by a projection; of APOLLO's its square", FIELD(FLOAT, session.projection_scale), 0, 1e6,
     .flags = BITS, .verbs = LEARN, .with = "optimizer=*", .key = "projection_scale"},
    {"clip-value", "X", "0: not", "cut gradients to [-X, X]", FIELD(FLOAT, session.clip_value),
     .flags = BITS | STEP, .verbs = LEARN | STEPS | BENCH, .key = "clip_value"},
    {"clip-norm", "X", "0: not", "scale all gradients down to this norm; this keeps all of them in memory at once", FIELD(FLOAT, session.clip_norm),
     .flags = BITS | STEP, .verbs = LEARN | STEPS | BENCH, .key = "clip_norm"},
    {"ema", "DECAY", "0: none", "keep an exponential average of the weights and use it to evaluate and predict; usual: 0.999", FIELD(FLOAT, session.ema), 0, 1,
     .flags = BITS | STEP, .verbs = TRAIN | STEPS, .key = "ema"},
    {"label-smoothing", "X", "0", "share of each label that is spread over all classes, in the training loss only", FIELD(FLOAT, shape.smoothing), 0, 1,
     .flags = KEPT, .verbs = LEARN, .key = "label_smoothing"},
    {"class-weights", "balanced|FILE", NULL, "weights of the classes in the training loss: balanced by their number of records, or from lines NAME,WEIGHT", FIELD(TEXT, class_weights),
     .flags = PATH, .verbs = LEARN, .models = IMAGES | NEAP_OF_VECTORS},
    {"mixup", "ALPHA", "0: not", "mix training records and their labels in pairs, weighted by Beta(ALPHA, ALPHA); usual: 0.2", FIELD(FLOAT, mixup),
     .flags = BITS, .verbs = LEARN, .models = IMAGES, .key = "mixup"},
    {"shuffle", "on|off", "on", "draw a new order of the records in each epoch", FIELD(CHOICE, no_shuffle),
     .flags = KEPT, .verbs = LEARN, .key = "shuffle"},
    {"drop-last", "on|off", "on", "leave out the last records of an epoch if they do not fill a batch; off: the last step is shorter", FIELD(CHOICE, keep_last),
     .flags = BITS, .verbs = LEARN, .models = IMAGES | NEAP_OF_TOKENS | NEAP_OF_VECTORS, .key = "drop_last"},
    {"template", "NAME", NULL, "chat template that formats conversations: chatml, llama3, gemma, plain, ...; else the model's, or chatml", FIELD(TEXT, chat_template),
     .flags = BITS, .verbs = LEARN | PLAN, .models = NEAP_OF_TOKENS, .key = "template"},
    {"train-on-prompt", NULL, NULL, "all tokens of a conversation carry loss, not the assistant's alone", FIELD(SWITCH, train_on_prompt),
     .flags = BITS, .verbs = LEARN | PLAN, .models = NEAP_OF_TOKENS, .key = "train_on_prompt"},
    {"long", "cut|skip", "cut", "cut or skip conversations that are longer than a sequence", FIELD(WORD, long_records),
     .flags = BITS, .verbs = LEARN | PLAN, .models = NEAP_OF_TOKENS, .key = "long"},
    {"pack", "off|on|auto", "auto, where the model can", "put several short conversations into one row of tokens; they do not see each other; off: each has its own row", FIELD(WORD, pack),
     .flags = BITS, .verbs = LEARN | PLAN, .models = NEAP_OF_TOKENS, .key = "pack"},
    {"beta", "X", "0.1 with preference:", "how far DPO lets a model go from where it began: the loss of preferences is -log sigmoid(X times the margin)", FIELD(FLOAT, shape.beta), 0, FLT_MAX,
     .flags = BITS, .verbs = LEARN | PLAN, .models = NEAP_OF_TOKENS, .key = "beta"},
    {"augment", "auto|on|off", "auto", "random crops and flips of pictures, other windows of a text in each epoch; auto: not for images:", FIELD(WORD, augment),
     .verbs = LEARN},
    {"evaluate", "on|off", "on", "measure test accuracy after each epoch and after the last step", FIELD(CHOICE, no_evaluation),
     .verbs = TRAIN},
    {"seed", "N", "1", "seed of first weights, order and augmentation; of generated text", FIELD(SEED, session.seed),
     .flags = KEPT, .verbs = LEARN | GENERATE, .key = "seed"},
    {"init", "FILE", NULL, "start from these weights, those that fit: .safetensors, .index.json, or a run's folder", FIELD(TEXT, initial),
     .flags = PATH | ONE_RUN, .verbs = LEARN | REPLAY, .instead_of = "resume"},
    {"init-map", "FROM=TO", NULL, "rename the tensors of that file, with * and ?; several rules apply one after the other", FIELD(TEXT, initial_map),
     .flags = ONE_RUN | LIST, .verbs = LEARN | REPLAY, .with = "init"},
    {"freeze", "PATTERN", NULL, "do not train these parameters, with * and ?; several; !PATTERN: except those", FIELD(TEXT, session.freeze),
     .flags = BITS | STEP | LIST, .verbs = LEARN | STEPS | BENCH, .key = "freeze"},
    {"store", "PATTERN=TYPE", NULL, "store these frozen weights in blocks of few bits: q8_0, q6_k, q5_k, q4_k, q5_1, q5_0, q4_1, q4_0, nf4, i8, or file: the type in the model's file; several; !PATTERN: except those", FIELD(TEXT, session.store),
     .flags = BITS | STEP | LIST, .verbs = LEARN | STEPS | BENCH, .with = "freeze|lora|side", .key = "store"},
    {"base", "TYPE", NULL, "store all frozen linear layers except the head in this type, such as nf4, q8_0 or i8 (bitsandbytes' rows of 8 bits)", FIELD(TEXT, session.base),
     .flags = BITS | STEP, .verbs = LEARN | STEPS | BENCH, .with = "freeze|lora|side", .key = "base"},
    {"base-on-disk", "auto|always|never", "auto, by budget", "keep frozen weights in memory while adapters are trained (never), or read them from the model's file when needed (always)", FIELD(WORD, session.base_on_disk),
     .flags = STEP, .verbs = TRAIN | STEPS | EVALUATE},
    {"disk", "DIR|none", "none", "keep activations, states and trained weights in a file in this folder, as far as the budget needs it", FIELD(TEXT, session.disk),
     .flags = STEP | PATH | NEAP_SETTING_NONE, .verbs = TRAIN | PLAN | CURVE | SHOW},
    {"disk-for", "auto|states|weights|states,weights|activations|activations,states|activations,weights|activations,states,weights", "auto, by budget: activations first, then states", "what the file on disk has", FIELD(WORD, session.disk_for),
     .flags = STEP, .verbs = TRAIN | PLAN | CURVE | SHOW, .with = "disk"},
    {"disk-bytes", "B", "what it needs", "the most that the file on disk may take", FIELD(BYTES, session.disk_bytes),
     .flags = STEP, .verbs = TRAIN | PLAN | CURVE | SHOW, .with = "disk"},
    {"disk-writes", "B", "no limit", "end the run, with a checkpoint, before its steps write more to that file", FIELD(BYTES, disk_writes),
     .flags = ONE_RUN, .verbs = TRAIN, .with = "disk"},
    {"shard", "states|all", "states", "divide the optimizer's states among processes; all: large weights, too, which each process gathers when it reads them", FIELD(WORD, session.shard),
     .flags = STEP, .verbs = TRAIN | PLAN},
    {"pipeline", "P", "1: none", "divide the model by its depth among P processes, each with the weights of its layers; micro-batches go from one to the next", FIELD(INT, session.pipeline), 1, 64,
     .flags = STEP | ONE_RUN, .verbs = TRAIN},
    {"pipeline-way", "WAY", "auto: the one with the shortest steps, of all but roundpipe", "order the tasks of a pipeline this way: gpipe, 1f1b, interleaved, neap, or roundpipe, whose processes share one memory and take any part", FIELD(TEXT, session.pipeline_way),
     .flags = STEP | ONE_RUN, .verbs = TRAIN, .with = "pipeline"},
    {"lora", "R", "0: none", "train adapters of rank R for linear layers, whose own weights do not change (LoRA)", FIELD(INT, session.lora), 0, SIZE_LIMIT,
     .flags = BITS | STEP, .verbs = LEARN | STEPS | BENCH, .key = "lora"},
    {"lora-alpha", "X", "8", "scale the adapters' output by X / R", FIELD(FLOAT, session.lora_alpha),
     .flags = BITS | STEP | NEAP_SETTING_ZERO, .verbs = LEARN | STEPS | BENCH, .with = "lora", .key = "lora_alpha"},
    {"lora-dropout", "X", "0", "share of an adapter's input that dropout sets to 0", FIELD(FLOAT, session.lora_dropout), 0, 1,
     .flags = BITS | STEP, .verbs = LEARN | STEPS | BENCH, .with = "lora", .key = "lora_dropout"},
    {"lora-layers", "PATTERN|all|attention", "queries and values", "linear layers that get adapters, with * and ?; several; !PATTERN: except those; PATTERN=R: of another rank", FIELD(TEXT, session.lora_layers),
     .flags = BITS | STEP | LIST, .verbs = LEARN | STEPS | BENCH, .with = "lora", .key = "lora_layers"},
    {"rslora", NULL, NULL, "scale the adapters' output by X over the root of R, not over R (rsLoRA)", FIELD(SWITCH, session.lora_rs),
     .flags = BITS | STEP, .verbs = LEARN | STEPS | BENCH, .with = "lora", .key = "rslora"},
    {"dora", NULL, NULL, "train the lengths of the adapted weights, too (DoRA)", FIELD(SWITCH, session.lora_dora),
     .flags = BITS | STEP, .verbs = LEARN | STEPS | BENCH, .with = "lora", .key = "dora"},
    {"lora-plus", "X", "1", "factor of the learning rate of the adapters' second matrices (LoRA+); usual: 16", FIELD(FLOAT, session.lora_plus), 0, 1e6,
     .flags = BITS, .verbs = LEARN, .with = "lora", .key = "lora_plus"},
    {"lora-init", "DIR", NULL, "start from these adapters: a folder of peft", FIELD(TEXT, lora_initial),
     .flags = PATH | ONE_RUN, .verbs = LEARN | REPLAY, .with = "lora", .unless = "resume"},
    {"side", "N", "0: none", "train a side net: a stack like the model's beside it, with every width divided by N; the model's own weights do not change (Ladder Side-Tuning)", FIELD(INTEGER, shape.side), 0, SIZE_LIMIT,
     .flags = BITS | STEP, .verbs = LEARN | STEPS | BENCH, .unless = "lora", .key = "side"},
    {"side-init", "base|DIR", "at random", "begin the side net with every N-th row and column of the model's weights (base), or with that of a folder of `neap export`", FIELD(TEXT, side_initial),
     .flags = PATH | ONE_RUN, .verbs = LEARN | REPLAY, .with = "side", .unless = "resume"},
    {"out", "DIR", NULL, "write checkpoints here", FIELD(TEXT, out),
     .flags = PATH | ONE_RUN, .verbs = TRAIN},
    {"force", NULL, NULL, "replace the run that is in --out, and the --metrics that are there", FIELD(SWITCH, replace),
     .flags = ONE_RUN, .verbs = TRAIN},
    {"resume", "DIR", NULL, "continue from a checkpoint, with its options", FIELD(TEXT, resume),
     .flags = PATH | ONE_RUN, .verbs = TRAIN, .instead_of = "init"},
    {"checkpoint-every", "STEPS", NULL, "also write a checkpoint after this many steps, not only after each epoch", FIELD(INTEGER, checkpoint_steps), 1, COUNT_LIMIT,
     .verbs = TRAIN, .with = "out|resume"},
    {"keep-epochs", "N", "0", "keep the weights of the last N epochs in --out, for --average", FIELD(INTEGER, keep_epochs), 0, SIZE_LIMIT,
     .verbs = TRAIN, .with = "out|resume"},
    {"keep-checkpoints", "N", "0", "keep the last N checkpoints in --out, each in a folder step-NUMBER that --resume takes", FIELD(INTEGER, keep_checkpoints), 0, SIZE_LIMIT,
     .verbs = TRAIN, .with = "out|resume"},
    {"digest-every", "STEPS", "100", "record digests of all variables in --out after this many steps, for `neap replay`", FIELD(INTEGER, digest_steps), 1, COUNT_LIMIT,
     .verbs = TRAIN, .with = "bits=portable&out|resume"},
    {"keep-best", NULL, NULL, "keep the weights of the best evaluation, by held-out accuracy or loss, for --best", FIELD(SWITCH, keep_best),
     .verbs = TRAIN, .with = "out|resume", .unless = "evaluate"},
    {"patience", "EPOCHS", NULL, "end the run after this many epochs without a better evaluation", FIELD(INTEGER, patience), 1, COUNT_LIMIT,
     .verbs = TRAIN, .unless = "evaluate"},
    {"best", NULL, NULL, "take the weights that --keep-best kept", FIELD(SWITCH, best),
     .verbs = EVALUATE | PREDICT | GENERATE | TRANSLATE | NEAP_VERB_EXPORT, .unless = "average"},
    {"average", "N", NULL, "use the mean of the weights of the last N epochs, which --keep-epochs N kept", FIELD(INT, average), 1, SIZE_LIMIT,
     .verbs = EVALUATE | TRANSLATE},
    {"metrics", "FILE", NULL, "write one JSON line per step", FIELD(TEXT, metrics),
     .flags = PATH | WRITES, .verbs = TRAIN},
    {"tensorboard", "DIR", NULL, "write an event file for TensorBoard here", FIELD(TEXT, tensorboard),
     .flags = PATH | WRITES, .verbs = TRAIN},
    {"gradient-norm", NULL, NULL, "write the norm of all gradients together to the metrics", FIELD(SWITCH, session.gradient_norm),
     .flags = BITS, .verbs = TRAIN, .with = "metrics|tensorboard", .key = "gradient_norm"},
    {"planner", "P", "auto", "auto, or one of `neap planners`", FIELD(TEXT, session.planner),
     .verbs = TRAIN | PLAN, .unless = "plan"},
    {"time-limit", "SECONDS", "as much as a second or so does", "seconds to search for a plan", FIELD(NUMBER, session.plan_seconds), 0.001,
     .verbs = TRAIN | PLAN | CURVE, .unless = "plan"},
    {"plan", "PLAN.json", NULL, "replay a saved plan", FIELD(TEXT, session.plan_file),
     .flags = PATH, .verbs = TRAIN},
    {"save-plan", "PLAN.json", NULL, "write the plan of this run", FIELD(TEXT, save_plan),
     .flags = PATH | ONE_RUN, .verbs = TRAIN},
    {"conv", "auto|direct|winograd", "auto, by shape", "algorithm of convolutions", FIELD(WORD, session.convolution),
     .flags = KEPT | STEP, .verbs = LEARN | STEPS | BENCH | PREDICT, .models = IMAGES, .key = "convolution"},
    {"bits", "usual|portable", "usual", "what bits follow from; portable: from shapes alone, the same on every processor, with any number of threads", FIELD(WORD, session.bits),
     .flags = BITS | STEP, .verbs = LEARN | STEPS | BENCH | PREDICT, .key = "bits"},
    {"backend", "cpu|reference", "cpu", "fast f32, or plain C in double", FIELD(WORD, session.backend),
     .flags = KEPT | STEP, .verbs = LEARN | STEPS | PREDICT, .key = "backend"},
    {"costs", "roofline|measured", "roofline", "compare plans by estimated (roofline) or measured seconds", FIELD(WORD, session.costs),
     .flags = STEP, .verbs = TRAIN | STEPS},
    {"variant", "auto|base|mask", "auto, by plan", "keep the output of ReLU for its gradient (base), or one bit an element where bits suffice (mask); a plan file has its own", FIELD(WORD, session.variant),
     .flags = STEP, .verbs = TRAIN | STEPS | BENCH},
    {"allow", "micro,bf16,states8,f16,sparse=0.3", NULL, "choose among these techniques a combination that fits", FIELD(TECHNIQUES, allow),
     .verbs = TRAIN | PLAN | CURVE},
    {"prefer", "fidelity|time", "fidelity", "with --allow: take the first combination that fits (fidelity), or the one that costs least (time)", FIELD(CHOICE, allow_by_time),
     .verbs = TRAIN | PLAN, .with = "allow"},
    {"precision", "f32|bf16|f16", "f32", "storage of values, parameters and optimizer states; arithmetic is in f32", FIELD(DTYPE, session.precision),
     .flags = BITS | STEP, .verbs = LEARN | STEPS | BENCH, .unless = "allow", .key = "precision"},
    {"master", NULL, NULL, "parameters and optimizer states in f32 beside values of 16 bits", FIELD(SWITCH, session.master),
     .flags = BITS | STEP, .verbs = LEARN | STEPS | BENCH, .with = "precision=bf16,f16|allow", .key = "master"},
    {"compress", "8|4[:PATTERN]", "not", "round values that the backward pass reads to 8 or 4 bits an element, at random: all large ones, or those whose names match, with * and ?; several; !PATTERN: except those", FIELD(TEXT, session.compress),
     .flags = BITS | STEP, .verbs = LEARN | STEPS | BENCH, .unless = "mezo", .key = "compress"},
    {"backprop-share", "K", "1", "the backward pass of residual branches of a net with attention takes gradients at a share K of the positions, drawn at each step, and is 0 elsewhere", FIELD(FLOAT, session.backprop_share), 0.001,
     .flags = BITS | STEP, .verbs = LEARN | STEPS | BENCH, .unless = "mezo", .key = "backprop_share"},
    {"loss-scale", "X|dynamic", "1024 with f16, else 1", "multiply gradients by X until the update; dynamic: as large as fits", FIELD(SCALE, session.loss_scale),
     .flags = BITS | STEP, .verbs = LEARN | STEPS, .key = "loss_scale"},
    {"sparse", "DENSITY", "dense", "share of the values that sparse parameters keep", FIELD(NUMBER, session.sparse_density), 1e-6, 1,
     .flags = BITS | STEP, .verbs = TRAIN | STEPS, .unless = "allow", .key = "sparse_density"},
    {"sparse-layers", "PATTERN", "convolutions but the first", "names of the sparse parameters, with * and ?", FIELD(TEXT, session.sparse_layers),
     .flags = BITS | STEP, .verbs = TRAIN | STEPS, .with = "sparse|allow", .key = "sparse_layers"},
    {"rewire-every", "N|off", "100", "steps until small sparse values change places for the first time; later less often", FIELD(INTEGER, rewire_every), 1, COUNT_LIMIT,
     .verbs = TRAIN, .with = "sparse|allow"},
    {"save-sparse", NULL, NULL, "write sparse parameters as values and indices in --out, not as dense tensors", FIELD(SWITCH, session.save_sparse),
     .verbs = TRAIN, .with = "sparse|allow&out|resume"},
    {"threads", "N", "all cores", "number of threads; it does not change during a run", FIELD(INT, session.threads), 1, SIZE_LIMIT,
     .flags = KEPT, .verbs = LEARN | STEPS | BENCH | PREDICT | EVALUATE | GENERATE | TRANSLATE | REPLAY, .key = "threads"},
};
/* clang-format on */
const int32_t setting_count = sizeof setting_rows / sizeof *setting_rows;

bool neap_setting_at(int32_t index, neap_setting *setting) {
  if (index < 0 || index >= setting_count || setting == NULL) return false;
  *setting = setting_rows[index];
  return true;
}

int32_t neap_setting_find(const char *name) {
  for (int32_t i = 0; i < setting_count && name != NULL; i++)
    if (strcmp(setting_rows[i].name, name) == 0) return i;
  return -1;
}

const neap_setting *setting_of_key(const char *key) {
  for (int32_t i = 0; i < setting_count; i++)
    if (setting_rows[i].key != NULL && strcmp(setting_rows[i].key, key) == 0) return &setting_rows[i];
  return NULL;
}

neap_train_options neap_train_options_usual(void) {
  return (neap_train_options){.session = {.budget = NEAP_BUDGET_MAX,
                                          .planner = "auto",
                                          .momentum = NAN,
                                          .weight_decay = NAN,
                                          .beta1 = NAN,
                                          .beta2 = NAN,
                                          .epsilon = NAN,
                                          .seed = 1},
                              .learning_rate = NAN,
                              .schedule = NEAP_LR_COSINE,
                              .pack = NEAP_PACK_AUTO};
}

double setting_given_or(double value, double usual) {
  const bool given = !isnan(value) && (value != 0 || signbit(value));
  return given ? value : usual;
}

void neap_train_options_resolve(neap_train_options *o) {
  if (o == NULL) return;
  neap_session_options *s = &o->session;
  if ((unsigned)s->optimizer >= OPTIMIZERS) return; /* which a run refuses */
  const struct optimizer_row *row = &optimizer_rows[s->optimizer];
  static const double mezo_rate = 1e-6, adapter_rate = 5e-5; /* Malladi et al. 2023 */
  static const float mezo_epsilon = 1e-3f;
  if (isnan(o->learning_rate))
    o->learning_rate = !s->mezo ? row->rate : s->lora > 0 ? adapter_rate : mezo_rate;
  if (isnan(s->momentum)) s->momentum = s->mezo ? 0 : row->momentum;
  if (isnan(s->weight_decay)) s->weight_decay = s->mezo ? 0 : row->decay;
  if (s->mezo && s->mezo_epsilon == 0) s->mezo_epsilon = mezo_epsilon;
  s->beta1 = (float)setting_given_or((double)s->beta1, (double)row->beta1);
  s->beta2 = (float)setting_given_or((double)s->beta2, (double)row->beta2);
  s->epsilon = (float)setting_given_or((double)s->epsilon, (double)row->epsilon);
  if (s->projection_rank == 0) s->projection_rank = row->projection_rank;
  if (s->projection_every == 0) s->projection_every = row->projection_every;
  if (s->projection_scale == 0) s->projection_scale = row->projection_scale;
  if (s->lora > 0 && s->lora_alpha == 0 && !signbit(s->lora_alpha)) s->lora_alpha = 8;
}

void neap_train_options_divide_budget(neap_train_options *o) {
  if (o == NULL || o->total_budget == 0) return;
  const struct neap_collective *c = o->session.collective;
  const uint64_t part = o->total_budget / (c != NULL && c->size > 1 ? (uint64_t)c->size : 1);
  o->session.budget = part > 0 ? part : 1; /* 0 is NEAP_BUDGET_MIN */
  o->session.budget_fraction = 0;
  o->total_budget = 0;
}
