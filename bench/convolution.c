/* convolution [THREADS [ROUNDS [INSTRUCTION_SET [LANES [TYPE [NETWORK|IMAGES,INPUTS,OUTPUTS,SIDE...]]]]]]
 *
 * Times of 3x3 convolutions, pass by pass: Winograd's beside direct ones, oneDNN's and our own, in turn, on
 * the shapes of some networks or the one that is given. LANES: channels of a block, 0: channels last, which
 * our own direct one needs. TYPE of the tensors: f32, bf16, or f16, of which oneDNN has none. Prints the
 * least time of each in milliseconds ("-": none exists), a star where `auto` takes Winograd's, and the MB of
 * its workspace.
 */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/dtype.h"
#include "device/host.h"
#include "kernel/cpu/direct_convolution.h"
#include "kernel/cpu/dispatch.h"
#include "kernel/cpu/onednn.h"
#include "kernel/cpu/winograd.h"

struct shape {
  const char *name;
  int64_t images, inputs, outputs, side;
};

static const struct shape shapes[] = {
    {"WRN-28-2", 100, 16, 32, 32},  {"WRN-28-2", 100, 32, 32, 32}, {"WRN-28-2", 100, 64, 64, 16},
    {"WRN-28-2", 100, 128, 128, 8}, {"ResNet-50", 8, 64, 64, 56},  {"ResNet-50", 8, 128, 128, 28},
    {"ResNet-50", 8, 256, 256, 14}, {"ResNet-50", 8, 512, 512, 7}, {"VGG-16", 8, 64, 64, 224},
    {"VGG-16", 8, 64, 128, 112},    {"VGG-16", 8, 128, 128, 112},  {"VGG-16", 8, 128, 256, 56},
    {"VGG-16", 8, 256, 256, 56},    {"VGG-16", 8, 256, 512, 28},   {"VGG-16", 8, 512, 512, 28},
    {"VGG-16", 8, 512, 512, 14},
};

enum { WINOGRAD, DNN_DIRECT, OWN_DIRECT, WAYS };
static const char *const passes[] = {"forward", "data", "weights"};

struct bench {
  const struct cpu_kernels *kernels;
  struct dnn *dnn;
  int threads;
  neap_dtype storage;
  enum convolution_pass pass;
  float *x, *w, *y, *workspace; /* x, w, y of that storage */
  struct winograd winograd;
  const struct dnn_primitive *primitive;
  const struct direct_convolution *direct;
  struct region region;
};

/* In memory as a session has it. */
static float *numbers(const struct bench *b, int64_t count) {
  void *memory;
  uint32_t state = 12345;
  if (host_device.map((size_t)count * sizeof(float), (struct device_common){0}, &memory) != NEAP_OK) exit(1);
  float *values = memory;
  for (int64_t i = 0; i < count; i++) {
    state = state * 1664525u + 1013904223u;
    values[i] = (float)(state >> 8) * 0x1p-23f - 1;
  }
  enum { PART = 1 << 10 };
  for (int64_t i = 0; b->storage != NEAP_F32 && i < count; i += PART) { /* into the first half */
    float part[PART];
    const int64_t length = count - i < PART ? count - i : PART;
    memcpy(part, values + i, (size_t)length * sizeof *part);
    b->kernels->narrow(b->storage, length, part, (uint16_t *)(void *)values + i);
  }
  return values;
}

static void release(float *values, int64_t count) {
  host_device.unmap(values, (size_t)count * sizeof *values);
}

/* Makes the direct convolution of a way, and gives its workspace. */
static bool make(struct bench *b, const struct shape *s, int way, int64_t lanes, size_t *bytes) {
  const struct convolution c = {.pass = b->pass,
                                .source = {s->images, s->inputs, s->side, s->side},
                                .destination = {s->images, s->outputs, s->side, s->side},
                                .kernel = {s->outputs, s->inputs, 3, 3},
                                .stride = 1,
                                .dilation = 1,
                                .groups = 1,
                                .padding = {1, 1},
                                .source_lanes = lanes > 0 ? lanes : s->inputs,
                                .destination_lanes = lanes > 0 ? lanes : s->outputs,
                                .blocks = lanes > 0,
                                .bf16 = b->storage == NEAP_BF16};
  uint64_t workspace = 0;
  if (b->storage == NEAP_F16) return false;
  if (way == OWN_DIRECT) {
    if (direct_convolution_prepare(b->kernels, b->threads, &b->region, &c, &workspace, &b->direct) != NEAP_OK)
      return false;
    *bytes = workspace;
    return true;
  }
  if (dnn_make_convolution(b->dnn, &c, NULL, &b->primitive) != NEAP_OK) return false;
  *bytes = dnn_scratchpad_bytes(b->primitive);
  return true;
}

static void run(const struct bench *b, int way) {
  const struct convolution_operands o = {.a = b->x, .b = b->w, .c = b->y, .scratchpad = b->workspace};
  if (way == DNN_DIRECT)
    dnn_run(b->primitive, &o);
  else if (way == OWN_DIRECT)
    direct_convolution_run(b->direct, b->kernels, &o);
  else if (b->pass == PASS_BACKWARD_WEIGHTS)
    winograd_backward_weights(&b->winograd, b->kernels, b->x, b->y, b->w, b->workspace);
  else if (b->pass == PASS_FORWARD)
    winograd_convolve(&b->winograd, b->kernels, b->x, b->w, NULL, NULL, b->y, b->workspace);
  else
    winograd_convolve(&b->winograd, b->kernels, b->y, b->w, NULL, NULL, b->x, b->workspace);
}

static void measure(struct bench *b, const struct shape *s, int rounds, int64_t lanes) {
  const struct activation x = {s->images, s->inputs, s->side, s->side, lanes > 0 ? lanes : s->inputs,
                               b->storage},
                          y = {s->images, s->outputs, s->side, s->side, lanes > 0 ? lanes : s->outputs,
                               b->storage};
  struct winograd plans[WINOGRAD_PASSES];
  winograd_plan(x, y, 1, 1, b->threads, INFINITY, plans);
  b->winograd = plans[b->pass];
  size_t bytes[WAYS] = {winograd_workspace(&b->winograd)}, most = 0;
  const bool there[WAYS] = {true, make(b, s, DNN_DIRECT, lanes, &bytes[DNN_DIRECT]),
                            make(b, s, OWN_DIRECT, lanes, &bytes[OWN_DIRECT])};
  double best[WAYS] = {INFINITY, INFINITY, INFINITY};
  for (int way = 0; way < WAYS; way++) most = bytes[way] > most ? bytes[way] : most;
  const int64_t words = (int64_t)(most / sizeof(float)) + 1;
  b->workspace = numbers(b, words);
  for (int round = 0; round <= rounds; round++)
    for (int way = 0; way < WAYS; way++) {
      if (!there[way]) continue;
      const double begin = clock_seconds();
      run(b, way);
      const double seconds = clock_seconds() - begin;
      if (round > 0 && seconds < best[way]) best[way] = seconds; /* the first one is not counted */
    }
  release(b->workspace, words);
  const double speed = dnn_convolution_speed(b->storage == NEAP_BF16);
  printf("%-9s %3lld %3lld->%-3lld %3lldx%-3lld %-8s", s->name, (long long)s->images, (long long)s->inputs,
         (long long)s->outputs, (long long)s->side, (long long)s->side, passes[b->pass]);
  for (int way = 0; way < WAYS; way++)
    if (there[way])
      printf(" %8.3f", best[way] * 1e3);
    else
      printf(" %8s", "-");
  printf(" %c %7.2f\n", winograd_pays(plans, speed) ? '*' : ' ', (double)bytes[WINOGRAD] * 1e-6);
  fflush(stdout);
}

static void measure_passes(struct bench *b, const struct shape *s, int rounds, int64_t lanes) {
  const int64_t pixels = s->images * s->side * s->side;
  b->x = numbers(b, pixels * s->inputs);
  b->y = numbers(b, pixels * s->outputs);
  b->w = numbers(b, s->inputs * s->outputs * 9);
  for (int pass = 0; pass < 3; pass++) {
    b->pass = (enum convolution_pass)pass;
    measure(b, s, rounds, lanes);
  }
  release(b->x, pixels * s->inputs);
  release(b->y, pixels * s->outputs);
  release(b->w, s->inputs * s->outputs * 9);
}

int main(int count, char **arguments) {
  struct bench b = {.threads = count > 1 ? atoi(arguments[1]) : 2};
  if (cpu_kernels_best(&b.kernels) != NEAP_OK) return 1;
  const int rounds = count > 2 ? atoi(arguments[2]) : 10;
  const char *set = count > 3 ? arguments[3] : b.kernels->name;
  const int64_t lanes = count > 4 ? atoi(arguments[4]) : 16;
  const char *type = count > 5 ? arguments[5] : "f32";
  while ((int32_t)b.storage < dtype_count && strcmp(type, dtype_rows[b.storage].name) != 0) b.storage++;
  if (bytes_of(b.storage) == 0) {
    fprintf(stderr, "convolution: '%s' is no type: f32, bf16, f16\n", type);
    return 2;
  }
  for (int i = 0; cpu_kernels_at(i) != NULL; i++)
    if (strcmp(cpu_kernels_at(i)->name, set) == 0) b.kernels = cpu_kernels_at(i);
  omp_set_num_threads(b.threads);
  if (dnn_create(&b.dnn) != NEAP_OK) return 1;
  printf("%d threads, %s, %s\n%-40s %8s %8s %8s  %8s\n", b.threads, b.kernels->name, type, "", "winograd",
         "oneDNN", "direct", "MB");
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    if (count <= 6 || strcmp(arguments[6], shapes[i].name) == 0)
      measure_passes(&b, &shapes[i], rounds, lanes);
  for (int i = 6; i < count; i++) {
    long long n, c, k, side;
    if (sscanf(arguments[i], "%lld,%lld,%lld,%lld", &n, &c, &k, &side) == 4)
      measure_passes(&b, &(struct shape){"", n, c, k, side}, rounds, lanes);
  }
  dnn_free(b.dnn);
  region_free(&b.region);
  return 0;
}
