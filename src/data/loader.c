#include "data/loader.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/ahead.h"
#include "data/mixup.h"
#include "data/sources.h"
#include "data/statistics.h"
#include "data/stream.h"
#include "data/transform_images.h"
#include "data/transform_tokens.h"

/* All transforms, in the order in which records go through them. */
static const struct transform *const transforms[] = {
    &transform_frame,      &transform_crop,         &transform_flip, &transform_numbers, &transform_centre,
    &transform_next_token, &transform_masked_token, &transform_pad,  &transform_answers, &transform_text};

/* Sets up a loader whose source is open. */
static neap_status begin(struct loader *l) {
  l->threads = source_threads(&l->source);
  return buckets_find(&l->source, &l->region, l->buckets, &l->bucket_count, l->by_bucket);
}

neap_status loader_open(struct loader *loader, const char *text, const struct task *task) {
  *loader = (struct loader){.ordered_epoch = -1, .label = -1};
  TRY(sources_open(text, task, &loader->source));
  return begin(loader);
}

neap_status loader_open_own(struct loader *loader, const neap_data_source *own, const struct task *task) {
  *loader = (struct loader){.ordered_epoch = -1, .label = -1};
  TRY(sources_open_own(own, task, &loader->source));
  return begin(loader);
}

void loader_close(struct loader *loader) {
  ahead_free(loader->ahead);
  source_close(&loader->source);
  region_free(&loader->region);
  *loader = (struct loader){0};
}

int64_t loader_length(const struct loader *loader) {
  return loader->bucket_count > 0 ? loader->buckets[loader->bucket_count - 1].length : 0;
}

/* ---- Division ---- */

void loader_order(uint64_t seed, int64_t epoch, bool shuffle, int64_t count, int32_t *order) {
  for (int64_t i = 0; i < count; i++) order[i] = (int32_t)i;
  if (!shuffle) return;
  for (int64_t i = count - 1; i > 0; i--) {
    uint32_t bits[4];
    data_random(seed, STREAM_SHUFFLE, (uint64_t)epoch, (uint64_t)i, bits);
    const uint32_t j = random_below(bits[0], (uint64_t)i + 1);
    const int32_t moved = order[i];
    order[i] = order[j];
    order[j] = moved;
  }
}

/* Draws the order of records within each bucket, and the order of the batches of all buckets. */
static void order_epoch(struct loader *l, int64_t epoch) {
  static const int64_t of_batches = (int64_t)1 << 40;
  const uint64_t seed = l->division.seed;
  const bool shuffle = l->division.shuffle;
  if (epoch == l->ordered_epoch) return;
  for (int k = 0; l->order != NULL && k < l->bucket_count; k++) {
    const int64_t first = l->buckets[k].first[SPLIT_TRAIN], count = l->buckets[k].count[SPLIT_TRAIN];
    loader_order(seed, l->bucket_count > 1 ? epoch * BUCKET_LIMIT + k : epoch, shuffle, count,
                 l->order + first);
    for (int64_t i = 0; i < count; i++) l->order[first + i] += (int32_t)first;
  }
  if (l->batches != NULL) loader_order(seed, epoch + of_batches, shuffle, l->epoch_steps, l->batches);
  l->ordered_epoch = epoch;
}

/* Divides so that a batch of shorter sequences has nearly as many tokens as one of the longest. For texts,
 * which have one label each, it has as many records instead. */
neap_status loader_divide(struct loader *l, const struct division *division) {
  const int64_t longest = loader_length(l), count = l->source.records[SPLIT_TRAIN];
  int64_t most = 0;
  l->division = *division;
  l->micro_batches = (int32_t)(division->batch / division->micro);
  l->epoch_steps = 0;
  for (int k = 0; k < l->bucket_count; k++) {
    struct bucket *b = &l->buckets[k];
    const bool more = l->by_bucket[SPLIT_TRAIN] != NULL && l->source.kind != NEAP_TASK_TEXTS;
    b->micro = more ? division->micro * longest / b->length : division->micro;
    const int64_t batch = b->micro * l->micro_batches;
    b->steps = b->count[SPLIT_TRAIN] / batch;
    const int64_t rest = b->count[SPLIT_TRAIN] % batch;
    const bool fills_up = l->by_bucket[SPLIT_TRAIN] != NULL;
    b->rest = division->keep_last && !fills_up ? rest : 0;
    b->steps += rest > 0 && (fills_up || division->keep_last);
    l->epoch_steps += b->steps;
    if (b->micro > most) most = b->micro;
  }
  if (division->shuffle) l->order = region_alloc(&l->region, (size_t)count, sizeof *l->order);
  l->records = region_alloc(&l->region, (size_t)most, sizeof *l->records);
  if (l->bucket_count > 1) l->batches = region_alloc(&l->region, (size_t)l->epoch_steps, sizeof *l->batches);
  RETURN_IF((division->shuffle && l->order == NULL) || l->records == NULL ||
                (l->bucket_count > 1 && l->batches == NULL),
            NEAP_OUT_OF_MEMORY, "out of memory for the order of %lld records", (long long)count);
  order_epoch(l, 0); /* now: what the process has to have is known before its budget is divided */
  return NEAP_OK;
}

/* Returns the bucket of a step; `*batch`: the number of its batch there. */
static int bucket_of_step(struct loader *l, int64_t step, int64_t *batch) {
  int k = 0;
  order_epoch(l, step / l->epoch_steps);
  step %= l->epoch_steps;
  *batch = l->batches != NULL ? l->batches[step] : step;
  while (*batch >= l->buckets[k].steps) *batch -= l->buckets[k++].steps;
  return k;
}

int loader_bucket(struct loader *loader, int64_t step) {
  int64_t batch;
  return bucket_of_step(loader, step, &batch);
}

/* ---- Micro-batches ---- */

static int32_t parts_of(const struct loader *l, const struct bucket *b, int64_t number) {
  const bool is_short = b->rest > 0 && number + 1 == b->steps;
  return is_short ? (int32_t)((b->rest + b->micro - 1) / b->micro) : l->micro_batches;
}

/* Returns the place, from the bucket's first record on, of the records of a part of batch `number`; *count is
 * their number. */
static int64_t part_at(const struct loader *l, const struct bucket *b, int64_t number, int32_t part,
                       int64_t *count) {
  const int64_t first = number * l->micro_batches * b->micro;
  *count = b->micro;
  if (b->rest == 0 || number + 1 < b->steps) return first + part * b->micro;
  const int64_t parts = parts_of(l, b, number), each = b->rest / parts, larger = b->rest % parts;
  *count = each + (part < larger);
  return first + part * each + (part < larger ? part : larger);
}

int32_t loader_parts(struct loader *l, int64_t step) {
  int64_t number;
  const int k = bucket_of_step(l, step, &number);
  return parts_of(l, &l->buckets[k], number);
}

int64_t loader_part_records(struct loader *l, int64_t step, int32_t part) {
  int64_t number, count;
  const int k = bucket_of_step(l, step, &number);
  part_at(l, &l->buckets[k], number, part, &count);
  return count;
}

/* ---- The way to the inputs of a graph ---- */

static const char *label_name(const struct loader *l) { return task_rows[l->source.task.kind].label; }

static bool mixes(const struct loader *l) { return l->division.mixup > 0; }

neap_status loader_list_inputs(const struct loader *l, const struct neap_graph *graph, bool as_bytes,
                               struct field *wanted, int *count) {
  const struct field *image = source_image(&l->source);
  *count = 0;
  for (size_t i = 0; i < graph->tensors.count; i++) {
    const struct tensor *t = &graph->tensors.data[i];
    if (t->role != NEAP_ROLE_INPUT || t->view_of >= 0) continue;
    RETURN_IF(*count + 1 >= INPUT_LIMIT, NEAP_UNSUPPORTED, "%s: has more than %d inputs", graph->name,
              INPUT_LIMIT - 1);
    struct field *field = &wanted[(*count)++];
    *field = (struct field){.name = t->name, .dtype = t->dtype, .rank = t->rank - 1};
    for (int k = 1; k < t->rank; k++) field->dims[k - 1] = t->dims[k];
    if (!as_bytes || image == NULL || strcmp(image->name, t->name) != 0) continue;
    field->dtype = NEAP_U8;
    wanted[(*count)++] = (struct field){"image.window", NEAP_I32, 1, {4}, false};
  }
  if (!mixes(l)) return NEAP_OK;
  RETURN_IF(*count + 2 > INPUT_LIMIT, NEAP_UNSUPPORTED, "%s: has more than %d inputs", graph->name,
            INPUT_LIMIT - 2);
  wanted[(*count)++] = (struct field){.name = OTHER_LABELS, .dtype = NEAP_I32};
  wanted[(*count)++] = (struct field){.name = LABEL_SHARES, .dtype = NEAP_F32};
  return NEAP_OK;
}

static neap_status add_transforms(struct loader *l, const struct field *wanted, int count) {
  struct stage *stage = &l->stage;
  for (size_t i = 0; i < sizeof transforms / sizeof *transforms; i++) {
    bool applies;
    stage->steps[stage->step_count].transform = transforms[i];
    TRY(transforms[i]->prepare(stage, wanted, count, stage->steps[stage->step_count].slots, &applies));
    stage->step_count += applies;
  }
  return NEAP_OK;
}

static bool is_same(const struct field *a, const struct field *b) {
  return a->dtype == b->dtype && (a->ragged || field_elements(a) == field_elements(b));
}

static neap_status fail_input(const struct loader *l, const struct field *wanted) {
  char fields[256] = "";
  size_t length = 0;
  for (int i = 0; i < l->source.field_count && length < sizeof fields; i++)
    length += (size_t)snprintf(fields + length, sizeof fields - length, "%s'%s'", i > 0 ? ", " : "",
                               l->source.fields[i].name);
  return neap_fail(NEAP_INVALID_ARGUMENT,
                   "data '%s': no field '%s' has the type and shape that the model needs; the fields are %s",
                   l->source.name, wanted->name, fields);
}

/* Allocates each thread's memory for the slots that are not inputs, at multiples of 64. */
static neap_status allocate_scratch(struct loader *l) {
  enum { ALIGNMENT = 64 };
  struct stage *stage = &l->stage;
  for (int i = 0; i < stage->slot_count; i++) {
    const struct field *field = &stage->slots[i].field;
    const size_t bytes = slot_bytes(&stage->slots[i], field->ragged ? field->dims[0] : 0);
    stage->slots[i].offset = stage->scratch_bytes;
    stage->scratch_bytes += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }
  l->scratch_bytes = stage->scratch_bytes * (mixes(l) ? 2 : 1);
  l->scratch = region_alloc(&l->region, (size_t)l->threads * (l->source.slow ? 2 : 1), l->scratch_bytes);
  RETURN_IF(l->scratch == NULL, NEAP_OUT_OF_MEMORY, "out of memory for one record per thread");
  return NEAP_OK;
}

bool loader_attach_input(struct loader *l, const char *name, void *memory) {
  const int slot = stage_find_slot(&l->stage, name);
  if (slot >= 0) l->stage.slots[slot].memory = memory;
  return slot >= 0;
}

void loader_attach(struct loader *l, neap_session *session) {
  for (int i = 0; i < l->input_count; i++)
    l->stage.slots[l->inputs[i].slot].memory = neap_session_input(session, l->inputs[i].name);
}

/* ---- Filling ---- */

/* A batch: its records, how they are drawn, and its number. */
struct batch {
  enum split split;
  int bucket;
  struct draw draw;
  bool labels_only, mixes;
  int64_t count;  /* of places */
  int64_t number; /* of the training micro-batches of all epochs, or of the first record; from 1 */
};

static bool is_of_labels(const struct loader *l, int slot) {
  return slot == l->label || (mixes(l) && (slot == l->others || slot == l->shares));
}

/* Takes the record at a place through all transforms, into place `i` of memory [slots]. */
static neap_status lead_record(const struct loader *l, const struct batch *batch, int32_t place, int64_t i,
                               unsigned char *const *memory, unsigned char *scratch, struct sample *sample) {
  const struct stage *stage = &l->stage;
  const int32_t *by_bucket = l->by_bucket[batch->split];
  struct sample s = {.draw = &batch->draw,
                     .record = place >= 0 && by_bucket != NULL ? by_bucket[place] : place,
                     .length = l->buckets[batch->bucket].length};
  for (int k = 0; k < stage->slot_count; k++) {
    const struct slot *slot = &stage->slots[k];
    const size_t bytes = slot_bytes(slot, s.length);
    s.values[k] = memory[k] != NULL ? memory[k] + (size_t)i * bytes : scratch + slot->offset;
    if (batch->labels_only && memory[k] != NULL && !is_of_labels(l, k)) s.values[k] = NULL;
    if (s.record >= 0 || k >= l->source.field_count || s.values[k] == NULL) continue;
    const bool label = slot->field.dtype == NEAP_I32 && strcmp(slot->field.name, label_name(l)) == 0;
    memset(s.values[k], label ? 0xFF : 0, bytes); /* labels of no record are -1 */
  }
  if (s.record >= 0) TRY(l->source.read(&l->source, batch->split, s.record, s.draw, s.values, s.lengths));
  for (int k = 0; k < stage->step_count; k++)
    stage->steps[k].transform->apply(stage, stage->steps[k].slots, &s);
  *sample = s;
  return NEAP_OK;
}

/* Mixes all inputs that are numbers: x = share x + (1 - share) y. */
static void mix_inputs(const struct loader *l, const struct sample *own, const struct sample *partner,
                       float share) {
  for (int i = 0; i < l->input_count; i++) {
    const int slot = l->inputs[i].slot;
    const struct field *field = &l->stage.slots[slot].field;
    float *x = own->values[slot];
    const float *y = partner->values[slot];
    if (field->dtype != NEAP_F32 || is_of_labels(l, slot) || x == NULL) continue;
    for (int64_t k = 0, count = field_elements(field); k < count; k++)
      x[k] = share * x[k] + (1 - share) * y[k];
  }
}

/* Mixes a record with its partner. The first of the two labels is that of the larger share; right answers are
 * counted by it. */
static neap_status mix_record(const struct loader *l, const struct batch *batch, const struct sample *own,
                              unsigned char *scratch) {
  static unsigned char *const nowhere[SLOT_LIMIT];
  const struct bucket *b = &l->buckets[batch->bucket];
  int32_t *label = own->values[l->label], *other = own->values[l->others];
  float *share = own->values[l->shares];
  struct sample partner;
  *other = -1, *share = 1;
  if (own->record < 0) return NEAP_OK;
  const struct mixing mixing =
      mixup_draw(l->division.mixup, batch->draw.seed, batch->draw.epoch, own->record, b->count[SPLIT_TRAIN]);
  const int32_t place = (int32_t)(b->first[SPLIT_TRAIN] + mixing.partner);
  TRY(lead_record(l, batch, place, 0, nowhere, scratch, &partner));
  mix_inputs(l, own, &partner, mixing.share);
  *other = *(const int32_t *)partner.values[l->label];
  *share = mixing.share;
  if (mixing.share >= 0.5f) return NEAP_OK;
  const int32_t smaller = *label;
  *label = *other, *other = smaller;
  *share = 1 - mixing.share;
  return NEAP_OK;
}

static neap_status fill_record(const struct loader *l, const struct batch *batch, int32_t place, int64_t i,
                               unsigned char *const *memory, unsigned char *scratch) {
  struct sample own;
  TRY(lead_record(l, batch, place, i, memory, scratch, &own));
  return batch->mixes ? mix_record(l, batch, &own, scratch + l->stage.scratch_bytes) : NEAP_OK;
}

/* Fills the inputs with the records at places [count]; a negative place means no record. */
static neap_status fill_batch(const struct loader *l, const struct batch *batch, const int32_t *places) {
  const int64_t count = batch->count;
  unsigned char *memory[SLOT_LIMIT];
  struct ending ending = {0};
  int64_t failed = count; /* the first that did, and why */
  for (int k = 0; k < l->stage.slot_count; k++) memory[k] = l->stage.slots[k].memory;
#pragma omp parallel for num_threads(l->threads)
  for (int64_t i = 0; i < count; i++) {
    unsigned char *scratch = l->scratch + (size_t)omp_get_thread_num() * l->scratch_bytes;
    const neap_status status = fill_record(l, batch, places[i], i, memory, scratch);
    if (status == NEAP_OK) continue;
#pragma omp critical
    if (i < failed) failed = i, ending_keep(&ending, status);
  }
  return ending_tell(&ending);
}

neap_status loader_fill_places(const struct loader *l, enum split split, int bucket, const int32_t *places,
                               const struct draw *draw, bool labels_only) {
  const struct batch batch = {split, bucket, *draw, labels_only, false, l->buckets[bucket].micro, 0};
  return fill_batch(l, &batch, places);
}

/* ---- Ahead ---- */

/* A batch that is read ahead. */
struct job {
  int32_t *places;                   /* [most of a micro-batch] */
  unsigned char *memory[SLOT_LIMIT]; /* of a batch, of the slots that are inputs */
};

static neap_status read_ahead(void *context, const void *batch, int64_t i, int thread) {
  const struct loader *l = context;
  const struct job *job = l->job;
  return fill_record(l, batch, job->places[i], i, job->memory,
                     l->scratch + (size_t)(l->threads + thread) * l->scratch_bytes);
}

static int64_t most_records(const struct loader *l) {
  int64_t most = 0;
  for (int k = 0; k < l->bucket_count; k++) most = l->buckets[k].micro > most ? l->buckets[k].micro : most;
  return most;
}

/* Touches the memory now, so that the system counts it. Slow sources have no buckets. */
static neap_status create_ahead(struct loader *l) {
  const size_t count = (size_t)most_records(l);
  l->job = region_alloc(&l->region, 1, sizeof *l->job);
  RETURN_IF_NULL(l->job);
  l->job->places = region_alloc(&l->region, count, sizeof *l->job->places);
  RETURN_IF_NULL(l->job->places);
  for (int i = 0; i < l->input_count; i++) {
    const int slot = l->inputs[i].slot;
    const size_t bytes = slot_bytes(&l->stage.slots[slot], loader_length(l));
    l->job->memory[slot] = region_alloc(&l->region, count, bytes);
    RETURN_IF(l->job->memory[slot] == NULL, NEAP_OUT_OF_MEMORY, "out of memory for the next batch");
    memset(l->job->memory[slot], 0, count * bytes);
  }
  memset(l->scratch, 0, (size_t)l->threads * 2 * l->scratch_bytes);
  return ahead_create(l->threads, read_ahead, l, sizeof(struct batch), &l->ahead);
}

neap_status loader_prepare(struct loader *l, const struct field *wanted, int count) {
  l->stage = (struct stage){.source = &l->source};
  l->input_count = 0;
  for (int f = 0; f < l->source.field_count; f++) {
    int slot;
    TRY(stage_add_slot(&l->stage, l->source.fields[f], &slot));
  }
  TRY(add_transforms(l, wanted, count));
  for (int i = 0; mixes(l) && i < count; i++) {
    if (strcmp(wanted[i].name, OTHER_LABELS) == 0) TRY(stage_add_slot(&l->stage, wanted[i], &l->others));
    if (strcmp(wanted[i].name, LABEL_SHARES) == 0) TRY(stage_add_slot(&l->stage, wanted[i], &l->shares));
  }
  for (int i = 0; i < count; i++) {
    const int slot = stage_find_slot(&l->stage, wanted[i].name);
    if (slot < 0 || !is_same(&l->stage.slots[slot].field, &wanted[i])) return fail_input(l, &wanted[i]);
    l->inputs[l->input_count].name = l->stage.slots[slot].field.name;
    l->inputs[l->input_count++].slot = slot;
  }
  l->label = stage_find_slot(&l->stage, label_name(l));
  TRY(allocate_scratch(l));
  return l->source.slow && l->ahead == NULL ? create_ahead(l) : NEAP_OK;
}

/* Takes the batch if it was read ahead; else reads it now. */
static neap_status fill_or_take(struct loader *l, const struct batch *batch, const int32_t *places) {
  neap_status status;
  l->filled = batch->count;
  if (l->ahead == NULL || !ahead_take(l->ahead, batch, &status)) return fill_batch(l, batch, places);
  TRY(status);
  const struct bucket *b = &l->buckets[batch->bucket];
  for (int i = 0; i < l->input_count; i++) {
    const struct slot *slot = &l->stage.slots[l->inputs[i].slot];
    if (slot->memory != NULL)
      memcpy(slot->memory, l->job->memory[l->inputs[i].slot],
             (size_t)batch->count * slot_bytes(slot, b->length));
  }
  return NEAP_OK;
}

static void begin_ahead(struct loader *l, const struct batch *batch, const int32_t *places) {
  memcpy(l->job->places, places, (size_t)batch->count * sizeof *places);
  ahead_begin(l->ahead, batch, batch->count);
}

/* ---- Batches ---- */

/* Describes the batch of a part of a step; returns the places of its records. */
static const int32_t *training_batch(struct loader *l, int64_t step, int32_t part, struct batch *batch) {
  int64_t number, records;
  const int k = bucket_of_step(l, step, &number);
  const struct bucket *b = &l->buckets[k];
  const int64_t first = part_at(l, b, number, part, &records), count = b->count[SPLIT_TRAIN];
  const int32_t *order = l->order != NULL ? l->order + b->first[SPLIT_TRAIN] : NULL;
  const bool augment = l->division.augment;
  memset(batch, 0, sizeof *batch); /* batches are compared byte by byte */
  batch->bucket = k;
  batch->count = records;
  batch->draw.augment = augment;
  batch->mixes = mixes(l);
  batch->draw.seed = augment || batch->mixes ? l->division.seed : 0;
  batch->draw.epoch = augment || batch->mixes ? step / l->epoch_steps : 0;
  batch->number = step * l->micro_batches + part + 1;
  if (order != NULL && first + records <= count) return order + first;
  for (int64_t i = first; i < first + records; i++) {
    const int32_t place = order != NULL && i < count ? order[i] : (int32_t)(b->first[SPLIT_TRAIN] + i);
    l->records[i - first] = i < count ? place : -1;
  }
  return l->records;
}

neap_status loader_fill(struct loader *l, int64_t step, int32_t part, bool labels_only) {
  struct batch batch;
  const int32_t *places = training_batch(l, step, part, &batch);
  batch.labels_only = labels_only;
  TRY(fill_or_take(l, &batch, places));
  const int32_t stride = l->division.ranks > 1 ? l->division.ranks : 1;
  const bool last_part = part + stride >= loader_parts(l, step);
  const int64_t next = step + last_part;
  if (l->ahead == NULL || next / l->epoch_steps != step / l->epoch_steps) return NEAP_OK;
  const int32_t next_part = last_part ? l->division.rank : part + stride;
  if (next_part >= loader_parts(l, next)) return NEAP_OK;
  places = training_batch(l, next, next_part, &batch);
  begin_ahead(l, &batch, places);
  return NEAP_OK;
}

/* Describes the batch of the records from `first` on, without random changes. */
static const int32_t *plain_batch(struct loader *l, enum split split, int bucket, int64_t first,
                                  struct batch *batch) {
  const struct bucket *b = &l->buckets[bucket];
  memset(batch, 0, sizeof *batch);
  batch->split = split;
  batch->bucket = bucket;
  batch->count = b->micro;
  batch->number = -1 - first;
  for (int64_t i = 0; i < b->micro; i++)
    l->records[i] = first + i < b->count[split] ? (int32_t)(b->first[split] + first + i) : -1;
  return l->records;
}

neap_status loader_fill_at(struct loader *l, enum split split, int bucket, int64_t first, int64_t *count) {
  const struct bucket *b = &l->buckets[bucket];
  struct batch batch;
  const int64_t left = b->count[split] - first;
  *count = left <= 0 ? 0 : left < b->micro ? left : b->micro;
  if (*count == 0) return NEAP_OK;
  const int32_t *places = plain_batch(l, split, bucket, first, &batch);
  TRY(fill_or_take(l, &batch, places));
  if (l->ahead == NULL || first + b->micro >= b->count[split]) return NEAP_OK;
  places = plain_batch(l, split, bucket, first + b->micro, &batch);
  begin_ahead(l, &batch, places);
  return NEAP_OK;
}

/* ---- Labels ---- */

int64_t loader_labels_each(const struct loader *l, int bucket) {
  if (l->label < 0) return 0;
  const struct field *field = &l->stage.slots[l->label].field;
  return field->ragged ? l->buckets[bucket].length : field_elements(field);
}

bool loader_has_values(const struct loader *l) {
  return l->label >= 0 && l->stage.slots[l->label].field.dtype == NEAP_F32;
}

const void *loader_labels(const struct loader *l) { return l->stage.slots[l->label].memory; }

const int32_t *loader_other_labels(const struct loader *l) {
  return mixes(l) ? (const int32_t *)(const void *)l->stage.slots[l->others].memory : NULL;
}

const float *loader_label_shares(const struct loader *l) {
  return mixes(l) ? (const float *)(const void *)l->stage.slots[l->shares].memory : NULL;
}

double loader_count_labels(const struct loader *l, int bucket, int64_t classes) {
  const int64_t count = l->filled * loader_labels_each(l, bucket);
  const int32_t *labels = loader_labels(l);
  double counted = 0;
  for (int64_t i = 0; i < count; i++) counted += labels[i] >= 0 && labels[i] < classes;
  return counted;
}
