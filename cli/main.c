/* The neap command: a verb and its arguments. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "shared/failure.h"
#include "shared/suggest.h"
#include "shared/threads.h"
#include "verbs/verbs.h"

static void print_help(FILE *file) {
  fputs("neap: train neural networks inside a memory budget\n\n", file);
  for (int i = 0; verb_at(i) != NULL; i++)
    fprintf(file, "  neap %-10s %s\n", verb_at(i)->name, verb_at(i)->summary);
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
  for (int i = 0; verb_at(i) != NULL; i++)
    if (strcmp(name, verb_at(i)->name) == 0) return verb_at(i);
  return NULL;
}

static int report_unknown_verb(const char *name) {
  struct suggestion suggestion = suggest_for(name);
  for (int i = 0; verb_at(i) != NULL; i++) suggest(&suggestion, verb_at(i)->name);
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

/* Keeps little of the memory that planning takes: threads that plan share one heap, and oneDNN keeps no
 * kernels of plans that were only tried. A session finds its own again by itself. */
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
