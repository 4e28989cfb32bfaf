/* The page: the template page.html with the data of its pictures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pictures/page.h"
#include "shared/failure.h"
#include "shared/format.h"
#include "shared/source.h"

extern const char page_template[]; /* made from page.html by the build */

/* In JSON inside HTML, where no tag may end it. */
static void put_string(FILE *file, const char *text) {
  fputc('"', file);
  for (; *text != '\0'; text++) {
    const unsigned char c = (unsigned char)*text;
    if (c < ' ' || c == '"' || c == '\\' || c == '<' || c == '&')
      fprintf(file, "\\u%04x", c);
    else
      fputc(c, file);
  }
  fputc('"', file);
}

/* "nodes":[...],"tensors":[...], */
static neap_status put_names(FILE *file, const neap_step *step) {
  neap_step_info info;
  neap_step_describe(step, &info);
  fputs("\"nodes\":[", file);
  for (int32_t v = 0; v < info.nodes; v++) {
    const char *name, *op;
    const neap_status status = neap_step_node(step, v, &name, &op);
    if (status != NEAP_OK) return status;
    fputs(v > 0 ? ",[" : "[", file);
    put_string(file, name);
    fputc(',', file);
    put_string(file, op);
    fputc(']', file);
  }
  fputs("],\n\"tensors\":[", file);
  for (int32_t t = 0; t < info.tensors; t++) {
    const char *name;
    uint64_t bytes;
    const neap_status status = neap_step_tensor(step, t, &name, &bytes);
    if (status != NEAP_OK) return status;
    if (t > 0) fputc(',', file);
    put_string(file, name);
  }
  fputs("],\n", file);
  return NEAP_OK;
}

static neap_status put_graph(FILE *file, const neap_step *step) {
  neap_step_info info;
  neap_step_describe(step, &info);
  fputs("\"graph\":", file);
  put_string(file, info.name);
  fputs(",\n\"kinds\":[", file);
  for (int k = 0; k < NEAP_KIND_COUNT; k++) fprintf(file, "%s\"%s\"", k > 0 ? "," : "", kind_names[k]);
  fputs("],\n", file);
  return put_names(file, step);
}

/* ---- Plans ---- */

/* "name":[...], one number for each instance `it`. */
#define PUT_COLUMN(name, value)                                                                              \
  do {                                                                                                       \
    fputs("\"" name "\":[", file);                                                                           \
    for (const neap_instance *it = instances; it < instances + count; it++)                                  \
      fprintf(file, "%s%lld", it > instances ? "," : "", (long long)(value));                                \
    fputs("],\n", file);                                                                                     \
  } while (0)

static void put_instances(FILE *file, const neap_instance *instances, int64_t count) {
  PUT_COLUMN("tensor", it->tensor);
  PUT_COLUMN("first", it->first);
  PUT_COLUMN("last", it->last);
  PUT_COLUMN("in_place", it->in_place);
  PUT_COLUMN("kind", it->kind);
  PUT_COLUMN("offset", it->offset);
  PUT_COLUMN("bytes", it->bytes);
}

/* Resident bytes by kind: those at any position that no instance has. */
static neap_status put_resident(FILE *file, const neap_step *step, const neap_plan *plan) {
  int64_t length;
  neap_plan_schedule(plan, &length);
  uint64_t *live = calloc((size_t)length * NEAP_KIND_COUNT + NEAP_KIND_COUNT, sizeof *live);
  if (live == NULL) return no_memory();
  const neap_status status = neap_plan_profile(step, plan, live);
  fprintf(file, "\"resident\":[%llu,%llu,%llu],\n", (unsigned long long)live[NEAP_KIND_PARAMETER],
          (unsigned long long)live[NEAP_KIND_STATE], (unsigned long long)live[NEAP_KIND_INPUT]);
  free(live);
  return status;
}

/* `own`: the step that the plan is for where it is not the page's, whose names are put then; or NULL. */
static neap_status put_plan(FILE *file, const neap_step *page_step, const neap_step *own,
                            const neap_plan *plan, uint64_t budget) {
  const neap_step *step = own != NULL ? own : page_step;
  neap_plan_info info;
  neap_instance *instances;
  int64_t count, length;
  neap_plan_describe(plan, &info);
  neap_status status = neap_plan_instances(step, plan, &instances, &count);
  if (status != NEAP_OK) return status;
  fputs("{\"planner\":", file);
  put_string(file, info.planner);
  fprintf(file,
          ",\"resident_bytes\":%llu,\"arena_bytes\":%llu,\"budget\":%llu,\"recomputed\":%lld,\"overhead\":%."
          "9g,\n",
          (unsigned long long)info.resident_bytes, (unsigned long long)info.arena_bytes,
          (unsigned long long)budget, (long long)info.recomputed, overhead_of(info.cost, info.base_cost));
  if (own != NULL) status = put_names(file, own);
  if (status == NEAP_OK) status = put_resident(file, step, plan);
  put_instances(file, instances, count);
  const int32_t *schedule = neap_plan_schedule(plan, &length);
  fputs("\"schedule\":[", file);
  for (int64_t i = 0; i < length; i++) fprintf(file, "%s%d", i > 0 ? "," : "", schedule[i]);
  fputs("]}", file);
  free(instances);
  return status;
}

/* ---- The curve ---- */

/* Its points as [planner, bytes, overhead, its plan in the page or -1]: there are plans for those on the
 * front. */
static neap_status put_points(FILE *file, const struct page *page, const int64_t *front,
                              int64_t front_count) {
  const struct curve_picture *curve = page->curve;
  fputs("\"points\":[", file);
  for (int64_t i = 0; i < curve->count; i++) {
    const struct curve_point *point = &curve->points[i];
    int64_t plan = front_count - 1;
    while (plan >= 0 && front[plan] != i) plan--;
    fprintf(file, "%s[%d,%.0f,%.9g,%lld]", i > 0 ? "," : "", point->series, point->bytes, point->overhead,
            (long long)plan);
  }
  fputs("]},\n\"plans\":[", file);
  for (int64_t i = 0; i < front_count; i++) {
    if (i > 0) fputs(",\n", file);
    const neap_status status =
        put_plan(file, page->step, curve->points[front[i]].step, curve->points[front[i]].plan, 0);
    if (status != NEAP_OK) return status;
  }
  fputs("]", file);
  return NEAP_OK;
}

static neap_status put_curve(FILE *file, const struct page *page) {
  const struct curve_picture *curve = page->curve;
  fprintf(file, "\"curve\":{\"keep_all\":%.0f,\"lower_bound\":%.0f,\n\"planners\":[", curve->keep_all,
          curve->lower_bound);
  for (int s = 0; s < curve->series_count; s++) {
    if (s > 0) fputc(',', file);
    put_string(file, curve->series[s]);
  }
  fputs("],\n\"styles\":[", file);
  for (int s = 0; s < curve->series_count; s++)
    fprintf(file, "%s%d", s > 0 ? "," : "", planner_from_end(curve->series[s]));
  fputs("],\n", file);
  int64_t front_count;
  int64_t *front = curve_front(curve, &front_count);
  if (front == NULL) return no_memory();
  const neap_status status = put_points(file, page, front, front_count);
  free(front);
  return status;
}

static neap_status put_data(FILE *file, const struct page *page) {
  fputs("{", file);
  neap_status status = put_graph(file, page->step);
  if (status == NEAP_OK && page->curve != NULL) {
    status = put_curve(file, page);
  } else if (status == NEAP_OK) {
    fputs("\"plans\":[", file);
    status = put_plan(file, page->step, NULL, page->plan, page->budget);
    fputs("]", file);
  }
  fputs("}", file);
  return status;
}

neap_status draw_page(const struct page *page, char **text, size_t *length) {
  static const char place[] = "@DATA@";
  const char *data = strstr(page_template, place);
  char *written = NULL;
  FILE *file = open_memstream(&written, length);
  if (file == NULL) return no_memory();
  fwrite(page_template, 1, (size_t)(data - page_template), file);
  neap_status status = put_data(file, page);
  fputs(data + strlen(place), file);
  const bool failed = ferror(file);
  if (fclose(file) != 0 || failed) status = no_memory();
  if (status == NEAP_OK)
    *text = written;
  else
    free(written);
  return status;
}
