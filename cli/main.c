/* The neap command: a verb and its arguments. */
#include <signal.h>
#include <string.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "cli.h"

static const struct verb verbs[] = {
    {"train", "--model M --data D [--budget B] [--batch N] [--steps N | --epochs N] ...",
     "Train a model on data inside a memory budget.", NEAP_VERB_TRAIN, train_options, .run = run_train},
    {"finetune", "MODEL --data D --out DIR [--lora R | --side N | --full] [--process-budget B] ...",
     "Fine-tune a language model from a file: train adapters, a side net, or all weights.", NEAP_VERB_TRAIN,
     finetune_options, .operands = 1, .run = run_finetune,
     .usual = {{"lora", "8"},
               {"store", "*=file"},
               {"optimizer", "adamw"},
               {"lr", "0.0002"},
               {"schedule", "constant"},
               {"warmup", "0.03"}}},
    {"lr", "--model M --data D [--from X] [--to X] [--steps N] [-o FILE.svg|.csv]",
     "Learning-rate range test: raise the rate step by step, plot the loss, suggest a rate.", NEAP_VERB_LR,
     lr_options, .run = run_lr, .usual = {{"steps", "100"}}},
    {"evaluate", "DIR [--data D] [--budget B]", "Evaluate the checkpoint in a folder on test data.",
     NEAP_VERB_EVALUATE, NULL, .operands = 1, .run = run_evaluate,
     .usual = {{"average", NULL}, {"best", NULL}, {"*", "the run's"}}},
    {"replay", "RUN --step N [--threads N] [--budget B] [--init FILE]",
     "Run steps of a run with portable bits again, and compare the digests that it recorded.",
     NEAP_VERB_REPLAY, replay_options, .operands = 1, .run = run_replay,
     .usual = {{"data", "the run's"}, {"budget", "the run's"}, {"threads", "the run's"}}},
    {"predict",
     "(RUN [--data D] | MODEL --data D | --model M --weights F --data D) -o OUT.csv|.jsonl|.npy [--budget B]",
     "Run a trained model over data and write its outputs.", NEAP_VERB_PREDICT, predict_options,
     .operands = 1, .run = run_predict,
     .usual = {{"budget", "min"}, {"classes", "those of the data"}, {"data", "the run's"}}},
    {"export", "RUN|MODEL -o FILE.onnx|FILE.gguf|DIR [--merge|--adapter] [--type TYPE] [--best]",
     "Write the model of a run as an ONNX file, or as a language model's folder or GGUF file.",
     NEAP_VERB_EXPORT, export_options, .operands = 1, .run = run_export},
    {"generate", "DIR [--prompt TEXT] [--tokens N] [--temperature X] [--top-k K]",
     "Generate text with the language model of a checkpoint.", NEAP_VERB_GENERATE, generate_options,
     .operands = 1, .run = run_generate, .usual = {{"threads", "the run's"}}},
    {"chat", "RUN|MODEL [--system TEXT] [--template NAME] [--tokens N] [--temperature X]",
     "Chat with a language model of a run or of a file; each line is a turn.", NEAP_VERB_GENERATE,
     chat_options, .operands = 1, .run = run_chat, .usual = {{"threads", "the run's"}}},
    {"translate", "DIR [--input FILE] [--reference FILE] [--beam N] [--length-penalty X]",
     "Translate lines with the checkpoint in a folder; with a reference, compute BLEU.", NEAP_VERB_TRANSLATE,
     translate_options, .operands = 1, .run = run_translate,
     .usual = {{"threads", "the run's"}, {"data", "the run's"}}},
    {"plan",
     "(--model M [--batch N] | GRAPH.json | LANGUAGE-MODEL) [--budget B] [--planner P] [-o PLAN.json]",
     "Plan a training step inside a budget; for a language model from a file, compare the ways to fine-tune "
     "it.",
     NEAP_VERB_PLAN, plan_options, .operands = 1, .run = run_plan,
     .usual = {{"planner", "auto; all for a table"},
               {"data",
                "for a language model from a file: gives the context length and the time of an epoch"}}},
    {"curve", "(--model M [--batch N] | GRAPH.json) [--planner P,...] [-o FILE.csv|.svg|.html]",
     "Plot memory against recomputation, from the smallest budget to keeping everything.", NEAP_VERB_CURVE,
     curve_options, .operands = 1, .run = run_curve},
    {"show", "(--model M [--batch N] | GRAPH.json [PLAN.json]) [--budget B] [-o FILE.svg|.html]",
     "Show the bytes in use over the step.", NEAP_VERB_SHOW, show_options, .operands = 2, .run = run_show},
    {"check", "GRAPH.json PLAN.json", "Check a plan by the rules of the file formats alone.", 0, NULL,
     .operands = 2, .run = run_check},
    {"graph", "(--model M | MODEL_FILE) [--batch N] -o GRAPH.json",
     "Write a model's training step as a step file.", NEAP_VERB_GRAPH, graph_options, .operands = 1,
     .run = run_graph},
    {"layout", "IN.csv [-o OUT.csv] [--capacity BYTES]",
     "Find offsets for buffers with lifetimes (id,lower,upper,size).", 0, layout_options, .operands = 1,
     .run = run_layout},
    {"cache", "HISTOGRAM.csv [--states N]",
     "Find where a recurrent model keeps states along prompts that share their beginnings (tokens,requests).",
     0, cache_options, .operands = 1, .run = run_cache},
    {"bench", "[--model M | MODEL_FILE] [--batch N] [--threads N] | --processes N",
     "Measure the speed of this machine, the time of a model's step against the limit of that speed, or what "
     "processes exchange.",
     NEAP_VERB_BENCH, bench_options, .operands = 1, .run = run_bench},
    {"data", "[D] [-o SHEET.png]",
     "Describe data and report what is wrong with it; without data, list the sources.", 0, data_options,
     .operands = 1, .run = run_data},
    {"completion", "bash|zsh|fish", "Print a script that completes verbs, options and values in a shell.", 0,
     NULL, .operands = 1, .run = run_completion},
    {"manual", "", "Print the manual page, for man -l.", 0, NULL, .run = run_manual},
    {"models", "", "List the ready-made models.", 0, NULL, .run = run_models},
    {"planners", "", "List the planners.", 0, NULL, .run = run_planners},
    {"ops", "", "List the operators.", 0, NULL, .run = run_operators},
};
enum { VERB_COUNT = sizeof verbs / sizeof *verbs };

const struct verb *verb_at(int index) { return index >= 0 && index < VERB_COUNT ? &verbs[index] : NULL; }

static void print_help(FILE *file) {
  fputs("neap: train neural networks inside a memory budget\n\n", file);
  for (int i = 0; i < VERB_COUNT; i++) fprintf(file, "  neap %-10s %s\n", verbs[i].name, verbs[i].summary);
  fputs("\nEvery verb has --help (neap help VERB), and --json for one JSON object on standard output.\n\n"
        "Try   neap train --model wrn-28-2 --data synthetic --budget 96MiB --steps 20\n\n"
        "Exit status: 0 done; 1 failed; 2 wrong usage; 3 the budget cannot be met;\n"
        "4 a plan or layout is not valid; 5 training diverged; 130 interrupted.\n",
        file);
}

static int run_verb(const struct verb *verb, int count, char **arguments) {
  for (int i = 0; i < count; i++)
    if (strcmp(arguments[i], "--help") == 0 || strcmp(arguments[i], "-h") == 0) {
      print_verb_help(verb);
      return EXIT_DONE;
    }
  for (int i = 0; i < count; i++)
    if (strcmp(arguments[i], "--json") == 0) tell_usage_as_json();
  return verb->run(verb, count, arguments);
}

static const struct verb *find_verb(const char *name) {
  for (int i = 0; i < VERB_COUNT; i++)
    if (strcmp(name, verbs[i].name) == 0) return &verbs[i];
  return NULL;
}

static int report_unknown_verb(const char *name) {
  struct suggestion suggestion = suggest_for(name);
  for (int i = 0; i < VERB_COUNT; i++) suggest(&suggestion, verbs[i].name);
  return report_usage(NULL, "%s: unknown verb%s", name, suggestion_text(&suggestion, "neap ").text);
}

/* `neap help`, `neap help VERB` */
static int run_help(int count, char **arguments) {
  if (count > 1) return report_usage(NULL, "unexpected argument '%s'", arguments[1]);
  const struct verb *verb = count > 0 ? find_verb(arguments[0]) : NULL;
  if (count > 0 && verb == NULL) return report_unknown_verb(arguments[0]);
  if (verb != NULL)
    print_verb_help(verb);
  else
    print_help(stdout);
  return EXIT_DONE;
}

static int run(int count, char **arguments) {
  if (count == 0) {
    print_help(stderr);
    fputs("\nneap: a verb is missing\n", stderr);
    return EXIT_USAGE;
  }
  if (strcmp(arguments[0], "--help") == 0 || strcmp(arguments[0], "-h") == 0 ||
      strcmp(arguments[0], "help") == 0)
    return run_help(count - 1, arguments + 1);
  if (strcmp(arguments[0], "--version") == 0) {
    puts("neap " NEAP_VERSION);
    return EXIT_DONE;
  }
  const struct verb *verb = find_verb(arguments[0]);
  if (verb != NULL) return run_verb(verb, count - 1, arguments + 1);
  return report_unknown_verb(arguments[0]);
}

/* What planning took is given back: threads that plan share one heap, and oneDNN keeps no kernels of plans
 * that were only tried. A session finds its own again by itself. */
static void keep_little(void) {
#if defined(__GLIBC__)
  mallopt(M_ARENA_MAX, 1);
#endif
  setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "0", 0);
}

int main(int count, char **arguments) {
  limit_spinning(arguments);
  signal(SIGXFSZ,
         SIG_IGN); /* a file that may not grow is a failed write, with its message and its cleaning up */
  keep_little();
  watch_for_exit();
  const int status = run(count - 1, arguments + 1);
  end_watched();
  free_kept();
  if (fflush(stdout) == 0 && !ferror(stdout)) return status;
  fputs("neap: standard output could not be written\n", stderr);
  return status == EXIT_DONE ? EXIT_FAILED : status;
}
