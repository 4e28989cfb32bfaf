#include "data/mixup.h"

#include <math.h>

#include "base/elementary.h"
#include "data/stream.h"

/* Random numbers for a record, drawn one after the other. */
struct draws {
  uint64_t seed, epoch, next;
};

enum { COUNTER_BITS = 8, ATTEMPTS = 100 }; /* of a record: two variates of 100 draws, and one */

static void draw(struct draws *d, uint32_t words[4]) {
  data_random(d->seed, STREAM_MIXUP, d->epoch, d->next++, words);
}

/* Converts a word to a number in (0, 1). */
static double open_uniform(uint32_t word) { return ((double)word + 0.5) * 0x1p-32; }

/* Returns the logarithm of a draw from Gamma(alpha); it is finite for small alpha, too. */
static double log_gamma_variate(struct draws *d, double alpha) {
  static const double tau = 6.28318530717958647692;
  const double raised = alpha < 1 ? alpha + 1 : alpha, base = raised - 1.0 / 3, scale = 1 / sqrt(9 * base);
  uint32_t words[4];
  double cube = 1;
  for (int i = 0; i < ATTEMPTS; i++) { /* 19 of 20 attempts end here */
    draw(d, words);
    const double normal = sqrt(-2 * natural_logarithm(open_uniform(words[0]))) *
                          cosine(tau * open_uniform(words[1])),
                 side = 1 + scale * normal;
    cube = side * side * side;
    if (side > 0 && natural_logarithm(open_uniform(words[2])) <
                        normal * normal / 2 + base * (1 - cube + natural_logarithm(cube)))
      break;
    cube = 1;
  }
  return natural_logarithm(base * cube) + (alpha < 1 ? natural_logarithm(open_uniform(words[3])) / alpha : 0);
}

struct mixing mixup_draw(float alpha, uint64_t seed, int64_t epoch, int64_t record, int64_t count) {
  struct draws d = {seed, (uint64_t)epoch, (uint64_t)record << COUNTER_BITS};
  uint32_t words[4];
  draw(&d, words);
  const double one = log_gamma_variate(&d, (double)alpha), two = log_gamma_variate(&d, (double)alpha);
  return (struct mixing){.partner = random_below(words[0], (uint64_t)count),
                         .share = (float)(1 / (1 + natural_exponential(two - one)))};
}
