# The C program of the README and docs/c.md is compiled against what is installed, trains, saves its weights and predicts with them.
source "$(dirname "$0")/common.bash"

cp "$source/examples/halves.c" example.c
[ "$(wc -l <example.c)" -le 54 ] || fail "the example does not fit on a screen"
cmake --install "$build" --prefix "$folder/installed" >out 2>err || fail "cmake --install"
export PKG_CONFIG_PATH=$folder/installed/lib/pkgconfig
expect 0 "$folder/installed/bin/neap" --version
flags=
if grep -q "NEAP_SANITIZE:BOOL=ON" "$build/CMakeCache.txt"; then flags=-fsanitize=address,undefined; fi

# trains PROGRAM: it learns, says so, and its weights are there.
trains() {
  rm -f halves.safetensors
  expect 0 "$1"
  cat out
  grep -qF "64 of 64 right" out || fail "$1 has not learnt its own data"
  grep -qF "the first is in the right half" out || fail "$1 predicts wrongly"
  [ -s halves.safetensors ] || fail "$1 has not saved its weights"
}

# shellcheck disable=SC2046
expect 0 cc -std=c17 -Wall -Wextra -Werror $flags example.c -o shared $(pkg-config --cflags --libs neap)
LD_LIBRARY_PATH=$folder/installed/lib trains ./shared
# The archive, where both kinds are installed: nothing is looked for when it runs.
# shellcheck disable=SC2046
expect 0 cc -std=c17 $flags example.c -o archive $(pkg-config --static --define-variable=library=-l:libneap.a --cflags --libs neap)
! ldd archive | grep libneap || fail "the archive was asked for"
trains ./archive
rm "$folder"/installed/lib/libneap.so*
expect 0 cc -std=c17 $flags example.c -o static $(pkg-config --static --cflags --libs neap)
trains ./static

# A budget that is too small is an answer, which names one that is not.
sed 's/\.budget = 6 << 20/.budget = 1000/' example.c >small.c
# shellcheck disable=SC2046
expect 0 cc -std=c17 $flags small.c -o small $(pkg-config --static --cflags --libs neap)
expect 1 ./small
says "the smallest that can be met is"

# The commands as the README and docs/c.md have them.
mkdir examples
cp example.c examples/halves.c
cp example.c halves.c
cmake --install "$build" --prefix "$folder/installed" >out 2>err || fail "cmake --install"
export LD_LIBRARY_PATH=$folder/installed/lib
{ sed -n 's/^\$ cc /cc /p' "$source/README.md"; awk '/^```sh$/ { on = 1; next } /^```$/ { on = 0 } on' "$source/docs/c.md"; } >commands
[ "$(grep -c '^cc ' commands)" -ge 3 ] || fail "the text has no commands"
while IFS= read -r command; do
  expect 0 bash -c "${command/#cc /cc $flags }"
done <commands
