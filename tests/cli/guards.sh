# Each check of the sources passes a copy of them as they are, and fails, with its message, once that copy has the one fault
# that the check is for (scripts/check-words has a test of its own).
source "$(dirname "$0")/common.bash"

mkdir copy
cp -r "$source/src" "$source/cli" "$source/plugins" copy
planted=()

# fresh: the copy has the sources as they are again.
fresh() {
  local file
  for file in "${planted[@]}"; do cp "$source/$file" "copy/$file"; done
  planted=()
}

# passes CHECK...: none of these finds a fault.
passes() {
  local check
  for check; do
    expect 0 "$source/scripts/check-$check" "$folder/copy"
    [ ! -s err ] || fail "check-$check passes with a message"
  done
}

# finds CHECK TEXT: fails with this message; the copy is fresh again.
finds() {
  expect 1 "$source/scripts/check-$1" "$folder/copy"
  says "$2"
  quiet
  fresh
}

# append FILE LINE...: as the last lines of a file of the copy.
append() {
  local file=copy/$1
  [ -f "$file" ] || fail "$1 does not exist: plant this fault elsewhere"
  planted+=("$1")
  shift
  printf '%s\n' "$@" >>"$file"
}

passes circles headers folders

# A circle of includes: within a file's own folder, over folders, in the command.
append src/base/vector.h '#include "base/index.h"'
finds circles "a circle of includes between files: src/base/index -> src/base/vector -> src/base/index"
append src/step/step.h '#include "search/chain.h"'
finds circles "src/step/step -> src/search/chain -> src/search/chain_cuts -> src/step/step"
append cli/shared/exit_status.h '#include "shared/options.h"'
finds circles "cli/shared/exit_status -> cli/shared/options -> cli/shared/exit_status"

# A circle of calls, without an include that shows it: of two files, of three, in the command.
append src/base/region.c 'void circle_back(void);' 'void circle_on(void) { circle_back(); }'
append src/base/vector.c 'void circle_on(void);' 'void circle_back(void) {' '  circle_on();' '}'
finds circles "a circle of calls between files: src/base/region -(circle_back)-> src/base/vector -(circle_on)-> src/base/region"
append src/base/region.c 'void circle_1(void) { circle_2(); }'
append src/base/vector.c 'void circle_2(void) { circle_3(); }'
append src/text/words.c 'void circle_3(void) { circle_1(); }'
finds circles "-(circle_3)-> src/text/words -(circle_1)-> src/base/region"
append cli/pictures/front.c 'void circle_on(void) { draw_curve(); }'
finds circles "cli/pictures/front -(draw_curve)-> cli/pictures/svg -(curve_front)-> cli/pictures/front"

# No circle: a static function of the same name, a name in a comment or a message, a member that is called.
append src/base/region.c 'void circle_on(void) { circle_back(); }'
append src/base/vector.c 'static void circle_on(void) {}' 'void circle_back(void) { circle_on(); }'
append src/text/words.c 'void circle_3(struct x *x) { x->circle_4("circle_4()"); } /* circle_4() */'
append src/text/bpe.c 'void circle_4(void) { circle_3(0); }'
passes circles
fresh

# A header that declares what another file defines: in src, in the command; a shared one for a file outside of its folder.
append src/base/vector.h 'int planted(int x);'
append src/base/region.c 'int planted(int x) { return x; }'
finds headers "src/base/vector.h declares planted, which src/base/region.c defines"
append cli/shared/train_report.h 'int planted(int x);'
append cli/pictures/svg.c 'int planted(int x) {' '  return x;' '}'
finds headers "cli/shared/train_report.h declares planted, which cli/pictures/svg.c defines"
append src/rewrite/rewrite.h 'int planted(int x);'
append src/rewrite/fuse.c 'int planted(int x) { return x; }'
passes headers
append src/rewrite/rewrite.h 'int planted_too(int x);'
append src/op/op.c 'int planted_too(int x) { return x; }'
finds headers "src/rewrite/rewrite.h declares planted_too, which src/op/op.c defines"
# One that is shared without need.
mv copy/src/zoo/zoo.h copy/src/zoo/models.h
expect 1 "$source/scripts/check-headers" "$folder/copy"
says "src/zoo/zoo.h declares for its own file alone"
mv copy/src/zoo/models.h copy/src/zoo/zoo.h

# An include from a folder above, from the library in the command, of what no plugin is made of; a path; an unknown folder.
append src/text/words.c '#include "step/step.h"'
finds folders "src/text may include only from: base formats text. It includes:"
append src/base/status.c '#include "plan/plan.h"'
finds folders "src/base/status.c:"
append cli/pictures/svg.c '#include "base/vector.h"'
finds folders "cli may include only the public headers and its own. It includes:"
append plugins/mpi.c '#include "session/session.h"'
finds folders "plugins may include only collective/calls.h and collective/plugin_interface.h. It includes:"
append cli/pictures/svg.c '#include <neap.h>'
finds folders "cli/pictures/svg.c:"
mkdir copy/src/elsewhere
finds folders "src/elsewhere is not in the order of folders"
