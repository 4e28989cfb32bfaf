#include "picture/jpeg_picture.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>
/* jpeglib.h needs stdio.h to be included first. */
#include <jerror.h>
#include <jpeglib.h>

#include "picture/orientation.h"

struct reader {
  struct jpeg_decompress_struct jpeg;
  struct jpeg_error_mgr errors;
  struct jpeg_source_mgr from;
  jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

static void keep_error(j_common_ptr jpeg) {
  struct reader *r = jpeg->client_data;
  jpeg->err->format_message(jpeg, r->message);
  longjmp(r->jump, 1);
}

static void ignore_warning(j_common_ptr jpeg, int level) { (void)jpeg, (void)level; }
static void ignore(j_decompress_ptr jpeg) { (void)jpeg; }

static boolean end_too_early(j_decompress_ptr jpeg) {
  struct reader *r = jpeg->client_data;
  snprintf(r->message, sizeof r->message, "the file ends before the picture does");
  longjmp(r->jump, 1);
}

static void skip(j_decompress_ptr jpeg, long count) {
  if (count <= 0) return;
  if ((size_t)count > jpeg->src->bytes_in_buffer) end_too_early(jpeg);
  jpeg->src->next_input_byte += count;
  jpeg->src->bytes_in_buffer -= (size_t)count;
}

/* Converts a row of four inks, inverted as Adobe writes them, to red, green and blue in place. */
static void inks_to_colours(uint8_t *out, const uint8_t *inks, int64_t width) {
  for (int64_t x = 0; x < width; x++)
    for (int c = 0; c < 3; c++) {
      const int ink = 255 - inks[4 * x + c], rest = inks[4 * x + 3], product = ink * rest + 128;
      out[3 * x + c] = (uint8_t)(rest - (((product >> 8) + product) >> 8));
    }
}

static neap_status choose_form(const char *path, struct reader *r, struct picture *picture) {
  struct jpeg_decompress_struct *jpeg = &r->jpeg;
  TRY(picture_check_size(path, jpeg->image_width, jpeg->image_height));
  RETURN_IF(jpeg->num_components != 1 && jpeg->num_components != 3 && jpeg->num_components != 4,
            NEAP_UNSUPPORTED, "%s: has %d components; a JPEG picture needs 1, 3 or 4", path,
            jpeg->num_components);
  picture->width = jpeg->image_width;
  picture->height = jpeg->image_height;
  picture->channels = jpeg->num_components == 1 ? 1 : 3;
  jpeg->out_color_space = jpeg->num_components == 1   ? JCS_GRAYSCALE
                          : jpeg->num_components == 3 ? JCS_RGB
                                                      : JCS_CMYK;
  return NEAP_OK;
}

/* Returns the orientation of the first block of EXIF. */
static int find_orientation(const struct jpeg_decompress_struct *jpeg) {
  static const char mark[] = "Exif\0"; /* with two zeros */
  for (const struct jpeg_marker_struct *m = jpeg->marker_list; m != NULL; m = m->next)
    if (m->data_length >= sizeof mark && memcmp(m->data, mark, sizeof mark) == 0)
      return orientation_of_exif(m->data + sizeof mark, m->data_length - sizeof mark);
  return 1;
}

/* Reads the file; returns through the jump buffer if libjpeg fails. */
static neap_status read_all(const char *path, struct reader *r, bool whole, struct picture *picture) {
  struct jpeg_decompress_struct *jpeg = &r->jpeg;
  jpeg_create_decompress(jpeg);
  jpeg->src = &r->from;
  jpeg_save_markers(jpeg, JPEG_APP0 + 1, 0xFFFF);
  jpeg_read_header(jpeg, TRUE);
  TRY(choose_form(path, r, picture));
  picture->orientation = find_orientation(jpeg);
  if (!whole) return NEAP_OK;
  TRY(picture_reserve(path, picture));
  const size_t row = (size_t)(picture->width * picture->channels);
  JSAMPARRAY inks = NULL;
  if (jpeg->out_color_space == JCS_CMYK)
    inks = jpeg->mem->alloc_sarray((j_common_ptr)jpeg, JPOOL_IMAGE, 4 * jpeg->image_width, 1);
  jpeg_start_decompress(jpeg);
  while (jpeg->output_scanline < jpeg->output_height) {
    JSAMPROW out = picture->pixels + jpeg->output_scanline * row;
    jpeg_read_scanlines(jpeg, inks != NULL ? inks : &out, 1);
    if (inks != NULL) inks_to_colours(out, inks[0], picture->width);
  }
  return NEAP_OK;
}

static neap_status read_guarded(const char *path, struct reader *r, bool whole, struct picture *picture) {
  if (setjmp(r->jump) != 0)
    return neap_fail(NEAP_BAD_FORMAT, "%s: is a damaged JPEG: %s; replace or remove it", path, r->message);
  return read_all(path, r, whole, picture);
}

neap_status jpeg_picture_read(const char *path, const uint8_t *bytes, size_t count, bool whole,
                              struct picture *picture) {
  struct reader r = {.from = {.next_input_byte = bytes,
                              .bytes_in_buffer = count,
                              .init_source = ignore,
                              .fill_input_buffer = end_too_early,
                              .skip_input_data = skip,
                              .resync_to_restart = jpeg_resync_to_restart,
                              .term_source = ignore}};
  r.jpeg.client_data = &r;
  r.jpeg.err = jpeg_std_error(&r.errors);
  r.errors.error_exit = keep_error;
  r.errors.emit_message = ignore_warning;
  const neap_status status = read_guarded(path, &r, whole, picture);
  jpeg_destroy_decompress(&r.jpeg);
  return status;
}
