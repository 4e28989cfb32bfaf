/* What the verbs of the `neap` command share. The command uses neap.h, and jansson for what it prints. */
#ifndef NEAP_CLI_CLI_H
#define NEAP_CLI_CLI_H

#include <jansson.h>
#include <stdio.h>

#include "neap.h"

enum exit_status {
  EXIT_DONE = 0,
  EXIT_FAILED = 1,
  EXIT_USAGE = 2,
  EXIT_OVER_BUDGET = 3,
  EXIT_INVALID = 4,
  EXIT_DIVERGED = 5,
  EXIT_SIGNAL = 128 /* and the signal's number */
};

/* ---- Verbs (main.c) and their options (options.c) ---- */

enum option_kind {
  OPTION_SWITCH,  /* bool; takes no value */
  OPTION_TEXT,    /* const char * */
  OPTION_INTEGER, /* int64_t, at least `least` */
  OPTION_OR_WORD, /* the same, or the word behind | in `value`: -1 */
  OPTION_INT,     /* int, at least `least` */
  OPTION_NUMBER,  /* double, at least `least`, and below `below` where that is not 0; or the word: -1 */
  OPTION_IMAGE,   /* int64_t[3]: "CxHxW", each at least 1 */
  OPTION_WORD,    /* int: which of the words in `value`, "a|b|c" */
  OPTION_BUDGET   /* struct budget */
};

struct option {
  const char *name, *value, *help; /* `value` stands for its value in the help */
  enum option_kind kind;
  size_t offset; /* of its field in the verb's settings */
  double least, below;
};

struct budget {
  const char *text; /* as it was given; NULL: it was not */
  uint64_t bytes;   /* as neap_budget_parse gives them */
  double fraction;
};

/* Where its unit is a letter that means two things, how it was read. */
void tell_budget(const struct budget *budget);

struct verb {
  const char *name, *usage, *summary;
  const struct option *options; /* ends with a row without a name */
  int (*run)(const struct verb *verb, int count, char **arguments);
};

/* What `-o -` is read as: a path, which no other spelling points to. */
extern const char standard_output[];

/* With `-o -` nothing else goes to standard output: EXIT_USAGE, after a message, where `json` is to. */
int check_output(const struct verb *verb, const char *out, bool json);

enum { OPERAND_LIMIT = 2 };

struct operands {
  int count;
  const char *values[OPERAND_LIMIT];
};

/* Reads arguments into the verb's settings; an option that is not given leaves its field as it is, one that
 * is given twice counts the last time. `texts` (may be NULL) gets each option's value as it was given, by row
 * ("" for a switch). False after a message on standard error. */
bool read_arguments(const struct verb *verb, int count, char **arguments, void *settings,
                    struct operands *operands, const char **texts);
void print_verb_help(const struct verb *verb);

/* Says what is wrong with the usage and where help is; `verb` may be NULL. Returns EXIT_USAGE. */
int report_usage(const struct verb *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What the command's own functions return when memory is out, so that it is told of and no other failure. */
neap_status no_memory(void);

/* Says the library's last failure; returns the exit status that belongs to it. */
int report_failure(const struct verb *verb, neap_status status);

typedef int verb_function(const struct verb *verb, int count, char **arguments);
verb_function run_train, run_evaluate, run_predict, run_generate, run_translate, run_plan, run_curve,
    run_show, run_check, run_graph, run_layout, run_bench, run_models, run_planners, run_operators;
extern const struct option train_options[], evaluate_options[], predict_options[], generate_options[],
    translate_options[], plan_options[], curve_options[], show_options[], check_options[], graph_options[],
    layout_options[], bench_options[], table_options[];

/* ---- What is printed (format.c) ---- */

struct text {
  char text[40];
};
struct text bytes_text(uint64_t bytes);                   /* "96.0 MiB" */
struct text duration_text(double seconds);                /* "1 min 20 s" */
struct text percent_text(double fraction);                /* "12.3 %" */
double overhead_of(double cost, double base_cost);        /* 0.123; never below 0 */
struct text overhead_text(double cost, double base_cost); /* "+12.3 %" */

/* A name from a file, as a terminal may see it: without control characters, and cut where it is too long. */
struct name {
  char text[160];
};
struct name name_text(const char *name);

double seconds_now(void); /* of a clock that only goes forward */

/* Columns of the terminal that a line may fill; `otherwise` where the file is none. */
int line_width(FILE *file, int otherwise);

/* A number, or null for one that JSON does not have. */
json_t *number_json(double value);

/* Prints the object on standard output, a line, and frees it; NULL (out of memory) is a failure. Returns an
 * exit status. */
int print_json(json_t *object);

bool has_ending(const char *path, const char *ending); /* ".svg", what follows the last point with it */

/* Writes a text file whole or not at all. EXIT_FAILED after a message. */
int write_text_file(const char *path, const char *text, size_t length);

/* ---- A training step to plan (source.c): a model's, or a graph file's ---- */

struct source {
  const char *model, *file;
  int64_t batch, image[3], classes, length, window; /* 0: the model's usual */
  int64_t micro_batch;                              /* 0: the batch */
  int optimizer, convolution, backend, costs, variant, precision, threads;
  double momentum, sparse; /* sparse: density; 0: dense */
  const char *sparse_layers;
};

/* "micro,f16,sparse=0.3" as NEAP_ALLOW_... of neap.h and a density. False after a message. */
bool read_allowed(const struct verb *verb, const char *text, unsigned *allowed, double *density);
#define ALLOW_VALUES "micro,bf16,f16,sparse=0.3"

#define PRECISION_WORDS "f32|bf16|f16"
neap_dtype precision_dtype(int word);
const char *precision_name(int word);
int precision_word(neap_dtype dtype);

#define LEAST_DENSITY      1e-6
#define SPARSE_LAYERS_HELP "names of the sparse parameters, with * and ? (convolutions but the first)"

/* In the order of neap_optimizer. */
#define OPTIMIZER_WORDS "sgd|adamw|adam|rmsprop|lion"

#define SOURCE_DEFAULTS                                                                                      \
  { .momentum = 0.9 }
/* clang-format off */
#define SOURCE_OPTION(settings, name, value, help, kind, field, least) \
  {name, value, help, kind, offsetof(settings, source.field), least, 0}
#define SOURCE_OPTIONS(settings) \
  SOURCE_OPTION(settings, "--model", "NAME", "a ready-made model, one of `neap models`", OPTION_TEXT, model, 0), \
  SOURCE_OPTION(settings, "--batch", "N", "images a step (the model's usual)", OPTION_INTEGER, batch, 1), \
  SOURCE_OPTION(settings, "--micro-batch", "N", "images of a micro-batch, several of which make a step (the batch)", OPTION_INTEGER, micro_batch, 1), \
  SOURCE_OPTION(settings, "--image", "CxHxW", "channels, height and width of an image (the model's usual)", OPTION_IMAGE, image, 0), \
  SOURCE_OPTION(settings, "--classes", "N", "of labels, of pixels with the background, or tokens (the model's usual)", OPTION_INTEGER, classes, 1), \
  SOURCE_OPTION(settings, "--length", "N", "of sequences (the model's usual)", OPTION_INTEGER, length, 1), \
  SOURCE_OPTION(settings, "--window", "N", "of a transformer's attention: a token sees so many (0: all)", OPTION_INTEGER, window, 0), \
  SOURCE_OPTION(settings, "--optimizer", OPTIMIZER_WORDS, "whose states are in memory (sgd)", OPTION_WORD, optimizer, 0), \
  {"--momentum", "X", "of SGD; 0: no state (0.9)", OPTION_NUMBER, offsetof(settings, source.momentum), 0, 1}, \
  SOURCE_OPTION(settings, "--conv", "auto|direct|winograd", "algorithm of convolutions (auto)", OPTION_WORD, convolution, 0), \
  SOURCE_OPTION(settings, "--backend", "cpu|reference", "fast f32, or plain C in double (cpu)", OPTION_WORD, backend, 0), \
  SOURCE_OPTION(settings, "--costs", "roofline|measured", "where the costs come from (roofline)", OPTION_WORD, costs, 0), \
  SOURCE_OPTION(settings, "--variant", "auto|base|mask", \
                "what ReLU keeps: its output, or bits where they do (auto, by plan)", OPTION_WORD, variant, 0), \
  SOURCE_OPTION(settings, "--precision", PRECISION_WORDS, "storage of values, parameters and optimizer states (f32)", OPTION_WORD, precision, 0), \
  {"--sparse", "DENSITY", "the share of their values that sparse parameters keep (dense)", OPTION_NUMBER, offsetof(settings, source.sparse), LEAST_DENSITY, 1}, \
  SOURCE_OPTION(settings, "--sparse-layers", "PATTERN", SPARSE_LAYERS_HELP, OPTION_TEXT, sparse_layers, 0), \
  SOURCE_OPTION(settings, "--threads", "N", "threads that it will run on (all cores)", OPTION_INT, threads, 1)
/* clang-format on */

/* The operand is the graph file; exactly one of it and --model. EXIT_DONE, or another after a message. */
int source_open(const struct verb *verb, struct source *source, const char *file, neap_step **step);

/* What the options say of a model's session and of its shape; a budget is not among them. */
neap_session_options source_session(const struct source *source);
neap_model_options source_shape(const struct source *source);

/* The step of a model, whose batch may be left open. */
neap_status source_step(const struct source *source, neap_step **step);

/* Sets the batch that a model has by itself. */
neap_status source_usual_batch(struct source *source);

/* neap_combinations of a model. */
neap_status source_combinations(const struct source *source, const struct budget *budget, unsigned allowed,
                                neap_combination *list, int *count);

/* ---- Techniques together (techniques.c) ---- */

enum {
  TECHNIQUE_RECOMPUTE = 1,
  TECHNIQUE_MICRO = 2,
  TECHNIQUE_HALF = 4,
  TECHNIQUE_SPARSE = 8,
  TECHNIQUES = 4
};

/* A model's step, and how each technique would be taken. */
struct techniques {
  struct source whole; /* without any */
  int64_t micro_batch; /* about a tenth of the batch, where it is left open */
  int precision;       /* which 16 bits */
  double density;
  unsigned allowed; /* but for recomputation, which always is */
};

/* `allow` as read_allowed takes it. EXIT_DONE, or another after a message. */
int techniques_open(const struct verb *verb, const struct source *source, const char *allow,
                    struct techniques *techniques);

/* The step with some of them, and their names: "micro=10+f16", or "none". */
struct source techniques_source(const struct techniques *techniques, unsigned taken);
struct name techniques_text(const struct techniques *techniques, unsigned taken);

/* Prints what each of them makes of the step's memory (profile.c); or draws memory against cost for each
 * combination into a file (NULL: none) and prints it (techniques_curve.c). Return an exit status. */
int profile_techniques(const struct verb *verb, const struct techniques *techniques, bool json);
int curve_techniques(const struct verb *verb, const struct techniques *techniques, int64_t points,
                     const char *out, bool json);

/* ---- Plans of a source ---- */

/* neap_plan_make_with; a model that leaves its variant open is planned in the one that pays. `*chosen` (may
 * be NULL): the step that the plan is for, the caller's to free, where it is another than `step`; else NULL.
 */
neap_status source_plan(const struct source *source, const neap_step *step, uint64_t budget,
                        const neap_plan_options *options, uint64_t *smallest, neap_step **chosen,
                        neap_plan **plan);

/* A plan file for the step, or for any variant of a model; checked. `*chosen` as above. */
neap_status source_read_plan(const struct source *source, const neap_step *step, const char *file,
                             neap_step **chosen, neap_plan **plan);

/* The bytes of a budget for this step; a fraction is one of what keeping everything needs. */
neap_status source_budget(const neap_step *step, const struct budget *budget, uint64_t *bytes);

/* The largest batch, up to the one of the source, whose step fits the budget; 0: none, or a graph file. */
int64_t source_largest_batch(const struct source *source, uint64_t budget, const char *planner);

/* Whether the model would fit with the direct algorithm for its convolutions, where that is not what it has.
 */
bool source_fits_direct(const struct source *source, uint64_t budget, const char *planner);

/* What a plan needs: resident bytes and arena. */
uint64_t plan_bytes(const neap_plan *plan);

/* One plan as JSON. `asked`: the budget, or one of the special ones. Its planner is who was asked by name; of
 * "auto" who made it. */
json_t *plan_json(const neap_plan *plan, uint64_t asked, const char *planner);

/* True where it is "auto" or a row of the planner table. */
bool planner_exists(const char *name);

/* Its place among the rows, from 1 for the last one; 0: "auto". A planner looks the same in all pictures. */
int planner_from_end(const char *name);

/* Which graphs the planner takes, as its row says. */
const char *planner_graphs(const char *name);

/* ---- What more memory would save (affordable.c) ---- */

/* More than half as much again. */
bool costs_too_much(double cost, double base_cost);

/* A budget at which the planner, by its name or "auto", has a plan that does not; as small as some looks
 * find. 0: not known. */
uint64_t affordable_budget(const neap_step *step, const char *planner);

/* The line about a budget of `min` that costs so much. */
void tell_affordable(double cost, double base_cost, uint64_t budget);

/* ---- Planning, with a line about it (watch.c) ---- */

#define TIME_LIMIT_OPTION(settings, field)                                                                   \
  {                                                                                                          \
    "--time-limit", "SECONDS", "search for a plan so long (as much as a second or so does)", OPTION_NUMBER,  \
        offsetof(settings, field), 0.001, 0                                                                  \
  }

struct watch;

/* From here on to watch_end a line on standard error, where that is a terminal, tells what takes longer than
 * a moment: how long, of `limit` seconds for a plan (0: none), and how good the best plan is. It is wiped
 * when there is nothing to tell. `plans`: how many watch_plan is going to make; 0: one or unknown. NULL,
 * which the others take, where there is no terminal or no memory for it. */
struct watch *watch_begin(double limit, int64_t plans);
void watch_end(struct watch *watch);

/* source_plan under the eyes of the watch; `seconds` as in neap_plan_options. */
neap_status watch_plan(struct watch *watch, const struct source *source, const neap_step *step,
                       uint64_t budget, const char *planner, double seconds, uint64_t *smallest,
                       neap_step **chosen, neap_plan **plan);

/* For a search that is not begun by watch_plan: the context is the watch. */
neap_plan_progress_function watch_progress;

/* ---- What one planner answers (answer.c) ---- */

struct plan_answer {
  const char *planner;
  neap_plan *plan;   /* the caller's; NULL: over the budget, and then */
  uint64_t smallest; /* 0: it has no plan for such a graph under any budget, and then */
  char why[256];
  int64_t largest_batch;
};

/* watch_plan, where that there is no plan is an answer too. */
neap_status answer_ask(const struct source *source, const neap_step *step, uint64_t budget,
                       const char *planner, double seconds, struct watch *watch, neap_step **chosen,
                       struct plan_answer *answer);

/* The caller's; NULL: out of memory. */
json_t *answer_json(const struct plan_answer *answer, const neap_step *step, uint64_t budget);

/* Tells why there is no plan: on standard error, for people in any case, and as JSON where that is asked for.
 * Returns an exit status. */
int answer_explain(const struct plan_answer *answer, const struct source *source, const neap_step *step,
                   uint64_t budget, bool json);

/* ---- Threads (threads.c) ---- */

/* Before anything runs in parallel: with so many threads at most (0: as many as OpenMP has by itself).
 * EXIT_FAILED, after a message, where the system does not give as many as a run has. */
int prepare_threads(int asked);

/* Threads that wait for each other spin for a moment and then sleep: OpenMP's own choice is to spin for
 * milliseconds, in which they take the processor from those they wait for where other processes use it too.
 * OpenMP reads its environment when it is loaded, so the command begins anew, once. Returns where
 * OMP_WAIT_POLICY or GOMP_SPINCOUNT is set, or where the command cannot begin anew. */
void limit_spinning(char **arguments);

/* OpenMP, out of threads, ends the process with a message of its own: from here on to end_watched that is
 * told of. */
void watch_for_exit(void);
void end_watched(void);

/* ---- Files of buffers (buffer_ids.c) ---- */

/* Whether each id of a file that was read is there once: EXIT_DONE, or EXIT_FAILED after a message. */
int check_buffer_ids(const char *path);

/* ---- Pictures (svg.c, page.c): a text that the caller frees; NULL: out of memory ---- */

extern const char *const kind_names[NEAP_KIND_COUNT];

struct memory_picture {
  const char *title, *subtitle;
  const uint64_t *live; /* as neap_plan_profile gives it */
  const bool *again;    /* by position: whether its node has run before */
  int64_t positions;
  uint64_t bytes;  /* that the plan takes, its gaps included */
  uint64_t budget; /* 0: no line */
};
char *draw_memory(const struct memory_picture *picture, size_t *length);

struct curve_point {
  int series;
  double bytes, overhead;
  const neap_plan *plan;
  const neap_step *step; /* that the plan is for; NULL: the page's */
};
struct curve_picture {
  const char *title;
  const char *const *series; /* names: of planners, where there is no cost_label */
  int series_count;
  const struct curve_point *points; /* of one series in rising order of bytes and falling order of overhead */
  int64_t count;
  double lower_bound;     /* bytes; no plan needs less; 0: not known */
  double keep_all;        /* bytes */
  const char *cost_label; /* of the overhead; NULL: it is recomputation */
};
char *draw_curve(const struct curve_picture *picture, size_t *length);

/* The points that no other beats, of equal ones the first, in rising order of bytes and falling order of
 * overhead: their places in `points`. The caller frees it; NULL: out of memory. */
int64_t *curve_front(const struct curve_picture *picture, int64_t *count);

/* A page that looks into plans: memory over the step and where every tensor lies, which answer to the
 * pointer. Either a curve, and then the plans on its front, which no other point beats, can be opened from
 * it; or one plan. It is one file that needs no other. */
struct page {
  const neap_step *step;             /* of all plans but those with one of their own */
  const struct curve_picture *curve; /* NULL: the one plan */
  const neap_plan *plan;
  uint64_t budget; /* a line in that plan's picture; 0: none */
};
neap_status draw_page(const struct page *page, char **text, size_t *length);

#endif
