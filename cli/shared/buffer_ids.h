/* The ids in a file of buffers. */
#ifndef NEAP_CLI_BUFFER_IDS_H
#define NEAP_CLI_BUFFER_IDS_H

/* Checks that no two buffers of a file have one id. Returns EXIT_DONE, or EXIT_FAILED after a message. */
int check_buffer_ids(const char *path);

#endif
