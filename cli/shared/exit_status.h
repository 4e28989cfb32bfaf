/* The exit statuses of the command (docs/command.md). */
#ifndef NEAP_CLI_EXIT_STATUS_H
#define NEAP_CLI_EXIT_STATUS_H

enum exit_status {
  EXIT_DONE = 0,
  EXIT_FAILED = 1,
  EXIT_USAGE = 2,
  EXIT_OVER_BUDGET = 3,
  EXIT_INVALID = 4,
  EXIT_DIVERGED = 5,
  EXIT_SIGNAL = 128 /* and the signal's number */
};

#endif
