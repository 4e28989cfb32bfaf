/* Pictures are what Pillow makes of them (picture_cases.py), in any size; a damaged one is refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/picture_crop.h"
#include "picture/picture.h"
#include "picture/resize.h"
#include "picture_cases.h"
#include "resize_cases.h"
#include "testing.h"

enum { CASES = sizeof picture_cases / sizeof *picture_cases };

static void test_pixels(void **state) {
  (void)state;
  struct picture p = {0};
  for (int i = 0; i < CASES; i++) {
    const struct picture_case *c = &picture_cases[i];
    if (!picture_is_read(c->ending)) continue; /* this build lacks its library */
    assert_int_equal(picture_measure(c->name, c->file, c->size, &p), NEAP_OK);
    assert_int_equal(p.width, c->width);
    assert_int_equal(picture_decode(c->name, c->file, c->size, &p), NEAP_OK);
    assert_int_equal(p.width, c->width);
    assert_int_equal(p.height, c->height);
    assert_int_equal(p.channels == 1, strstr(c->name, "grey") != NULL || strncmp(c->name, "bits", 4) == 0);
    for (int k = 0; k < 3 * c->width * c->height; k++) {
      const int value = p.pixels[p.channels == 1 ? k / 3 : k];
      if (abs(value - c->pixels[k]) > c->slack)
        fail_msg("%s: byte %d is %d, not %d", c->name, k, value, c->pixels[k]);
    }
  }
  picture_free(&p);
}

/* Cut anywhere, a file is refused or, where only its end is missing, is the same picture. */
static void test_cut(void **state) {
  (void)state;
  struct picture whole = {0}, p = {0};
  for (int i = 0; i < CASES; i++) {
    const struct picture_case *c = &picture_cases[i];
    int refused = 0;
    if (!picture_is_read(c->ending)) continue;
    assert_int_equal(picture_decode(c->name, c->file, c->size, &whole), NEAP_OK);
    for (size_t size = 0; size < c->size; size++) {
      const neap_status status = picture_decode(c->name, c->file, size, &p);
      if (status == NEAP_OK) {
        assert_memory_equal(p.pixels, whole.pixels, (size_t)(p.width * p.height * p.channels));
        continue;
      }
      refused++;
      assert_int_equal(status, NEAP_BAD_FORMAT);
      assert_non_null(strstr(neap_error_message(), c->name));
    }
    assert_true(refused > 40); /* an animated one has more pictures behind the first, which is taken */
  }
  picture_free(&whole);
  picture_free(&p);
}

static void test_refused(void **state) {
  (void)state;
  uint8_t file[64];
  struct picture p = {0};
  memcpy(file, picture_cases[1].file, sizeof file); /* grey */
  assert_int_equal(picture_decode("a.heic",
                                  (const uint8_t *)"\0\0\0\x18"
                                                   "ftypheic",
                                  12, &p),
                   NEAP_BAD_FORMAT);
  assert_non_null(strstr(neap_error_message(), "a.heic: is of no kind that is read here (PNG, JPEG"));
  file[24] = 16; /* bits, in the header's 13 bytes, whose checksum follows */
  const uint8_t sum[] = {0xc0, 0, 0, 0};
  memcpy(file + 29, sum, sizeof sum);
  assert_int_equal(picture_measure("b.png", file, sizeof file, &p), NEAP_BAD_FORMAT);
  assert_non_null(strstr(neap_error_message(), "b.png"));
  picture_free(&p);
}

static void test_sizes(void **state) {
  (void)state;
  struct resizer resizer = {0};
  const struct picture p = {.width = RESIZE_WIDTH,
                            .height = RESIZE_HEIGHT,
                            .channels = 3,
                            .pixels = (uint8_t *)(uintptr_t)resize_source};
  for (size_t i = 0; i < sizeof resize_cases / sizeof *resize_cases; i++) {
    const struct resize_case *c = &resize_cases[i];
    const struct box box = {c->left, c->top, c->width, c->height};
    const int64_t plane = (int64_t)c->to_width * c->to_height;
    const struct target target = {c->to_height, c->to_width, {0, 0, c->to_width, c->to_height}};
    uint8_t *out = malloc((size_t)(3 * plane)), *part = malloc((size_t)(3 * plane));
    assert_non_null(out);
    assert_non_null(part);
    assert_int_equal(resize_box(&resizer, &p, box, &target, out), NEAP_OK);
    for (int64_t k = 0; k < 3 * plane; k++) assert_int_equal(out[k % 3 * plane + k / 3], c->pixels[k]);
    /* What is kept of it is the same as in the whole. */
    const struct box kept = {c->to_width / 3, c->to_height / 4, (c->to_width + 1) / 2,
                             (c->to_height + 1) / 2};
    const struct target some = {c->to_height, c->to_width, kept};
    assert_int_equal(resize_box(&resizer, &p, box, &some, part), NEAP_OK);
    for (int64_t k = 0; k < 3 * kept.width * kept.height; k++) {
      const int64_t y = k / kept.width % kept.height + kept.top, x = k % kept.width + kept.left,
                    channel = k / (kept.width * kept.height);
      assert_int_equal(part[k], out[channel * plane + y * c->to_width + x]);
    }
    free(out);
    free(part);
  }
  resize_free(&resizer);
}

/* torchvision's Resize and CenterCrop, by hand: a side of 500 x 375 to 224 is 298 x 224, of which 37 are cut.
 */
static void test_crops(void **state) {
  (void)state;
  struct box box;
  struct target target;
  crop_centre(375, 500, 224, 224, &box, &target);
  assert_int_equal(target.height, 224);
  assert_int_equal(target.width, 298);
  assert_int_equal(target.kept.left, 37);
  assert_int_equal(target.kept.top, 0);
  crop_centre(500, 375, 224, 224, &box, &target);
  assert_int_equal(target.height, 298);
  assert_int_equal(target.kept.top, 37);
  crop_centre(224, 224, 224, 224, &box, &target);
  assert_int_equal(target.width, 224);
  assert_int_equal(box.width, 224);
  /* Boxes that are drawn lie in the picture and have an area and a ratio within the limits. */
  double area = 0;
  enum { DRAWS = 2000 };
  for (int64_t i = 0; i < DRAWS; i++) {
    const struct draw draw = {true, 3, i / 100};
    crop_at_random(300, 400, 224, 224, &draw, i, &box, &target);
    assert_true(box.left >= 0 && box.top >= 0 && box.left + box.width <= 400 && box.top + box.height <= 300);
    const double share = (double)(box.width * box.height) / (300 * 400),
                 ratio = (double)box.width / (double)box.height;
    assert_true(share > 0.075 && share <= 1 && ratio > 0.73 && ratio < 1.36);
    area += share / DRAWS;
  }
  assert_true(area > 0.39 && area < 0.47); /* torchvision's mean, by 100,000 draws, is 0.432 */
  crop_at_random(10, 1000, 8, 8, &(struct draw){true, 1, 0}, 0, &box, &target); /* none fits: the middle */
  assert_int_equal(box.width, 13);
  assert_int_equal(box.left, (1000 - 13) / 2);
}

int run_test_pictures(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_pixels), cmocka_unit_test(test_cut),
                                     cmocka_unit_test(test_refused), cmocka_unit_test(test_sizes),
                                     cmocka_unit_test(test_crops)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
