/* How fast files are read past the system's cache of pages. */
#ifndef NEAP_RUN_DISK_SPEED_H
#define NEAP_RUN_DISK_SPEED_H

/* Returns bytes a second, measured with a file beside `path` that is deleted again; 0: not known. */
double disk_speed(const char *path);

#endif
