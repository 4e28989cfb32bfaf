#!/usr/bin/env bash
# timed NAME COMMAND ...: runs a test, prints the seconds of processor time that it and its children took, and fails if they are
# more than NEAP_TEST_SECONDS, where that is set; a test known to be long has NEAP_LONG_TEST_SECONDS instead. Returns the test's
# own status otherwise.
name=$1
shift
"$@"
status=$?
read -ra fields </proc/$$/stat # of this shell: 15 and 16 are the ticks of children that ended
seconds=$(((fields[15] + fields[16]) / $(getconf CLK_TCK)))
echo "processor seconds: $seconds $name"
limit=${NEAP_TEST_SECONDS:-$seconds}
if [ "${NEAP_LONG_TEST_SECONDS:-0}" -gt "$limit" ]; then limit=$NEAP_LONG_TEST_SECONDS; fi
if [ $status = 0 ] && [ "$seconds" -gt "$limit" ]; then
  echo "$name: a quick pass took $seconds seconds of processor time (at most $limit); shorten the test (effort.h)" >&2
  exit 1
fi
exit $status
