/* How fast files are read past the system's cache of pages. */
#ifndef NEAP_RUN_DISK_SPEED_H
#define NEAP_RUN_DISK_SPEED_H

/* Bytes a second, of a file that is written beside `path` for the while; 0: it could not be measured there.
 */
double disk_speed(const char *path);

#endif
