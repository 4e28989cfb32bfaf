#include "data/workspaces.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct workspaces {
  pthread_mutex_t lock;
  pthread_cond_t given;
  struct workspace *free, *all;
  int count;
};

neap_status workspaces_create(int count, bool as_stored, struct workspaces **workspaces) {
  struct workspaces *w = calloc(1, sizeof *w);
  struct workspace *all = calloc((size_t)count, sizeof *all);
  if (w == NULL || all == NULL) {
    free(w);
    free(all);
    return neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for reading pictures");
  }
  w->all = all;
  w->count = count;
  for (int i = 0; i < count; i++) {
    all[i].next = i + 1 < count ? &all[i + 1] : NULL;
    all[i].picture.as_stored = as_stored;
  }
  w->free = w->all;
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->given, NULL);
  *workspaces = w;
  return NEAP_OK;
}

void workspaces_free(struct workspaces *w) {
  if (w == NULL) return;
  for (int i = 0; i < w->count; i++) {
    free(w->all[i].file);
    picture_free(&w->all[i].picture);
    resize_free(&w->all[i].resizer);
  }
  pthread_cond_destroy(&w->given);
  pthread_mutex_destroy(&w->lock);
  free(w->all);
  free(w);
}

struct workspace *workspaces_take(struct workspaces *w) {
  pthread_mutex_lock(&w->lock);
  while (w->free == NULL) pthread_cond_wait(&w->given, &w->lock);
  struct workspace *taken = w->free;
  w->free = taken->next;
  pthread_mutex_unlock(&w->lock);
  return taken;
}

void workspaces_give(struct workspaces *w, struct workspace *workspace) {
  pthread_mutex_lock(&w->lock);
  workspace->next = w->free;
  w->free = workspace;
  pthread_cond_signal(&w->given);
  pthread_mutex_unlock(&w->lock);
}

neap_status workspace_reserve_file(struct workspace *w, const char *path, uint64_t bytes) {
  static const uint64_t most = (uint64_t)1 << 30;
  RETURN_IF(bytes > most, NEAP_UNSUPPORTED,
            "%s: is too large (got %llu bytes); files of pictures have at "
            "most %llu",
            path, (unsigned long long)bytes, (unsigned long long)most);
  if (bytes <= w->file_capacity) return NEAP_OK;
  uint8_t *file = realloc(w->file, (size_t)bytes);
  RETURN_IF(file == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for its %llu bytes", path,
            (unsigned long long)bytes);
  w->file = file;
  w->file_capacity = (size_t)bytes;
  return NEAP_OK;
}

/* Makes room in one workspace. */
static neap_status reserve(struct workspace *w, const struct workspace_size *most, size_t resizer) {
  struct picture largest = w->picture;
  TRY(workspace_reserve_file(w, "pictures", most->file));
  largest.width = (int64_t)most->pixels;
  largest.height = largest.channels = 1;
  TRY(picture_reserve("pictures", &largest));
  TRY(picture_reserve_spare("pictures", most->spare, &largest));
  w->picture = largest;
  TRY(resize_reserve(&w->resizer, resizer));
  memset(w->file, 0, w->file_capacity);
  memset(w->picture.pixels, 0, w->picture.capacity);
  if (w->picture.spare != NULL) memset(w->picture.spare, 0, w->picture.spare_capacity);
  memset(w->resizer.memory, 0, w->resizer.capacity);
  return NEAP_OK;
}

neap_status workspaces_reserve(struct workspaces *w, const struct workspace_size *most, int64_t height,
                               int64_t width) {
  const size_t resizer = resize_bytes(most->height, most->width, height, width);
  for (int i = 0; i < w->count; i++) TRY(reserve(&w->all[i], most, resizer));
  return NEAP_OK;
}
