/* Training whole: a run that is stopped or killed, at any moment, and resumed is the run that was not, to the
 * last bit; and what cannot be run or resumed is refused with a clear answer. */
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "effort.h"
#include "neap.h"
#include "testing.h"

enum { EPOCH_STEPS = 6, EPOCHS = 3, STEPS = EPOCHS * EPOCH_STEPS };

static char folder[64];

static const char *in_folder(const char *name) {
  static char paths[8][128];
  static int turn;
  turn = (turn + 1) % 8;
  snprintf(paths[turn], sizeof paths[turn], "%s/%s", folder, name);
  return paths[turn];
}

/* 130 images: 6 batches of 20 and a rest that is dropped. 26 to test with: a batch and a part of one. The
 * least that evict finds, at once: what the least is does not matter here. */
static neap_train_options usual(void) {
  return (neap_train_options){
      .model = "mlp",
      .data = "synthetic:side=8,images=130",
      .shape.batch = 20,
      .session = {.planner = "evict", .momentum = 0.9f, .weight_decay = 5e-4f, .threads = 2, .seed = 11},
      .epochs = EPOCHS,
      .learning_rate = 0.05,
      .schedule = NEAP_LR_COSINE,
      .warmup_epochs = 0.5};
}

static neap_train_result expect_ok(const neap_train_options *options) {
  neap_train_result result;
  const neap_status status = neap_train(options, &result);
  if (status != NEAP_OK) print_error("status %d: %s\n", (int)status, neap_error_message());
  assert_int_equal(status, NEAP_OK);
  return result;
}

static void expect_refused(const neap_train_options *options, neap_status status, const char *part) {
  neap_train_result result;
  const neap_status got = neap_train(options, &result);
  if (got != status || strstr(neap_error_message(), part) == NULL)
    print_error("status %d, message: %s\n", (int)got, neap_error_message());
  assert_int_equal(got, status);
  assert_non_null(strstr(neap_error_message(), part));
}

static void remove_contents(const char *path) {
  DIR *entries = opendir(path);
  if (entries == NULL) return;
  for (const struct dirent *entry; (entry = readdir(entries)) != NULL;)
    if (entry->d_name[0] != '.') assert_int_equal(unlinkat(dirfd(entries), entry->d_name, 0), 0);
  closedir(entries);
  assert_int_equal(rmdir(path), 0);
}

/* The name of the weights in a checkpoint, which must be all there is beside state.json. */
static const char *only_weights(const char *path) {
  static char name[300];
  int states = 0, weights = 0;
  DIR *entries = opendir(path);
  assert_non_null(entries);
  for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    states += strcmp(entry->d_name, "state.json") == 0;
    weights += strncmp(entry->d_name, "weights-", 8) == 0;
    if (strncmp(entry->d_name, "weights-", 8) == 0)
      snprintf(name, sizeof name, "%s/%.200s", path, entry->d_name);
  }
  closedir(entries);
  assert_int_equal(states, 1);
  assert_int_equal(weights, 1);
  return name;
}

/* The lines of metrics but for the seconds, which end every line that has no test accuracy. */
static void read_metrics(const char *path, char *text, size_t size) {
  char line[500];
  size_t length = 0;
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  while (fgets(line, sizeof line, file) != NULL) {
    char *seconds = strstr(line, "\"seconds\"");
    assert_non_null(seconds);
    const char *accuracy = strstr(seconds, "\"test_accuracy\"");
    *seconds = '\0';
    length +=
        (size_t)snprintf(text + length, size - length, "%s%s\n", line, accuracy == NULL ? "" : accuracy);
    assert_true(length < size);
  }
  fclose(file);
}

static int stop_at(void *context, const neap_train_progress *progress) {
  const int64_t *step = context;
  return progress->step == *step;
}

/* ---- A run that nothing disturbs ------------------------------------------------------------------------
 */

struct watch {
  const char *state_file; /* of the run's checkpoint */
  int64_t calls, evaluations;
  double test_accuracy;
};

static int watch_progress(void *context, const neap_train_progress *progress) {
  struct watch *watch = context;
  assert_int_equal(progress->step, watch->calls++);
  assert_int_equal(progress->steps, STEPS);
  assert_int_equal(progress->epochs, EPOCHS);
  assert_non_null(progress->memory);
  if (progress->step == 0) { /* what the caller writes beside a checkpoint is there before it */
    assert_int_not_equal(access(watch->state_file, F_OK), 0);
    return 0;
  }
  assert_int_equal(access(watch->state_file, F_OK), 0);
  assert_int_equal(progress->epoch, (progress->step - 1) / EPOCH_STEPS + 1);
  assert_true(progress->accuracy >= 0 && progress->accuracy <= 1 && progress->seconds > 0);
  assert_true((progress->test_accuracy >= 0) == (progress->step % EPOCH_STEPS == 0));
  assert_true(progress->seconds_left >= 0);
  assert_true(progress->step < STEPS || progress->seconds_left == 0);
  if (progress->test_accuracy >= 0) watch->evaluations++, watch->test_accuracy = progress->test_accuracy;
  return 0;
}

static void test_run(void **state) {
  (void)state;
  struct watch watch = {.state_file = in_folder("watched/state.json")};
  neap_train_options options = usual();
  options.progress = watch_progress;
  options.context = &watch;
  options.save_plan = in_folder("plan.json");
  options.out = in_folder("watched");
  const neap_train_result result = expect_ok(&options);
  remove_contents(options.out);
  assert_int_equal(watch.calls, STEPS + 1);
  assert_int_equal(watch.evaluations, EPOCHS);
  assert_int_equal(result.steps, STEPS);
  assert_int_equal(result.batch, 20);
  assert_true(result.parameters > 0);
  assert_true(result.test_accuracy == watch.test_accuracy);
  assert_true(result.seconds > 0 && result.step_seconds_median > 0);
  assert_true(result.memory.planned_peak > 0);
  assert_int_equal(unlink(options.save_plan), 0);
  /* Again the same; with another seed, order, augmentation or length it is another. */
  options = usual();
  assert_string_equal(expect_ok(&options).weights_sha256, result.weights_sha256);
  options.session.seed++;
  assert_string_not_equal(expect_ok(&options).weights_sha256, result.weights_sha256);
  options = usual(), options.no_shuffle = true;
  assert_string_not_equal(expect_ok(&options).weights_sha256, result.weights_sha256);
  options = usual(), options.augment = NEAP_AUGMENT_OFF;
  assert_string_not_equal(expect_ok(&options).weights_sha256, result.weights_sha256);
  /* Evaluation and another budget change nothing. Epochs are this many steps. */
  options = usual(), options.no_evaluation = true, options.session.budget = NEAP_BUDGET_MAX;
  const neap_train_result blind = expect_ok(&options);
  assert_string_equal(blind.weights_sha256, result.weights_sha256);
  assert_true(blind.test_accuracy == -1);
  options = usual(), options.epochs = 0, options.steps = STEPS;
  assert_string_equal(expect_ok(&options).weights_sha256, result.weights_sha256);
}

static void test_learns(void **state) {
  (void)state;
  neap_train_options options = usual();
  options.data = "synthetic:side=8,images=1000";
  options.epochs = 20;
  options.augment = NEAP_AUGMENT_OFF;
  const neap_train_result result = expect_ok(&options);
  assert_true(result.loss < log(10));
  assert_true(result.accuracy > 0.3);
}

/* Both backends train on the same images, and differ by rounding. */
static void test_backends_agree(void **state) {
  (void)state;
  double loss[2], accuracy[2];
  for (int i = 0; i < 2; i++) {
    neap_train_options options = usual();
    options.session.backend = i == 0 ? NEAP_CPU : NEAP_REFERENCE;
    const neap_train_result result = expect_ok(&options);
    loss[i] = result.loss, accuracy[i] = result.test_accuracy;
  }
  assert_true(fabs(loss[0] - loss[1]) < 1e-4 * loss[1]);
  assert_true(fabs(accuracy[0] - accuracy[1]) < 0.1); /* 26 images: two may fall to the other side */
}

static void test_initial(void **state) {
  (void)state;
  int64_t zero = 0;
  neap_train_options options = usual();
  options.out = in_folder("first");
  const neap_train_result first = expect_ok(&options);
  /* Stopped before step 1, a run has the weights it was to start from, whatever its own seed. */
  options = usual();
  options.session.seed = 99;
  options.initial = only_weights(in_folder("first"));
  options.progress = stop_at;
  options.context = &zero;
  neap_train_result result;
  assert_int_equal(neap_train(&options, &result), NEAP_INTERRUPTED);
  assert_string_equal(result.weights_sha256, first.weights_sha256);
  assert_int_equal(result.steps, 0);
  options.initial = in_folder("nothing.safetensors");
  expect_refused(&options, NEAP_IO_FAILED, "nothing.safetensors");
  remove_contents(in_folder("first"));
}

/* ---- Stopping and going on ------------------------------------------------------------------------------
 */

/* A request ends a run that still reads its text, which no step waits for. */
static void test_stop_while_data_are_read(void **state) {
  (void)state;
  const volatile int stop = 1;
  const char *path = in_folder("text");
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  for (int i = 0; i < 20000; i++) fprintf(file, "line %d of a text\n", i);
  fclose(file);
  char data[600];
  snprintf(data, sizeof data, "text:%s", path);
  neap_train_options options = {.model = "gpt-1x16x2", .data = data, .steps = 2, .stop = &stop};
  options.shape.batch = 2;
  options.session.threads = 1;
  options.learning_rate = 0.1;
  neap_train_result result;
  assert_int_equal(neap_train(&options, &result), NEAP_INTERRUPTED);
  assert_string_equal(neap_error_message(), "stopped on request");
  assert_int_equal(remove(path), 0);
}

static void test_resume_anywhere(void **state) {
  (void)state;
  static char whole[8192], pieces[8192];
  neap_train_options options = usual();
  options.metrics = in_folder("whole.jsonl");
  const neap_train_result reference = expect_ok(&options);
  read_metrics(options.metrics, whole, sizeof whole);
  const int64_t stride = quick_pass() ? EPOCH_STEPS / 2 : 1; /* ends of epochs, too */
  for (int64_t stop = 0; stop <= STEPS; stop += stride) {
    options = usual();
    options.out = in_folder("out");
    options.metrics = in_folder("pieces.jsonl");
    options.replace = true;
    options.progress = stop_at;
    options.context = &stop;
    neap_train_result result;
    assert_int_equal(neap_train(&options, &result), NEAP_INTERRUPTED);
    assert_int_equal(result.steps, stop);
    only_weights(options.out);
    /* Into another folder, from which nothing is needed; with another budget. */
    options.progress = NULL;
    options.resume = options.out;
    options.out = in_folder("more");
    options.session.budget = NEAP_BUDGET_MAX;
    result = expect_ok(&options);
    assert_string_equal(result.weights_sha256, reference.weights_sha256);
    assert_true(result.loss == reference.loss && result.accuracy == reference.accuracy);
    assert_true(result.test_accuracy == reference.test_accuracy);
    read_metrics(options.metrics, pieces, sizeof pieces);
    assert_string_equal(pieces, whole);
    remove_contents(in_folder("out"));
    remove_contents(in_folder("more"));
  }
  unlink(in_folder("whole.jsonl"));
  unlink(in_folder("pieces.jsonl"));
}

/* Stopped with one variant of the graph under one budget, gone on with another under another. */
static void test_resume_other_variant(void **state) {
  (void)state;
  static const struct {
    neap_variant variant;
    double fraction; /* of keeping everything; 0: the least */
  } ways[] = {{NEAP_VARIANT_BASE, 1}, {NEAP_VARIANT_MASK, 0}, {NEAP_VARIANT_AUTO, 0.95}};
  enum { WAYS = sizeof ways / sizeof *ways };
  int64_t stop = 1;
  const neap_train_options same = {
      .model = "unet-4",
      .data = "synthetic:side=188,images=4,classes=2",
      .shape.batch = 1,
      .session = {.planner = "evict", .momentum = 0.9f, .threads = 1, .seed = 11},
      .steps = 3,
      .learning_rate = 0.01,
      .no_evaluation = true};
  neap_train_options options = same;
  options.session.budget = NEAP_BUDGET_MAX;
  const neap_train_result whole = expect_ok(&options);
  assert_string_equal(whole.memory.variant, "base");
  for (int from = 0; from < WAYS; from++) {
    const int to = (from + 1) % WAYS;
    options = same;
    options.session.variant = ways[from].variant;
    options.session.budget_fraction = ways[from].fraction;
    options.out = in_folder("out");
    options.progress = stop_at;
    options.context = &stop;
    neap_train_result result;
    assert_int_equal(neap_train(&options, &result), NEAP_INTERRUPTED);
    assert_int_equal(result.steps, stop);
    if (ways[from].variant == NEAP_VARIANT_MASK) assert_string_equal(result.memory.variant, "mask");
    if (ways[from].variant == NEAP_VARIANT_BASE) assert_string_equal(result.memory.variant, "base");
    options = same;
    options.session.variant = ways[to].variant;
    options.session.budget_fraction = ways[to].fraction;
    options.resume = in_folder("out");
    result = expect_ok(&options);
    assert_int_equal(result.steps, same.steps);
    assert_string_equal(result.weights_sha256, whole.weights_sha256);
    assert_true(result.loss == whole.loss && result.accuracy == whole.accuracy);
    remove_contents(in_folder("out"));
  }
}

/* Everything is kept, so that it is training that is killed and not planning. */
static neap_train_options killed_options(void) {
  neap_train_options options = usual();
  options.session.budget = NEAP_BUDGET_MAX;
  options.checkpoint_steps = 1;
  options.out = in_folder("killed");
  options.metrics = in_folder("killed.jsonl");
  options.replace = true;
  if (access(in_folder("killed/state.json"), F_OK) == 0) options.resume = options.out;
  return options;
}

/* This program again, as the run that is killed. A fork alone would not do: OpenMP's threads do not survive
 * it. */
static int run_child(const char *path) {
  strcpy(folder, path);
  const neap_train_options options = killed_options();
  neap_train_result result;
  return neap_train(&options, &result) == NEAP_OK ? 0 : 1;
}

/* Lets a run go on for this many seconds at most and then kills it. Whether it came to its end before. */
static bool run_and_kill(double seconds) {
  const double end = clock_seconds() + seconds;
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    setenv("NEAP_TEST_CHILD", folder, 1);
    execl("/proc/self/exe", "train_tests", "test_train", (char *)NULL);
    _exit(2);
  }
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (clock_seconds() > end) {
      kill(child, SIGKILL);
      assert_int_equal(waitpid(child, &status, 0), child);
      break;
    }
    usleep(100);
  }
  if (WIFSIGNALED(status)) return false;
  assert_int_equal(WEXITSTATUS(status), 0);
  return true;
}

static void test_kill(void **state) {
  (void)state;
  const int most = quick_pass() ? 8 : 20;
  if (access("/proc/self/exe", X_OK) != 0) skip();
  static char whole[8192], pieces[8192];
  const double begin = clock_seconds();
  assert_true(run_and_kill(1e9));
  const double longest = 1.2 * (clock_seconds() - begin);
  neap_train_options options = killed_options();
  read_metrics(options.metrics, whole, sizeof whole);
  const neap_train_result reference = expect_ok(&options); /* nothing is left to do */
  srand(1);
  for (int kills = 0; kills < most;) {
    remove_contents(options.out);
    while (!run_and_kill(longest * rand() / RAND_MAX)) kills++;
    const neap_train_result result = expect_ok(&options);
    assert_string_equal(result.weights_sha256, reference.weights_sha256);
    assert_true(result.loss == reference.loss && result.test_accuracy == reference.test_accuracy);
    read_metrics(options.metrics, pieces, sizeof pieces);
    assert_string_equal(pieces, whole);
    only_weights(options.out);
  }
  remove_contents(options.out);
  unlink(options.metrics);
}

/* ---- What is refused ------------------------------------------------------------------------------------
 */

static void test_resume_other_settings(void **state) {
  (void)state;
  int64_t stop = 4;
  neap_train_options first = usual();
  first.out = in_folder("out");
  first.progress = stop_at;
  first.context = &stop;
  neap_train_result result;
  assert_int_equal(neap_train(&first, &result), NEAP_INTERRUPTED);
  neap_train_options same = usual();
  same.resume = in_folder("out");
#define OTHER(part, ...)                                                                                     \
  do {                                                                                                       \
    neap_train_options options = same;                                                                       \
    __VA_ARGS__;                                                                                             \
    expect_refused(&options, NEAP_INVALID_ARGUMENT, part);                                                   \
  } while (0)
  OTHER("model", options.model = "lenet");
  OTHER("batch", options.shape.batch = 10);
  OTHER("label_smoothing", options.shape.smoothing = 0.1f);
  OTHER("training_images", options.data = "synthetic:side=8,images=140");
  OTHER("data_mean", options.data = "synthetic:side=8,images=130,seed=5");
  OTHER("shuffle", options.no_shuffle = true);
  OTHER("augment", options.augment = NEAP_AUGMENT_OFF);
  OTHER("seed", options.session.seed = 12);
  OTHER("threads", options.session.threads = 1);
  OTHER("convolution", options.session.convolution = NEAP_CONV_DIRECT);
  OTHER("backend", options.session.backend = NEAP_REFERENCE);
  OTHER("momentum", options.session.momentum = 0.8f);
  OTHER("weight_decay", options.session.weight_decay = 0);
  OTHER("nesterov", options.session.nesterov = true);
  OTHER("learning_rate", options.learning_rate = 0.06);
  OTHER("schedule", options.schedule = NEAP_LR_CONSTANT);
  OTHER("warmup_steps", options.warmup_epochs = 1);
  OTHER("steps", options.epochs = EPOCHS + 1);
  remove_contents(in_folder("out"));
  OTHER("out", options.initial = "x");
  expect_refused(&same, NEAP_IO_FAILED, "state.json");
  /* Where the learning rate does not know the length, a run can be made longer, but not shorter than it is.
   */
  first.schedule = NEAP_LR_CONSTANT;
  assert_int_equal(neap_train(&first, &result), NEAP_INTERRUPTED);
  same.schedule = NEAP_LR_CONSTANT;
  OTHER("step 4", options.epochs = 0; options.steps = 3);
  same.epochs = EPOCHS + 1;
  const neap_train_result longer = expect_ok(&same);
  same.resume = NULL;
  assert_string_equal(expect_ok(&same).weights_sha256, longer.weights_sha256);
  remove_contents(in_folder("out"));
}

static void flip_bit(const char *path, long at, int bit) {
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  fseek(file, at, SEEK_SET);
  const int byte = fgetc(file);
  fseek(file, at, SEEK_SET);
  fputc(byte ^ 1 << bit, file);
  fclose(file);
}

/* Where the text stands in the first bytes of a file. */
static long place_of(const char *path, const char *text) {
  char header[400] = {0};
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_in_range(fread(header, 1, sizeof header - 1, file), 100, sizeof header - 1);
  fclose(file);
  const char *found = memmem(header, sizeof header, text, strlen(text));
  assert_non_null(found);
  return found - header;
}

static void test_damaged_weights(void **state) {
  (void)state;
  neap_train_options options = usual();
  options.session.budget = NEAP_BUDGET_MAX; /* which needs no planning */
  options.out = in_folder("out");
  expect_ok(&options);
  char weights[300];
  strcpy(weights, only_weights(options.out));
  options.resume = options.out;
  struct stat file;
  assert_int_equal(stat(weights, &file), 0);
  srand(2);
  for (int i = 0; i < 60; i++) {
    /* Half of them in the header, where most of them change a name or a place; the first 8 bytes are its
     * length. */
    const long at = i % 2 == 0 ? rand() % (i < 10 ? 8 : 100) : rand() % (long)file.st_size;
    flip_bit(weights, at, i % 8);
    neap_train_result result;
    const neap_status status = neap_train(&options, &result);
    /* An unchanged content is no damage: white space in the header. */
    if (status != NEAP_OK) assert_non_null(strstr(neap_error_message(), strrchr(weights, '/')));
    if (status == NEAP_OK) assert_in_range(at, 8, 99);
    flip_bit(weights, at, i % 8);
  }
  expect_ok(&options);
  /* Another number of steps is another stream of random numbers and another correction of AdamW's means. */
  const long digit = place_of(weights, "\"steps\":\"18\"") + (long)strlen("\"steps\":\"1");
  flip_bit(weights, digit, 0);
  expect_refused(&options, NEAP_BAD_FORMAT, "19 steps");
  flip_bit(weights, digit, 0);
  for (off_t size = 0; size < file.st_size; size += file.st_size / 7 + 1) {
    assert_int_equal(truncate(weights, file.st_size - 1 - size), 0);
    expect_refused(&options, NEAP_BAD_FORMAT, strrchr(weights, '/'));
  }
  unlink(weights);
  expect_refused(&options, NEAP_IO_FAILED, strrchr(weights, '/'));
  remove_contents(options.out);
}

/* A disk that is full in the middle of a checkpoint leaves the one before it. */
static void test_full_disk(void **state) {
  (void)state;
  int64_t stop = 3;
  neap_train_options options = usual();
  options.out = in_folder("out");
  options.progress = stop_at;
  options.context = &stop;
  neap_train_result result;
  assert_int_equal(neap_train(&options, &result), NEAP_INTERRUPTED);
  char before[300];
  strcpy(before, only_weights(options.out));
  options.resume = options.out;
  stop = 5;
  struct rlimit limit, full;
  getrlimit(RLIMIT_FSIZE, &limit);
  full = limit;
  full.rlim_cur = 4096;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &full);
  const neap_status status = neap_train(&options, &result);
  setrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, SIG_DFL);
  assert_int_equal(status, NEAP_IO_FAILED);
  assert_non_null(strstr(neap_error_message(), options.out));
  assert_string_equal(only_weights(options.out), before);
  options.progress = NULL;
  const neap_train_result resumed = expect_ok(&options);
  options = usual();
  assert_string_equal(expect_ok(&options).weights_sha256, resumed.weights_sha256);
  remove_contents(in_folder("out"));
}

static void test_over_budget(void **state) {
  (void)state;
  neap_train_options options = usual();
  neap_train_result result;
  options.session.budget = 1;
  assert_int_equal(neap_train(&options, &result), NEAP_OVER_BUDGET);
  assert_int_equal(result.largest_batch, 0);
  assert_true(result.smallest_budget > 1);
  options.session.budget = result.smallest_budget;
  assert_true(expect_ok(&options).memory.planned_peak <= result.smallest_budget);
  /* What half of the batch needs at least is too little for it, and enough for half of it or more. */
  options.shape.batch = 10;
  options.session.budget = NEAP_BUDGET_MIN;
  options.session.budget = expect_ok(&options).memory.planned_peak;
  options.shape.batch = 20;
  assert_int_equal(neap_train(&options, &result), NEAP_OVER_BUDGET);
  assert_in_range(result.largest_batch, 10, 19);
  /* The batch that is named fits, and the next one does not. */
  options.shape.batch = 100;
  assert_int_equal(neap_train(&options, &result), NEAP_OVER_BUDGET);
  assert_in_range(result.largest_batch, 10, 99);
  options.shape.batch = result.largest_batch;
  expect_ok(&options);
  options.shape.batch++;
  assert_int_equal(neap_train(&options, &result), NEAP_OVER_BUDGET);
  assert_int_equal(result.largest_batch, options.shape.batch - 1);
}

static void test_bad_options(void **state) {
  (void)state;
  const neap_train_options same = usual();
  OTHER("model", options.model = NULL);
  OTHER("data", options.data = NULL);
  OTHER("no-such-model", options.model = "no-such-model");
  OTHER("no-such-data", options.data = "no-such-data");
  OTHER("negative", options.steps = -1);
  OTHER("negative", options.epochs = -1);
  OTHER("give one of them", options.steps = 1);
  OTHER("131", options.shape.batch = 131);
  OTHER("learning rate", options.learning_rate = -1);
  OTHER("threads", options.session.threads = -1);
  OTHER("optimizer 99", options.session.optimizer = (neap_optimizer)99);
  OTHER("backend 7", options.session.backend = (neap_backend)7);
  OTHER("costs 7", options.session.costs = (neap_costs)7);
  OTHER("variant 7", options.session.variant = (neap_variant)7);
  OTHER("momentum inf", options.session.momentum = INFINITY);
  OTHER("momentum 1", options.session.momentum = 1);
  OTHER("weight decay -1", options.session.weight_decay = -1);
  OTHER("beta1 1.5", options.session.beta1 = 1.5f);
  OTHER("budget -1", options.session.budget_fraction = -1);
  OTHER("time limit nan", options.session.plan_seconds = NAN);
  neap_train_options options = same;
  options.out = "/dev/null/out";
  expect_refused(&options, NEAP_IO_FAILED, "/dev/null/out");
  options = same, options.metrics = "/dev/null/metrics";
  expect_refused(&options, NEAP_IO_FAILED, "/dev/null/metrics");
}

/* Where every pixel has a label, accuracy is the share of pixels. */
static void test_pixels(void **state) {
  (void)state;
  neap_train_options options = {.model = "unet-4",
                                .data = "synthetic:side=204,images=12,classes=2",
                                .shape.batch = 2,
                                .session = {.budget = NEAP_BUDGET_MAX, .momentum = 0.9f, .threads = 2},
                                .steps = 6,
                                .learning_rate = 0.01};
  const neap_train_result r = expect_ok(&options);
  assert_int_equal(r.batch, 2);
  assert_true(r.accuracy > 0 && r.accuracy <= 1);
  assert_true(r.test_accuracy > 0 && r.test_accuracy <= 1);
}

static int make_folder(void **state) {
  (void)state;
  strcpy(folder, "/tmp/neap-train-XXXXXX");
  return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
  (void)state;
  return rmdir(folder);
}

int run_test_train(void) {
  if (getenv("NEAP_TEST_CHILD") != NULL) return run_child(getenv("NEAP_TEST_CHILD"));
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_run),
      cmocka_unit_test(test_learns),
      cmocka_unit_test(test_initial),
      cmocka_unit_test(test_stop_while_data_are_read),
      cmocka_unit_test(test_resume_anywhere),
      cmocka_unit_test(test_resume_other_variant),
      cmocka_unit_test(test_kill),
      cmocka_unit_test(test_resume_other_settings),
      cmocka_unit_test(test_backends_agree),
      cmocka_unit_test(test_damaged_weights),
      cmocka_unit_test(test_full_disk),
      cmocka_unit_test(test_over_budget),
      cmocka_unit_test(test_bad_options),
      cmocka_unit_test(test_pixels),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
