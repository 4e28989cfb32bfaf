/* The speed of files that the system's page cache has no part in. */
#ifndef NEAP_SPEED_DISK_SPEED_H
#define NEAP_SPEED_DISK_SPEED_H

/* Bytes per second; 0: not known. */
struct disk_speed {
  double read;                        /* in one go */
  double read_in_turn, write_in_turn; /* of reads and of writes, where each follows one of the other kind */
};

/* Measures with a temporary file next to `path`. */
struct disk_speed disk_speed(const char *path);

#endif
