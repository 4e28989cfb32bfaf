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
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl=self,vader,tcp OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ASAN_OPTIONS=detect_leaks=0 # those of MPI
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
start() { # start RANKS ARGUMENTS...: its exit status in $status
  count=$1
  shift
  status=0
  timeout 60 "mpirun.$mpi" -n "$count" "$ranks" "$@" >"$out/stdout" 2>"$out/stderr" || status=$?
}
fail() {
  echo "$1; exit status $status" >&2
  cat "$out/stdout" "$out/stderr" >&2
  exit 1
}
says() { grep -qF -- "$1" "$out/stderr" || fail "no message: $1"; }

# Calls at random, with the plugin next to the command and with one whose messages are short.
for folder in "$build" "$build/tests/short_messages"; do
  for count in 2 3 4; do
    start $count calls "$folder"
    [ $status = 0 ] && [ "$(cat "$out/stdout")" = "$count ranks" ] || fail "calls of $count ranks"
  done
done

# One rank needs no plugin.
start 1 calls /nowhere
[ $status = 0 ] && [ "$(cat "$out/stdout")" = alone ] || fail "one rank"

# Sizes that differ end all ranks, and so does a rank that ends.
start 3 other_size "$build"
[ $status != 0 ] && [ $status != 124 ] || fail "sizes that differ"
says "rank 2"
start 3 fail "$build"
[ $status != 0 ] && [ $status != 124 ] || fail "a rank that ends"

# The plugin of the other MPI connects every process to itself alone.
case $mpi in openmpi) other=mpich ;; *) other=openmpi ;; esac
if [ -e "$build/libneap_$other.so" ]; then
  start 3 calls "$build" $other
  [ $status != 0 ] && [ $status != 124 ] || fail "the other plugin"
  says "collective: the launcher started 3 processes, but by"
fi
