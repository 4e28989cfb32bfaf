#include "picture/tiff_picture.h"

#include <stdio.h>
#include <string.h>
#include <tiffio.h>

struct reader {
  const uint8_t *bytes;
  size_t count, at;
  char message[160]; /* of the first failure that libtiff told of */
};

/* ---- A file in memory ---- */

static tmsize_t take_bytes(thandle_t handle, void *data, tmsize_t count) {
  struct reader *r = handle;
  const size_t left = r->at < r->count ? r->count - r->at : 0,
               some = (size_t)count < left ? (size_t)count : left;
  memcpy(data, r->bytes + r->at, some);
  r->at += some;
  return (tmsize_t)some;
}

static tmsize_t refuse_bytes(thandle_t handle, void *data, tmsize_t count) {
  (void)handle, (void)data, (void)count;
  return -1;
}

static toff_t seek(thandle_t handle, toff_t offset, int from) {
  struct reader *r = handle;
  r->at = (size_t)offset + (from == SEEK_CUR ? r->at : from == SEEK_END ? r->count : 0);
  return r->at;
}

static int keep_open(thandle_t handle) {
  (void)handle;
  return 0;
}

static toff_t size_of(thandle_t handle) { return ((struct reader *)handle)->count; }

static int keep_error(TIFF *tiff, void *user, const char *module, const char *format, va_list arguments) {
  struct reader *r = user;
  (void)tiff, (void)module;
  if (r->message[0] == '\0') vsnprintf(r->message, sizeof r->message, format, arguments);
  return 1;
}

static int ignore_warning(TIFF *tiff, void *user, const char *module, const char *format, va_list arguments) {
  (void)tiff, (void)user, (void)module, (void)format, (void)arguments;
  return 1;
}

static TIFF *open_tiff(struct reader *r) {
  static const tmsize_t most = (tmsize_t)1 << 30;
  TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
  if (options == NULL) return NULL;
  TIFFOpenOptionsSetErrorHandlerExtR(options, keep_error, r);
  TIFFOpenOptionsSetWarningHandlerExtR(options, ignore_warning, r);
  TIFFOpenOptionsSetMaxSingleMemAlloc(options, most);
  TIFF *tiff = TIFFClientOpenExt("picture", "rm", r, take_bytes, refuse_bytes, seek, keep_open, size_of, NULL,
                                 NULL, options);
  TIFFOpenOptionsFree(options);
  return tiff;
}

/* ---- The picture ---- */

static neap_status fail_damaged(const char *path, const struct reader *r) {
  return neap_fail(NEAP_BAD_FORMAT, "%s: is a damaged TIFF: %s; replace or remove it", path,
                   r->message[0] != '\0' ? r->message : "it cannot be read");
}

/* Has libtiff leave colours as they are beside an alpha, by which it would multiply them. */
static void leave_colours(TIFF *tiff) {
  uint16_t count, *kinds, associated[] = {EXTRASAMPLE_ASSOCALPHA};
  if (TIFFGetField(tiff, TIFFTAG_EXTRASAMPLES, &count, &kinds) == 1 && count == 1 &&
      *kinds == EXTRASAMPLE_UNASSALPHA)
    TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, 1, associated);
}

/* Writes the raster, whose rows begin at the top, as grey or colours. */
static void put_pixels(const uint32_t *raster, struct picture *picture) {
  const int64_t count = picture->width * picture->height;
  uint8_t *to = picture->pixels;
  for (int64_t i = 0; i < count; i++) {
    *to++ = (uint8_t)TIFFGetR(raster[i]);
    if (picture->channels == 1) continue;
    *to++ = (uint8_t)TIFFGetG(raster[i]);
    *to++ = (uint8_t)TIFFGetB(raster[i]);
  }
}

static neap_status read_picture(const char *path, struct reader *r, TIFF *tiff, bool whole,
                                struct picture *picture) {
  uint32_t width = 0, height = 0;
  uint16_t orientation, samples, photometric = 0, stored = ORIENTATION_TOPLEFT;
  char problem[1024] = "";
  TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
  TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &photometric);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLESPERPIXEL, &samples);
  if (TIFFGetFieldDefaulted(tiff, TIFFTAG_ORIENTATION, &orientation) == 1 && orientation >= 1 &&
      orientation <= 8)
    stored = orientation;
  TRY(picture_check_size(path, width, height));
  leave_colours(tiff);
  RETURN_IF(!TIFFRGBAImageOK(tiff, problem), NEAP_UNSUPPORTED, "%s: %.200s; convert it to 8 bits", path,
            problem);
  picture->width = width;
  picture->height = height;
  picture->channels = samples == 1 && photometric <= PHOTOMETRIC_MINISBLACK ? 1 : 3;
  picture->orientation = stored;
  picture->spare_bytes = (size_t)width * height * sizeof(uint32_t);
  if (!whole) return NEAP_OK;
  TRY(picture_reserve(path, picture));
  TRY(picture_reserve_spare(path, picture->spare_bytes, picture));
  uint32_t *raster = (uint32_t *)(void *)picture->spare;
  /* Its rows and columns stay in their order, as they are wanted in that of the file. */
  if (TIFFReadRGBAImageOriented(tiff, width, height, raster, stored, 1) == 0) return fail_damaged(path, r);
  put_pixels(raster, picture);
  return NEAP_OK;
}

neap_status tiff_picture_read(const char *path, const uint8_t *bytes, size_t count, bool whole,
                              struct picture *picture) {
  struct reader r = {.bytes = bytes, .count = count};
  TIFF *tiff = open_tiff(&r);
  if (tiff == NULL) return fail_damaged(path, &r);
  const neap_status status = read_picture(path, &r, tiff, whole, picture);
  TIFFClose(tiff);
  return status;
}
