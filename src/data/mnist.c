/* Reads MNIST: idx files of images and labels, compressed with gzip (.gz) or not. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "data/byte_images.h"
#include "data/readers.h"

enum { MAGIC_LABELS = 0x801, MAGIC_IMAGES = 0x803, DEFLATE_RATIO = 1032 };

/* An idx file of bytes: dims [count] or [count, height, width]. A compressed one is unpacked into a temporary
 * file without its header. */
struct idx {
  const char *path;
  int64_t dims[3];
  int descriptor;
  size_t header_bytes, offset; /* of the data in the open file */
};

static uint32_t big_endian_32(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Reads magic number and dimensions; sets `bytes` to the size that must follow the header. */
static neap_status read_header(struct idx *idx, const uint8_t *header, size_t size, uint32_t magic,
                               size_t *bytes) {
  const int rank = magic == MAGIC_IMAGES ? 3 : 1;
  idx->header_bytes = (size_t)(4 + 4 * rank);
  RETURN_IF(size < idx->header_bytes, NEAP_BAD_FORMAT,
            "%s: ends at offset %zu, inside the header of %zu bytes", idx->path, size, idx->header_bytes);
  RETURN_IF(big_endian_32(header) != magic, NEAP_BAD_FORMAT,
            "%s: begins with 0x%08x; a file of idx %s begins with 0x%08x", idx->path, big_endian_32(header),
            rank == 3 ? "images" : "labels", magic);
  *bytes = 1;
  for (int i = 0; i < rank; i++) {
    const uint32_t dim = big_endian_32(header + 4 + 4 * i), limit = i == 0 ? INT32_MAX : SOURCE_MAX_SIDE;
    RETURN_IF(dim == 0 || dim > limit, NEAP_BAD_FORMAT, "%s: offset %d: dimension %d is %u, expected 1 to %u",
              idx->path, 4 + 4 * i, i, dim, limit);
    idx->dims[i] = dim;
    *bytes *= dim; /* below 2^31 * 2^12 * 2^12 */
  }
  return NEAP_OK;
}

static neap_status gzip_read(gzFile file, const char *path, void *data, size_t bytes, size_t *done) {
  for (*done = 0; *done < bytes;) {
    const size_t left = bytes - *done;
    const int got = gzread(file, (char *)data + *done, left < 1 << 30 ? (unsigned)left : 1u << 30);
    if (got <= 0) {
      int error;
      gzerror(file, &error);
      RETURN_IF(error == Z_ERRNO, NEAP_IO_FAILED, "%s: cannot be read: %s", path, strerror(errno));
      RETURN_IF(error == Z_MEM_ERROR, NEAP_OUT_OF_MEMORY, "%s: out of memory to decompress it", path);
      RETURN_IF(error != Z_OK, NEAP_BAD_FORMAT, "%s: is damaged or cut short after %zu bytes of content",
                path, *done);
      return NEAP_OK;
    }
    *done += (size_t)got;
  }
  return NEAP_OK;
}

static neap_status read_gzip(struct source *source, gzFile file, uint64_t compressed, uint32_t magic,
                             struct idx *idx) {
  enum { PIECE = 1 << 16 };
  uint8_t header[16], piece[PIECE], more;
  size_t got, bytes;
  TRY(gzip_read(file, idx->path, header, magic == MAGIC_IMAGES ? 16 : 8, &got));
  TRY(read_header(idx, header, got, magic, &bytes));
  RETURN_IF(bytes / DEFLATE_RATIO > compressed, NEAP_BAD_FORMAT,
            "%s: the header asks for %zu bytes, but %llu compressed bytes cannot hold them", idx->path, bytes,
            (unsigned long long)compressed);
  TRY(source_temporary_file(source, idx->path, &idx->descriptor));
  for (size_t done = 0; done < bytes; done += got) {
    const size_t wanted = bytes - done < PIECE ? bytes - done : PIECE;
    TRY(gzip_read(file, idx->path, piece, wanted, &got));
    RETURN_IF(got < wanted, NEAP_BAD_FORMAT, "%s: has %zu bytes after its header, which asks for %zu",
              idx->path, done + got, bytes);
    TRY(source_write_file(idx->path, idx->descriptor, piece, got));
  }
  /* Reading past the end makes zlib compare the checksum, too. */
  TRY(gzip_read(file, idx->path, &more, 1, &got));
  RETURN_IF(got != 0, NEAP_BAD_FORMAT, "%s: has more than the %zu bytes its header asks for", idx->path,
            bytes);
  return NEAP_OK;
}

static neap_status open_gzip(struct source *source, uint32_t magic, struct idx *idx) {
  struct stat status;
  RETURN_IF(stat(idx->path, &status) != 0, NEAP_IO_FAILED, "%s: cannot be opened: %s", idx->path,
            strerror(errno));
  gzFile file = gzopen(idx->path, "rb");
  RETURN_IF(file == NULL, NEAP_IO_FAILED, "%s: cannot be opened: %s", idx->path, strerror(errno));
  neap_status result = read_gzip(source, file, (uint64_t)status.st_size, magic, idx);
  gzclose(file);
  return result;
}

static neap_status open_plain(struct source *source, uint32_t magic, struct idx *idx) {
  uint8_t header[16];
  size_t size, bytes;
  TRY(source_open_file(source, idx->path, &idx->descriptor, &size));
  const size_t held = size < sizeof header ? size : sizeof header;
  TRY(source_read_file(idx->path, idx->descriptor, 0, 1, 0, held, header));
  TRY(read_header(idx, header, held, magic, &bytes));
  RETURN_IF(size - idx->header_bytes != bytes, NEAP_BAD_FORMAT,
            "%s: has %zu bytes after its header, which asks for %zu", idx->path, size - idx->header_bytes,
            bytes);
  idx->offset = idx->header_bytes;
  return NEAP_OK;
}

static neap_status open_idx(struct source *source, const char *folder, const char *name, uint32_t magic,
                            struct idx *idx) {
  idx->path = region_format(&source->region, "%s/%s", folder, name);
  RETURN_IF_NULL(idx->path);
  if (file_exists(idx->path)) return open_plain(source, magic, idx);
  const char *plain = idx->path;
  idx->path = region_format(&source->region, "%s.gz", plain);
  RETURN_IF_NULL(idx->path);
  RETURN_IF(!file_exists(idx->path), NEAP_IO_FAILED, "%s: is missing, and so is %s.gz", plain, name);
  return open_gzip(source, magic, idx);
}

static neap_status open_split(struct source *source, const char *folder, const char *images_name,
                              const char *labels_name, enum split split) {
  struct idx images = {0}, labels = {0};
  TRY(open_idx(source, folder, images_name, MAGIC_IMAGES, &images));
  TRY(open_idx(source, folder, labels_name, MAGIC_LABELS, &labels));
  RETURN_IF(images.dims[0] != labels.dims[0], NEAP_BAD_FORMAT, "%s has %lld images, but %s has %lld labels",
            images.path, (long long)images.dims[0], labels.path, (long long)labels.dims[0]);
  if (split == SPLIT_TRAIN)
    TRY(byte_images_begin(source, (int64_t[]){1, images.dims[1], images.dims[2]}, 10));
  const int64_t *image = source->fields[0].dims;
  RETURN_IF(image[1] != images.dims[1] || image[2] != images.dims[2], NEAP_BAD_FORMAT,
            "%s: has images of %lldx%lld, but the training images are %lldx%lld", images.path,
            (long long)images.dims[1], (long long)images.dims[2], (long long)image[1], (long long)image[2]);
  uint8_t *held = region_alloc(&source->region, (size_t)labels.dims[0], 1);
  RETURN_IF_NULL(held);
  TRY(source_read_file(labels.path, labels.descriptor, labels.offset, 1, 0, (size_t)labels.dims[0], held));
  const struct byte_images_part part = {.file = labels.path,
                                        .descriptor = images.descriptor,
                                        .count = images.dims[0],
                                        .offset = images.offset,
                                        .stride = (size_t)(images.dims[1] * images.dims[2]),
                                        .labels = held,
                                        .label_stride = 1,
                                        .label_offset = labels.header_bytes};
  return byte_images_add(source, split, &part);
}

neap_status mnist_open(const char *argument, struct source *source) {
  TRY(open_split(source, argument, "train-images-idx3-ubyte", "train-labels-idx1-ubyte", SPLIT_TRAIN));
  return open_split(source, argument, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", SPLIT_TEST);
}
