# The C example of the README is compiled against what is installed, and runs.
source "$(dirname "$0")/common.bash"

awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$source/README.md" >example.c
[ -s example.c ] || fail "the README has no C example"
[ "$(wc -l <example.c)" -le 30 ] || fail "the example is longer than the README says"
cmake --install "$build" --prefix "$folder/installed" >out 2>err || fail "cmake --install"
export PKG_CONFIG_PATH=$folder/installed/lib/pkgconfig
expect 0 "$folder/installed/bin/neap" --version
flags=
if grep -q "NEAP_SANITIZE:BOOL=ON" "$build/CMakeCache.txt"; then flags=-fsanitize=address,undefined; fi
# shellcheck disable=SC2046
expect 0 cc -std=c17 -Wall -Wextra -Werror $flags example.c -o shared $(pkg-config --cflags --libs neap)
LD_LIBRARY_PATH=$folder/installed/lib expect 0 ./shared
cat out
# The archive, where both kinds are installed: nothing is looked for when it runs.
# shellcheck disable=SC2046
expect 0 cc -std=c17 $flags example.c -o archive $(pkg-config --static --define-variable=library=-l:libneap.a --cflags --libs neap)
! ldd archive | grep libneap || fail "the archive was asked for"
expect 0 ./archive
rm "$folder"/installed/lib/libneap.so*
expect 0 cc -std=c17 $flags example.c -o static $(pkg-config --static --cflags --libs neap)
expect 0 ./static
