/* The open functions, one per source: each fills in a zeroed struct source except for name and task, which
 * are set. `argument` is the text after the colon, "" if there is no colon. */
#ifndef NEAP_DATA_READERS_H
#define NEAP_DATA_READERS_H

#include "data/source.h"

neap_status cifar10_open(const char *argument, struct source *source);    /* cifar10.c */
neap_status images_open(const char *argument, struct source *source);     /* images.c */
neap_status npz_open(const char *argument, struct source *source);        /* arrays.c */
neap_status npy_open(const char *argument, struct source *source);        /* arrays.c */
neap_status table_open(const char *argument, struct source *source);      /* table_source.c */
neap_status mnist_open(const char *argument, struct source *source);      /* mnist.c */
neap_status text_open(const char *argument, struct source *source);       /* text_source.c */
neap_status tokens_open(const char *argument, struct source *source);     /* text_source.c */
neap_status chat_open(const char *argument, struct source *source);       /* chat_source.c */
neap_status preference_open(const char *argument, struct source *source); /* chat_source.c */
neap_status parallel_open(const char *argument, struct source *source);   /* pairs.c */
neap_status synthetic_open(const char *argument, struct source *source);  /* synthetic.c */

#endif
