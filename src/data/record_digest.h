/* Digests of records, by which a run that goes on knows its data again. */
#ifndef NEAP_DATA_RECORD_DIGEST_H
#define NEAP_DATA_RECORD_DIGEST_H

#include "data/source.h"

/* Reads all records of both parts, without random changes, and sets source->digests: numbers as they are in
 * the file where they are standardised, other fields as they are read. Leaves digests that are known, and
 * those of records that are drawn. A damaged record leaves its part's digest 0; whoever reads it later fails.
 * NEAP_IO_FAILED: the system did not give a record, which says nothing of it. */
neap_status record_digests_take(struct source *source);

#endif
