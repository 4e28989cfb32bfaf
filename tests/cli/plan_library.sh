# The library that plans: it is built where nothing else is installed, needs the C library and OpenMP alone, and a program is
# compiled against what is installed of it, static and shared. Both libraries export what their headers declare.
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
needed=$(readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -vE '^(libc|libm|libgomp|libomp|ld-linux.*|libasan|libubsan)\.so' || true)
same "$needed" "" "libneap_plan.so needs"
# Each library has what its headers declare, and exports no more.
exports() { # exports LIBRARY HEADER...
  local library=$1
  shift
  grep -ohE '\bneap_[a-z0-9_]+\(' "$@" | tr -d '(' | grep -v '_function$' | sort -u >declared
  nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sort >exported
  same "$(diff declared exported || true)" "" "declared (<) and exported (>) of $library"
}
if [ ${#flags[@]} = 0 ]; then
  exports "$library" "$source"/include/neap_{plan,status}.h
  exports "$build/libneap.so" "$source"/include/*.h
fi
# Each header stands alone, in C and in C++ as far as there is a compiler.
for header in "$source"/include/*.h; do
  echo "#include \"$header\"" >alone.c
  expect 0 cc -std=c17 -Wall -Wextra -Werror -fsyntax-only -I"$source/include" alone.c
  ! command -v c++ >/dev/null || expect 0 c++ -x c++ -Wall -Wextra -Werror -fsyntax-only -I"$source/include" alone.c
done

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
