/* The map of characters of a SentencePiece model (Kudo, Richardson 2018): which texts its normaliser
 * replaces, and by what. A trie in a double array (Aoe 1989) whose leaves point to texts that end with a
 * zero. */
#ifndef NEAP_TEXT_CHARACTER_MAP_H
#define NEAP_TEXT_CHARACTER_MAP_H

#include <stdbool.h>
#include <stddef.h>

/* The map as its file has it: 4 bytes, the size of the trie in bytes; the trie; the texts. Borrowed. */
struct character_map {
  const unsigned char *trie;
  size_t units; /* of 4 bytes */
  const char *texts;
  size_t text_bytes;
};

/* Returns false if the bytes are no such map. */
bool character_map_open(const unsigned char *bytes, size_t count, struct character_map *map);

/* Returns true if the texts are UTF-8. */
bool character_map_is_utf8(const struct character_map *map);

/* Finds what replaces the shortest text of the map that `bytes` begin with. Returns false if it has no such
 * text. Reads the map within its bounds, whatever it contains. */
bool character_map_find(const struct character_map *map, const char *bytes, size_t length, const char **text,
                        size_t *text_length);

#endif
