/* Gives a fuzz target files, and changed copies of them, without a fuzzer.
 *
 *     fuzz_NAME [-mutations=N] [-seed=S] FILE|FOLDER...
 *
 * A file whose name begins with "good" must be taken, one that begins with "bad" refused. Each file is then
 * changed N times, as the seed says; in a quick pass (NEAP_QUICK) not at all, or, under sanitizers, which see
 * more (NEAP_SANITIZED), the first 50 of these times. Of the changed copies of files that are taken one in 50
 * must be taken and one in 50 refused, or the changes are of little use. The input on which the process dies
 * is written to failed-fuzz_NAME in the working folder. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

enum { INPUT_LIMIT = 1 << 16, TOKEN_LIMIT = 1 << 13, FILE_LIMIT = 256, FEWEST = 50, QUICK_CHANGES = 50 };

struct input {
  char bytes[INPUT_LIMIT];
  size_t size;
};

static struct input current;
static char failed[128];
static const char *current_file;
static long current_change;

/* ---- What is left when the process dies ---- */

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void keep_input(void) {
  const int file = open(failed, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file < 0) return;
  if (write(file, current.bytes, current.size) == (ssize_t)current.size)
    fprintf(stderr, "%s, change %ld: the input is in %s\n", current_file, current_change, failed);
  close(file);
}

static void die(int number) {
  signal(number, SIG_DFL);
  keep_input();
  raise(number);
}

static void keep_failures(const char *program) {
  const char *slash = strrchr(program, '/');
  snprintf(failed, sizeof failed, "failed-%.100s", slash != NULL ? slash + 1 : program);
  signal(SIGABRT, die);
  if (__sanitizer_set_death_callback != NULL)
    __sanitizer_set_death_callback(keep_input);
  else
    signal(SIGSEGV, die);
}

/* ---- Changes ---- */

static uint32_t draw(uint32_t *random, size_t below) {
  *random = *random * 1664525u + 1013904223u;
  return (uint32_t)((uint64_t)(*random >> 4) * below >> 28);
}

/* Puts `with` in place of the bytes [from, to); nothing where it would grow too long. */
static void replace_bytes(struct input *input, size_t from, size_t to, const char *with, size_t size) {
  if (input->size - (to - from) + size > sizeof input->bytes) return;
  memmove(input->bytes + from + size, input->bytes + to, input->size - to);
  memcpy(input->bytes + from, with, size);
  input->size = input->size - (to - from) + size;
}

static bool is_number(char c) { return (c >= '0' && c <= '9') || c == '-' || c == '.'; }
static bool is_separator(char c) { return c == ',' || c == '\n'; }

/* Where tokens begin: numbers, or the pieces after separators. Gives how many. */
static size_t find_tokens(const struct input *input, bool (*is)(char), size_t *starts) {
  size_t count = 0;
  for (size_t i = 1; i < input->size && count < TOKEN_LIMIT; i++)
    if (is(input->bytes[i]) && !is(input->bytes[i - 1])) starts[count++] = i;
  return count;
}

static void change_number(struct input *input, uint32_t *random) {
  static const char *const edges[] = {"-1",
                                      "0",
                                      "1",
                                      "2",
                                      "3",
                                      "63",
                                      "64",
                                      "65",
                                      "2147483646",
                                      "2147483647",
                                      "2147483648",
                                      "4294967295",
                                      "4611686018427387904",
                                      "9223372036854775807",
                                      "9223372036854775808",
                                      "-9223372036854775808",
                                      "18446744073709551615",
                                      "18446744073709551616",
                                      "1e308",
                                      "1e999",
                                      "-0.0",
                                      "0.5",
                                      "null",
                                      "true",
                                      "[]",
                                      "{}",
                                      "\"\""};
  static size_t starts[TOKEN_LIMIT];
  const size_t count = find_tokens(input, is_number, starts);
  if (count == 0) return;
  const size_t from = starts[draw(random, count)];
  size_t to = from;
  while (to < input->size && is_number(input->bytes[to])) to++;
  /* Mostly one of the small numbers, which can keep the file readable. */
  const uint32_t edge = draw(random, draw(random, 4) != 0 ? 8 : sizeof edges / sizeof *edges);
  replace_bytes(input, from, to, edges[edge], strlen(edges[edge]));
}

/* A piece between two separators is dropped, or written over another one, or before it. */
static void change_piece(struct input *input, uint32_t *random) {
  static size_t starts[TOKEN_LIMIT];
  static char piece[INPUT_LIMIT];
  const size_t count = find_tokens(input, is_separator, starts);
  if (count < 3) return;
  const size_t a = draw(random, count - 1), b = draw(random, count - 1);
  const size_t size = starts[a + 1] - starts[a];
  memcpy(piece, input->bytes + starts[a], size);
  switch (draw(random, 3)) {
  case 0:
    replace_bytes(input, starts[a], starts[a + 1], "", 0);
    break;
  case 1:
    replace_bytes(input, starts[b], starts[b + 1], piece, size);
    break;
  default:
    replace_bytes(input, starts[b], starts[b], piece, size);
    break;
  }
}

static void change_byte(struct input *input, uint32_t *random) {
  static const char bytes[] = "0123456789-[]{},:\"xe. \n\t\r\x7f\x80\xff";
  if (input->size == 0) return;
  char *byte = &input->bytes[draw(random, input->size)];
  if (draw(random, 2) == 0)
    *byte ^= (char)(1 << draw(random, 8));
  else
    *byte = bytes[draw(random, sizeof bytes)]; /* its 0, too */
}

static void change_length(struct input *input, uint32_t *random) {
  if (draw(random, 2) == 0)
    input->size = draw(random, input->size + 1);
  else
    replace_bytes(input, input->size, input->size, "0", 1);
}

static void change(struct input *input, uint32_t *random) {
  static void (*const changes[])(struct input *, uint32_t *) = {
      change_number, change_number, change_piece, change_piece, change_byte, change_byte, change_length};
  for (uint32_t places = 1 + draw(random, 1 + draw(random, 3)); places > 0; places--) {
    /* A cut hides all other changes: few of them. */
    const uint32_t kind = draw(random, draw(random, 4) == 0 ? sizeof changes / sizeof *changes : 6);
    changes[kind](input, random);
  }
}

/* ---- Files ---- */

static int file_count;
static char *files[FILE_LIMIT];

static int compare_names(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_file(const char *path) {
  CHECK(file_count < FILE_LIMIT);
  files[file_count] = strdup(path);
  CHECK(files[file_count] != NULL);
  file_count++;
}

static void add_path(const char *path) {
  DIR *entries = opendir(path);
  if (entries == NULL) {
    add_file(path);
    return;
  }
  const int first = file_count;
  char entry_path[4096];
  for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    snprintf(entry_path, sizeof entry_path, "%s/%s", path, entry->d_name);
    add_file(entry_path);
  }
  closedir(entries);
  qsort(files + first, (size_t)(file_count - first), sizeof *files, compare_names);
}

static void read_input(const char *path, struct input *input) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    exit(2);
  }
  input->size = fread(input->bytes, 1, sizeof input->bytes, file);
  CHECK(input->size < sizeof input->bytes);
  fclose(file);
}

/* ---- The runs ---- */

/* The target gets a block of its own, beyond which a sanitizer sees reads. */
static bool run(void) {
  uint8_t *data = malloc(current.size > 0 ? current.size : 1);
  CHECK(data != NULL);
  memcpy(data, current.bytes, current.size);
  LLVMFuzzerTestOneInput(data, current.size);
  free(data);
  return fuzz_taken;
}

static bool is_as_named(const char *path, bool taken) {
  const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
  if (strncmp(name, taken ? "bad" : "good", taken ? 3 : 4) != 0) return true;
  fprintf(stderr, "%s: was %s; %s\n", path, taken ? "taken" : "refused", taken ? "" : neap_error_message());
  return false;
}

int main(int argc, char **argv) {
  static struct input source;
  long mutations = 0, seed = 1, taken = 0, all = 0;
  int failures = 0;
  keep_failures(argv[0]);
  for (int i = 1; i < argc; i++)
    if (sscanf(argv[i], "-mutations=%ld", &mutations) != 1 && sscanf(argv[i], "-seed=%ld", &seed) != 1)
      add_path(argv[i]);
  const long most = getenv("NEAP_SANITIZED") != NULL ? QUICK_CHANGES : 0;
  if (getenv("NEAP_QUICK") != NULL && mutations > most) mutations = most;
  if (file_count == 0) {
    fprintf(stderr, "usage: %s [-mutations=N] [-seed=S] FILE|FOLDER...\n", argv[0]);
    return 2;
  }
  for (int i = 0; i < file_count; i++) {
    uint32_t random = (uint32_t)seed * 2654435761u + (uint32_t)i;
    current_file = files[i];
    current_change = 0;
    read_input(files[i], &source);
    current = source;
    const bool is_taken = run();
    failures += !is_as_named(files[i], is_taken);
    while (++current_change <= mutations) {
      current = source;
      change(&current, &random);
      const bool also = run();
      if (!is_taken) continue;
      taken += also;
      all++;
    }
  }
  printf("%d files; of those taken %ld changed ones, %ld of them taken\n", file_count, all, taken);
  if (mutations >= 50 && (taken < all / FEWEST || all - taken < all / FEWEST)) {
    fprintf(stderr, "the changes are of little use: too %s are taken\n",
            taken < all / FEWEST ? "few" : "many");
    failures++;
  }
  for (int i = 0; i < file_count; i++) free(files[i]);
  return failures != 0;
}
