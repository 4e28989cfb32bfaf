/* neap chat */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/failure.h"
#include "shared/format.h"
#include "verbs/generate.h"
#include "verbs/verbs.h"

struct settings {
  struct arguments a;
  const char *template_name, *system;
  int64_t tokens, length, top_k;
  double temperature;
};

#define COUNT_LIMIT 9007199254740992.0

const neap_setting chat_options[] = {
    OWN_OPTION(struct settings, "system", "TEXT", "the template's", "system message before the first turn",
               TEXT, system),
    OWN_OPTION(struct settings, "template", "NAME", "the run's or the model's",
               "chat template that formats the conversation: chatml, llama3, gemma, plain, ...", TEXT,
               template_name),
    OWN_OPTION(struct settings, "tokens", "N", "512", "maximum number of tokens of an answer", INTEGER,
               tokens, .least = 1, .below = COUNT_LIMIT),
    OWN_OPTION(struct settings, "length", "N", "the model's, at most 2048",
               "maximum number of tokens of a conversation; older turns are dropped", INTEGER, length,
               .least = 2, .below = 2147483648.0),
    OWN_OPTION(struct settings, "temperature", "X", "0.8",
               "sampling temperature: below 1 favours likely tokens; 0: always the most likely token", NUMBER,
               temperature),
    OWN_OPTION(struct settings, "top-k", "K", "all", "sample from the K most likely tokens", INTEGER, top_k,
               .least = 1, .below = COUNT_LIMIT),
    {0},
};

/* ---- Ending an answer ---- */

static volatile sig_atomic_t interrupted;

static void remember(int number) { interrupted = number; }

static int is_interrupted(void *context) {
  (void)context;
  return interrupted != 0;
}

/* ---- The conversation ---- */

struct conversation {
  const struct verb *verb;
  const struct settings *s;
  neap_chat *chat;
  json_t *turns;         /* with --json; else NULL */
  bool talks;            /* somebody sits at a terminal */
  bool told;             /* that turns were dropped */
  int64_t count, tokens; /* turns; tokens that were made and read */
  double seconds;
  neap_memory memory;
};

static int put_text(void *context, const char *bytes, size_t length) {
  const struct settings *s = context;
  return !s->a.json && (fwrite(bytes, 1, length, stdout) != length || fflush(stdout) != 0);
}

static double rate(double tokens, double seconds) { return seconds > 0 ? tokens / seconds : 0; }

static json_t *turn_json(const char *line, const neap_chat_turn *t) {
  const int64_t run = t->prompt_tokens - t->kept_tokens + t->tokens;
  return json_pack("{s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:I, s:b, s:b}", "user",
                   text_json(line, strlen(line)), "assistant", text_json(t->text, t->length), "prompt_tokens",
                   (json_int_t)t->prompt_tokens, "kept_tokens", (json_int_t)t->kept_tokens, "tokens",
                   (json_int_t)t->tokens, "seconds", number_json(t->seconds), "tokens_per_second",
                   number_json(rate((double)run, t->seconds)), "dropped_turns", (json_int_t)t->dropped,
                   "ended", t->ended, "stopped", t->stopped);
}

static int tell_turn(struct conversation *c, const char *line, const neap_chat_turn *turn) {
  c->count++;
  c->tokens += turn->prompt_tokens - turn->kept_tokens + turn->tokens;
  c->seconds += turn->seconds;
  c->memory = turn->memory;
  if (turn->dropped > 0 && !c->told) {
    fputs("neap: the conversation has reached its --length; the oldest turns are dropped\n", stderr);
    c->told = true;
  }
  if (c->turns == NULL) {
    putchar('\n');
    return fflush(stdout) == 0 ? EXIT_DONE : EXIT_FAILED;
  }
  return json_array_append_new(c->turns, turn_json(line, turn)) == 0 ? EXIT_DONE
                                                                     : report_failure(c->verb, no_memory());
}

/* Ctrl-C ends the answer, and outside of an answer the program. */
static int say(struct conversation *c, const char *line) {
  struct sigaction before, action = {.sa_handler = remember};
  neap_chat_turn turn;
  sigemptyset(&action.sa_mask);
  interrupted = 0;
  sigaction(SIGINT, &action, &before);
  const neap_status status = neap_chat_say(c->chat, line, &turn);
  sigaction(SIGINT, &before, NULL);
  return status == NEAP_OK ? tell_turn(c, line, &turn) : report_failure(c->verb, status);
}

/* Takes off the end of the line. False where nothing but white space is left. */
static bool trim_line(char *line, size_t length) {
  while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r')) line[--length] = '\0';
  return line[strspn(line, " \t")] != '\0';
}

static int say_line(struct conversation *c, char *line, size_t length) {
  if (strlen(line) == length) return trim_line(line, length) ? say(c, line) : EXIT_DONE;
  fputs("neap: standard input: a line contains a zero byte, so it is not text\n", stderr);
  return EXIT_FAILED;
}

/* At a terminal a line that fails is reported, and the conversation goes on without it. */
static int talk(struct conversation *c) {
  char *line = NULL;
  size_t size = 0;
  int result = EXIT_DONE;
  while (result == EXIT_DONE) {
    if (c->talks) fputs("> ", stderr);
    const ssize_t length = getline(&line, &size, stdin);
    if (length < 0) break;
    result = say_line(c, line, (size_t)length);
    if (c->talks && result != EXIT_DONE && !ferror(stdout)) result = EXIT_DONE;
  }
  if (c->talks) fputc('\n', stderr);
  if (result == EXIT_DONE && ferror(stdin)) {
    fprintf(stderr, "neap: standard input: cannot be read: %s\n", strerror(errno));
    result = EXIT_FAILED;
  }
  free(line);
  return result;
}

/* ---- The whole ---- */

static json_t *result_json(const struct conversation *c, const neap_train_options *run) {
  const struct settings *s = c->s;
  const neap_memory *m = &c->memory;
  return json_pack("{s:s, s:s?, s:O, s:o, s:o, s:I, s:I, s:I, s:I}", "model", run->model, "system", s->system,
                   "turns", c->turns, "seconds", number_json(c->seconds), "tokens_per_second",
                   number_json(rate((double)c->tokens, c->seconds)), "budget_bytes", (json_int_t)m->budget,
                   "planned_peak_bytes", (json_int_t)m->planned_peak, "measured_peak_bytes",
                   (json_int_t)m->measured_peak, "resident_bytes", (json_int_t)m->resident);
}

static int tell(const struct conversation *c, const char *folder, const neap_train_options *run) {
  if (c->turns != NULL) return print_json(add_run(result_json(c, run), folder, run->data));
  if (c->count > 0)
    fprintf(stderr, "%lld turn%s, %.1f tokens a second, in %s\n", (long long)c->count,
            c->count == 1 ? "" : "s", rate((double)c->tokens, c->seconds),
            bytes_text(c->memory.measured_peak).text);
  return EXIT_DONE;
}

/* Returns the template by which a run learned from conversations without a name, if its model has no
 * template. */
static const char *usual_template(const neap_train_options *run) {
  const char *data = run->data;
  return data != NULL && (strncmp(data, "chat:", 5) == 0 || strstr(data, ".jsonl") != NULL) ? "chatml" : NULL;
}

static neap_chat_options options_of(const struct settings *s, const char *folder,
                                    const neap_train_options *run) {
  neap_chat_options o = {.generate = generation_options(&s->a, folder, run),
                         .template_name = s->template_name != NULL ? s->template_name : run->chat_template,
                         .usual_template = usual_template(run),
                         .system = s->system,
                         .length = s->length,
                         .stop = is_interrupted};
  o.generate.tokens = s->tokens;
  o.generate.temperature = s->temperature;
  o.generate.top_k = s->top_k;
  o.generate.text = put_text;
  o.generate.context = (void *)s;
  return o;
}

static int chat(const struct verb *verb, const struct settings *s, const char *folder,
                const neap_train_options *run) {
  struct conversation c = {.verb = verb, .s = s, .talks = isatty(STDIN_FILENO) != 0};
  const neap_chat_options options = options_of(s, folder, run);
  uint64_t smallest;
  if (s->a.json && (c.turns = json_array()) == NULL) return report_failure(verb, no_memory());
  const neap_status status = neap_chat_open(&options, &smallest, &c.chat);
  if (status == NEAP_OVER_BUDGET && smallest > 0) tell_smallest(&s->a, smallest);
  int result = status == NEAP_OK ? talk(&c) : report_failure(verb, status);
  if (result == EXIT_DONE) result = tell(&c, folder, run);
  neap_chat_close(c.chat);
  json_decref(c.turns);
  return result;
}

int run_chat(const struct verb *verb, int count, char **arguments) {
  struct settings s = {.tokens = 512, .temperature = 0.8};
  struct arguments run;
  const char *folder = NULL;
  if (!read_arguments(verb, count, arguments, &s, &s.a)) return EXIT_USAGE;
  const int result = read_language_model(verb, &s.a, &folder, &run);
  return result == EXIT_DONE ? chat(verb, &s, folder, &run.options) : result;
}
