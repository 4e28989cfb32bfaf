#include "support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool fuzz_taken;

_Noreturn void fuzz_fail(const char *file, int line, const char *what) {
  fprintf(stderr, "%s:%d: does not hold: %s\nthe last message of the library: %s\n", file, line, what,
          neap_error_message());
  abort();
}

/* These files need not outlive a fault of the system, and syncs would take most of the time. */
int fsync(int file);
int fsync(int file) {
  (void)file;
  return 0;
}

/* ---- Files ---- */

enum { PATH_BYTES = 256, PATHS = 8 };

static char root[PATH_BYTES / 4];

static void remove_content(const char *folder) {
  char path[2 * PATH_BYTES];
  DIR *entries = opendir(folder);
  if (entries == NULL) return;
  for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    snprintf(path, sizeof path, "%s/%.200s", folder, entry->d_name);
    if (unlink(path) == 0) continue;
    remove_content(path);
    rmdir(path);
  }
  closedir(entries);
}

static void remove_root(void) {
  remove_content(root);
  rmdir(root);
}

static void make_root(void) {
  if (root[0] != '\0') return;
  snprintf(root, sizeof root, "/tmp/neap-fuzz-XXXXXX");
  CHECK(mkdtemp(root) != NULL);
  atexit(remove_root);
}

const char *fuzz_path(const char *name) {
  static char paths[PATHS][PATH_BYTES];
  static int next;
  make_root();
  char *path = paths[next++ % PATHS];
  CHECK(snprintf(path, PATH_BYTES, "%s/%s", root, name) < PATH_BYTES);
  return path;
}

const char *fuzz_folder(const char *name) {
  const char *path = fuzz_path(name);
  remove_content(path);
  mkdir(path, 0777);
  return path;
}

void fuzz_write(const char *path, const void *data, size_t size) {
  FILE *file = fopen(path, "wb");
  CHECK(file != NULL);
  CHECK(size == 0 || fwrite(data, 1, size, file) == size);
  CHECK(fclose(file) == 0);
}

bool fuzz_exists(const char *path) {
  struct stat status;
  return lstat(path, &status) == 0;
}

struct fuzz_bytes fuzz_read(const char *path) {
  struct stat status;
  FILE *file = fopen(path, "rb");
  CHECK(file != NULL && fstat(fileno(file), &status) == 0);
  struct fuzz_bytes bytes = {calloc(1, (size_t)status.st_size + 1), (size_t)status.st_size};
  CHECK(bytes.text != NULL && fread(bytes.text, 1, bytes.size, file) == bytes.size);
  fclose(file);
  return bytes;
}

bool fuzz_same(struct fuzz_bytes a, struct fuzz_bytes b) {
  return a.size == b.size && (a.size == 0 || memcmp(a.text, b.text, a.size) == 0);
}

bool fuzz_same_files(const char *a, const char *b) {
  const struct fuzz_bytes x = fuzz_read(a), y = fuzz_read(b);
  const bool same = fuzz_same(x, y);
  free(x.text);
  free(y.text);
  return same;
}

/* The next line that begins a part, from `at` on, which begins a line; NULL: none. */
static const char *find_mark(const char *at, const char *end) {
  while (at < end) {
    if (end - at >= 4 && memcmp(at, "=== ", 4) == 0) return at;
    const char *line = memchr(at, '\n', (size_t)(end - at));
    if (line == NULL) break;
    at = line + 1;
  }
  return NULL;
}

struct fuzz_bytes fuzz_part(const uint8_t *data, size_t size, const char *name) {
  const char *end = (const char *)data + size;
  const size_t length = strlen(name);
  for (const char *mark = size > 0 ? find_mark((const char *)data, end) : NULL; mark != NULL;) {
    const char *line = memchr(mark, '\n', (size_t)(end - mark));
    const char *text = line != NULL ? line + 1 : end, *next = find_mark(text, end);
    const size_t named = (size_t)((line != NULL ? line : end) - mark) - 4;
    const char *last = next == NULL ? end : next > text ? next - 1 : text;
    if (named == length && memcmp(mark + 4, name, length) == 0)
      return (struct fuzz_bytes){(char *)text, (size_t)(last - text)};
    mark = next;
  }
  return (struct fuzz_bytes){0};
}

void fuzz_unpack(const uint8_t *data, size_t size, const char *folder, const char *const *names, int count) {
  for (int i = 0; i < count; i++) {
    char path[2 * PATH_BYTES];
    const struct fuzz_bytes part = fuzz_part(data, size, names[i]);
    if (part.text == NULL) continue;
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    fuzz_write(path, part.text, part.size);
  }
}

/* ---- Properties ---- */

void fuzz_check_refused(neap_status status, const char *named) {
  CHECK(status > NEAP_OK && status != NEAP_OUT_OF_MEMORY && status != NEAP_INTERNAL);
  CHECK(neap_error_message()[0] != '\0');
  CHECK(named == NULL || strstr(neap_error_message(), named) != NULL);
}

static neap_session *the_session;
static neap_graph *the_graph;

static void free_session(void) {
  neap_session_free(the_session);
  neap_graph_free(the_graph);
}

neap_session *fuzz_session(void) {
  if (the_session != NULL) return the_session;
  neap_builder *b = neap_builder_create("small");
  const neap_tensor x = neap_input(b, "x", NEAP_F32, 2, (const int64_t[]){1, 3});
  const neap_tensor target = neap_input(b, "target", NEAP_F32, 2, (const int64_t[]){1, 2});
  const neap_tensor loss = neap_mse_loss(b, neap_linear(b, x, 2, true), target);
  CHECK_OK(neap_builder_finish(b, loss, &the_graph));
  neap_builder_free(b);
  const neap_session_options options = {
      .budget = NEAP_BUDGET_MAX, .momentum = 0.5f, .backend = NEAP_REFERENCE, .threads = 1};
  CHECK_OK(neap_session_create(the_graph, &options, NULL, &the_session));
  atexit(free_session);
  return the_session;
}

void fuzz_check_step(const neap_step *step) {
  const char *first = fuzz_path("first.json"), *second = fuzz_path("second.json");
  neap_step *again;
  neap_step_info was, is;
  CHECK_OK(neap_step_write(step, first));
  CHECK_OK(neap_step_read(first, &again));
  CHECK_OK(neap_step_write(again, second));
  CHECK(fuzz_same_files(first, second));
  neap_step_describe(step, &was);
  neap_step_describe(again, &is);
  CHECK(strcmp(was.name, is.name) == 0 && was.tensors == is.tensors && was.nodes == is.nodes);
  CHECK(was.resident_bytes == is.resident_bytes && was.base_cost == is.base_cost);
  neap_step_free(again);
}

void fuzz_check_planning(const neap_step *step) {
  enum { SMALL = 40 };
  static const char *const planners[] = {"keep-all", "evict"};
  neap_step_info info;
  neap_step_describe(step, &info);
  for (int i = 0; i < (info.nodes <= SMALL ? 2 : 1); i++) {
    neap_plan *plan;
    uint64_t smallest = 0;
    const neap_plan_options options = {.planner = planners[i], .quick = true};
    const uint64_t budget = i == 0 ? NEAP_BUDGET_MAX : NEAP_BUDGET_MIN;
    const neap_status status = neap_plan_make_with(step, budget, &options, &smallest, &plan);
    if (status != NEAP_OK) {
      fuzz_check_refused(status, NULL);
      continue;
    }
    CHECK(fuzz_check_plan(step, plan));
    fuzz_check_plan_file(plan);
    neap_plan_free(plan);
  }
}

void fuzz_check_plan_file(const neap_plan *plan) {
  const char *first = fuzz_path("first.json"), *second = fuzz_path("second.json");
  neap_plan *again;
  neap_plan_info was, is;
  CHECK_OK(neap_plan_write(plan, first));
  CHECK_OK(neap_plan_read(first, &again));
  CHECK_OK(neap_plan_write(again, second));
  CHECK(fuzz_same_files(first, second));
  neap_plan_describe(plan, &was);
  neap_plan_describe(again, &is);
  CHECK(strcmp(was.graph, is.graph) == 0 && strcmp(was.planner, is.planner) == 0);
  CHECK(was.length == is.length && was.recomputed == is.recomputed && was.peak_bytes == is.peak_bytes);
  CHECK(was.resident_bytes == is.resident_bytes && was.cost == is.cost && was.base_cost == is.base_cost);
  neap_plan_free(again);
}

/* Of two instances that live at one position neither lies in the other's bytes, but for one that takes them
 * over. */
static void check_places(const neap_instance *instances, int64_t count, uint64_t arena) {
  for (int64_t i = 0; i < count; i++) {
    const neap_instance *a = &instances[i];
    CHECK(a->offset + a->bytes <= arena);
    for (int64_t j = 0; j < i; j++) {
      const neap_instance *b = &instances[j];
      if (b->last < a->first || a->bytes == 0 || b->bytes == 0) continue;
      const bool inside = a->offset >= b->offset && a->offset + a->bytes <= b->offset + b->bytes;
      const bool apart = a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset;
      CHECK(apart || (inside && a->in_place && b->last == a->first));
    }
  }
}

static void check_valid(const neap_step *step, const neap_plan *plan, const neap_check_result *result) {
  neap_plan_info info;
  neap_instance *instances;
  int64_t count, length;
  uint64_t most = 0;
  neap_plan_describe(plan, &info);
  neap_plan_schedule(plan, &length);
  CHECK_OK(neap_plan_instances(step, plan, &instances, &count));
  check_places(instances, count, info.arena_bytes);
  uint64_t *live = calloc((size_t)length * NEAP_KIND_COUNT + 1, sizeof *live);
  CHECK(live != NULL);
  CHECK_OK(neap_plan_profile(step, plan, live));
  for (int64_t t = 0; t < length; t++) {
    uint64_t sum = 0;
    for (int k = 0; k < NEAP_KIND_COUNT; k++) sum += live[t * NEAP_KIND_COUNT + k];
    if (sum > most) most = sum;
    for (int64_t i = 0; i < count; i++)
      if (instances[i].first + instances[i].in_place <= t && t <= instances[i].last)
        sum -= instances[i].bytes;
    CHECK(sum == info.resident_bytes);
  }
  /* What could lie in place and does not counts twice where it lies, but once in the peak. */
  CHECK(length == 0 || (most >= result->live_peak_bytes && most <= info.resident_bytes + info.arena_bytes));
  free(live);
  free(instances);
}

bool fuzz_check_plan(const neap_step *step, const neap_plan *plan) {
  neap_check_result result;
  neap_instance *instances;
  int64_t count, length;
  neap_plan_schedule(plan, &length);
  const neap_status status = neap_plan_check(step, plan, &result);
  CHECK(status == NEAP_OK || status == NEAP_INVALID_PLAN);
  CHECK(result.valid == (status == NEAP_OK) && result.valid == (result.reason[0] == '\0'));
  CHECK(result.position >= -1 && result.position < length);
  if (result.valid)
    check_valid(step, plan, &result);
  else if (neap_plan_instances(step, plan, &instances, &count) ==
           NEAP_OK) /* only offsets or figures are wrong */
    free(instances);
  return result.valid;
}
