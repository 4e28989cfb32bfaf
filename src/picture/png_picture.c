#include "picture/png_picture.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "picture/orientation.h"

struct reader {
  png_structp png;
  png_infop info;
  const uint8_t *bytes;
  size_t left;
  char message[160]; /* of the failure that libpng told of */
};

static void take_bytes(png_structp png, png_bytep data, size_t count) {
  struct reader *r = png_get_io_ptr(png);
  if (count > r->left) png_error(png, "the file ends before the picture does");
  memcpy(data, r->bytes, count);
  r->bytes += count;
  r->left -= count;
}

static void keep_error(png_structp png, png_const_charp message) {
  struct reader *r = png_get_error_ptr(png);
  snprintf(r->message, sizeof r->message, "%s", message);
  longjmp(png_jmpbuf(png), 1);
}

static void ignore_warning(png_structp png, png_const_charp message) { (void)png, (void)message; }

/* Has libpng convert everything to 8 bits of grey or of red, green and blue. */
static neap_status choose_form(const char *path, struct reader *r, struct picture *picture) {
  const int type = png_get_color_type(r->png, r->info), depth = png_get_bit_depth(r->png, r->info);
  TRY(picture_check_size(path, png_get_image_width(r->png, r->info), png_get_image_height(r->png, r->info)));
  picture->width = png_get_image_width(r->png, r->info);
  picture->height = png_get_image_height(r->png, r->info);
  picture->channels = type & PNG_COLOR_MASK_COLOR ? 3 : 1;
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(r->png);
  if (type == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(r->png);
  png_set_strip_16(r->png);
  png_set_strip_alpha(r->png);
  png_bytep exif;
  png_uint_32 exif_bytes;
  if (png_get_eXIf_1(r->png, r->info, &exif_bytes, &exif) != 0)
    picture->orientation = orientation_of_exif(exif, exif_bytes);
  return NEAP_OK;
}

/* Reads the file; returns through the jump buffer if libpng fails. */
static neap_status read_all(const char *path, struct reader *r, bool whole, struct picture *picture) {
  png_set_read_fn(r->png, r, take_bytes);
  png_set_user_limits(r->png, PICTURE_MAX_SIDE, PICTURE_MAX_SIDE);
  png_read_info(r->png, r->info);
  TRY(choose_form(path, r, picture));
  if (!whole) return NEAP_OK;
  const int passes = png_set_interlace_handling(r->png);
  png_read_update_info(r->png, r->info);
  const size_t row = (size_t)(picture->width * picture->channels);
  RETURN_IF(png_get_rowbytes(r->png, r->info) != row, NEAP_INTERNAL, "%s: its rows have an unexpected length",
            path);
  TRY(picture_reserve(path, picture));
  for (int pass = 0; pass < passes; pass++)
    for (int64_t y = 0; y < picture->height; y++)
      png_read_row(r->png, picture->pixels + (size_t)y * row, NULL);
  return NEAP_OK;
}

static neap_status read_guarded(const char *path, struct reader *r, bool whole, struct picture *picture) {
  if (setjmp(png_jmpbuf(r->png)) != 0)
    return neap_fail(NEAP_BAD_FORMAT, "%s: is a damaged PNG: %s; replace or remove it", path, r->message);
  return read_all(path, r, whole, picture);
}

neap_status png_picture_read(const char *path, const uint8_t *bytes, size_t count, bool whole,
                             struct picture *picture) {
  struct reader r = {.bytes = bytes, .left = count};
  r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, keep_error, ignore_warning);
  RETURN_IF(r.png == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", path);
  r.info = png_create_info_struct(r.png);
  const neap_status status = r.info != NULL ? read_guarded(path, &r, whole, picture)
                                            : neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", path);
  png_destroy_read_struct(&r.png, &r.info, NULL);
  return status;
}
