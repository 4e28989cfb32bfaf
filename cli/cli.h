/* What the verbs of the `neap` command share. The command uses neap.h, and jansson for what it prints. */
#ifndef NEAP_CLI_CLI_H
#define NEAP_CLI_CLI_H

#include <jansson.h>
#include <stdio.h>

#include "neap.h"
#include "neap_collective.h"

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

enum { USUAL_LIMIT = 6, SETTING_LIMIT = 128, OWN_LIMIT = 16, OPERAND_LIMIT = 2 };

struct verb {
  const char *name, *usage, *summary;
  unsigned settings;       /* NEAP_VERB_...: those of the settings of neap_settings.h that it takes */
  const neap_setting *own; /* its other options, whose offsets are in a structure of its own; ends with {0} */
  int operands;            /* the most arguments besides options, up to OPERAND_LIMIT */
  int (*run)(const struct verb *verb, int count, char **arguments);
  struct {
    const char *setting, *text;
  } usual[USUAL_LIMIT]; /* what holds where a setting is not given, where its row says something else; "*":
                           any */
};

/* A row of a verb's own options; what follows the help are further fields of the row. */
#define OWN_OPTION(type, name_, value_, usual_, help_, kind_, field, ...)                                    \
  {                                                                                                          \
    .name = name_, .value = value_, .usual = usual_, .help = help_, .kind = NEAP_SETTING_##kind_,            \
    .offset = offsetof(type, field), __VA_ARGS__                                                             \
  }

struct operands {
  int count;
  const char *values[OPERAND_LIMIT];
};

/* What a verb was given. */
struct arguments {
  neap_train_options options;       /* the usual ones, with the settings that were given */
  const char *given[SETTING_LIMIT]; /* the text of each setting, by its index; NULL: it was not given */
  bool now[SETTING_LIMIT];          /* it was given to this command, not to the run that it goes on with */
  bool own_given[OWN_LIMIT];        /* by the row of the verb's own options */
  struct operands operands;
  const char *config; /* a settings file; NULL: none */
  bool json;
};

/* Says how a budget was read, where its unit is a letter that means two things; or what is available now.
 * Returns it: in bytes where it is what is available. */
uint64_t tell_budget(const char *text, uint64_t bytes);

/* Says the smallest budget that can be met, of the kind that was given: `smallest` is that of a process. */
void tell_smallest(const struct arguments *a, uint64_t smallest);

/* Verb `index`, from 0, in the order of the help; NULL past the last. */
const struct verb *verb_at(int index);

/* What `-o -` is read as: a path, which no other spelling points to. */
extern const char standard_output[];

/* With `-o -` nothing else goes to standard output: EXIT_USAGE, after a message, where `json` is to. */
int check_output(const struct verb *verb, const char *out, bool json);

/* Reads a verb's arguments: settings into `a`, which may be anything before, other options into `own`, where
 * one that is not given leaves its field as it is. One that is given twice counts the last time. False after
 * a message. */
bool read_arguments(const struct verb *verb, int count, char **arguments, void *own, struct arguments *a);

/* Sets one setting by a text, which is borrowed. NEAP_INVALID_ARGUMENT: see neap_setting_read. */
neap_status set_setting(struct arguments *a, int32_t index, const char *text);

/* The text of a setting; NULL: it was not given. */
const char *given_text(const struct arguments *a, const char *name);

/* Whether it was given, or one that can be given instead of it. */
bool is_given(const struct arguments *a, int32_t index);

/* Opens the model that is named, unless it is open: it stays so as long as the command. EXIT_DONE, or another
 * status after a message. */
int open_model(const struct verb *verb, neap_train_options *options);

/* Opens the model, if one is named, and checks that each setting that was given now does something beside the
 * others. EXIT_DONE, or another status after a message. */
int check_use(const struct verb *verb, struct arguments *a);

/* A text that lives as long as the command. NULL where `text` is, after which memory is out. */
const char *keep_text(char *text);
void free_kept(void); /* texts and models */

/* The name of an option as it is given: "--batch", "-o". */
struct option_name {
  char text[40];
};
struct option_name option_name(const neap_setting *option);

/* Option `at` of a verb, in the order of its help, without --help; false past the last. */
bool verb_option_at(const struct verb *verb, int at, neap_setting *row);

/* What holds for a verb where an option is not given; NULL: nothing. */
const char *usual_of(const struct verb *verb, const neap_setting *option);

void print_verb_help(const struct verb *verb);

/* The name that a word may have been meant for: consider each candidate, then look at `best`. */
struct suggestion {
  const char *word;
  size_t distance; /* of the best so far; at first the most that is not too far */
  char best[64];   /* "": none is near enough */
};
struct suggestion suggest_for(const char *word);
void suggest(struct suggestion *s, const char *candidate);
/* "; did you mean NAME?", or nothing. */
struct did_you_mean {
  char text[96];
};
struct did_you_mean suggestion_text(const struct suggestion *s, const char *before);

/* EXIT_DONE where one of `neap models` has this name; or EXIT_USAGE after a message. */
int check_model_name(const struct verb *verb, const char *name);

/* ---- Several processes (processes.c) ---- */

struct launched {
  int32_t asked; /* --processes; 0: not given */
  bool by_launcher;
  neap_collective collective; /* size 0 or 1: there is one process */
};

/* Becomes one of several processes, where that is asked for. False: this one has nothing more to do than to
 * end with
 * `*exit_status`; it supervised the others, or they were not to be had. */
bool launch_processes(const struct verb *verb, struct arguments *a, struct launched *launched,
                      int *exit_status);
bool is_first_process(const struct launched *launched);

/* Returns how many threads each of some processes on this machine runs where the user says nothing. */
int usual_threads(int processes);

/* Makes --total-budget, where that was given, the --budget of each process of the session's collective. An
 * exit status, after a message where it is not EXIT_DONE. */
int divide_budget(const struct verb *verb, struct arguments *a);

/* Whether this process is to tell why its run failed, with this thread's last message; another one, or the
 * one that started them, does elsewhere. */
bool tell_failure(const struct launched *launched, neap_status status);

/* The exit status of a process that is not the first, or does not tell, and whose run ended so. */
int end_process(const struct launched *launched, neap_status status);
void leave_processes(const struct launched *launched);

/* ---- What processes exchange (exchanges.c) ---- */

/* Measures with all of them; the first prints it. Returns an exit status. */
int bench_exchanges(const struct verb *verb, const struct launched *launched, bool json);

/* Returns the library's last message, in which `name` stands for a setting, with options: "--name". Valid
 * until the next call. */
const char *library_message(void);

/* Returns the exit status of the command. */
int exit_status_of(neap_status status);

/* From here on messages about wrong usage are told as a JSON object, too. */
void tell_usage_as_json(void);

/* Says what is wrong with the usage and where help is; `verb` may be NULL. Returns EXIT_USAGE. */
int report_usage(const struct verb *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Sets the error message to "out of memory" and returns NEAP_OUT_OF_MEMORY. */
neap_status no_memory(void);

/* Says the library's last failure; returns the exit status that belongs to it. */
int report_failure(const struct verb *verb, neap_status status);

typedef int verb_function(const struct verb *verb, int count, char **arguments);
verb_function run_train, run_finetune, run_lr, run_evaluate, run_replay, run_predict, run_export,
    run_generate, run_chat, run_translate, run_plan, run_curve, run_show, run_completion, run_manual,
    run_check, run_graph, run_layout, run_cache, run_bench, run_data, run_models, run_planners, run_operators;
extern const neap_setting train_options[], finetune_options[], lr_options[], replay_options[],
    predict_options[], export_options[], generate_options[], chat_options[], translate_options[],
    plan_options[], curve_options[], show_options[], graph_options[], layout_options[], cache_options[],
    bench_options[], data_options[];

/* ---- What is printed (format.c) ---- */

struct text {
  char text[40];
};
struct text bytes_text(uint64_t bytes);                   /* "96.0 MiB" */
struct text duration_text(double seconds);                /* "1 min 20 s" */
struct text rate_text(double rate, const char *unit);     /* "123.4 GB/s" of 1.234e11 and "B/s" */
struct text percent_text(double fraction);                /* "12.3 %" */
void print_transfers(const neap_check_result *check);     /* "a step stores 1 MiB ..."; nothing if none */
double overhead_of(double cost, double base_cost);        /* 0.123; never below 0 */
struct text overhead_text(double cost, double base_cost); /* "+12.3 %" */

/* A name from a file, as a terminal may see it: without control characters, and cut where it is too long. */
struct name {
  char text[160];
};
struct name name_text(const char *name);

/* Prints what was read as what: a line for each fate, with the first objects and reasons. */
void print_understood(FILE *f, const neap_understood *rows, int64_t count);

/* Returns all rows; NULL: memory ran out. */
json_t *understood_json(const neap_understood *rows, int64_t count);

double seconds_now(void); /* of a clock that only goes forward */

/* Returns the columns of the terminal; `otherwise` if the file is not a terminal. */
int line_width(FILE *file, int otherwise);

/* Whether a batch has sequences, whose labels are tokens or as many classes; by neap_train_progress. */
bool of_sequences(neap_task task);
bool of_images(neap_task task);

/* A number, or null for one that JSON does not have. */
json_t *number_json(double value);

/* A string. Bytes that are no UTF-8 become U+FFFD, the sign for what cannot be shown. NULL: out of memory. */
json_t *text_json(const char *text, size_t length);

/* Adds what all verbs that run a model tell by the same names, where the object lacks it: "checkpoint" and
 * "data" (each may be NULL), "process_peak_bytes". Gives the object, which may be NULL. */
json_t *add_run(json_t *object, const char *checkpoint, const char *data);

/* Prints the object on standard output, a line, and frees it; NULL (out of memory) is a failure. Returns an
 * exit status. */
int print_json(json_t *object);

/* Prints what `print` writes to `*out`: as it is, or as the field "text" of a JSON object. An exit status. */
int print_made(const struct verb *verb, void (*print)(void), FILE **out, bool json);

bool has_ending(const char *path, const char *ending); /* ".svg", what follows the last point with it */

/* Writes a text file whole or not at all. EXIT_FAILED after a message. */
int write_text_file(const char *path, const char *text, size_t length);

/* ---- A training step to plan (source.c): that of a model, by its settings, or of a graph file ---- */

#define ALLOW_ALL "micro,f16,sparse=0.3"

const char *precision_name(neap_dtype dtype);

/* Makes the first operand --model, and takes it from the list, if it is the file or folder of a model.
 * EXIT_DONE, or another after a message. */
int take_model_file(const struct verb *verb, struct arguments *a);

/* Reports an operand that take_model_file left, where only a model may stand. Returns EXIT_USAGE. */
int report_no_model(const struct verb *verb, const struct arguments *a);

/* Opens the step of --model or of a step file; exactly one of them. EXIT_DONE, or another after a message. */
int source_open(const struct verb *verb, struct arguments *a, const char *file, neap_step **step);

/* The session of a step to plan, without budget and planner, and the shape of its graph. */
neap_session_options source_session(const neap_train_options *source);
neap_model_options source_shape(const neap_train_options *source);

/* The step of a model, whose batch may be left open. */
neap_status source_step(const neap_train_options *source, neap_step **step);

/* What one of several processes sends in it, where the session's options have their number. */
neap_status source_exchanges(const neap_train_options *source, const neap_plan *plan,
                             neap_exchanges *exchanges);

/* Whether the micro-batch is a number that divides the batch, and each of several processes has as many, at
 * least one: which is set where none was given. EXIT_DONE, or EXIT_USAGE after a message. */
int check_micro_batch(const struct verb *verb, neap_train_options *source);

/* Sets the batch that a model has by itself. */
neap_status source_usual_batch(neap_train_options *source);

/* neap_combinations of a model, within its budget. */
neap_status source_combinations(const neap_train_options *source, neap_combination *list, int *count);

/* ---- Techniques together (techniques.c) ---- */

enum {
  TECHNIQUE_RECOMPUTE = 1,
  TECHNIQUE_MICRO = 2,
  TECHNIQUE_HALF = 4,
  TECHNIQUE_STATES8 = 8,
  TECHNIQUE_SPARSE = 16,
  TECHNIQUES = 5
};

/* A model's step, and how each technique would be taken. */
struct techniques {
  neap_train_options whole; /* without any */
  int64_t micro_batch;      /* about a tenth of the batch, where it is left open */
  neap_dtype precision;     /* which 16 bits */
  double density;
  unsigned allowed; /* but for recomputation, which always is */
  bool usual;       /* no argument names them: those that other options refuse may be left out */
};

/* The techniques that the arguments allow. EXIT_DONE, or another after a message. */
int techniques_open(const struct verb *verb, const struct arguments *a, struct techniques *techniques);

/* Return the step with the techniques in `taken`, and their names: "micro=10+f16", or "none". */
neap_train_options techniques_source(const struct techniques *techniques, unsigned taken);
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
neap_status source_plan(const neap_train_options *source, const neap_step *step, uint64_t budget,
                        const neap_plan_options *options, uint64_t *smallest, neap_step **chosen,
                        neap_plan **plan);

/* neap_plan_graph of a model: the plan that a run of it makes within the budget, and its step. */
neap_status source_plan_alone(const neap_train_options *source, uint64_t budget,
                              const neap_plan_options *options, neap_step **step, neap_plan **plan);

/* A plan file for the step, or for any variant of a model; checked. `*chosen` as above. */
neap_status source_read_plan(const neap_train_options *source, const neap_step *step, const char *file,
                             neap_step **chosen, neap_plan **plan);

/* The bytes of a budget for this step; a fraction is one of what keeping everything needs. */
neap_status source_budget(const neap_step *step, const neap_train_options *source, uint64_t *bytes);

/* The largest batch, up to the one of the source, whose step fits the budget; 0: none, or a graph file. */
int64_t source_largest_batch(const neap_train_options *source, uint64_t budget, const char *planner);

/* Whether the model would fit with the direct algorithm for its convolutions, where that is not what it has.
 */
bool source_fits_direct(const neap_train_options *source, uint64_t budget, const char *planner);

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

/* By how much recomputation may lengthen a step before it costs too much: half as much again. */
extern const double half_more;

/* A budget at which the planner, by its name or "auto", has a plan whose overhead is no more than that; as
 * small as some looks find. INFINITY: whatever it costs. 0: not known. */
uint64_t affordable_budget(const neap_step *step, const char *planner, double overhead);

/* Reports what a budget of `min` costs in recomputation. */
void tell_affordable(double cost, double base_cost, uint64_t budget);

/* ---- Planning, with a line about it (watch.c) ---- */

struct watch;

/* From here on to watch_end a line on standard error, where that is a terminal, tells what takes longer than
 * a moment: how long, of `limit` seconds for a plan (0: none), and how good the best plan is. It is wiped
 * when there is nothing to tell. `plans`: how many watch_plan is going to make; 0: one or unknown. NULL,
 * which the others take, where there is no terminal or no memory for it. */
struct watch *watch_begin(double limit, int64_t plans);
void watch_end(struct watch *watch);

struct plan_request {
  uint64_t budget;
  const char *planner;
  double seconds; /* as in neap_plan_options */
};

/* source_plan under the eyes of the watch. */
neap_status watch_plan(struct watch *watch, const neap_train_options *source, const neap_step *step,
                       const struct plan_request *request, uint64_t *smallest, neap_step **chosen,
                       neap_plan **plan);

/* source_plan_alone in the same way, by the planner of the source. `step`: one like that which is planned. */
neap_status watch_plan_alone(struct watch *watch, const neap_train_options *source, const neap_step *step,
                             uint64_t budget, neap_step **own, neap_plan **plan);

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
neap_status answer_ask(const neap_train_options *source, const neap_step *step, uint64_t budget,
                       const char *planner, double seconds, struct watch *watch, neap_step **chosen,
                       struct plan_answer *answer);

/* The caller's; NULL: out of memory. */
json_t *answer_json(const struct plan_answer *answer, const neap_step *step, uint64_t budget);

/* Tells why there is no plan: on standard error, for people in any case, and as JSON where that is asked for.
 * Returns an exit status. */
int answer_explain(const struct plan_answer *answer, const struct arguments *a, const neap_step *step,
                   uint64_t budget);

/* ---- Threads (threads.c) ---- */

/* Before anything runs in parallel: with this many threads at most (0: as many as OpenMP has by itself).
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

/* Losses of a run whose learning rate rises. */
struct rate_point {
  double rate, loss, smoothed;
};
struct rate_picture {
  const char *title;
  const struct rate_point *points; /* of rising rates */
  int64_t count;
  double suggested; /* 0: no rate is */
};
char *draw_rates(const struct rate_picture *picture, size_t *length);

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
