#include "text/character_map.h"

#include <stdint.h>
#include <string.h>

#include "text/utf8.h"

static uint32_t little_endian(const unsigned char *bytes) {
  return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

bool character_map_open(const unsigned char *bytes, size_t count, struct character_map *map) {
  if (count < 4) return false;
  const uint32_t size = little_endian(bytes);
  if (size % 4 != 0 || size == 0 || size > count - 4) return false;
  *map = (struct character_map){.trie = bytes + 4,
                                .units = size / 4,
                                .texts = (const char *)bytes + 4 + size,
                                .text_bytes = count - 4 - size};
  return true;
}

bool character_map_is_utf8(const struct character_map *map) {
  const struct text text = {.bytes = map->texts, .length = map->text_bytes, .name = "map"};
  return utf8_check(&text) == NEAP_OK;
}

static bool continues(char byte) { return ((unsigned char)byte & 0xC0) == 0x80; }

/* Fields of a unit, as in Darts-clone. */
static bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
static uint32_t label_of(uint32_t unit) { return unit & (UINT32_C(1) << 31 | 0xFF); }
static uint32_t value_of(uint32_t unit) { return unit & ~(UINT32_C(1) << 31); }
static uint32_t offset_of(uint32_t unit) { return unit >> 10 << ((unit & UINT32_C(1) << 9) >> 6); }

bool character_map_find(const struct character_map *map, const char *bytes, size_t length, const char **text,
                        size_t *text_length) {
  uint32_t at = offset_of(little_endian(map->trie));
  for (size_t i = 0; i < length && bytes[i] != '\0'; i++) {
    at ^= (unsigned char)bytes[i];
    if (at >= map->units) return false;
    const uint32_t unit = little_endian(map->trie + 4 * (size_t)at);
    if (label_of(unit) != (unsigned char)bytes[i]) return false;
    at ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    if (at >= map->units) return false;
    const uint32_t value = value_of(little_endian(map->trie + 4 * (size_t)at));
    if (value >= map->text_bytes || continues(map->texts[value])) return false;
    *text = map->texts + value;
    const char *end = memchr(*text, '\0', map->text_bytes - value);
    *text_length = end != NULL ? (size_t)(end - *text) : map->text_bytes - value;
    return true;
  }
  return false;
}
