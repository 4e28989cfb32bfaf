/* `neap bench --processes`: how fast processes exchange bytes. */
#ifndef NEAP_CLI_EXCHANGES_H
#define NEAP_CLI_EXCHANGES_H

#include "shared/processes.h"

/* Measures with all processes; the first prints. Returns an exit status. */
int bench_exchanges(const struct verb *verb, const struct launched *launched, bool json);

#endif
