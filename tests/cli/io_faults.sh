# Each call of the system on the command's files fails once, or the command is killed there (io_faults.py says what holds then).
source "$(dirname "$0")/common.bash"

if [ -n "${NEAP_SANITIZED:-}" ] || [ ! -e "$build/tests/libfail_io.so" ]; then exit 77; fi
command -v python3 >/dev/null || exit 77
python3 "$(dirname "$0")/io_faults.py" "$neap" "$build/tests/libfail_io.so" ${NEAP_QUICK:+--quick}
