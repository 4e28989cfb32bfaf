/* Data sets by name. */
#ifndef NEAP_TRAIN_DATA_OPEN_H
#define NEAP_TRAIN_DATA_OPEN_H

#include "train/data.h"

/* Opens, checks every record and takes the statistics. Errors name the file and the offset. Free with
 * data_close, whatever the status. `wish` (NULL: none): for whom the data are. */
neap_status data_open(const char *name, struct data_set *set);
neap_status data_open_as(const char *name, const struct data_wish *wish, struct data_set *set);

#endif
