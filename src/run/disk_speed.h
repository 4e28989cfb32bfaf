/* The speed of reading files, not from the system's page cache. */
#ifndef NEAP_RUN_DISK_SPEED_H
#define NEAP_RUN_DISK_SPEED_H

/* Returns bytes per second, measured with a temporary file next to `path`; 0: not known. */
double disk_speed(const char *path);

#endif
