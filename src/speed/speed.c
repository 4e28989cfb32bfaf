/* The speed of this machine: measured once, and stored with the times of kernels. */
#include "speed/speed.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/parallel.h"
#include "kernel/cpu/speed.h"
#include "speed/cost_database.h"
#include "speed/disk_speed.h"

void neap_processor_name(char *name, size_t size) {
  char line[256];
  if (name == NULL) return;
  snprintf(name, size, "unknown processor");
  FILE *file = fopen("/proc/cpuinfo", "r");
  if (file == NULL) return;
  while (fgets(line, sizeof line, file) != NULL) {
    const char *value = strchr(line, ':');
    if (strncmp(line, "model name", strlen("model name")) != 0 || value == NULL) continue;
    value += 1 + strspn(value + 1, " ");
    snprintf(name, size, "%.*s", (int)strcspn(value, "\n"), value);
    break;
  }
  fclose(file);
}

char *machine_text(struct region *region, int threads) {
  char processor[256];
  neap_processor_name(processor, sizeof processor);
  return region_format(region, "neap " NEAP_VERSION ", %d threads, %s", threads, processor);
}

/* ---- In the database ---- */

/* A speed is stored as the seconds for one of its units; 0 if none exists. */
enum { SPEEDS = 7, NEEDED = 4 /* the first; a machine whose disk was not timed has no other */ };
static const char *const operations[SPEEDS] = {"one FLOP of f32",
                                               "one FLOP of bf16",
                                               "one byte of a copy in memory",
                                               "one byte of a copy in a cache",
                                               "one byte of a file past the cache of pages",
                                               "one byte of a file, read in turn",
                                               "one byte of a file, written in turn"};

static double seconds_of(double speed) { return speed > 0 ? 1 / speed : 0; }

static void keep(struct cost_database *database, const neap_speed *speed) {
  const struct kernel_time times[SPEEDS] = {{operations[0], seconds_of(speed->f32_flops)},
                                            {operations[1], seconds_of(speed->bf16_flops)},
                                            {operations[2], seconds_of(speed->memory_bytes)},
                                            {operations[3], seconds_of(speed->cache_bytes)},
                                            {operations[4], seconds_of(speed->disk_bytes)},
                                            {operations[5], seconds_of(speed->disk_read_in_turn)},
                                            {operations[6], seconds_of(speed->disk_write_in_turn)}};
  struct region region = {0};
  const char *machine = machine_text(&region, speed->threads);
  if (machine != NULL) cost_database_add(database, machine, times, speed->disk_bytes > 0 ? SPEEDS : NEEDED);
  region_free(&region);
}

/* Finds all speeds; returns false if one is missing, or cannot be a machine's speed. */
static bool find(struct cost_database *database, const char *machine, neap_speed *speed) {
  double *const speeds[SPEEDS] = {&speed->f32_flops,         &speed->bf16_flops, &speed->memory_bytes,
                                  &speed->cache_bytes,       &speed->disk_bytes, &speed->disk_read_in_turn,
                                  &speed->disk_write_in_turn};
  for (int i = 0; i < SPEEDS; i++) {
    double seconds;
    if (!cost_database_find(database, machine, operations[i], &seconds)) {
      if (i < NEEDED) return false;
      continue;
    }
    *speeds[i] = seconds > 0 ? 1 / seconds : 0;
    if (!isfinite(*speeds[i])) return false;
  }
  return speed->f32_flops > 0 && speed->memory_bytes > 0;
}

/* ---- The measurement ---- */

struct roofline roofline_of(const neap_speed *speed) {
  return (struct roofline){.f32_flops = speed->f32_flops,
                           .bf16_flops = speed->bf16_flops,
                           .bytes = speed->memory_bytes,
                           .disk = speed->disk_bytes > 0 ? speed->disk_bytes : usual_roofline.disk,
                           .disk_read_in_turn = speed->disk_read_in_turn,
                           .disk_write_in_turn = speed->disk_write_in_turn,
                           .exchange = usual_roofline.exchange};
}

struct roofline machine_roofline(int threads) {
  char path[COST_PATH_LIMIT];
  neap_speed speed = {0};
  struct region region = {0};
  struct cost_database *database = cost_database_path(false, path) ? cost_database_look(path) : NULL;
  const char *machine = database != NULL ? machine_text(&region, team_size(threads)) : NULL;
  const bool found = machine != NULL && find(database, machine, &speed);
  region_free(&region);
  cost_database_close(database);
  return found ? roofline_of(&speed) : usual_roofline;
}

neap_status neap_measure_speed(int threads, neap_speed *one, neap_speed *all) {
  RETURN_IF(one == NULL || all == NULL, NEAP_INVALID_ARGUMENT, "neap_measure_speed: one or all is NULL");
  char path[COST_PATH_LIMIT];
  struct team former;
  TRY(team_set(threads, &former));
  const neap_status status = cpu_measure_speed(team_size(threads), one, all);
  team_restore(&former);
  if (status != NEAP_OK) return status;
  const bool place = cost_database_path(true, path);
  const struct disk_speed disk = place ? disk_speed(path) : (struct disk_speed){0};
  one->disk_bytes = all->disk_bytes = disk.read;
  one->disk_read_in_turn = all->disk_read_in_turn = disk.read_in_turn;
  one->disk_write_in_turn = all->disk_write_in_turn = disk.write_in_turn;
  struct cost_database *database = place ? cost_database_open(path) : NULL;
  keep(database, one);
  keep(database, all);
  cost_database_close(database);
  return NEAP_OK;
}
