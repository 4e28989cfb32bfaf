# mpi.sh BUILD MPI: ranks that the mpirun of an MPI ("openmpi", "mpich") starts, by its plugin.
set -eu
build=$1 mpi=$2
ranks=$build/tests/mpi_ranks
command -v "mpirun.$mpi" >/dev/null || {
  echo "skipped: mpirun.$mpi is not installed (see \`make packages\`)"
  exit 77
}
[ -e "$build/libneap_$mpi.so" ] || {
  echo "skipped: mpicc.$mpi was not found when this was built, so that libneap_$mpi.so is missing"
  exit 77
}
# More ranks than processors, for root too: Open MPI 4, then 5, which starts them by PRRTE.
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl=self,vader,tcp OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ASAN_OPTIONS=detect_leaks=0 # those of MPI
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export MPI_RANKS_LOCK=$out/lock
ranks_live() { [ ! -e "$out/lock" ] || ! flock -n -x "$out/lock" true; } # true before the first one begins
start() { # start RANKS ARGUMENTS...: its exit status in $status, 124 where a rank lives for five minutes
  count=$1
  shift
  rm -f "$out/lock"
  status=0
  "mpirun.$mpi" -n "$count" "$ranks" "$@" >"$out/stdout" 2>"$out/stderr" &
  id=$! waited=0 dead=0
  # Open MPI's mpirun sometimes waits for ever in its own end (PMIx_server_finalize) when ranks failed.
  while kill -0 $id 2>/dev/null && [ $waited -lt 3000 ] && [ $dead -lt 30 ]; do
    if ranks_live; then dead=0; else dead=$((dead + 1)); fi
    waited=$((waited + 1))
    sleep 0.1
  done
  kill -9 $id 2>/dev/null || true
  wait $id || status=$?
  if [ $waited -ge 3000 ]; then status=124; fi
}
fail() {
  echo "$1; exit status $status" >&2
  cat "$out/stdout" "$out/stderr" >&2
  exit 1
}
says() { grep -qF -- "$1" "$out/stderr" || fail "no message: $1"; }

# Calls at random, with the plugin next to the command, with a heartbeat, and with a plugin whose messages are short.
calls() { # calls WORK RANKS FOLDER
  start $2 $1 "$3"
  [ $status = 0 ] && [ "$(cat "$out/stdout")" = "$2 ranks" ] || fail "$1 of $2 ranks"
}
calls calls 3 "$build"
calls heart 3 "$build"
calls calls 2 "$build/tests/short_messages"

# One rank needs no plugin.
start 1 calls /nowhere
[ $status = 0 ] && [ "$(cat "$out/stdout")" = alone ] || fail "one rank"

# Sizes that differ end all ranks, and so does a rank that ends.
start 3 other_size "$build"
[ $status != 0 ] && [ $status != 124 ] || fail "sizes that differ"
says "rank 2"
start 3 fail "$build"
[ $status != 0 ] && [ $status != 124 ] || fail "a rank that ends"

# A rank that leaves early ends the others, which wait for it inside MPI; one of them says so.
start 3 heart_leave "$build"
[ $status != 0 ] && [ $status != 124 ] || fail "a rank that leaves"
says "rank 1: closed its connection while other ranks called"

# The plugin of the other MPI connects every process to itself alone.
case $mpi in openmpi) other=mpich ;; *) other=openmpi ;; esac
if [ -e "$build/libneap_$other.so" ]; then
  start 3 calls "$build" $other
  [ $status != 0 ] && [ $status != 124 ] || fail "the other plugin"
  says "collective: the launcher started 3 processes, but "
fi
