# The library that plans: it is built where nothing else is installed, exports what neap.h declares, needs the C library
# and OpenMP alone, and a program is compiled against what is installed of it, static and shared.
source "$(dirname "$0")/common.bash"

flags=() sanitize=()
if grep -q "NEAP_SANITIZE:BOOL=ON" "$build/CMakeCache.txt"; then
  flags=(-fsanitize=address,undefined) sanitize=(-DNEAP_SANITIZE=ON)
fi

# No package is found here but OpenMP.
expect 0 cmake -S "$source" -B alone -DNEAP_PLAN_ONLY=ON "${sanitize[@]}" -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=ON -DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON
expect 0 cmake --build alone -j 2
expect 0 cmake --install alone --prefix "$folder/installed" --component plan
[ -z "$(find installed -name 'libneap.*')" ] || fail "more than the library that plans is installed"

library=$build/libneap_plan.so
needed=$(readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -vE '^(libc|libm|libgomp|ld-linux.*|libasan|libubsan)\.so' || true)
same "$needed" "" "libneap_plan.so needs"
foreign=$(nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | grep -v '^neap_' || true)
if [ ${#flags[@]} = 0 ]; then same "$foreign" "" "libneap_plan.so exports"; fi

export PKG_CONFIG_PATH=$folder/installed/lib/pkgconfig
# shellcheck disable=SC2046
expect 0 cc -std=c17 -Wall -Wextra -Werror "${flags[@]}" "$source/examples/plan_arrays.c" -o shared $(pkg-config --cflags --libs neap_plan)
LD_LIBRARY_PATH=$folder/installed/lib expect 0 ./shared
cp out first
rm installed/lib/libneap_plan.so*
# shellcheck disable=SC2046
expect 0 cc -std=c17 "${flags[@]}" "$source/examples/plan_arrays.c" -o static $(pkg-config --static --cflags --libs neap_plan)
expect 0 ./static
same "$(cat out)" "$(cat first)" "the static library's plan"
