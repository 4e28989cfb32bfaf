#include "picture/gif_picture.h"

#include <gif_lib.h>
#include <string.h>

struct reader {
  const uint8_t *bytes;
  size_t left;
  int transparent; /* index of a colour; -1: none */
};

static int take_bytes(GifFileType *gif, GifByteType *data, int count) {
  struct reader *r = gif->UserData;
  if (count < 0 || (size_t)count > r->left) return 0;
  memcpy(data, r->bytes, (size_t)count);
  r->bytes += count;
  r->left -= (size_t)count;
  return count;
}

static neap_status fail_damaged(const char *path, const char *problem) {
  return neap_fail(NEAP_BAD_FORMAT, "%s: is a damaged GIF: %s; replace or remove it", path,
                   problem != NULL ? problem : "it cannot be read");
}

static neap_status fail_library(const char *path, const GifFileType *gif) {
  return fail_damaged(path, GifErrorString(gif->Error));
}

/* Reads an extension, of which one tells the transparent colour. */
static neap_status read_extension(const char *path, GifFileType *gif) {
  struct reader *r = gif->UserData;
  int code;
  GifByteType *block;
  GraphicsControlBlock control;
  if (DGifGetExtension(gif, &code, &block) == GIF_ERROR) return fail_library(path, gif);
  while (block != NULL) {
    if (code == GRAPHICS_EXT_FUNC_CODE && DGifExtensionToGCB(block[0], block + 1, &control) != GIF_ERROR)
      r->transparent = control.TransparentColor;
    if (DGifGetExtensionNext(gif, &block) == GIF_ERROR) return fail_library(path, gif);
  }
  return NEAP_OK;
}

/* Goes on to the first picture. */
static neap_status find_picture(const char *path, GifFileType *gif) {
  for (;;) {
    GifRecordType type;
    if (DGifGetRecordType(gif, &type) == GIF_ERROR) return fail_library(path, gif);
    if (type == EXTENSION_RECORD_TYPE) TRY(read_extension(path, gif));
    if (type == TERMINATE_RECORD_TYPE) return fail_damaged(path, "it has no picture");
    if (type != IMAGE_DESC_RECORD_TYPE) continue;
    return DGifGetImageDesc(gif) == GIF_ERROR ? fail_library(path, gif) : NEAP_OK;
  }
}

/* Sets the pixel of a colour; one that the palette lacks is black. */
static void put_colour(const ColorMapObject *colours, int index, uint8_t *pixel) {
  static const GifColorType black;
  const GifColorType *c = index >= 0 && index < colours->ColorCount ? &colours->Colors[index] : &black;
  pixel[0] = c->Red, pixel[1] = c->Green, pixel[2] = c->Blue;
}

/* Reads the lines, which come in four passes if they are interlaced. */
static neap_status read_lines(const char *path, GifFileType *gif, const ColorMapObject *colours,
                              struct picture *picture) {
  static const int first[] = {0, 4, 2, 1}, stride[] = {8, 8, 4, 2};
  const GifImageDesc *d = &gif->Image;
  const int passes = d->Interlace ? 4 : 1;
  TRY(picture_reserve_spare(path, (size_t)d->Width, picture));
  for (int pass = 0; pass < passes; pass++)
    for (int y = d->Interlace ? first[pass] : 0; y < d->Height; y += d->Interlace ? stride[pass] : 1) {
      if (DGifGetLine(gif, picture->spare, d->Width) == GIF_ERROR) return fail_library(path, gif);
      uint8_t *to = picture->pixels + 3 * ((int64_t)(d->Top + y) * picture->width + d->Left);
      for (int x = 0; x < d->Width; x++) put_colour(colours, picture->spare[x], to + 3 * (int64_t)x);
    }
  return NEAP_OK;
}

static neap_status read_picture(const char *path, GifFileType *gif, bool whole, struct picture *picture) {
  const struct reader *r = gif->UserData;
  TRY(picture_check_size(path, gif->SWidth, gif->SHeight));
  TRY(find_picture(path, gif));
  const GifImageDesc *d = &gif->Image;
  const ColorMapObject *colours = d->ColorMap != NULL ? d->ColorMap : gif->SColorMap;
  if (colours == NULL) return fail_damaged(path, "it has no palette");
  if (d->Left < 0 || d->Top < 0 || d->Width < 1 || d->Height < 1 || d->Left + d->Width > gif->SWidth ||
      d->Top + d->Height > gif->SHeight)
    return fail_damaged(path, "its picture does not fit into its screen");
  picture->width = gif->SWidth;
  picture->height = gif->SHeight;
  picture->channels = 3;
  picture->spare_bytes = (size_t)d->Width;
  if (!whole) return NEAP_OK;
  TRY(picture_reserve(path, picture));
  const int outside = r->transparent >= 0 ? r->transparent : 0;
  for (int64_t i = 0; i < picture->width * picture->height; i++)
    put_colour(colours, outside, picture->pixels + 3 * i);
  return read_lines(path, gif, colours, picture);
}

neap_status gif_picture_read(const char *path, const uint8_t *bytes, size_t count, bool whole,
                             struct picture *picture) {
  struct reader r = {bytes, count, -1};
  int error = 0;
  GifFileType *gif = DGifOpen(&r, take_bytes, &error);
  if (gif == NULL) return fail_damaged(path, GifErrorString(error));
  const neap_status status = read_picture(path, gif, whole, picture);
  DGifCloseFile(gif, &error);
  return status;
}
