# The checks of the sources find what they are for: a circle between files, an include from a folder above, a header that
# speaks for another file.
source "$(dirname "$0")/common.bash"

mkdir -p src/step src/search cli
echo '#include "neap.h"' >src/step/a.h
echo '#include "step/a.h"' >src/step/a.c
echo '#include "step/a.h"' >src/step/b.h
echo '#include "step/b.h"' >src/step/b.c
echo '#include "step/b.h"' >src/search/c.h
echo '#include "neap.h"' >cli/main.c
circles=$source/scripts/check-circles folders=$source/scripts/check-folders
expect 0 "$circles" "$folder"
expect 0 "$folders" "$folder"

# Only a.c knows of b.h.
echo '#include "step/b.h"' >>src/step/a.c
expect 1 "$circles" "$folder"
says "a circle between files: step/b -> step/a -> step/b"
quiet
expect 0 "$folders" "$folder"

# Over three files in two folders.
echo '#include "search/c.h"' >src/step/a.c
expect 1 "$circles" "$folder"
says "a circle between files: search/c -> step/b -> step/a -> search/c"
expect 1 "$folders" "$folder"
says "src/step/a.c"

# A folder that the order does not have.
echo '#include "step/a.h"' >src/step/a.c
mkdir src/elsewhere
expect 1 "$folders" "$folder"
says "src/elsewhere"

# A header that declares what another file defines.
headers=$source/scripts/check-headers
echo 'int f(int x); static inline int g(void) { return 1; }' >>src/step/b.h
echo 'int f(int x) { return x; }' >>src/step/b.c
expect 0 "$headers" "$folder"
echo 'int f(int x) { return x; }' >>src/step/a.c
echo '#include "step/b.h"' >src/step/b.c
expect 1 "$headers" "$folder"
says "src/step/b.h declares f, which src/step/a.c defines"
quiet
